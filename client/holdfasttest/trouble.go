package holdfasttest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/reserve"
)

// trouble is what stands between callers and the server.
type trouble struct {
	mu     sync.Mutex
	back   time.Time // away until then
	losing int       // so many answers more are lost
	paths  string    // of them: what their path must contain
	seen   []Call
}

// Call is a request that came to the server, in the order of coming.
type Call struct{ Method, Path, Key string } // Key: its Idempotency-Key

// maxSeen bounds the calls that are remembered; the oldest go first.
const maxSeen = 100_000

// Away makes the server as good as not there for d: connections are cut without an answer and
// nothing is done. Holds run on meanwhile.
func (s *Server) Away(d time.Duration) {
	s.trouble.mu.Lock()
	defer s.trouble.mu.Unlock()
	s.trouble.back = time.Now().Add(d)
}

// LoseAnswers has the next n requests whose path contains path done, and their answers lost:
// what a network does at the worst moment. 0 ends it.
func (s *Server) LoseAnswers(n int, path string) {
	s.trouble.mu.Lock()
	defer s.trouble.mu.Unlock()
	s.trouble.losing, s.trouble.paths = n, path
}

// Calls are the requests that came, those that were cut off included.
func (s *Server) Calls() []Call {
	s.trouble.mu.Lock()
	defer s.trouble.mu.Unlock()
	return append([]Call(nil), s.trouble.seen...)
}

// meet notes a request and tells what becomes of it.
func (t *trouble) meet(r *http.Request) (away, loses bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.seen) == maxSeen {
		t.seen = append(t.seen[:0:0], t.seen[maxSeen/2:]...)
	}
	t.seen = append(t.seen, Call{r.Method, r.URL.Path, strings.Trim(r.Header.Get("Idempotency-Key"), `"`)})
	if time.Now().Before(t.back) {
		return true, false
	}
	if t.losing > 0 && strings.Contains(r.URL.Path, t.paths) {
		t.losing--
		return false, true
	}
	return false, false
}

// handler is the public listener, with whatever trouble is on.
func (s *Server) handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		away, loses := s.trouble.meet(r)
		if away {
			panic(http.ErrAbortHandler) // cuts the connection, and says nothing of it
		}
		if loses {
			s.public.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		s.public.ServeHTTP(w, r)
	})
}

// ExpireNow ends a hold as if its TTL had run out, and returns when the server knows.
func (s *Server) ExpireNow(id string) {
	s.t.Helper()
	parsed, err := reserve.ParseID(id)
	if err != nil {
		s.t.Fatalf("holdfasttest: ExpireNow(%q): %v", id, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	for {
		held, err := s.service.Get(ctx, reserve.HoldRef{ID: parsed, By: reserve.Caller{Tenant: tenant}})
		if err != nil {
			s.t.Fatalf("holdfasttest: ExpireNow(%s): %v", id, err)
		}
		if held.State != reserve.Held {
			return
		}
		if _, err := s.store.Apply(ctx, reserve.Batch{Groups: []reserve.Group{freed(&held)}}); err != nil {
			s.t.Fatalf("holdfasttest: ExpireNow(%s): %v", id, err)
		}
		// The server settles what it sees gone; the read after the next write finds it settled.
		timer := time.NewTimer(time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			s.t.Fatalf("holdfasttest: ExpireNow(%s): it is still %s", id, held.State)
		}
	}
}

// freed deletes the keys a hold stands by, as the end of its lease would.
func freed(held *reserve.Reservation) reserve.Group {
	g := reserve.Group{Tenant: tenant, Catalog: reserve.AnyCatalog}
	for _, p := range held.Places {
		g.Writes = append(g.Writes, reserve.Write{Ref: reserve.Ref{Kind: reserve.RefSlot, Tenant: tenant, Limit: p.Limit, Scope: p.Scope, N: p.N}})
	}
	if len(held.Places) == 0 {
		g.Writes = append(g.Writes, reserve.Write{Ref: reserve.Ref{Kind: reserve.RefHold, Tenant: tenant, ID: held.ID}})
	}
	return g
}

// ForceRelease ends a hold as an administrator does, for a reason that its holder is told.
func (s *Server) ForceRelease(id, reason string) {
	s.t.Helper()
	var held api.Reservation
	if status, body := s.ask(http.MethodGet, "/v1/reservations/"+id, nil, nil, &held); status != http.StatusOK {
		s.t.Fatalf("holdfasttest: ForceRelease(%s): %d %s", id, status, body)
	}
	status, body := s.ask(http.MethodPost, "/admin/v1/reservations/"+id+"/force-release",
		api.ForceReleaseRequest{Reason: reason, Fence: held.Fence}, nil, nil)
	if status != http.StatusOK {
		s.t.Fatalf("holdfasttest: ForceRelease(%s): %d %s", id, status, body)
	}
}

// Holds are all live holds, up to 500, the oldest first.
func (s *Server) Holds() []api.Reservation {
	s.t.Helper()
	var page api.ReservationPage
	if status, body := s.ask(http.MethodGet, "/v1/reservations?pageSize=500", nil, nil, &page); status != http.StatusOK {
		s.t.Fatalf("holdfasttest: Holds: %d %s", status, body)
	}
	return page.Data
}

// Reservation is a reservation as it stands, ended or not.
func (s *Server) Reservation(id string) api.Reservation {
	s.t.Helper()
	var r api.Reservation
	if status, body := s.ask(http.MethodGet, "/v1/reservations/"+id, nil, nil, &r); status != http.StatusOK {
		s.t.Fatalf("holdfasttest: Reservation(%s): %d %s", id, status, body)
	}
	return r
}

// Used is what a user has used of a counting limit in its present window.
func (s *Server) Used(limit, user string) int64 {
	s.t.Helper()
	var view api.SubjectView
	if status, body := s.ask(http.MethodGet, "/v1/subjects/user/"+user, nil, nil, &view); status != http.StatusOK {
		s.t.Fatalf("holdfasttest: Used(%s, %s): %d %s", limit, user, status, body)
	}
	for _, v := range view.Limits {
		if v.ID == limit {
			return v.Used
		}
	}
	s.t.Fatalf("holdfasttest: Used(%s, %s): the limit does not apply; those that do: %v", limit, user, view.Limits)
	return 0
}
