package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/auth"
)

// caller speaks HTTP to one server with one token. It may be used from several goroutines as
// far as its methods return errors; the others end the test.
type caller struct {
	t     testing.TB
	s     *server
	http  *http.Client
	token string
}

// callerOf makes a caller; its connections are closed when the test ends.
func callerOf(t testing.TB, s *server, token string) *caller {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 128}
	t.Cleanup(transport.CloseIdleConnections)
	return &caller{t: t, s: s, token: token, http: &http.Client{Transport: transport, Timeout: generous}}
}

// admin is a caller with the token of dev.json.
func (s *server) admin(t testing.TB) *caller {
	t.Helper()
	return callerOf(t, s, s.run.Token)
}

// as is the same connection with another's token, in the tenant "default".
func (c *caller) as(claims auth.Claims) *caller {
	c.t.Helper()
	token, err := c.s.token(claims)
	if err != nil {
		c.t.Fatal(err)
	}
	other := *c
	other.token = token
	return &other
}

// reply is an answer, read whole.
type reply struct {
	what   string // the request, for messages
	status int
	header http.Header
	body   []byte
}

func (r reply) String() string { return fmt.Sprintf("%s: %d %s", r.what, r.status, r.body) }

// try sends one request. body "" sends none; headers are name and value in turn. The error is
// of the connection: the outcome is unknown then.
func (c *caller) try(ctx context.Context, method, path, body string, headers ...string) (reply, error) {
	base := c.s.run.URL
	if strings.HasPrefix(path, "/admin/") {
		base = c.s.run.AdminURL
	}
	req, err := http.NewRequestWithContext(ctx, method, base+path, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for pair := range slices.Chunk(headers, 2) {
		req.Header.Set(pair[0], pair[1])
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return reply{}, fmt.Errorf("%s %s: the answer was cut: %w", method, path, err)
	}
	return reply{what: method + " " + path + " " + body, status: resp.StatusCode, header: resp.Header, body: data}, nil
}

// send is try for the goroutine of the test: without an answer the test ends.
func (c *caller) send(method, path, body string, headers ...string) reply {
	c.t.Helper()
	r, err := c.try(c.t.Context(), method, path, body, headers...)
	if err != nil {
		c.t.Fatalf("%s %s %s: %v\nthe server said:\n%s", method, path, body, err, &c.s.out)
	}
	return r
}

func (c *caller) post(path, body string, headers ...string) reply {
	c.t.Helper()
	return c.send(http.MethodPost, path, body, headers...)
}

// read decodes an answer that must have the given status.
func read[T any](t testing.TB, r reply, status int) (v T) {
	t.Helper()
	if r.status != status {
		t.Fatalf("%s, want %d", r, status)
	}
	if err := json.Unmarshal(r.body, &v); err != nil {
		t.Fatalf("%s: %v", r, err)
	}
	return v
}

// refusal checks that an answer is the problem document of a code.
func refusal(t testing.TB, r reply, code api.Code) api.Problem {
	t.Helper()
	p := read[api.Problem](t, r, code.Status())
	if p.Code != code || r.header.Get("Content-Type") != api.ProblemType {
		t.Fatalf("%s (%s), want %s", r, r.header.Get("Content-Type"), code)
	}
	return p
}

func get[T any](c *caller, path string) T {
	c.t.Helper()
	return read[T](c.t, c.send(http.MethodGet, path, ""), http.StatusOK)
}

// limit makes a limit.
func (c *caller) limit(body string) api.Limit {
	c.t.Helper()
	return read[api.Limit](c.t, c.post("/v1/limits", body), http.StatusCreated)
}

// edit patches a limit at the revision it stands at.
func (c *caller) edit(id, body string) reply {
	c.t.Helper()
	r := c.send(http.MethodGet, "/v1/limits/"+id, "")
	return c.send(http.MethodPatch, "/v1/limits/"+id, body, "If-Match", r.header.Get("ETag"))
}

// check asks POST /v1/checks, which must be decided.
func (c *caller) check(body string, headers ...string) api.CheckAnswer {
	c.t.Helper()
	return read[api.CheckAnswer](c.t, c.post("/v1/checks", body, headers...), http.StatusOK)
}

// act extends, commits or releases.
func (c *caller) act(id, verb, body string) reply {
	c.t.Helper()
	return c.post("/v1/reservations/"+id+"/"+verb, body)
}

// subject is everything about one subject.
func (c *caller) subject(kind, id string) api.SubjectView {
	c.t.Helper()
	return get[api.SubjectView](c, "/v1/subjects/"+kind+"/"+url.PathEscape(id))
}

// used is what a subject has used of a limit, as its page says.
func (c *caller) used(limit, kind, id string) api.Verdict {
	c.t.Helper()
	view := c.subject(kind, id)
	for _, v := range view.Limits {
		if v.ID == limit {
			return v
		}
	}
	c.t.Fatalf("%s:%s has no limit %s: %+v", kind, id, limit, view.Limits)
	return api.Verdict{}
}

// every reads a list to its end.
func every[T any](c *caller, path string) (all []T) {
	c.t.Helper()
	cursor := ""
	for {
		page := get[api.Page[T]](c, path+cursor)
		all = append(all, page.Data...)
		if page.NextCursor == nil {
			return all
		}
		cursor = "&cursor=" + url.QueryEscape(*page.NextCursor)
	}
}

// revision is the store's.
func (c *caller) revision() int64 {
	c.t.Helper()
	return get[api.ClusterAnswer](c, "/admin/v1/cluster").Revision
}

// noDrift has the server recompute every count from the records.
func (c *caller) noDrift() {
	c.t.Helper()
	if v := get[api.VerifyAnswer](c, "/admin/v1/verify"); v.Drift != 0 || len(v.Findings) > 0 {
		c.t.Errorf("verify: drift %d, %+v, want 0 and nothing found", v.Drift, v.Findings)
	}
}

// window is the clock of a server with --test-clock. It is this machine's, moved forward.
type window struct {
	*caller
	ahead time.Duration
}

func (w *window) now() time.Time { return time.Now().Add(w.ahead).UTC() }

// to moves the clock to at, or at most a second past it.
func (w *window) to(at time.Time) {
	w.t.Helper()
	for at.After(w.now()) {
		// Rounded up to whole seconds, and 400 days at most, as the route takes it.
		step := min((at.Sub(w.now()) + time.Second - 1).Truncate(time.Second), 400*24*time.Hour)
		w.forward(step)
	}
}

// forward moves the clock by whole seconds.
func (w *window) forward(d time.Duration) {
	w.t.Helper()
	got := read[api.ClockAnswer](w.t, w.post("/admin/v1/clock", fmt.Sprintf(`{"advanceSeconds":%d}`, d/time.Second)), http.StatusOK)
	w.ahead += d
	if late := w.now().Sub(got.Now.Time); late < -time.Second {
		w.t.Fatalf("the clock reads %s, want %s or less", got.Now, w.now())
	}
}

// next moves the clock to the next boundary of d, which divides a day.
func (w *window) next(d time.Duration) time.Time {
	w.t.Helper()
	at := w.now().Truncate(d).Add(d)
	w.to(at)
	return at
}

// decoded is read for other goroutines: it returns its error.
func decoded[T any](r reply) (v T, err error) {
	if r.status >= http.StatusBadRequest {
		return v, fmt.Errorf("%s", r)
	}
	return v, json.Unmarshal(r.body, &v)
}
