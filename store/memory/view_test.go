package memory_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/store/memory"
)

func TestViews_ShareOneKeyspaceAndNoFaults(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Config{Now: newHandClock().now, Replica: "r1"})
	one, two := s.View("r1"), s.View("r2")
	if s.View("r2") != two {
		t.Error("View(r2) twice: got two handles, want one")
	}
	s.FailNext(memory.Before, 1) // the Store is r1's view
	apply(t, two, putSlot(0, 0))
	if _, err := one.Apply(t.Context(), reserve.Batch{}); !errors.Is(err, reserve.ErrUnavailable) {
		t.Errorf("r1's fault: got %v, want ErrUnavailable", err)
	}
	if got := mods(t, one, 1); got[0] == 0 {
		t.Error("r1 does not see what r2 wrote")
	}
}

// Each replica's batches are compared with its own marker.
func TestViews_EachHasItsMarker(t *testing.T) {
	t.Parallel()
	clock := newHandClock()
	s := memory.New(memory.Config{Now: clock.now})
	marker, err := s.Leases("r1", clock.now).Marker(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for replica, gone := range map[string]bool{"r1": false, "r2": true} {
		res, err := s.View(replica).Apply(t.Context(), reserve.Batch{Marker: marker, Groups: []reserve.Group{putSlot(0, 0)}})
		if err != nil || res.MarkerGone != gone {
			t.Errorf("%s with the marker of r1: got %+v, %v; want gone %v", replica, res, err, gone)
		}
	}
}

func TestDown_NothingIsReachedOrTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Config{Now: time.Now})
		v := s.View("r2")
		told := follow(t, v)
		synctest.Wait()
		v.SetDown(true)
		apply(t, s, putSlot(0, 0))
		synctest.Wait()
		if got := told(); len(got) != 1 {
			t.Errorf("told while down: got %v, want only the Reset", got)
		}
		_, loadErr := v.Load(t.Context(), nil, true)
		_, applyErr := v.Apply(t.Context(), reserve.Batch{Groups: []reserve.Group{putSlot(1, 0)}})
		_, listErr := v.Records(t.Context(), "default", reserve.RefOpen, reserve.ID{}, 1)
		_, tenantsErr := v.Tenants(t.Context())
		_, leaseErr := s.Leases("r2", time.Now).Lease(t.Context(), time.Minute, 0, 0)
		for i, err := range []error{loadErr, applyErr, listErr, tenantsErr, leaseErr} {
			if !errors.Is(err, reserve.ErrUnavailable) || errors.Is(err, reserve.ErrUnknownOutcome) {
				t.Errorf("call %d while down: got %v, want ErrUnavailable", i, err)
			}
		}
		v.SetDown(false)
		synctest.Wait()
		if got, want := told(), []int64{1, 2}; !slices.Equal(got, want) {
			t.Errorf("told afterwards: got revisions %v, want %v", got, want)
		}
	})
}

// FAULTS row 17, DESIGN.md section 4: no space.
func TestFull_RefusesPutsAndAppliesSome(t *testing.T) {
	t.Parallel()
	clock := newHandClock()
	s := memory.New(memory.Config{Now: clock.now})
	apply(t, s, putSlot(0, 0))
	s.SetFull(true, 42)
	applied := 0
	for n := int64(1); n <= 100; n++ {
		_, err := s.Apply(t.Context(), reserve.Batch{Groups: []reserve.Group{putSlot(n, 0)}})
		if !errors.Is(err, reserve.ErrFull) || !errors.Is(err, reserve.ErrUnknownOutcome) {
			t.Fatalf("a put without space: got %v, want ErrFull and ErrUnknownOutcome", err)
		}
	}
	for _, mod := range mods(t, s, 101)[1:] {
		if mod != 0 {
			applied++
		}
	}
	if applied < 20 || applied > 80 {
		t.Errorf("of 100 puts without space %d were applied, want some", applied)
	}
	if res := apply(t, s, group(reserve.Write{Ref: slotRef(0)})); !res.Outcomes[0].Committed {
		t.Errorf("a batch that only deletes: got %+v, want it committed", res)
	}
	if _, err := s.Leases("", clock.now).Lease(t.Context(), time.Minute, 0, 0); !errors.Is(err, reserve.ErrFull) {
		t.Errorf("a lease without space: got %v, want ErrFull", err)
	}
	s.SetFull(false, 0)
	apply(t, s, putSlot(0, 0))
}

func TestLate_KeepsACopy(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Config{Now: newHandClock().now})
	s.SetFaults(func(b reserve.Batch) memory.Fault {
		if b.Groups[0].Writes[0].Ref.N == 1 {
			return memory.Late
		}
		return memory.NoFault
	})
	groups := []reserve.Group{putSlot(1, 0)}
	if _, err := s.Apply(t.Context(), reserve.Batch{Groups: groups}); !errors.Is(err, reserve.ErrUnknownOutcome) {
		t.Fatalf("got %v, want ErrUnknownOutcome", err)
	}
	groups[0].Writes[0].Ref = slotRef(2) // the caller uses its slices for something else
	apply(t, s, putSlot(0, 0))
	if n := s.ReleaseLate(); n != 1 {
		t.Errorf("released %d, want 1", n)
	}
	if got := mods(t, s, 3); got[1] != 3 || got[2] != 0 {
		t.Errorf("revisions of slots: got %v, want slot 1 put at 3 and slot 2 never", got)
	}
	if n := s.ReleaseLate(); n != 0 {
		t.Errorf("released again: %d, want 0", n)
	}
}

func TestDelay_TakesTimeAndMayBeCutShort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Config{Now: time.Now})
		s.SetDelay(50 * time.Millisecond)
		start := time.Now()
		apply(t, s, putSlot(0, 0))
		if got := time.Since(start); got != 50*time.Millisecond {
			t.Errorf("Apply took %v, want 50 ms", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err := s.Apply(ctx, reserve.Batch{Groups: []reserve.Group{putSlot(1, 0)}})
		if !errors.Is(err, reserve.ErrUnknownOutcome) || errors.Is(err, reserve.ErrUnavailable) {
			t.Errorf("Apply cut short: got %v, want ErrUnknownOutcome", err)
		}
		if got := mods(t, s, 2); got[1] != 0 {
			t.Errorf("Apply cut short wrote at %d, want nothing", got[1])
		}
	})
}

// follow starts a follower in a bubble and returns what revisions it was told so far.
func follow(t *testing.T, s reserve.Store) (told func() []int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	updates := make(chan int64, 1000)
	ended := make(chan error)
	go func() { ended <- s.Follow(ctx, func(u reserve.Update) { updates <- u.Rev }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Follow returned %v", err)
		}
	})
	var all []int64
	return func() []int64 {
		for {
			select {
			case rev := <-updates:
				all = append(all, rev)
			default:
				return all
			}
		}
	}
}
