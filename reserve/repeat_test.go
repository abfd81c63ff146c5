package reserve_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

// A hold ended by its lease while no replica lived; its key is repeated on a new replica.
func TestRepeat_RepeatOfAKeyWhoseSlotIsGone(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		r.store.View("").SetDown(true) // the rig's own replica sees nothing
		blind, stop := r.replica("blind")
		k := ask(u42, 1, 2*time.Second)
		k.Key, k.Route, k.Body = "k", "r", []byte("b")
		if _, d, err := blind.Reserve(r.ctx(), k); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
		stop()
		time.Sleep(30 * time.Second)
		s, stop := r.replica("new")
		defer stop()
		synctest.Wait()
		other, d, err := s.Reserve(r.ctx(), ask(u42, 1, time.Minute))
		t.Logf("another takes the slot: %v %v fence %d slots %v", d.Allowed, err, other.Fence, other.Places)
		res, d, err := s.Reserve(r.ctx(), k)
		var lost *reserve.LostError
		if !errors.As(err, &lost) {
			t.Errorf("repeat: allowed=%v %v state %v left %v fence %d slots %v replayed %v; want hold-lost", d.Allowed, err, res.State, res.Left, res.Fence, res.Places, res.Replayed)
		}
	})
}

// A hold of another replica whose clock is a second behind.
func TestRepeat_RetryAfterWithAClockBehind(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		behind := func() time.Time { return time.Now().Add(-900 * time.Millisecond) }
		s, stop := r.replica("behind", func(c *reserve.Config) { c.Now = behind })
		defer stop()
		if _, d, err := s.Reserve(r.ctx(), ask(u42, 1, 3*time.Second)); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
		synctest.Wait()
		d := r.refused(ask(u42, 1, 2*time.Second))
		at, _ := d.RetryAt()
		wait := (at.Sub(d.At) + time.Second - 1) / time.Second * time.Second // as Retry-After says it
		time.Sleep(wait)
		if _, d := r.reserve(ask(u42, 1, 2*time.Second)); !d.Allowed {
			t.Errorf("Retry-After %v (exactly %v), waited that long, refused again", wait, at.Sub(d.At))
		}
	})
}

// A replica that lags repeats a grant that was released on another.
func TestRepeat_RepeatOnALaggingReplica(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		other, stop := r.replica("other")
		defer stop()
		k := ask(u42, 1, time.Minute)
		k.Key, k.Route, k.Body = "k", "r", []byte("b")
		h, d, err := other.Reserve(r.ctx(), k)
		if err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
		synctest.Wait()
		r.store.View("other").SetLag(200 * time.Millisecond)
		if _, err := r.Release(r.ctx(), mine(h.ID), ""); err != nil {
			t.Fatal(err)
		}
		next := r.granted(ask(u42, 1, time.Minute))
		res, d, err := other.Reserve(r.ctx(), k)
		var lost *reserve.LostError
		if !errors.As(err, &lost) {
			t.Errorf("repeat after the release: allowed=%v %v state %v left %v, while %v holds the one slot", d.Allowed, err, res.State, res.Left, next.ID)
		}
	})
}
