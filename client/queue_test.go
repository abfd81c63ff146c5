package client_test

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/client/holdfasttest"
)

// waiting is export with a wait.
func waiting(ttl, wait time.Duration) client.Request {
	return client.Request{Action: "export", TTL: ttl, Wait: wait}
}

// CASES O05 step 3: what is handed over after a wait is fresh.
func TestReserve_WaitsAndGetsAFreshHold(t *testing.T) {
	inBubble(t, func(t *testing.T, s *holdfasttest.Server) {
		c := s.Client("u1")
		first := reserve(t, c, client.Request{Action: "export", TTL: time.Minute})
		time.AfterFunc(8*time.Second, func() { _ = first.Release(context.Background()) })
		began := time.Now()
		h := reserve(t, c, waiting(5*time.Second, 30*time.Second))
		if took := time.Since(began); took < 8*time.Second || took > 8*time.Second+2500*time.Millisecond {
			t.Errorf("granted after %v, want soon after the release at 8 s", took)
		}
		if ttl := *s.Reservation(h.ID()).TTLSeconds; ttl < 4 || h.Left() < 3500*time.Millisecond {
			t.Errorf("%d s of 5 are left at the grant, %v by the client", ttl, h.Left())
		}
		wantErr(t, "the first own extend", h.Verify(t.Context()), nil)
		wantErr(t, "Release", h.Release(t.Context()), nil)
	}, exports(1))
}

// API.md section 6: a server that keeps the line holds the request back. It is asked in slices,
// under one key, so that the place is kept; what it grants after a while is extended first.
func TestReserve_ServerKeepsTheLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type slice struct {
			key  string
			wait int64
			gap  time.Duration // since the answer before
		}
		var slices []slice
		var answered time.Time
		ttl, extended, first := int64(5), 0, true
		c := stubbed(t, func(r *http.Request) (*http.Response, error) {
			if r.URL.Path != "/v1/reservations" {
				extended++
				return answer(200, nil, api.Reservation{ID: "rsv_1", TTLSeconds: &ttl}), nil
			}
			var body api.ReserveRequest
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil || (body.WaitSeconds == nil) != first {
				t.Errorf("asked with %+v, %v", body, err)
				return nil, err
			}
			if first {
				first = false
				return answer(429, nil, api.Problem{Status: 429, Code: api.NoFreeSlot}), nil
			}
			now := slice{key: r.Header.Get("Idempotency-Key"), wait: *body.WaitSeconds}
			if !answered.IsZero() {
				now.gap = time.Since(answered)
			}
			slices = append(slices, now)
			defer func() { answered = time.Now() }()
			if len(slices) < 4 {
				time.Sleep(time.Duration(now.wait) * time.Second)
				return answer(429, nil, api.Problem{Status: 429, Code: api.NoFreeSlot}), nil
			}
			time.Sleep(15 * time.Second)
			return answer(201, nil, api.Reservation{ID: "rsv_1", TTLSeconds: &ttl}), nil
		})
		h := reserve(t, c, waiting(5*time.Second, 10*time.Minute))
		if extended != 1 || h.Left() < 3500*time.Millisecond {
			t.Errorf("extended %d times at the grant, %v left", extended, h.Left())
		}
		for i, s := range slices {
			if s.key != slices[0].key || s.wait < 10 || s.wait > 60 || s.gap > time.Second {
				t.Errorf("slice %d: %+v after %+v", i, s, slices[0])
			}
		}
		c.Close()
	})
}

// API.md section 6: a place under a key lingers; who stops waiting gives it up, so that nobody is
// held up by it.
func TestReserve_WhoStopsWaitingLeavesTheLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked []api.ReserveRequest
		var keys []string
		c := stubbed(t, func(r *http.Request) (*http.Response, error) {
			var body api.ReserveRequest
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
				return nil, err
			}
			asked, keys = append(asked, body), append(keys, r.Header.Get("Idempotency-Key"))
			switch len(asked) {
			case 2:
				<-r.Context().Done()
				return nil, r.Context().Err()
			case 3: // the server has not noticed yet
				return answer(409, nil, api.Problem{Status: 409, Code: api.IdempotencyInFlight}), nil
			}
			return answer(429, nil, api.Problem{Status: 429, Code: api.NoFreeSlot}), nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Second, cancel)
		_, err := c.Reserve(ctx, waiting(5*time.Second, time.Minute))
		wantErr(t, "Reserve", err, context.Canceled)
		c.Close() // waits for what is done on the side
		if len(asked) != 4 || asked[0].WaitSeconds != nil || *asked[1].WaitSeconds != 59 || *asked[3].WaitSeconds != 0 || keys[3] != keys[1] {
			t.Errorf("asked %+v under %v, want at once, for 59 s, and twice a repeat that leaves", asked, keys)
		}
	})
}

// CASES O05 step 4: a release near the waiter's deadline gives a live hold or an error, never a
// dead hold, and after an error nothing is held.
func TestReserve_ReleaseNearTheDeadline(t *testing.T) {
	inBubble(t, func(t *testing.T, s *holdfasttest.Server) {
		c := s.Client("u1")
		granted := 0
		for i := range 200 {
			first := reserve(t, c, client.Request{Action: "export", TTL: time.Minute})
			at := 5*time.Second + time.Duration(i-100)*500*time.Microsecond
			done := make(chan struct{})
			time.AfterFunc(at, func() { _ = first.Release(context.Background()); close(done) })
			h, err := c.Reserve(t.Context(), waiting(5*time.Second, 5*time.Second))
			<-done
			if err != nil {
				wantErr(t, "Reserve", err, client.ErrNoFreeSlot)
				wantHolds(t, s, 0)
				continue
			}
			granted++
			if err := h.Verify(t.Context()); err != nil || h.Left() <= 0 {
				t.Fatalf("run %d, released after %v: a dead hold was handed over: %v", i, at, err)
			}
			wantErr(t, "Release", h.Release(t.Context()), nil)
		}
		if granted == 0 || granted == 200 {
			t.Errorf("%d of 200 granted: the runs missed the deadline", granted)
		}
	}, exports(1))
}

// CASES O26: waiters do not sleep out the refusal's retry time, five minutes here. Who is served
// when nobody leaves the slot alone is the server's line to say.
func TestReserve_NobodySleepsOutTheRetryTime(t *testing.T) {
	inBubble(t, func(t *testing.T, s *holdfasttest.Server) {
		var held atomic.Int64
		var served [8]int
		var workers sync.WaitGroup
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for i := range served {
			c := s.Client("u1")
			workers.Go(func() {
				for ctx.Err() == nil {
					err := c.Do(ctx, waiting(5*time.Minute, 10*time.Minute), func(context.Context, *client.Hold) error {
						if held.Add(1) > 1 {
							t.Error("two at once")
						}
						time.Sleep(50 * time.Millisecond)
						served[i]++
						held.Add(-1)
						return nil
					})
					if err != nil && ctx.Err() == nil {
						t.Errorf("worker %d: %v", i, err)
					}
					time.Sleep(time.Second)
				}
			})
		}
		workers.Wait()
		for i, n := range served {
			if n == 0 {
				t.Errorf("worker %d of 8 was never served: %v", i, served)
			}
		}
		time.Sleep(5 * time.Second) // what was granted to those who gave up is given back
		wantHolds(t, s, 0)
	}, exports(1))
}
