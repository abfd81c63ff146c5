package client_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/client/holdfasttest"
)

// A hold lasts as long as its work, and beats come at a third of the TTL, together.
func TestHold_IsExtendedForAsLongAsItIsHeld(t *testing.T) {
	inBubble(t, func(t *testing.T, s *holdfasttest.Server) {
		c := s.Client("u1")
		var all []*client.Hold
		for range 20 {
			all = append(all, reserve(t, c, export))
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(30 * time.Minute)
		for _, h := range all {
			if h.Err() != nil || h.State() != client.Held || h.Left() < 15*time.Second {
				t.Fatalf("after half an hour: %v, %v, %v left", h.Err(), h.State(), h.Left())
			}
		}
		wantHolds(t, s, 20)
		// Alone, each would need 180 to 225 calls in that time; 20 of them 4,000.
		if got := calls(s, "/v1/heartbeats"); got < 180 || got > 1000 {
			t.Errorf("%d calls extended 20 holds of 30 s for 30 min, want them batched", got)
		}
		for _, h := range all {
			wantErr(t, "Release", h.Release(t.Context()), nil)
		}
	}, exports(20))
}

// FAULTS section 2 row 6: the context ends before the server gives the slot to another, by at
// least the margin. GUARANTEES section 2.
func TestHold_ServerAwayLosesInTime(t *testing.T) {
	for name, ttl := range map[string]time.Duration{
		"a short ttl": 5 * time.Second, "the ttl of exec": 30 * time.Second, "a long ttl": 10 * time.Minute,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *holdfasttest.Server) {
				h := reserve(t, s.Client("u1"), client.Request{Action: "export", TTL: ttl})
				time.Sleep(ttl / 2) // it has been extended once
				s.Away(24 * time.Hour)
				<-h.Context().Done()
				ended := time.Now()
				var lost *client.LostError
				if cause := context.Cause(h.Context()); !errors.Is(cause, client.ErrHoldLost) || !errors.As(cause, &lost) || lost.Reason != client.LostDeadline {
					t.Fatalf("the context ended by %v, want the deadline", cause)
				}
				select {
				case <-h.Lost():
				default:
					t.Error("Lost is open still")
				}
				s.Away(0)
				for len(s.Holds()) > 0 { // nobody extends it: the server ends it by itself
					time.Sleep(ttl / 1000)
				}
				margin := max(time.Second, ttl/20)
				if distance := time.Since(ended); distance < margin {
					t.Errorf("the server gave the slot on %v after the context ended, want %v at least", distance, margin)
				}
			}, exports(1))
		})
	}
}

// A server that comes back in time takes no hold away, and unsure is told meanwhile.
func TestHold_ServerAwayForAWhile(t *testing.T) {
	inBubble(t, func(t *testing.T, s *holdfasttest.Server) {
		c := s.Client("u1")
		h := reserve(t, c, export)
		s.Away(20 * time.Second)
		time.Sleep(15 * time.Second)
		if h.State() != client.Unsure || h.Context().Err() != nil {
			t.Errorf("while the server is away: %v, %v, want unsure and alive", h.State(), h.Context().Err())
		}
		time.Sleep(10 * time.Minute)
		if h.State() != client.Held || h.Context().Err() != nil {
			t.Errorf("after it came back: %v, %v, want held", h.State(), h.Context().Err())
		}
		if got := c.Stats(); got.Lost != 0 || got.FailedBeats == 0 || got.FailedBeats > 20 || got.Holds != 1 {
			t.Errorf("counted %+v", got)
		}
		wantErr(t, "Release", h.Release(t.Context()), nil)
	}, exports(1))
}

// What the server says of a hold that is gone ends the work at the next beat.
func TestHold_GoneIsLost(t *testing.T) {
	for name, c := range map[string]struct {
		end    func(t *testing.T, s *holdfasttest.Server, h *client.Hold)
		reason string
	}{
		"forced": {func(t *testing.T, s *holdfasttest.Server, h *client.Hold) {
			t.Helper()
			s.ForceRelease(h.ID(), "the disk is full")
		}, "forced"},
		"expired": {func(t *testing.T, s *holdfasttest.Server, h *client.Hold) { t.Helper(); s.ExpireNow(h.ID()) }, "expired"},
		"released by another of the same principal": {func(t *testing.T, s *holdfasttest.Server, h *client.Hold) {
			t.Helper()
			other := s.Client("u1")
			again := reserve(t, other, client.Request{Action: "export", TTL: 30 * time.Second, Key: "shared"})
			if again.ID() != h.ID() {
				t.Fatalf("the same key gave %s, want %s", again.ID(), h.ID())
			}
			wantErr(t, "Release", again.Release(t.Context()), nil)
		}, "released"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *holdfasttest.Server) {
				client1 := s.Client("u1")
				var lost *client.LostError
				began := time.Now()
				r := client.Request{Action: "export", TTL: 30 * time.Second, Key: "shared"}
				err := client1.Do(t.Context(), r, func(ctx context.Context, h *client.Hold) error {
					c.end(t, s, h)
					<-ctx.Done()
					if !errors.Is(context.Cause(ctx), client.ErrHoldLost) || !errors.Is(h.Err(), client.ErrHoldLost) || h.Left() != 0 {
						t.Errorf("cause %v, Err %v, left %v", context.Cause(ctx), h.Err(), h.Left())
					}
					return errWork
				})
				if !errors.As(err, &lost) || lost.Reason != c.reason || !errors.Is(err, errWork) {
					t.Errorf("Do: %v, want the loss (%s) with what the work said", err, c.reason)
				}
				if c.reason == "forced" && (lost.Note != "the disk is full" || lost.By == "" || lost.At.IsZero()) {
					t.Errorf("lost: %+v, want who did it, when and why", lost)
				}
				if took := time.Since(began); took > 11*time.Second {
					t.Errorf("it took %v to learn of it, want a third of the TTL", took)
				}
				if got := client1.Stats(); got.Lost != 1 || got.Holds != 0 {
					t.Errorf("counted %+v", got)
				}
				wantHolds(t, s, 0)
			}, exports(1))
		})
	}
}

// API.md section 7: a holder that gets 404 for an id it held treats it as lost. A route that
// somebody in between does not know is no word about a hold.
func TestHold_UnknownToTheServerIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ttl := int64(30)
		gone := api.Problem{Status: 404, Code: api.NotFound}
		c := stubbed(t, func(r *http.Request) (*http.Response, error) {
			switch {
			case r.URL.Path == "/v1/reservations":
				return answer(201, nil, api.Reservation{ID: "rsv_1", TTLSeconds: &ttl}), nil
			case r.URL.Path == "/v1/heartbeats":
				return answer(200, nil, api.HeartbeatAnswer{Results: []api.HeartbeatResult{{ID: "rsv_1", Problem: &gone}}}), nil
			}
			return answer(404, nil, gone), nil
		})
		h := reserve(t, c, export)
		began := time.Now()
		<-h.Lost()
		var lost *client.LostError
		if err := h.Err(); !errors.As(err, &lost) || lost.Reason != client.LostUnknown || time.Since(began) > 11*time.Second {
			t.Errorf("after %v: %v, want it unknown at the first beat", time.Since(began), err)
		}
		wantErr(t, "Commit of one the server does not know", reserve(t, c, export).Commit(t.Context()), client.ErrHoldLost)

		away := stubbed(t, func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/v1/reservations" {
				return answer(201, nil, api.Reservation{ID: "rsv_1", TTLSeconds: &ttl}), nil
			}
			return answer(404, nil, "no such page"), nil
		})
		other := reserve(t, away, export)
		time.Sleep(15 * time.Second)
		if other.State() != client.Unsure {
			t.Errorf("after a 404 of somebody else: %v, want unsure", other.State())
		}
		away.Close()
	})
}

// FAULTS section 2 row 7: a machine that slept comes back believing; the wall clock knows.
func TestHold_TheLargerClockCounts(t *testing.T) {
	t.Run("a gap beyond the deadline", func(t *testing.T) {
		inBubble(t, func(t *testing.T, s *holdfasttest.Server) {
			c := s.Client("u1")
			ahead := client.WallClock(c)
			h := reserve(t, c, export)
			ahead.Store(int64(10 * time.Minute))
			if err := h.Err(); !errors.Is(err, client.ErrHoldLost) { // at once, no loop needed
				t.Errorf("Err right after the gap: %v, want it lost", err)
			}
			if cause := context.Cause(h.Context()); !errors.Is(cause, client.ErrHoldLost) {
				t.Errorf("the context: %v, want it ended", cause)
			}
		}, exports(1))
	})
	t.Run("the loop sees it by itself", func(t *testing.T) {
		inBubble(t, func(t *testing.T, s *holdfasttest.Server) {
			c := s.Client("u1")
			ahead := client.WallClock(c)
			h := reserve(t, c, export)
			ahead.Store(int64(10 * time.Minute))
			began := time.Now()
			<-h.Lost()
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("it was lost %v after the gap, want within a second", took)
			}
			// Only this process's clock was wrong: the server has the hold still, and gets it back.
			wantErr(t, "Release", h.Release(t.Context()), client.ErrHoldLost)
			time.Sleep(time.Second)
			wantHolds(t, s, 0)
		}, exports(1))
	})
	t.Run("a gap within it is verified", func(t *testing.T) {
		inBubble(t, func(t *testing.T, s *holdfasttest.Server) {
			c := s.Client("u1")
			ahead := client.WallClock(c)
			h := reserve(t, c, export)
			before := calls(s, "/v1/heartbeats")
			ahead.Store(int64(5 * time.Second))
			time.Sleep(2 * time.Second) // long before a beat is due
			if got := calls(s, "/v1/heartbeats"); got != before+1 {
				t.Errorf("%d beats after the gap, want one at once", got-before)
			}
			if h.State() != client.Held || h.Left() < 25*time.Second {
				t.Errorf("after it: %v, %v left", h.State(), h.Left())
			}
			wantErr(t, "Verify", h.Verify(t.Context()), nil)
			s.ForceRelease(h.ID(), "gone")
			wantErr(t, "Verify of one that is gone", h.Verify(t.Context()), client.ErrHoldLost)
			wantErr(t, "Err after it", h.Err(), client.ErrHoldLost)
		}, exports(1))
	})
}
