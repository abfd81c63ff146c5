package reserve_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/windows"
)

// steppedClock is a clock whose wall part alone can be moved, as an administrator or a time daemon
// moves it. Package time has no way to say that, since its Add moves both parts, and in a bubble
// there is no monotonic part at all: so the two are put together here.
type steppedClock struct {
	first time.Time
	by    atomic.Int64 // seconds
}

// parts is a time.Time as package time lays it out.
type parts struct {
	wall uint64 // "has a monotonic part", 33 bits of seconds since 1885, 30 bits of nanoseconds
	mono int64
	loc  *time.Location
}

func (c *steppedClock) now() (t time.Time) {
	const hasMonotonic, since1885 = 1 << 63, 2_682_288_000 // seconds from then to 1970
	now := time.Now()
	wall := now.Add(time.Duration(c.by.Load()) * time.Second)
	*(*parts)(unsafe.Pointer(&t)) = parts{
		hasMonotonic | uint64(wall.Unix()+since1885)<<30 | uint64(wall.Nanosecond()), 1 + int64(now.Sub(c.first)), time.UTC,
	}
	if !t.Round(0).Equal(wall) {
		panic("time.Time has another shape than it had: " + t.String())
	}
	return t
}

// FAULTS rows 20 and 21: the wall clock of one replica steps by an hour, either way. It judges no
// window until the clock has stood still for a minute, the others do; slots are served and holds
// last as they would have.
func TestClock_AStepStopsWindowsAndNotSlots(t *testing.T) {
	t.Parallel()
	for _, by := range []int64{3600, -3600} {
		t.Run(fmt.Sprint(by, " s"), func(t *testing.T) {
			t.Parallel()
			day := counted("day", 100, windows.Window{Kind: windows.Day})
			day.Action = "count"
			inBubble(t, []limits.Limit{slots("exports", 2), day}, func(r *rig) {
				clock := steppedClock{first: time.Now()}
				s, stop := r.replica("stepping", func(c *reserve.Config) { c.Now = clock.now })
				defer stop()
				count := func(s *reserve.Service) error {
					a := ask(u42, 1, time.Minute)
					a.Action = "count"
					_, _, err := s.Reserve(r.ctx(), a)
					return err
				}
				take := func() reserve.Reservation {
					res, d, err := s.Reserve(r.ctx(), ask(u42, 1, 10*time.Second))
					if err != nil || !d.Allowed {
						t.Fatalf("a slot: %+v, %v, want granted", d, err)
					}
					return res
				}
				before := take()
				if err := count(s); err != nil {
					t.Fatalf("before the step: %v", err)
				}
				time.Sleep(5 * time.Second)
				clock.by.Store(by)
				if err := count(s); !errors.Is(err, reserve.ErrClockSkew) || !s.Skewed() {
					t.Errorf("a window after the step: %v, skewed %t, want %v", err, s.Skewed(), reserve.ErrClockSkew)
				}
				if err := count(r.Service); err != nil {
					t.Errorf("a window at another replica: %v", err)
				}
				after := take()
				time.Sleep(4 * time.Second) // 9 s since the first was granted, 4 s since the second
				for _, id := range []reserve.ID{before.ID, after.ID} {
					if _, err := s.Extend(r.ctx(), mine(id), 2*time.Second); err != nil {
						t.Errorf("extend in its time: %v", err)
					}
				}
				time.Sleep(4 * time.Second) // the first's 2 s are over, and the second has as long as it was granted for
				if _, err := s.Extend(r.ctx(), mine(before.ID), 0); err == nil {
					t.Error("a hold outlasted its time because of the step")
				}
				if _, err := s.Extend(r.ctx(), mine(after.ID), 0); err != nil {
					t.Errorf("a hold ended before its time because of the step: %v", err)
				}
				time.Sleep(time.Minute)
				if err := count(s); err != nil || s.Skewed() {
					t.Errorf("a window when the clock has stood still for a minute: %v, skewed %t", err, s.Skewed())
				}
			})
		})
	}
}
