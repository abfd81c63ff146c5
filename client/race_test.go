package client_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/client/holdfasttest"
)

// wire notes when extends leave and when settling is answered.
type wire struct {
	next    http.RoundTripper
	beats   atomic.Int64
	mu      sync.Mutex
	settled map[string]bool // ids whose settling was answered
	after   []string        // ids named by a beat after that
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == "/v1/heartbeats" {
		w.beats.Add(1)
		w.look(r)
	}
	resp, err := w.next.RoundTrip(r)
	if of, ok := strings.CutPrefix(r.URL.Path, "/v1/reservations/"); ok && err == nil {
		id, verb, _ := strings.Cut(of, "/")
		if verb == "commit" || verb == "release" {
			w.mu.Lock()
			w.settled[id] = true
			w.mu.Unlock()
		}
	}
	return resp, err
}

func (w *wire) look(r *http.Request) {
	body, err := r.GetBody()
	if err != nil {
		panic(err)
	}
	var sent api.HeartbeatRequest
	if err := json.NewDecoder(body).Decode(&sent); err != nil {
		panic(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range sent.IDs {
		if w.settled[id] {
			w.after = append(w.after, id)
		}
	}
}

// storm is CASES O08: many workers, short work, a short TTL. Nobody may be told lost.
func storm(t *testing.T, s *holdfasttest.Server, url string, transport http.RoundTripper, ttl time.Duration, rounds int) {
	t.Helper()
	const workers, amount = 32, 25
	w := &wire{next: transport, settled: map[string]bool{}}
	c := with(t, s, func(cfg *client.Config) { cfg.URL, cfg.Transport = url, w })
	var held, grants atomic.Int64
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for range rounds {
				r := client.Request{Action: "export", TTL: ttl, Wait: 10 * time.Minute}
				err := c.Do(context.Background(), r, func(ctx context.Context, _ *client.Hold) error {
					if n := held.Add(1); n > amount {
						t.Errorf("%d at once, want %d at most", n, amount)
					}
					defer held.Add(-1)
					grants.Add(1)
					timer := time.NewTimer(ttl/30 + rand.N(ttl*11/30))
					defer timer.Stop()
					select {
					case <-timer.C:
						return nil
					case <-ctx.Done():
						return context.Cause(ctx)
					}
				})
				if err != nil {
					t.Errorf("Do: %v", err)
				}
			}
		})
	}
	all.Wait()
	if got := grants.Load(); got != int64(workers*rounds) {
		t.Errorf("%d grants, want %d", got, workers*rounds)
	}
	if got := c.Stats(); got.Lost != 0 || got.Holds != 0 {
		t.Errorf("counted %+v, want nothing lost and nothing held", got)
	}
	if w.beats.Load() == 0 {
		t.Error("nothing was ever extended: the work was too short for this test")
	}
	if len(w.after) > 0 {
		t.Errorf("%d beats left after the settling of their hold was answered", len(w.after))
	}
	wantHolds(t, s, 0)
}

// CASES O08, in fake time.
func TestHold_IsNotToldLostWhenLetGo(t *testing.T) {
	rounds := 500
	if testing.Short() {
		rounds = 60
	}
	inBubble(t, func(t *testing.T, s *holdfasttest.Server) {
		storm(t, s, "http://holdfast.test", s.Transport(), 3*time.Second, rounds)
	}, exports(25))
}

// The same over real sockets and real time; the TTL leaves room for a machine that is busy.
func TestHold_IsNotToldLostWhenLetGo_Sockets(t *testing.T) {
	t.Parallel()
	rounds := 6
	if testing.Short() {
		rounds = 2
	}
	s := holdfasttest.New(t, exports(25))
	transport := http.DefaultTransport.(*http.Transport).Clone()
	defer transport.CloseIdleConnections()
	storm(t, s, s.URL(), transport, 12*time.Second, rounds)
}

// Issue 4, "Shown by" 4, scaled: many holds are extended in batches of up to 500.
func TestHeart_ManyHoldsShareCalls(t *testing.T) {
	inBubble(t, func(t *testing.T, s *holdfasttest.Server) {
		const n, minutes = 1500, 4
		c := s.Client("u1")
		var holds [n]*client.Hold
		var all sync.WaitGroup
		for i := range holds {
			all.Go(func() {
				h, err := c.Reserve(t.Context(), client.Request{Action: "export", TTL: time.Minute})
				if err != nil {
					t.Errorf("Reserve: %v", err)
				}
				holds[i] = h
			})
		}
		all.Wait()
		time.Sleep(minutes * time.Minute)
		if got := c.Stats(); got.Lost != 0 || got.Holds != n || got.FailedBeats != 0 {
			t.Errorf("counted %+v, want %d held and none lost", got, n)
		}
		// 12 to 15 rounds of 3 full batches, were they all together; each by itself 18,000 calls.
		if got := calls(s, "/v1/heartbeats"); got > 200 {
			t.Errorf("%d calls extended %d holds for %d minutes, want batches", got, n, minutes)
		}
		c.Close()
	}, exports(1500))
}
