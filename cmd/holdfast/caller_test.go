package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

// answers is a server that gives one answer after the other, the last one for ever, and
// remembers what it was asked.
type answers struct {
	mu    sync.Mutex
	give  []func(http.ResponseWriter)
	asked []*http.Request
}

func (s *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r)
	give := s.give[min(len(s.asked), len(s.give))-1]
	give(w)
}

// requests are those that came so far.
func (s *answers) requests() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func problem(code api.Code, retryMs int64) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		p := api.NewProblem(code, "Because.")
		if retryMs > 0 {
			p.RetryAfterMs = &retryMs
		}
		w.WriteHeader(p.Status)
		_ = json.NewEncoder(w).Encode(p)
	}
}

func hangUp(w http.ResponseWriter) { panic(http.ErrAbortHandler) }

func granted(w http.ResponseWriter) {
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, `{"id":"rsv_1"}`)
}

// setup makes a caller of a server that gives these answers.
func setup(t *testing.T, give ...func(http.ResponseWriter)) (*caller, *answers) {
	t.Helper()
	s := &answers{give: give}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	a := newApp([]string{"HOLDFAST_TOKEN=t"}, nil, io.Discard, io.Discard)
	a.client = clientConfig{Server: server.URL, Timeout: 10 * time.Second}
	call, err := a.caller()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(call.http.CloseIdleConnections)
	return call, s
}

// FAULTS row 30: the same act is sent again under the same key until its outcome is known.
func TestCaller_RepeatsUnderTheSameKey(t *testing.T) {
	t.Parallel()
	call, server := setup(t, hangUp, problem(api.OutcomeUnknown, 1), problem(api.IdempotencyInFlight, 1), granted)
	var made api.Reservation
	_, err := call.do(t.Context(), act{method: http.MethodPost, path: "/v1/reservations", key: newKey(), body: map[string]any{}, into: &made})
	if err != nil || made.ID != "rsv_1" {
		t.Fatalf("got %+v, %v, want the reservation", made, err)
	}
	if len(server.requests()) != 4 {
		t.Fatalf("got %d requests, want 4", len(server.requests()))
	}
	first := server.requests()[0].Header.Get("Idempotency-Key")
	for i, r := range server.requests() {
		if got := r.Header.Get("Idempotency-Key"); got != first || got == "" {
			t.Errorf("request %d: got key %q, want %q", i, got, first)
		}
	}
}

func TestCaller_WhatIsNotRepeated(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		give func(http.ResponseWriter)
		one  act
		want int
	}{
		{"a refusal is an answer", problem(api.NoFreeSlot, 1), act{method: http.MethodPost, key: "k"}, 1},
		{"a lost hold is an answer", problem(api.HoldLost, 0), act{method: http.MethodPost, repeatable: true}, 1},
		{"an unknown outcome without a key", problem(api.OutcomeUnknown, 1), act{method: http.MethodPost}, 1},
		{"a dropped answer without a key", hangUp, act{method: http.MethodPatch}, 1},
		{"a full store is not cured by asking", problem(api.StorageFull, 1), act{method: http.MethodPost, key: "k"}, 1},
		{"nothing happened, so it is asked again, with an end", problem(api.Contended, 1), act{method: http.MethodPatch}, maxAttempts},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			call, server := setup(t, c.give)
			c.one.path = "/v1/x"
			if _, err := call.do(t.Context(), c.one); err == nil {
				t.Fatal("got no error")
			}
			if got := len(server.requests()); got != c.want {
				t.Errorf("got %d requests, want %d", got, c.want)
			}
		})
	}
}

// A connection that cannot be made is told at once, and nothing can have happened.
func TestCaller_NobodyListens(t *testing.T) {
	t.Parallel()
	call, _ := setup(t, granted)
	closed := httptest.NewServer(nil)
	closed.Close()
	call.target.url = closed.URL
	_, err := call.do(t.Context(), act{method: http.MethodGet, path: "/v1/limits"})
	lost, ok := errors.AsType[*unreachable](err)
	if !ok || lost.sent {
		t.Fatalf("got %v, want an unreachable that was not sent", err)
	}
}

// A token is for the server it was meant for: it follows no redirect.
func TestCaller_FollowsNoRedirect(t *testing.T) {
	t.Parallel()
	other, seen := setup(t, granted)
	call, _ := setup(t, func(w http.ResponseWriter) {
		w.Header().Set("Location", other.target.url+"/v1/limits")
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	if _, err := call.do(t.Context(), act{method: http.MethodGet, path: "/v1/limits"}); exitOf(t.Context(), err) != exitUnavailable {
		t.Errorf("got %v, want a failure", err)
	}
	if len(seen.requests()) != 0 {
		t.Errorf("the other server got %d requests, want none", len(seen.requests()))
	}
}

// The context's credentials go to the context's server and to no other.
func TestTarget_CredentialsStayWithTheirServer(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	keyed := func(extra ...string) *app {
		a := newApp(append(extra, "HOME="+home, "XDG_CONFIG_HOME="+home, "AppData="+home), nil, io.Discard, io.Discard)
		a.origins = map[string]string{}
		return a
	}
	var file contextFile
	file.put(savedContext{Name: "lab", URL: "http://lab.example", TokenFile: home + "/none"})
	if err := keyed().saveContexts(file); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ server, context, url string }{
		{"", "lab", "http://lab.example"},
		{"http://lab.example", "lab", "http://lab.example"},
		{"http://evil.example", "", "http://evil.example"},
	} {
		a := keyed()
		a.client.Server = c.server
		got, err := a.target()
		if err != nil || got.context != c.context || got.url != c.url {
			t.Errorf("--server %q: got context %q, url %q, %v; want %q, %q", c.server, got.context, got.url, err, c.context, c.url)
		}
	}
}
