package reserve_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/windows"
)

// What can go wrong beside a line: callers that come and go while something is on its way, a
// replica that is behind, one that goes away.

// away is how long a call to the store takes where something is to happen meanwhile.
const away = 20 * time.Millisecond

// releases is release for another goroutine than the test's.
func (r *rig) releases(id reserve.ID) {
	if _, err := r.Release(r.ctx(), mine(id), ""); err != nil {
		r.t.Errorf("Release(%v): %v", id, err)
	}
}

// A caller that hangs up and comes back before the store has heard of it keeps its place, and
// the line does not stand still.
func TestWait_ComesBackWhileItsPlaceIsBeingPutAway(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		held := r.granted(ask(u42, 1, 2*time.Minute)).ID
		head := r.waits(r.Service, keyed("k"), time.Minute)
		next := r.waits(r.Service, ask(u42, 1, time.Minute), time.Minute)
		r.store.View("").SetDelay(away)
		head.hangUp()
		synctest.Wait() // its key is free again, and its place being put away
		back := r.waits(r.Service, keyed("k"), time.Minute)
		time.Sleep(10 * away)
		r.store.View("").SetDelay(0)
		r.release(r.Service, held)
		r.want("the one that came back", back, true)
		r.want("the next", next, false)
	})
}

// One that gives its place up while that it hung up is on its way leaves nothing behind.
func TestWait_GivesUpWhileItsPlaceIsBeingPutAway(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		r.granted(ask(u42, 1, 2*time.Minute))
		head := r.waits(r.Service, keyed("k"), time.Minute)
		var slow atomic.Bool
		r.store.View("").SetFaults(func(reserve.Batch) memory.Fault {
			if slow.CompareAndSwap(true, false) {
				time.Sleep(10 * away) // this one is put away late
			}
			return 0
		})
		slow.Store(true)
		head.hangUp()
		synctest.Wait()
		repeat := keyed("k")
		repeat.Leaves = true
		r.refused(repeat)
		r.wantTickets("exports", 0)
	})
}

// A caller under a key that hangs up while it joins keeps the place it then has.
func TestWait_HangsUpWhileItJoins(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		held := r.granted(ask(u42, 1, 2*time.Minute)).ID
		r.store.View("").SetDelay(away)
		head := r.waits(r.Service, keyed("k"), time.Minute)
		time.Sleep(away + away/2) // it has read what its key stands for, and its ticket is on its way
		head.hangUp()
		time.Sleep(10 * away)
		r.wantTickets("exports", 1)
		r.store.View("").SetDelay(0)
		next := r.waits(r.Service, ask(u42, 1, time.Minute), time.Minute)
		back := r.waits(r.Service, keyed("k"), time.Minute)
		r.release(r.Service, held)
		r.want("the one that came back", back, true)
		r.want("the next", next, false)
	})
}

// A grant is on its way when its caller hangs up and comes back at once: it is told of that
// grant, and nobody takes it back from it.
func TestWait_ComesBackWhileItsGrantIsOnItsWay(t *testing.T) {
	for name, elsewhere := range map[string]bool{"at the same replica": false, "at another replica": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
				at := r.Service
				if elsewhere {
					other, stop := r.replica("other")
					defer stop()
					at = other
				}
				for hangUp := range 3 * away / time.Millisecond {
					held := r.granted(ask(u42, 1, 2*time.Minute)).ID
					key := keyed(fmt.Sprint("k", hangUp))
					head := r.waits(r.Service, key, time.Minute)
					r.store.View("").SetDelay(away)
					go r.releases(held)
					time.Sleep(hangUp * time.Millisecond)
					head.hangUp()
					synctest.Wait()
					back := r.waits(at, key, time.Minute)
					for back.over() && errors.Is(back.err, reserve.ErrInFlight) { // nobody there has heard that it hung up
						back = r.waits(at, key, time.Minute)
					}
					time.Sleep(10 * away)
					r.store.View("").SetDelay(0)
					time.Sleep(time.Second)
					if head.over() && head.err == nil && head.d.Allowed {
						back = head // it was told before it hung up
					}
					r.want(fmt.Sprint("hung up after ", hangUp, " ms"), back, true)
					if _, err := r.Extend(r.ctx(), mine(back.res.ID), time.Minute); err != nil {
						t.Fatalf("hung up after %d ms: what was granted to who came back: %v", hangUp, err)
					}
					r.release(r.Service, back.res.ID)
					r.wantTickets("exports", 0)
				}
			})
		})
	}
}

// A place whose caller hung up while the store was away is kept for it all the same.
func TestWait_HangsUpWhileTheStoreIsAway(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		held := r.granted(ask(u42, 1, 2*time.Minute)).ID
		head := r.waits(r.Service, keyed("k"), time.Minute)
		next := r.waits(r.Service, ask(u42, 1, time.Minute), time.Minute)
		r.store.View("").SetDown(true)
		head.hangUp()
		time.Sleep(4500 * time.Millisecond)
		r.store.View("").SetDown(false)
		time.Sleep(3 * time.Second)
		back := r.waits(r.Service, keyed("k"), time.Minute)
		r.release(r.Service, held)
		r.want("the one that came back", back, true)
		r.want("the next", next, false)
	})
}

// Whether a waiter was cancelled or its session lost cannot be learnt while the store is away.
// It is told when it can: one that was cancelled does not join again.
func TestWait_CancelledWhileTheSessionCannotBeAsked(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		other, stop := r.replica("other")
		defer stop()
		synctest.Wait()
		r.granted(ask(u42, 1, 2*time.Minute))
		first := r.waits(r.Service, ask(u42, 1, time.Minute), time.Minute)
		second := r.waits(r.Service, ask(u42, 1, time.Minute), time.Minute)
		cancel := func() {
			t.Helper()
			all, err := other.Waiters(r.ctx(), reserve.WaiterQuery{Tenant: tenant, Max: 1})
			if err != nil || len(all) != 1 {
				t.Fatalf("Waiters: %+v, %v, want one", all, err)
			}
			if err := other.Cancel(r.ctx(), reserve.HoldRef{ID: all[0].ID, By: reserve.Caller{Tenant: tenant}}, nil); err != nil {
				t.Fatalf("Cancel: %v", err)
			}
		}
		r.store.View("").SetFull(true, 1) // no lease is spoken of
		cancel()
		time.Sleep(5 * time.Second)
		r.want("the cancelled one", first, false)
		r.store.View("").SetFull(false, 1)
		time.Sleep(2 * time.Second)
		cancel()
		synctest.Wait()
		for i, q := range []*queued{first, second} {
			if !q.over() || !errors.Is(q.err, reserve.ErrWaitCancelled) {
				t.Errorf("number %d: over %v, %v, want ErrWaitCancelled", i, q.over(), q.err)
			}
		}
	})
}

// A replica that goes away tells of a grant that is on its way; it would be a place lost.
func TestWait_DrainWhileAGrantIsOnItsWay(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		held := r.granted(ask(u42, 1, time.Minute)).ID
		head := r.waits(r.Service, ask(u42, 1, time.Minute), time.Minute)
		next := r.waits(r.Service, ask(u42, 1, time.Minute), time.Minute)
		r.store.View("").SetDelay(away)
		go r.releases(held)
		time.Sleep(away + away/2)
		r.Drain()
		time.Sleep(10 * away)
		r.want("the head", head, true)
		if !next.over() || !errors.Is(next.err, reserve.ErrDraining) {
			t.Errorf("the next: over %v, %v, want ErrDraining", next.over(), next.err)
		}
	})
}

// A newcomer goes to the end, also at a replica that is behind and whose clock is too.
func TestWait_NewcomerAtAReplicaThatIsBehind(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		behind, stop := r.replica("behind", func(c *reserve.Config) {
			c.Now = func() time.Time { return time.Now().Add(-5 * time.Second) }
		})
		defer stop()
		held := r.granted(ask(u42, 1, 2*time.Minute)).ID
		time.Sleep(time.Second)
		r.store.View("behind").SetLag(time.Second)
		first := r.waits(r.Service, ask(u42, 1, time.Minute), time.Minute)
		second := r.waits(behind, ask(u42, 1, time.Minute), time.Minute)
		time.Sleep(5 * time.Second)
		r.wantTickets("exports", 2)
		r.release(r.Service, held)
		r.want("the first", first, true)
		time.Sleep(2 * time.Second)
		r.want("the newcomer", second, false)
	})
}

// As many of a counting limit's line go together as there is room for.
func TestWait_CountingLimitLetsInTogetherWhatFits(t *testing.T) {
	inBubble(t, []limits.Limit{counted("calls", 100, windows.Window{Kind: windows.Minute})}, func(r *rig) {
		r.granted(ask(u42, 100, time.Minute))
		time.Sleep(20 * time.Second)
		var line []*queued
		for range 60 {
			line = append(line, r.waits(r.Service, ask(u42, 2, time.Minute), time.Minute))
		}
		var batches atomic.Int64
		r.store.View("").SetFaults(func(reserve.Batch) memory.Fault {
			batches.Add(1)
			return 0
		})
		time.Sleep(time.Minute - 20*time.Second)
		for i, q := range line {
			r.want(fmt.Sprint("number ", i), q, i < 50)
		}
		if n := batches.Load(); n > 10 {
			t.Errorf("%d transactions to let 50 in, want as few as 128 operations each allow", n)
		}
	})
}

// A pause that is over by the clock and not by the catalogue keeps nobody busy.
func TestWait_PauseThatIsOverByTheClockAlone(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 2)}, func(r *rig) {
		var looks atomic.Int64
		s, stop := r.replica("counting", func(c *reserve.Config) {
			c.WindowNow = func() time.Time { looks.Add(1); return time.Now() }
		})
		defer stop()
		paused := slots("exports", 2)
		paused.Paused, paused.PausedUntil = true, time.Now().Add(5*time.Second)
		r.define(paused)
		q := r.waits(s, ask(u42, 1, time.Minute), time.Minute)
		time.Sleep(6 * time.Second)
		before := looks.Load()
		time.Sleep(20 * time.Second)
		if n := looks.Load() - before; n > 200 {
			t.Errorf("the clock was read %d times in 20 s, want a few a second", n)
		}
		r.define(slots("exports", 2))
		time.Sleep(2 * time.Second)
		r.want("the one that waits", q, true)
	})
}

// Of a line in which half hang up while grants are on their way, the others are all served.
func TestWait_HangUpsOfAWholeLineLoseNoGrant(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 3)}, func(r *rig) {
		other, stop := r.replica("other")
		defer stop()
		synctest.Wait()
		var held []reserve.ID
		for range 3 {
			held = append(held, r.granted(ask(u42, 1, 2*time.Minute)).ID)
		}
		var line []*queued
		for i := range 40 {
			line = append(line, r.waits([]*reserve.Service{r.Service, other}[i%2], ask(u42, 1, 2*time.Minute), time.Minute))
		}
		r.store.SetDelay(away)
		var wg sync.WaitGroup
		for _, id := range held {
			wg.Go(func() { r.release(r.Service, id) })
		}
		for i, q := range line { // every second one leaves, a little later each
			if i%2 == i/2%2 {
				time.Sleep(3 * time.Millisecond)
				q.hangUp()
			}
		}
		wg.Wait()
		r.store.SetDelay(0)
		granted := 0
		for range len(line) {
			time.Sleep(time.Second)
			synctest.Wait()
			for _, q := range line {
				if q.over() && q.err == nil && q.d.Allowed {
					granted++
					r.release(r.Service, q.res.ID)
					q.err = errServed
				}
			}
		}
		left := 0
		for _, q := range line {
			if q.over() && errors.Is(q.err, errServed) {
				continue
			}
			if left++; !q.over() || !errors.Is(q.err, reserve.ErrUnavailable) {
				t.Errorf("one is neither served nor gone: over %v, %v", q.over(), q.err)
			}
		}
		if granted+left != len(line) || granted < len(line)/2 {
			t.Errorf("%d granted, %d left, want all %d and at least half of them granted", granted, left, len(line))
		}
		r.wantTickets("exports", 0)
	})
}

var errServed = errors.New("served")
