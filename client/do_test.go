package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/client/holdfasttest"
)

var errWork = errors.New("the work failed")

// CLI.md section 5: nil commits, an error releases, a panic releases and goes on.
func TestDo_SettlesByWhatTheWorkReturns(t *testing.T) {
	for name, c := range map[string]struct {
		work  func(ctx context.Context, h *client.Hold) error
		want  error
		state string
	}{
		"nil commits":       {func(context.Context, *client.Hold) error { return nil }, nil, api.StateCommitted},
		"an error releases": {func(context.Context, *client.Hold) error { return errWork }, errWork, api.StateReleased},
		"settled by the work itself": {func(ctx context.Context, h *client.Hold) error {
			return h.Commit(ctx)
		}, nil, api.StateCommitted},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *holdfasttest.Server) {
				var id string
				err := s.Client("u1").Do(t.Context(), export, func(ctx context.Context, h *client.Hold) error {
					id = h.ID()
					if h.Slot() != 0 || h.Fence() <= 0 || len(h.Places()) != 1 || h.State() != client.Held || ctx.Err() != nil {
						t.Errorf("in the work: slot %d, fence %d, places %v, %v, %v", h.Slot(), h.Fence(), h.Places(), h.State(), ctx.Err())
					}
					return c.work(ctx, h)
				})
				wantErr(t, "Do", err, c.want)
				if got := s.Reservation(id); got.State != c.state {
					t.Errorf("the reservation is %s, want %s", got.State, c.state)
				}
			}, exports(1))
		})
	}
}

func TestDo_PanicReleasesAndGoesOn(t *testing.T) {
	inBubble(t, func(t *testing.T, s *holdfasttest.Server) {
		c := s.Client("u1")
		func() {
			defer func() {
				if got := recover(); got != "the work broke" {
					t.Errorf("recovered %v, want what the work panicked with", got)
				}
			}()
			_ = c.Do(t.Context(), export, func(context.Context, *client.Hold) error { panic("the work broke") })
		}()
		wantHolds(t, s, 0)
		if got := c.Stats().Holds; got != 0 {
			t.Errorf("the client still extends %d holds", got)
		}
	}, exports(1))
}

// The context of the work ends with the caller's; what was held is given back all the same.
func TestDo_CallerGoesAway(t *testing.T) {
	inBubble(t, func(t *testing.T, s *holdfasttest.Server) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := s.Client("u1").Do(ctx, export, func(ctx context.Context, _ *client.Hold) error {
			<-ctx.Done()
			return ctx.Err()
		})
		wantErr(t, "Do", err, context.DeadlineExceeded)
		wantHolds(t, s, 0)
	}, exports(1))
}

func TestDo_ChargesWhatTheWorkCost(t *testing.T) {
	inBubble(t, func(t *testing.T, s *holdfasttest.Server) {
		r := client.Request{Action: "export", Cost: 5}
		err := s.Client("u1").Do(t.Context(), r, func(_ context.Context, h *client.Hold) error {
			h.SetCost(12)
			return nil
		})
		wantErr(t, "Do", err, nil)
		if got := s.Used("rows", "u1"); got != 12 {
			t.Errorf("used %d, want the 12 of SetCost", got)
		}
	}, holdfasttest.Counting("rows", "export", 100, "day"))
}

// API.md section 3: overage reject leaves the hold held. Do ends it at the estimate.
func TestDo_RefusedOverageIsChargedAtTheEstimate(t *testing.T) {
	rows := api.LimitInput{ID: "rows", Name: "rows", SubjectKind: "user", Action: "export", Amount: 10, Window: "day", Overage: "reject"}
	inBubble(t, func(t *testing.T, s *holdfasttest.Server) {
		c := s.Client("u1")
		err := c.Do(t.Context(), client.Request{Action: "export", Cost: 5}, func(_ context.Context, h *client.Hold) error {
			h.SetCost(50)
			return nil
		})
		var p *api.Problem
		if !errors.As(err, &p) || p.Code != api.Overage {
			t.Fatalf("Do: got %v, want the problem overage", err)
		}
		wantHolds(t, s, 0)
		if got := s.Used("rows", "u1"); got != 5 {
			t.Errorf("used %d, want the estimate 5", got)
		}

		h := reserve(t, c, client.Request{Action: "export", Cost: 2, TTL: 30 * time.Second})
		h.SetCost(50)
		if err := h.Commit(t.Context()); !errors.As(err, &p) || h.State() != client.Held {
			t.Fatalf("Commit above the estimate: %v, the hold is %v, want it held", err, h.State())
		}
		time.Sleep(5 * time.Minute) // it is extended as before
		wantErr(t, "Release", h.Release(t.Context()), nil)
	}, holdfasttest.Limits(rows))
}

// The order of a deferred Release after a Commit, and settling twice.
func TestHold_SettlingTwice(t *testing.T) {
	inBubble(t, func(t *testing.T, s *holdfasttest.Server) {
		c := s.Client("u1")
		h := reserve(t, c, export)
		wantErr(t, "Commit", h.Commit(t.Context()), nil)
		wantErr(t, "Commit again", h.Commit(t.Context()), nil)
		wantErr(t, "Release in a defer after it", h.Release(t.Context()), nil)
		if got := s.Reservation(h.ID()).State; got != api.StateCommitted {
			t.Errorf("it is %s, want committed", got)
		}
		if h.Context().Err() == nil || h.Err() != nil || h.State() != client.Ended {
			t.Errorf("after it: context %v, Err %v, %v", h.Context().Err(), h.Err(), h.State())
		}
		other := reserve(t, c, export)
		wantErr(t, "Release", other.Release(t.Context()), nil)
		var p *api.Problem
		if err := other.Commit(t.Context()); !errors.As(err, &p) || p.Code != api.AlreadySettled {
			t.Errorf("Commit after Release: %v, want already-settled", err)
		}
	}, exports(1))
}

func TestRefusal_TellsWhoHolds(t *testing.T) {
	inBubble(t, func(t *testing.T, s *holdfasttest.Server) {
		c := s.Client("u1")
		h := reserve(t, c, export)
		_, err := c.Reserve(t.Context(), export)
		wantErr(t, "Reserve when it is full", err, client.ErrNoFreeSlot)
		var no *client.Refusal
		if !errors.As(err, &no) {
			t.Fatalf("Reserve: %T, want a *Refusal", err)
		}
		if no.DecidedBy != "exports" || no.RetryAfter <= 0 || no.RetryAfter > 30*time.Second || len(no.Holders) != 1 ||
			no.Holders[0].ID != h.ID() || len(no.Limits) != 1 || !strings.Contains(no.RateLimit, `"exports";r=0`) ||
			!strings.Contains(no.RateLimitPolicy, `"exports";q=1`) || !strings.Contains(no.Error(), "exports allows 1 at once") {
			t.Errorf("the refusal: %+v (%v)", no, no)
		}
		if left, policy := h.RateLimit(); !strings.Contains(left, `"exports";r=0`) || policy != no.RateLimitPolicy {
			t.Errorf("the grant's headers: %q, %q", left, policy)
		}
		wantErr(t, "Release", h.Release(t.Context()), nil)
	}, exports(1))
}

// Close ends the heartbeat and tells the work; what was held can be settled after it.
func TestClose_LosesAndStillSettles(t *testing.T) {
	inBubble(t, func(t *testing.T, s *holdfasttest.Server) {
		c := s.Client("u1")
		h, other := reserve(t, c, export), reserve(t, c, export)
		c.Close()
		c.Close()
		if cause := context.Cause(h.Context()); !errors.Is(cause, client.ErrHoldLost) {
			t.Errorf("after Close the context ended by %v", cause)
		}
		wantErr(t, "Release after Close", h.Release(t.Context()), nil)
		wantErr(t, "Commit after Close", other.Commit(t.Context()), nil)
		if got := s.Reservation(other.ID()).State; got != api.StateCommitted {
			t.Errorf("the other one is %s, want committed", got)
		}
		_, err := c.Reserve(t.Context(), export)
		wantErr(t, "Reserve after Close", err, client.ErrUnavailable)
		wantHolds(t, s, 0)
	}, exports(3))
}
