package memory_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/store/memory"
)

func TestWheel_LeasesEndAfterTheSurplusOnAGrain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ keep, grain, stands, gone time.Duration }{
		{2 * time.Second, 0, 10*time.Second - 1, 10 * time.Second},
		{5 * time.Second, 0, 14*time.Second - 1, 14 * time.Second},            // 13, on a grain of 2
		{64 * time.Second, 0, 72*time.Second - 1, 72 * time.Second},           // 72, on a grain of 4
		{time.Minute, 30 * time.Second, 90*time.Second - 1, 90 * time.Second}, // 68, on a grain of 30
	} {
		clock := newHandClock()
		s := memory.New(memory.Config{Now: clock.now})
		id, err := s.Leases("r1", clock.now).Lease(t.Context(), c.keep, c.grain, 0)
		if err != nil {
			t.Fatal(err)
		}
		apply(t, s, putSlot(0, id))
		clock.advance(c.stands)
		if got := mods(t, s, 1); got[0] == 0 {
			t.Errorf("%v on a grain of %v: gone after %v", c.keep, c.grain, c.stands)
		}
		clock.advance(c.gone - c.stands)
		if got := mods(t, s, 1); got[0] != 0 {
			t.Errorf("%v on a grain of %v: stands after %v", c.keep, c.grain, c.gone)
		}
	}
}

// FAULTS 1.1: at most 1,000 keys a lease, and at most one lease for 1,000 keys or 2 s.
func TestWheel_SharesLeases(t *testing.T) {
	t.Parallel()
	clock := newHandClock()
	wheel := memory.New(memory.Config{Now: clock.now}).Leases("r1", clock.now)
	keys := map[reserve.LeaseID]int{}
	for range 2500 {
		keys[lease(t, wheel, 30*time.Second)]++
	}
	if len(keys) != 3 {
		t.Errorf("2,500 keys went on %d leases, want 3", len(keys))
	}
	for id, n := range keys {
		if n > 1000 {
			t.Errorf("lease %x has %d keys, want at most 1,000", id, n)
		}
	}
}

func TestWheel_RunKeepsTheMarker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Config{Now: time.Now})
		wheel := s.Leases("r1", time.Now)
		before := marker(t, wheel)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); wheel.Run(ctx) }()
		time.Sleep(time.Minute)
		if got := marker(t, wheel); got != before {
			t.Errorf("a minute of Run: the marker went from %d to %d", before, got)
		}
		cancel()
		<-ended
	})
}

// DESIGN.md section 6: a replica that slept must not believe its old leases.
func TestWheel_ReplicaThatSleptLosesItsLeases(t *testing.T) {
	t.Parallel()
	leader, replica := newHandClock(), newHandClock()
	s := memory.New(memory.Config{Now: leader.now, Replica: "r1"})
	wheel := s.Leases("r1", replica.now)
	before, old := marker(t, wheel), lease(t, wheel, 10*time.Second)
	leader.advance(16 * time.Second) // 2 s are left of the lease; the replica thinks 18
	g := putSlot(0, old)
	res, err := s.Apply(t.Context(), reserve.Batch{Marker: before, Groups: []reserve.Group{g}})
	if err != nil || !res.MarkerGone {
		t.Fatalf("a put after 16 s of sleep: got %+v, %v; want MarkerGone", res, err)
	}
	wheel.Gone(0)
	after, id := marker(t, wheel), lease(t, wheel, 10*time.Second)
	if after == before || id == old {
		t.Errorf("after the marker was gone: marker %d, lease %x; want others than %d and %x", after, id, before, old)
	}
	wheel.Gone(0) // another batch lost the same marker
	if got := marker(t, wheel); got != after {
		t.Errorf("told twice that it was gone: the marker went from %d to %d", after, got)
	}
}

func TestWheel_TickFindsTheMarkerGone(t *testing.T) {
	t.Parallel()
	leader, replica := newHandClock(), newHandClock()
	s := memory.New(memory.Config{Now: leader.now})
	wheel := s.Leases("r1", replica.now)
	wheel.Tick() // nothing to keep yet
	before, old := marker(t, wheel), lease(t, wheel, time.Minute)
	leader.advance(4 * time.Second)
	wheel.Tick()
	leader.advance(4 * time.Second)
	if got := marker(t, wheel); got != before {
		t.Errorf("ticked after 4 s of 5: the marker went from %d to %d", before, got)
	}
	leader.advance(4 * time.Second)
	wheel.Tick()
	if got := marker(t, wheel); got <= before {
		t.Errorf("ticked after it was gone: marker %d, want one above %d", got, before)
	}
	if got := lease(t, wheel, time.Minute); got == old {
		t.Errorf("ticked after the marker was gone: lease %x was given out again", got)
	}
}

// The marker notices one long stop of a clock; many short ones are noticed by comparing.
func TestWheel_ManyShortStopsAddUp(t *testing.T) {
	t.Parallel()
	leader, replica := newHandClock(), newHandClock()
	s := memory.New(memory.Config{Now: leader.now})
	wheel := s.Leases("r1", replica.now)
	before := marker(t, wheel)
	wheel.Tick()
	old := lease(t, wheel, time.Minute)
	for i := 1; i <= 4; i++ {
		leader.advance(time.Second)
		replica.advance(time.Second / 2)
		wheel.Tick()
		kept, err := wheel.Lease(t.Context(), 30*time.Second, 0, old)
		if lost := time.Duration(i) * time.Second / 2; err != nil || (kept == old) != (lost <= 1500*time.Millisecond) {
			t.Errorf("after %v were lost: lease %x, had %x, %v; want it kept up to 1.5 s", lost, kept, old, err)
		}
	}
	if got := marker(t, wheel); got != before {
		t.Errorf("the marker went from %d to %d", before, got)
	}
}

// A marker that stands is never taken over: it may be another process's of the same name.
func TestWheel_NewWheelMakesItsOwnMarker(t *testing.T) {
	t.Parallel()
	clock := newHandClock()
	s := memory.New(memory.Config{Now: clock.now})
	first, second := s.Leases("r1", clock.now), s.Leases("r1", clock.now)
	one, two := marker(t, first), marker(t, second)
	if two <= one {
		t.Errorf("the second wheel's marker is %d, want one above %d", two, one)
	}
}

func marker(t *testing.T, l reserve.Leaser) int64 {
	t.Helper()
	rev, err := l.Marker(t.Context())
	if err != nil || rev == 0 {
		t.Fatalf("Marker: got %d, %v", rev, err)
	}
	return rev
}
