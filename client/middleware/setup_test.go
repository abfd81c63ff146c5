package middleware_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/client/holdfasttest"
	"github.com/holdfast-dev/holdfast/client/middleware"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inBubble runs f with a server of its own in fake time, without a socket.
func inBubble(t *testing.T, f func(t *testing.T, s *holdfasttest.Server), opts ...holdfasttest.Option) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { f(t, holdfasttest.New(t, opts...)) })
}

// limit is one for any subject.
func limit(id, action string, amount int64, window string) holdfasttest.Option {
	return holdfasttest.Limits(api.LimitInput{ID: id, Name: id, SubjectKind: "*", Action: action, Amount: amount, Window: window})
}

// guard is one whose client may speak for others.
func guard(t *testing.T, s *holdfasttest.Server, cfg middleware.Config) *middleware.Guard {
	t.Helper()
	if cfg.Client == nil {
		cfg.Client = s.Client("front", "act-for")
	}
	g, err := middleware.New(cfg)
	if err != nil {
		t.Fatalf("New(%+v): %v", cfg, err)
	}
	return g
}

// get sends one request through h; change makes it what it is.
func get(h http.Handler, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/things", http.NoBody)
	r.RemoteAddr = "192.0.2.7:4711"
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// ok is a handler that has nothing to say.
var ok = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })

// allowed is how many of n requests pass; change is told which one it is.
func allowed(h http.Handler, n int, change func(i int, r *http.Request)) (passed int) {
	for i := range n {
		if get(h, func(r *http.Request) { change(i, r) }).Code == http.StatusOK {
			passed++
		}
	}
	return passed
}

func want(t *testing.T, w *httptest.ResponseRecorder, status int) {
	t.Helper()
	if w.Code != status {
		t.Fatalf("answered %d %s, want %d", w.Code, w.Body, status)
	}
}
