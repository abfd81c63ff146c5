package main

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/client/holdfasttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The example does what its text says: costs by route, a slot for as long as a handler works,
// and refusals that tell when to come back.
func TestService(t *testing.T) {
	s := holdfasttest.New(t, holdfasttest.Limits(
		api.LimitInput{ID: "calls", Name: "calls", SubjectKind: "ip", Action: "call", Amount: 6, Window: "day"},
		api.LimitInput{ID: "exports", Name: "exports", SubjectKind: "ip", Action: "export", Amount: 1, Window: "concurrent"},
	))
	t.Setenv("HOLDFAST_URL", s.URL())
	t.Setenv("HOLDFAST_TOKEN", s.Token("front", "act-for"))
	c, err := client.New(client.FromEnv())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	e, err := service(c)
	if err != nil {
		t.Fatal(err)
	}
	send := func(method, path string) *httptest.ResponseRecorder {
		r, w := httptest.NewRequest(method, path, http.NoBody), httptest.NewRecorder()
		r.RemoteAddr = "192.0.2.7:4711"
		e.ServeHTTP(w, r)
		return w
	}
	expect := func(method, path string, status int, body string) {
		t.Helper()
		w := send(method, path)
		if w.Code != status || !regexp.MustCompile(body).MatchString(w.Body.String()) {
			t.Errorf("%s %s: %d %s, want %d and %s", method, path, w.Code, w.Body, status, body)
		}
		if refused := status == http.StatusTooManyRequests; refused != (w.Header().Get("Retry-After") != "") {
			t.Errorf("%s %s: %d with Retry-After %q", method, path, w.Code, w.Header().Get("Retry-After"))
		}
	}
	expect("GET", "/search", http.StatusOK, "found nothing")
	expect("GET", "/search", http.StatusTooManyRequests, string(api.QuotaExceeded))
	expect("GET", "/things/7", http.StatusOK, "thing 7")
	expect("GET", "/things/8", http.StatusTooManyRequests, string(api.QuotaExceeded))

	expect("POST", "/exports", http.StatusOK, `slot 0, fence \d+`)
	h, err := c.Reserve(t.Context(), client.Request{Action: "export", Subject: api.Subject{Kind: "ip", ID: "192.0.2.7"}})
	if err != nil {
		t.Fatalf("the slot after the request: %v, want it free", err)
	}
	expect("POST", "/exports", http.StatusTooManyRequests, string(api.NoFreeSlot))
	if err := h.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect("POST", "/exports", http.StatusOK, `slot 0`)
	if held := s.Holds(); len(held) != 0 {
		t.Errorf("holds after all requests: %+v", held)
	}
}

func TestRun_SaysWhatIsWrong(t *testing.T) {
	t.Setenv("HOLDFAST_TOKEN", "")
	for _, args := range [][]string{nil, {"127.0.0.1:0"}} {
		if err := run(t.Context(), args); err == nil || !strings.Contains(err.Error(), map[bool]string{true: "usage", false: "token"}[len(args) == 0]) {
			t.Errorf("run(%q): %v", args, err)
		}
	}
}
