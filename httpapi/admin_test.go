package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/janitor"
)

func TestHealth(t *testing.T) { // GUARANTEES 9, FAULTS rows 14 and 55
	draining := false
	inBubble(t, func(r *rig) {
		ready := func(path string, want int) (h api.Health) {
			t.Helper()
			r.get("", path).want(want, &h)
			return h
		}
		if h := ready("/readyz", http.StatusOK); h.Status != "ok" || h.Checks != nil {
			t.Errorf("ready: got %+v", h)
		}
		if h := ready("/readyz?verbose", http.StatusOK); len(h.Checks) != 2 || !h.Checks[1].OK {
			t.Errorf("ready, verbose: got %+v", h)
		}
		r.view.SetDown(true)
		if h := ready("/readyz?verbose", http.StatusServiceUnavailable); h.Status != "unavailable" || h.Checks[1].OK || h.Checks[1].Detail == "" {
			t.Errorf("store away: got %+v", h)
		}
		ready("/livez", http.StatusOK) // never depends on the store
		r.view.SetDown(false)
		ready("/readyz", http.StatusOK)
		draining = true
		if h := ready("/readyz?verbose", http.StatusServiceUnavailable); h.Checks[0].OK {
			t.Errorf("draining: got %+v", h)
		}
		ready("/livez", http.StatusOK)
		r.get("", "/version").want(http.StatusOK, nil)
		r.get("", "/openapi.json").want(http.StatusOK, nil)
		r.get("", "/.well-known/jwks.json").want(http.StatusOK, nil)
	}, func(c *Config) { c.Draining = func() bool { return draining } })
}

func TestStoreAway_Is503AndNothingElse(t *testing.T) { // FAULTS rows 13 and 14, GUARANTEES 9
	inBubble(t, func(r *rig) {
		r.exports()
		token := r.token("u_42", "admin")
		h := r.hold(token, `{"action":"export"}`)
		r.view.SetDown(true)
		for _, a := range []ask{
			{method: http.MethodPost, path: "/v1/reservations", body: `{"action":"export"}`},
			{method: http.MethodPost, path: "/v1/checks", body: `{"action":"export","mode":"preview"}`},
			{method: http.MethodGet, path: "/v1/reservations/" + h.ID},
			{method: http.MethodPost, path: "/v1/reservations/" + h.ID + "/extend"},
			{method: http.MethodPost, path: "/v1/limits", body: limitWith(`"amount":1,"window":"day"`)},
		} {
			a.token = token
			g := r.do(a)
			if g.status != http.StatusServiceUnavailable || g.header.Get("Retry-After") == "" {
				t.Errorf("%s %s without a store: got %d %s, want 503 with Retry-After", a.method, a.path, g.status, g.body)
			}
		}
		r.view.SetDown(false)
		r.get(token, "/v1/reservations/"+h.ID).want(http.StatusOK, nil)
	})
}

// jobs is a janitor that knows one job.
type jobs struct {
	knowsExpire
	fail error
}

// knowsExpire is what a janitor in a test says it can do.
type knowsExpire struct{}

func (knowsExpire) Jobs() []string { return []string{"expire"} }

func (j jobs) RunOnce(_ context.Context, name string) (janitor.Report, error) {
	if name != "expire" {
		return janitor.Report{}, fmt.Errorf("%w: %q", janitor.ErrUnknownJob, name)
	}
	return janitor.Report{Job: name, Swept: 12, Took: 4 * time.Millisecond, More: true}, j.fail
}

func TestAdmin_SeesAndSteers(t *testing.T) {
	inBubble(t, func(r *rig) {
		root := r.token("root", "admin")
		r.exports()
		r.hold(r.token("u_42", ""), `{"action":"export"}`)
		var v api.VerifyAnswer
		if r.get(root, "/admin/v1/verify").want(http.StatusOK, &v); v.Drift != 0 || v.Checked["slots"] != 1 || v.Checked["records"] != 1 {
			t.Errorf("verify: got %+v, want no drift, one slot and one record", v)
		}
		var c api.ConfigAnswer
		if r.get(root, "/admin/v1/config").want(http.StatusOK, &c); len(c.Data) != 1 || c.Data[0].Value != "(secret)" {
			t.Errorf("config: got %+v", c)
		}
		var cl api.ClusterAnswer
		if r.get(root, "/admin/v1/cluster").want(http.StatusOK, &cl); cl.Revision != 7 {
			t.Errorf("cluster: got %+v", cl)
		}
		var j api.JanitorAnswer
		if r.post(root, "/admin/v1/janitor/expire/run", nil).want(http.StatusOK, &j); j != (api.JanitorAnswer{Job: "expire", Swept: 12, TookMs: 4, More: true}) {
			t.Errorf("janitor: got %+v", j)
		}
		r.post(root, "/admin/v1/janitor/none/run", nil).problem(api.NotFound)
		var now api.ClockAnswer
		before := r.windowNow()
		if r.post(root, "/admin/v1/clock", `{"advanceSeconds":86400}`).want(http.StatusOK, &now); !now.Now.Equal(before.Add(24 * time.Hour).Truncate(time.Millisecond)) {
			t.Errorf("clock: got %s, want %s and a day", now.Now, before)
		}
		for _, n := range []string{"0", "-1", "34560001"} {
			r.post(root, "/admin/v1/clock", `{"advanceSeconds":`+n+`}`).problem(api.InvalidValue)
		}
		r.get(root, "/v1/limits").want(http.StatusOK, nil) // tokens keep the real clock
		for _, path := range []string{"/admin/v1/config", "/metrics"} {
			if _, ok := matchRoute(r.public, path); ok {
				t.Errorf("%s is served by the public listener", path)
			}
		}
	}, func(c *Config) {
		c.Janitor = jobs{}
		c.ConfigShown = []api.Setting{{Name: "jwt-hs256-secret", Value: "(secret)", Origin: "file"}}
		c.Cluster = func(context.Context) (api.ClusterAnswer, error) {
			return api.ClusterAnswer{Mode: "embedded", Revision: 7}, nil
		}
	})
}

// matchRoute asks h for path and reports whether there is anything.
func matchRoute(h http.Handler, path string) (int, bool) {
	rec, _ := newExchange()
	req, err := http.NewRequest(http.MethodGet, path, http.NoBody)
	if err != nil {
		return 0, false
	}
	h.ServeHTTP(rec, req)
	return rec.Code, rec.Code != http.StatusNotFound
}

// sleeper is a janitor that takes longer than an ordinary request may.
type sleeper struct{ knowsExpire }

func (sleeper) RunOnce(ctx context.Context, name string) (janitor.Report, error) {
	select {
	case <-time.After(4 * requestBudget):
		return janitor.Report{Job: name}, nil
	case <-ctx.Done():
		return janitor.Report{}, ctx.Err()
	}
}

func TestAdmin_ASweepMayTakeItsTime(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.post(r.token("root", "admin"), "/admin/v1/janitor/expire/run", nil).want(http.StatusOK, nil)
	}, func(c *Config) { c.Janitor = sleeper{} })
}

func TestLimits_AnEditThatIsNotSeenYetIsNotCalledNothing(t *testing.T) { // STYLE 11
	inBubble(t, func(r *rig) {
		r.exports()
		r.view.SetLag(-1) // the watch is behind
		root := r.token("root", "admin")
		r.post(root, "/v1/limits", limitWith(`"amount":1,"window":"day"`)).problem(api.OutcomeUnknown)
		r.view.SetLag(0)
		synctest.Wait()
		r.get(root, "/v1/limits/n").want(http.StatusOK, nil)
	})
}

func TestAdmin_AFailingSweepIsOurFault(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.post(r.token("root", "admin"), "/admin/v1/janitor/expire/run", nil).problem(api.Internal)
	}, func(c *Config) { c.Janitor = jobs{fail: errors.New("no")} })
}

func TestAdmin_WhatIsNotConfiguredIsNotThere(t *testing.T) {
	inBubble(t, func(r *rig) {
		root := r.token("root", "admin")
		r.post(root, "/admin/v1/clock", `{"advanceSeconds":1}`).problem(api.NotFound)
		r.post(root, "/admin/v1/janitor/expire/run", nil).problem(api.NotFound)
		r.get("", "/.well-known/jwks.json").problem(api.NotFound)
		if status, there := matchRoute(r.admin, "/metrics"); there {
			t.Errorf("/metrics without a gatherer: got %d, want 404", status)
		}
		var cl api.ClusterAnswer
		if r.get(root, "/admin/v1/cluster").want(http.StatusOK, &cl); cl.Alarms == nil {
			t.Errorf("cluster: got %+v, want empty lists", cl)
		}
	}, func(c *Config) { c.AdvanceClock, c.JWKS, c.Gatherer = nil, nil, nil })
}

func TestNew_TellsAllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	_, err := New(Config{JWKS: []byte("{"), FloodRate: -1})
	for _, want := range []string{"Service", "Editor", "Verifier", "Now", "CursorKey", "JWKS", "FloodRate"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New of an empty config: got %v, want one that names %s", err, want)
		}
	}
}

func TestDocs_NothingInlineRunsButOurs(t *testing.T) { // FAULTS section 3 row 24
	inBubble(t, func(r *rig) {
		g := r.get("", "/docs").want(http.StatusOK, nil)
		csp := g.header.Get("Content-Security-Policy")
		for _, never := range []string{"unsafe-inline", "unsafe-eval", "http:", "https:", "*"} {
			if contains(csp, never) {
				t.Errorf("content security policy allows %s: %s", never, csp)
			}
		}
		for _, tag := range []string{"script", "style"} {
			inline := regexp.MustCompile(`(?s)<`+tag+`(?: [^>]*)?>(.*?)</`+tag+`>`).FindAllStringSubmatch(string(g.body), -1)
			if len(inline) == 0 {
				t.Errorf("no <%s> on the page: is the test right?", tag)
			}
			for _, found := range inline {
				sum := sha256.Sum256([]byte(found[1]))
				if found[1] != "" && !contains(csp, base64.StdEncoding.EncodeToString(sum[:])) {
					t.Errorf("inline %s is not allowed by its hash: %.60s", tag, found[1])
				}
			}
		}
		for _, found := range regexp.MustCompile(`(?:src|href)="([^"]+)"`).FindAllStringSubmatch(string(g.body), -1) {
			a := r.get("", found[1])
			if a.status != http.StatusOK || len(a.body) == 0 || !strings.HasPrefix(found[1], "/docs/") {
				t.Errorf("%s: got %d, %d bytes, want it served from /docs", found[1], a.status, len(a.body))
			}
		}
	})
}

// API.md section 8 and CLI.md section 4: a link to the admin page is an administrator's to make.
func TestLoginLink_IsAnAdministratorsToMake(t *testing.T) {
	inBubble(t, func(r *rig) {
		const path = "/admin/v1/login-links"
		r.post(r.token("eve", "holds:force limits:write"), path, nil).problem(api.Forbidden)
		var link api.LoginLink
		r.post(r.token("root", "admin"), path, nil).want(http.StatusCreated, &link)
		if !strings.HasPrefix(link.Path, "/login?once=") || link.ExpiresInSeconds > 600 || link.ExpiresInSeconds < 598 {
			t.Errorf("got %+v, want a path and ten minutes", link)
		}
	})
}
