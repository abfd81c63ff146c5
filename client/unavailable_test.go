package client_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/client/holdfasttest"
)

// FAULTS section 2 row 4: an answer that comes late is a hold with less time than it seems. It
// counts from the first sending, and is handed over fresh or not at all.
func TestReserve_LateAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		late, wait time.Duration
		want       error
		asked      int
	}{
		"soon enough":                    {300 * time.Millisecond, 0, nil, 1},
		"half its time gone":             {3 * time.Second, 0, nil, 1},
		"all of it gone":                 {6 * time.Second, 0, client.ErrHoldLost, 1},
		"all of it gone, time to wait":   {6 * time.Second, time.Minute, nil, 2},
		"so late that it was asked anew": {10 * time.Second, time.Minute, nil, 2},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *holdfasttest.Server) {
				asked := 0
				keys := map[string]bool{}
				real := s.Transport()
				client1 := with(t, s, func(cfg *client.Config) {
					cfg.Transport = stub(func(r *http.Request) (*http.Response, error) {
						resp, err := real.RoundTrip(r)
						if r.URL.Path != "/v1/reservations" {
							return resp, err
						}
						keys[r.Header.Get("Idempotency-Key")] = true
						if asked++; asked > 1 {
							return resp, err
						}
						timer := time.NewTimer(c.late)
						defer timer.Stop()
						select {
						case <-timer.C:
							return resp, err
						case <-r.Context().Done():
							return nil, r.Context().Err()
						}
					})
				})
				h, err := client1.Reserve(t.Context(), waiting(5*time.Second, c.wait))
				wantErr(t, "Reserve", err, c.want)
				if c.want == nil {
					if left := h.Left(); left < 3500*time.Millisecond {
						t.Errorf("handed over with %v left of 5 s", left)
					}
					wantErr(t, "the first own extend", h.Verify(t.Context()), nil)
					wantErr(t, "Release", h.Release(t.Context()), nil)
				}
				if asked < c.asked {
					t.Errorf("asked %d times under %d keys, want %d", asked, len(keys), c.asked)
				}
				time.Sleep(time.Second)
				wantHolds(t, s, 0)
			}, exports(1))
		})
	}
}

// A caller that goes away while its answer is on the way leaves no slot taken.
func TestReserve_GivenUpIsGivenBack(t *testing.T) {
	inBubble(t, func(t *testing.T, s *holdfasttest.Server) {
		c := s.Client("u1")
		s.LoseAnswers(1, "/v1/reservations")
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // within the first pause
		defer cancel()
		_, err := c.Reserve(ctx, export)
		wantErr(t, "Reserve", err, context.DeadlineExceeded)
		time.Sleep(time.Second)
		wantHolds(t, s, 0)
		released := 0
		for _, call := range s.Calls() {
			if len(call.Path) > len("/release") && call.Path[len(call.Path)-len("/release"):] == "/release" {
				released++
			}
		}
		if released != 1 {
			t.Errorf("released %d times, want once: %+v", released, s.Calls())
		}
	}, exports(1))
}

// CLI.md section 5: OnUnavailable. Without a server it is Fail; Allow goes on, counted, capped.
func TestUnavailable_FailsOrAllows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		refused := stub(func(*http.Request) (*http.Response, error) {
			return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
		})
		c := stubbed(t, refused)
		began := time.Now()
		err := c.Do(t.Context(), export, func(context.Context, *client.Hold) error { t.Error("the work began"); return nil })
		wantErr(t, "Do without a server", err, client.ErrUnavailable)
		if took := time.Since(began); took > client.DefaultTimeout {
			t.Errorf("it took %v, want %v at most", took, client.DefaultTimeout)
		}

		open := stubbed(t, refused, func(cfg *client.Config) { cfg.OnUnavailable, cfg.MaxAllowed = client.Allow, 2 })
		var worked atomic.Int64
		err = open.Do(t.Context(), export, func(ctx context.Context, h *client.Hold) error {
			worked.Add(1)
			if h.Guarded() || h.Slot() != -1 || h.Fence() != 0 || h.Err() != nil || ctx.Err() != nil || h.Verify(ctx) != nil {
				t.Errorf("an unguarded hold: %v, slot %d, fence %d, %v", h.Guarded(), h.Slot(), h.Fence(), h.Err())
			}
			return nil
		})
		wantErr(t, "Do under Allow", err, nil)
		d, err := open.Consume(t.Context(), client.Request{Action: "call"})
		wantErr(t, "Consume under Allow", err, nil)
		if !d.Allowed || !d.Unguarded || worked.Load() != 1 || open.Stats().Allowed != 2 {
			t.Errorf("%+v, %+v", d, open.Stats())
		}
		first, second := reserve(t, open, export), reserve(t, open, export)
		_, err = open.Reserve(t.Context(), export)
		wantErr(t, "more at once than MaxAllowed", err, client.ErrUnavailable)
		wantErr(t, "Release", first.Release(t.Context()), nil)
		wantErr(t, "Release again", first.Release(t.Context()), nil)
		_, err = open.Reserve(t.Context(), client.Request{Action: "export", OnUnavailable: client.Fail})
		wantErr(t, "a request that says Fail", err, client.ErrUnavailable)
		third := reserve(t, open, export)
		_ = second.Release(t.Context())
		_ = third.Release(t.Context())
	})
}
