package reserve_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/windows"
)

// FAULTS 1.3, "Restore from snapshot": in quarantine no hold is begun. What stands goes on, and
// what a key has begun is told again.
func TestQuarantine_NoHoldIsBegun(t *testing.T) {
	t.Parallel()
	inBubble(t, []limits.Limit{slots("exports", 2), counted("calls", 10, windows.Window{Kind: windows.Day})}, func(r *rig) {
		var on atomic.Bool
		s, stop := r.replica("quarantined", func(c *reserve.Config) { c.Quarantined = on.Load })
		defer stop()
		keyed := ask(u42, 1, time.Minute)
		keyed.Route, keyed.Key = "reservations", "k"
		first, d, err := s.Reserve(r.ctx(), keyed)
		if err != nil || !d.Allowed {
			t.Fatalf("before: got %v, %+v, want a grant", err, d)
		}
		on.Store(true)
		if _, _, err := s.Reserve(r.ctx(), ask(u42, 1, time.Minute)); !errors.Is(err, reserve.ErrQuarantine) {
			t.Errorf("a new hold: got %v, want ErrQuarantine", err)
		}
		again, _, err := s.Reserve(r.ctx(), keyed)
		if err != nil || again.ID != first.ID || !again.Replayed {
			t.Errorf("the key again: got %+v, %v, want %s replayed", again, err, first.ID)
		}
		if d, _, err := s.Consume(r.ctx(), ask(u42, 1, 0)); err != nil || !d.Allowed {
			t.Errorf("consume: got %+v, %v, want it allowed", d, err)
		}
		if d, err := s.Preview(r.ctx(), ask(u42, 1, 0)); err != nil || !d.Allowed {
			t.Errorf("preview: got %+v, %v, want it allowed", d, err)
		}
		on.Store(false)
		if _, d, err := s.Reserve(r.ctx(), ask(u42, 1, time.Minute)); err != nil || !d.Allowed {
			t.Errorf("after: got %v, %+v, want a grant", err, d)
		}
	})
}
