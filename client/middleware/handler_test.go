package middleware_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/client/holdfasttest"
	"github.com/holdfast-dev/holdfast/client/middleware"
)

func preview(action, address string) client.Request {
	return client.Request{Action: action, Subject: api.Subject{Kind: "ip", ID: address}}
}

// CASES O18 step 2 for those behind a guard: whole seconds, at least 1; RateLimit passed on.
func TestHandler_PassesLimitsOn(t *testing.T) {
	inBubble(t, func(t *testing.T, s *holdfasttest.Server) {
		h := guard(t, s, middleware.Config{Action: "call"}).Handler(ok)
		time.Sleep(59*time.Second + 400*time.Millisecond) // bubbles begin at a full minute
		w := get(h)
		want(t, w, http.StatusOK)
		if got := w.Header().Get("RateLimit"); !strings.Contains(got, `"calls";r=0`) {
			t.Errorf("RateLimit of what passed: %q", got)
		}
		w = get(h)
		want(t, w, http.StatusTooManyRequests)
		var p api.Problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
			t.Fatalf("%s: %v", w.Body, err)
		}
		if p.Code != api.QuotaExceeded || p.RetryAfterSeconds == nil || *p.RetryAfterSeconds != 1 || len(p.Holders) != 0 || len(p.Limits) != 0 ||
			w.Header().Get("Retry-After") != "1" || w.Header().Get("Content-Type") != api.ProblemType ||
			!strings.Contains(w.Header().Get("RateLimit"), `"calls";r=0;t=1`) || w.Header().Get("RateLimit-Policy") != `"calls";q=1;w=60` {
			t.Errorf("refused with %v %s", w.Header(), w.Body)
		}
		time.Sleep(time.Second)
		want(t, get(h), http.StatusOK)
	}, limit("calls", "call", 1, "minute"))
}

func TestHandler_CostByRoute(t *testing.T) {
	inBubble(t, func(t *testing.T, s *holdfasttest.Server) {
		g := guard(t, s, middleware.Config{Action: "call", Costs: map[string]int64{
			"GET /things/{id}": 7, "GET /health": 0, "GET /big": 101,
		}})
		mux := http.NewServeMux()
		for _, pattern := range []string{"GET /things/{id}", "GET /things", "GET /health", "GET /big"} {
			mux.Handle(pattern, g.Handler(ok)) // within the mux, where the pattern is known
		}
		to := func(path string) func(*http.Request) { return func(r *http.Request) { r.URL.Path = path } }
		want(t, get(mux, to("/things/9")), http.StatusOK)
		want(t, get(mux, to("/things")), http.StatusOK)
		want(t, get(mux, to("/health")), http.StatusOK)
		want(t, get(g.Handler(mux), to("/health")), http.StatusOK) // around it: by its path, twice
		w := get(mux, to("/big"))
		want(t, w, http.StatusUnprocessableEntity)
		if w.Header().Get("Retry-After") != "" {
			t.Errorf("what never fits says Retry-After %q", w.Header().Get("Retry-After"))
		}
		d, err := s.Client("front", "act-for").Preview(t.Context(), preview("call", "192.0.2.7"))
		if err != nil || d.Limits[0].Used != 8 {
			t.Errorf("used %+v, %v, want 7 and 1", d.Limits, err)
		}
	}, limit("calls", "call", 100, "day"))
}

// A guard that reserves holds while the handler runs, and settles by how it ends.
func TestHandler_Reserves(t *testing.T) {
	for name, c := range map[string]struct {
		handler func(w http.ResponseWriter, r *http.Request)
		status  int
		state   string
	}{
		"answers":            {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("x")) }, 200, api.StateCommitted},
		"says not found":     {func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }, 404, api.StateCommitted},
		"fails":              {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, 503, api.StateReleased},
		"hints, then fails":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(103); w.WriteHeader(500) }, 0, api.StateReleased},
		"says nothing":       {func(http.ResponseWriter, *http.Request) {}, 200, api.StateCommitted},
		"flushes as it goes": {func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() }, 200, api.StateCommitted},
		"panics":             {func(http.ResponseWriter, *http.Request) { panic("broken") }, 0, api.StateReleased},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *holdfasttest.Server) {
				g := guard(t, s, middleware.Config{Action: "export", Reserve: true, TTL: 30 * time.Second})
				var id string
				h := g.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					hold, there := middleware.HoldFrom(r.Context())
					if !there || hold.Slot() != 0 {
						t.Errorf("in the handler: %v, %v", hold, there)
					}
					id = hold.ID()
					if other := get(g.Handler(ok)); other.Code != http.StatusTooManyRequests {
						t.Errorf("a second one at once was answered %d", other.Code)
					}
					c.handler(w, r)
				}))
				func() {
					defer func() {
						if p := recover(); (p != nil) != (name == "panics") {
							t.Errorf("recovered %v", p)
						}
					}()
					if w := get(h); c.status != 0 {
						want(t, w, c.status)
					}
				}()
				if got := s.Reservation(id).State; got != c.state {
					t.Errorf("the reservation is %s, want %s", got, c.state)
				}
			}, limit("exports", "export", 1, "concurrent"))
		})
	}
}

func TestHandler_LostHoldEndsTheRequest(t *testing.T) {
	inBubble(t, func(t *testing.T, s *holdfasttest.Server) {
		g := guard(t, s, middleware.Config{Action: "export", Reserve: true, TTL: 30 * time.Second})
		get(g.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			hold, _ := middleware.HoldFrom(r.Context())
			s.ForceRelease(hold.ID(), "stop")
			<-r.Context().Done()
			if cause := context.Cause(r.Context()); !errors.Is(cause, client.ErrHoldLost) {
				t.Errorf("the request ended by %v", cause)
			}
		})))
	}, limit("exports", "export", 1, "concurrent"))
}

// FAULTS section 3 row 36, API.md section 7: our own trouble is never a 429 and never a pass,
// unless it was configured to be.
func TestHandler_WithoutAServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for policy, status := range map[client.Unavailable]int{client.Fail: 503, client.Allow: 200} {
			c, err := client.New(client.Config{
				TokenSource: client.StaticToken("a.b.c"), OnUnavailable: policy, Timeout: 3 * time.Second,
				Transport: trip(func(*http.Request) (*http.Response, error) {
					return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
				}),
			})
			if err != nil {
				t.Fatal(err)
			}
			w := get(guard(t, nil, middleware.Config{Client: c, Action: "call"}).Handler(ok))
			want(t, w, status)
			if status == 503 && w.Header().Get("Retry-After") == "" {
				t.Error("a 503 without Retry-After")
			}
			c.Close()
		}
	})
}

// A client that may not speak for others is our fault, and told as such.
func TestHandler_WithoutTheScope(t *testing.T) {
	inBubble(t, func(t *testing.T, s *holdfasttest.Server) {
		want(t, get(guard(t, s, middleware.Config{Client: s.Client("front"), Action: "call"}).Handler(ok)), http.StatusServiceUnavailable)
		want(t, get(guard(t, s, middleware.Config{Action: "nothing-of-that-name"}).Handler(ok)), http.StatusInternalServerError)
	}, limit("calls", "call", 1, "minute"))
}

// trip is a function as a transport.
type trip func(*http.Request) (*http.Response, error)

func (f trip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
