package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/janitor"
)

func TestEdge_NothingHere(t *testing.T) { // STYLE 17
	inBubble(t, func(r *rig) {
		for _, path := range []string{"/", "/v1", "/v1/limits/", "/v2/limits", "/V1/limits", "/admin/v1/none", "/v1/reservations/x/y/z", "/.well-known/none", "/docs/none.js", "/v1/../v1/limits"} {
			r.do(ask{method: http.MethodGet, path: path}).problem(api.NotFound)
		}
		for path, allow := range map[string][]string{
			"/v1/limits": {"GET", "OPTIONS", "POST"}, "/v1/checks": {"OPTIONS", "POST"},
			"/v1/limits/x": {"DELETE", "GET", "OPTIONS", "PATCH", "PUT"}, "/livez": {"GET", "OPTIONS"},
		} {
			g := r.do(ask{method: http.MethodTrace, path: path})
			g.problem(api.MethodNotAllowed)
			got := strings.Split(g.header.Get("Allow"), ", ")
			slices.Sort(got)
			if !slices.Equal(got, allow) {
				t.Errorf("TRACE %s: Allow %v, want %v", path, got, allow)
			}
		}
		g := r.do(ask{method: http.MethodPost, path: "/v1/limits/x", token: r.token("root", "admin"), body: "{}", header: map[string]string{"X-HTTP-Method-Override": "DELETE"}})
		g.problem(api.MethodNotAllowed) // no override
	})
}

func TestEdge_HeadIsServedAsGet(t *testing.T) { // net/http leaves the body out
	inBubble(t, func(r *rig) {
		if g := r.do(ask{method: http.MethodHead, path: "/livez"}); g.status != http.StatusOK || g.header.Get("Content-Type") != "application/json" {
			t.Errorf("HEAD /livez: got %d %v, want 200 and the headers of GET", g.status, g.header)
		}
	})
}

func TestEdge_RequestID(t *testing.T) { // API.md section 1
	inBubble(t, func(r *rig) {
		for given, kept := range map[string]bool{
			"abc-123": true, strings.Repeat("x", 128): true, strings.Repeat("x", 129): false, "two words": false, "a\tb": false, "é": false,
		} {
			g := r.do(ask{method: http.MethodGet, path: "/v1/none", header: map[string]string{"X-Request-Id": given}})
			p, id := g.problem(api.NotFound), g.header.Get("X-Request-Id")
			if (id == given) != kept || id == "" || p.RequestID != id || p.Instance != "urn:holdfast:request:"+id {
				t.Errorf("X-Request-Id %q: got %q, in the answer %q and %q, kept want %v", given, id, p.RequestID, p.Instance, kept)
			}
		}
		seen := map[string]bool{}
		for range 100 {
			seen[r.get("", "/livez").header.Get("X-Request-Id")] = true
		}
		if len(seen) != 100 {
			t.Errorf("100 requests without an id got %d different ones", len(seen))
		}
	})
}

func TestEdge_OneLineARequestAndNoToken(t *testing.T) { // FAULTS section 3 row 25
	inBubble(t, func(r *rig) {
		r.exports()
		token := r.token("canary-subject", "")
		before := strings.Count(r.logs.String(), "\n")
		r.do(ask{
			http.MethodPost, "/v1/checks", token, `{"action":"export","labels":{"secret":"canary-body"}}`,
			map[string]string{"Traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
		}).want(http.StatusOK, nil)
		r.get(token+"x", "/v1/subjects/user/canary-path").problem(api.Unauthenticated)
		r.do(ask{method: "CANARY", path: "/v1/limits"}).want(http.StatusMethodNotAllowed, nil)
		text := r.logs.String()
		if got := strings.Count(text, "\n") - before; got != 3 {
			t.Errorf("lines for 3 requests: got %d:\n%s", got, text)
		}
		for _, canary := range []string{token, token[:40], "canary", "CANARY"} {
			if contains(text, canary) {
				t.Errorf("the log holds %q:\n%s", canary, text)
			}
		}
		var line struct {
			Request, Method, Route, Tenant, Trace, Address string
			Status                                         int
		}
		lines := strings.Split(strings.TrimSpace(text), "\n")
		if err := json.Unmarshal([]byte(lines[before]), &line); err != nil {
			t.Fatalf("%s: %v", lines[before], err)
		}
		if line.Route != "/v1/checks" || line.Status != 200 || line.Tenant != "default" || line.Trace != "4bf92f3577b34da6a3ce929d0e0e4736" || line.Request == "" || line.Address != "192.0.2.1" {
			t.Errorf("line: got %+v", line)
		}
	})
}

// panicky is a janitor that panics, so that a verb does.
type panicky struct{ knowsExpire }

func (panicky) RunOnce(context.Context, string) (janitor.Report, error) { panic("password=hunter2") }

func TestEdge_APanicIs500AndLogged(t *testing.T) {
	inBubble(t, func(r *rig) {
		root := r.token("root", "admin")
		g := r.post(root, "/admin/v1/janitor/expire/run", nil)
		p := g.problem(api.Internal)
		if contains(string(g.body), "hunter2") || p.RequestID == "" {
			t.Errorf("answer to a panic: got %s", g.body)
		}
		if log := r.logs.String(); !contains(log, "hunter2") || !contains(log, p.RequestID) || !contains(log, `"stack"`) {
			t.Errorf("the log does not tell of the panic under its id:\n%s", log)
		}
		r.get(root, "/admin/v1/config").want(http.StatusOK, nil) // still serving
		if got := r.metric("holdfast_http_panics_total"); got != 1 {
			t.Errorf("panics counted: got %v, want 1", got)
		}
	}, func(c *Config) { c.Janitor = panicky{} })
}

// metric is the sum of a metric's series.
func (r *rig) metric(name string) (sum float64) {
	r.t.Helper()
	families, err := r.metrics.Gather()
	if err != nil {
		r.t.Fatalf("Gather: %v", err)
	}
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

func TestMetrics_LabelsComeFromClosedSets(t *testing.T) { // FAULTS section 3 row 26
	inBubble(t, func(r *rig) {
		r.exports()
		series := func() (n int) {
			families, err := r.metrics.Gather()
			if err != nil {
				t.Fatalf("Gather: %v", err)
			}
			for _, f := range families {
				n += len(f.GetMetric())
			}
			return n
		}
		visit := func(from, to int) {
			for i := from; i < to; i++ {
				id := strings.Repeat("x", i+1)
				token := r.token(id, "holds:read")
				r.check(token, `{"action":"export","mode":"preview"}`)
				r.get(token, "/v1/subjects/user/"+id).want(http.StatusOK, nil)
				r.get(token, "/v1/none/"+id).problem(api.NotFound)
				r.do(ask{method: "M" + id, path: "/v1/limits"})
			}
		}
		visit(0, 1)
		before := series()
		visit(1, 30)
		if after := series(); after != before {
			t.Errorf("series: %d after one subject, %d after 30", before, after)
		}
		g := r.get("", "/metrics").want(http.StatusOK, nil)
		for _, want := range []string{
			`holdfast_http_requests_total{code="200",listener="api",method="POST",route="/v1/checks"} 30`,
			`holdfast_http_problems_total{code="not-found",listener="api"} 30`,
			`holdfast_http_requests_total{code="404",listener="api",method="GET",route="none"} 30`,
			`holdfast_http_in_flight{listener="admin"} 1`,
			`holdfast_http_request_seconds_bucket{listener="api",route="/v1/checks",le="0.001"} 30`,
		} {
			if !contains(string(g.body), want) {
				t.Errorf("/metrics does not say %s:\n%s", want, g.body)
			}
		}
	})
}

func TestMetrics_OwnToken(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.get("", "/metrics").problem(api.Unauthenticated)
		r.get(r.token("root", "admin"), "/metrics").problem(api.Unauthenticated)
		r.get("scrape-me", "/metrics").want(http.StatusOK, nil)
	}, func(c *Config) { c.MetricsToken = "scrape-me" })
}

func TestFlood_RefusedTokensByAddress(t *testing.T) { // API.md section 7, slow-down
	inBubble(t, func(r *rig) {
		bad, good := r.token("u", "", func(c *auth.Claims) { c.Audience = "others" }), r.token("u", "")
		for i := range 30 {
			g := r.get(bad, "/v1/reservations")
			if i < DefaultFailedTokenRate {
				g.problem(api.Unauthenticated)
				continue
			}
			if g.problem(api.SlowDown); g.header.Get("Retry-After") != "1" {
				t.Errorf("slow-down: Retry-After %q, want 1", g.header.Get("Retry-After"))
			}
			r.get(good, "/v1/reservations").want(http.StatusOK, nil) // a neighbour's bad tokens harm nobody
		}
		time.Sleep(time.Second)
		r.get(bad, "/v1/reservations").problem(api.Unauthenticated)
	})
}

func TestFlood_RequestsByPrincipal(t *testing.T) {
	inBubble(t, func(r *rig) {
		one, two := r.token("u1", ""), r.token("u2", "")
		for range 5 {
			r.get(one, "/v1/reservations").want(http.StatusOK, nil)
		}
		r.get(one, "/v1/reservations").problem(api.SlowDown)
		r.get(two, "/v1/reservations").want(http.StatusOK, nil)
		time.Sleep(time.Second)
		r.get(one, "/v1/reservations").want(http.StatusOK, nil)
	}, func(c *Config) { c.FloodRate = 5 })
}

func TestMeter_IsBounded(t *testing.T) {
	t.Parallel()
	m := meter{rate: 2}
	for i := range 3 * maxMetered {
		m.take(strings.Repeat("k", i%7)+string(rune(i)), noon)
	}
	if got := len(m.counts); got > maxMetered+1 {
		t.Errorf("keys remembered: got %d, want at most %d", got, maxMetered+1)
	}
	g := newFloodGuard(1, 0)
	if g.tokenFailed("2001:db8::1", noon) || !g.tokenFailed("2001:db8::2", noon) || g.tokenFailed("2001:db8:0:1::1", noon) {
		t.Error("addresses of one IPv6 site must share a count, and other sites must not")
	}
}

func TestEdge_OverloadSparesTheProbes(t *testing.T) {
	inBubble(t, func(r *rig) {
		root := r.token("root", "admin")
		done := make(chan got, 1)
		go func() { done <- r.post(root, "/admin/v1/janitor/expire/run", nil) }()
		synctest.Wait()
		g := r.get(root, "/admin/v1/config")
		if p := g.problem(api.Overloaded); p.RetryAfterSeconds == nil || g.header.Get("Retry-After") == "" {
			t.Errorf("overloaded: got %s, want a retry", g.body)
		}
		r.do(ask{method: http.MethodGet, path: "/metrics"}).want(http.StatusOK, nil)
		(<-done).want(http.StatusOK, nil)
		r.get(root, "/admin/v1/config").want(http.StatusOK, nil)
	}, func(c *Config) { c.MaxInFlight, c.Janitor = 1, slow{} })
}

// slow is a janitor that takes a second.
type slow struct{ knowsExpire }

func (slow) RunOnce(context.Context, string) (janitor.Report, error) {
	time.Sleep(time.Second)
	return janitor.Report{Job: "slow"}, nil
}

func TestTraceID(t *testing.T) {
	t.Parallel()
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	for header, want := range map[string]string{
		"00-" + id + "-00f067aa0ba902b7-01": id,
		"":                                  "",
		"01-" + id + "-00f067aa0ba902b7-01": "",
		"00-" + strings.ToUpper(id) + "-00f067aa0ba902b7-01": "",
		"00-" + id + "-00f067aa0ba902b7-01-more":             "",
		"00-" + id + "x00f067aa0ba902b7-01":                  "",
	} {
		if got := traceID(header); got != want {
			t.Errorf("traceparent %q: got %q, want %q", header, got, want)
		}
	}
}

func TestEdge_BrowsersKeepToTLS(t *testing.T) { // FAULTS 3.34
	inBubble(t, func(r *rig) {
		const header = "Strict-Transport-Security"
		if got := r.do(ask{method: http.MethodGet, path: "https://holdfast.example/livez"}).header.Get(header); got != "max-age=31536000" {
			t.Errorf("over TLS: %s is %q", header, got)
		}
		if got := r.get("", "/livez").header.Get(header); got != "" {
			t.Errorf("in the clear, where a browser must not believe it: %s is %q", header, got)
		}
	})
}

func TestExchange_Unwraps(t *testing.T) {
	t.Parallel()
	rec := httptest.NewRecorder()
	x := &exchange{ResponseWriter: rec}
	if err := http.NewResponseController(x).Flush(); err != nil || !rec.Flushed {
		t.Errorf("Flush through an exchange: got %v, flushed %v", err, rec.Flushed)
	}
}
