package reserve_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/windows"
)

// Each test here is named after an interleaving that broke an earlier draft of the design.

func TestRelease_AfterExpiryWhenAnotherHasTheSlot(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		a := r.granted(ask(u42, 1, 2*time.Second))
		time.Sleep(2100 * time.Millisecond)
		b := r.granted(ask(u42, 1, time.Minute))
		var lost *reserve.LostError
		if _, err := r.Release(r.ctx(), mine(a.ID), ""); !errors.As(err, &lost) || lost.Record.State != reserve.Expired {
			t.Errorf("release of the first: %v, want lost by expiry", err)
		}
		if got, err := r.Get(r.ctx(), mine(b.ID)); err != nil || got.State != reserve.Held {
			t.Errorf("the second: %v %v, want held", got.State, err)
		}
	})
}

// The record of the first is still open, since no replica lived when its lease ended; the
// second holder keeps extending the same slot meanwhile.
func TestExpire_SlotTakenAgainWhileTheOldRecordIsOpen(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1), counted("calls", 100, windows.Window{Kind: windows.Day})}, func(r *rig) {
		blind, stop := r.replica("blind")
		a, _, err := blind.Reserve(r.ctx(), ask(u42, 5, 2*time.Second))
		if err != nil {
			t.Fatalf("Reserve: %v", err)
		}
		stop()
		r.store.View("").SetLag(time.Hour) // the other replica sees nothing of the end
		time.Sleep(14 * time.Second)
		r.store.View("").SetLag(0)
		b := r.granted(ask(u42, 7, 4*time.Second))
		for range 4 {
			time.Sleep(2 * time.Second)
			if _, err := r.Extend(r.ctx(), mine(b.ID), 0); err != nil {
				t.Fatalf("Extend of the second: %v", err)
			}
		}
		for range 3 {
			if _, err := r.Sweep(r.ctx(), 100); err != nil {
				t.Fatalf("Sweep: %v", err)
			}
			synctest.Wait()
			time.Sleep(100 * time.Millisecond)
		}
		if got, err := r.Get(r.ctx(), mine(a.ID)); err != nil || got.State != reserve.Expired || got.Refunded != 5 {
			t.Errorf("the first: %v, refunded %d, %v; want expired once, 5 back", got.State, got.Refunded, err)
		}
		if got, err := r.Get(r.ctx(), mine(b.ID)); err != nil || got.State != reserve.Held {
			t.Errorf("the second: %v %v, want held", got.State, err)
		}
		if used := r.used("calls", u42); used != 7 {
			t.Errorf("used %d, want the second's 7 alone", used)
		}
	})
}

func TestRelease_AndReserveInOneBatchRaiseTheFence(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		last := r.granted(ask(u42, 1, time.Minute))
		for range 50 {
			// The store is slow, so that both sit in the queue together.
			r.store.SetDelay(5 * time.Millisecond)
			var wg sync.WaitGroup
			wg.Go(func() { _, _ = r.Extend(r.ctx(), mine(last.ID), 0) })
			synctest.Wait()
			var next reserve.Reservation
			wg.Go(func() {
				if _, err := r.Release(r.ctx(), mine(last.ID), ""); err != nil {
					t.Errorf("Release: %v", err)
				}
			})
			wg.Go(func() {
				for {
					res, d, err := r.Reserve(r.ctx(), ask(u42, 1, time.Minute))
					if err != nil {
						t.Errorf("Reserve: %v", err)
					}
					if d.Allowed {
						next = res
						return
					}
				}
			})
			wg.Wait()
			r.store.SetDelay(0)
			if next.Fence <= last.Fence {
				t.Fatalf("fence %d after %d on the same slot: want rising", next.Fence, last.Fence)
			}
			last = next
		}
	})
}

func TestRefund_PlannedBeforeAnothersCharge(t *testing.T) {
	inBubble(t, []limits.Limit{counted("calls", 100, windows.Window{Kind: windows.Day})}, func(r *rig) {
		other, stop := r.replica("other")
		defer stop()
		a := r.granted(ask(u42, 10, time.Minute))
		r.store.View("").SetLag(time.Second) // this one plans its refund on what it last saw
		for range 5 {
			if _, d, err := other.Reserve(r.ctx(), ask(u42, 3, time.Minute)); err != nil || !d.Allowed {
				t.Fatalf("Reserve on the other replica: %+v %v", d, err)
			}
		}
		if _, err := r.Release(r.ctx(), mine(a.ID), ""); err != nil {
			t.Fatalf("Release: %v", err)
		}
		if used := r.used("calls", u42); used != 15 {
			t.Errorf("used %d, want the other's 15", used)
		}
	})
}

func TestRefund_NeverIntoCountsAfterAReset(t *testing.T) {
	inBubble(t, []limits.Limit{counted("calls", 100, windows.Window{Kind: windows.Day})}, func(r *rig) {
		a := r.granted(ask(u42, 10, time.Minute))
		r.seq++
		r.bump()
		if err := r.ResetSubject(r.ctx(), tenant, "calls", u42, int64(r.seq), nil); err != nil {
			t.Fatalf("ResetSubject: %v", err)
		}
		if used := r.used("calls", u42); used != 0 {
			t.Fatalf("used %d after the reset, want 0", used)
		}
		r.granted(ask(u42, 4, time.Minute))
		if _, err := r.Release(r.ctx(), mine(a.ID), ""); err != nil {
			t.Fatalf("Release: %v", err)
		}
		if used := r.used("calls", u42); used != 4 {
			t.Errorf("used %d, want 4: the old charge is of another generation", used)
		}
	})
}

func TestRefund_NeverIntoALimitMadeAgain(t *testing.T) {
	inBubble(t, []limits.Limit{counted("calls", 100, windows.Window{Kind: windows.Day})}, func(r *rig) {
		a := r.granted(ask(u42, 10, time.Minute))
		again := counted("calls", 100, windows.Window{Kind: windows.Day})
		again.Generation = 9
		r.define(again)
		r.granted(ask(u42, 4, time.Minute))
		if _, err := r.Release(r.ctx(), mine(a.ID), ""); err != nil {
			t.Fatalf("Release: %v", err)
		}
		if used := r.used("calls", u42); used != 4 {
			t.Errorf("used %d, want 4: the charge was of the limit that is gone", used)
		}
	})
}

func TestRefund_OfABucketIsOnlyWhatHasNotRefilled(t *testing.T) {
	bucket := counted("burst", 20, windows.Window{Kind: windows.Bucket, Refill: 2 * windows.NanoUnit})
	inBubble(t, []limits.Limit{bucket}, func(r *rig) {
		a := r.granted(ask(u42, 10, time.Minute))
		time.Sleep(4 * time.Second) // 8 of 10 have refilled
		r.granted(ask(u42, 5, time.Minute))
		if _, err := r.Release(r.ctx(), mine(a.ID), ""); err != nil {
			t.Fatalf("Release: %v", err)
		}
		if used := r.used("burst", u42); used != 5 {
			t.Errorf("used %d, want the second's 5: 2 of the first had not refilled and went back", used)
		}
	})
}

func TestAborted_MarkerStandsBeforeALateProposal(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1), counted("calls", 100, windows.Window{Kind: windows.Day})}, func(r *rig) {
		r.store.FailNext(memory.Late, 1)
		a := r.granted(ask(u42, 1, time.Minute)) // decided again after the marker
		if n := r.store.ReleaseLate(); n != 1 {
			t.Fatalf("%d late proposals, want 1", n)
		}
		if used := r.used("calls", u42); used != 1 {
			t.Errorf("used %d, want 1: the late proposal lost to the marker", used)
		}
		if got, err := r.Get(r.ctx(), mine(a.ID)); err != nil || got.State != reserve.Held {
			t.Errorf("Get: %v %v", got.State, err)
		}
	})
}

// The first proposal is late by the whole life of the second, which took its place: all the keys
// of a hold of concurrent limits are absent once more when it comes in.
func TestAborted_ProposalLateByTheWholeLifeOfTheHold(t *testing.T) {
	for _, key := range []string{"", "k1"} {
		inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
			asked := ask(u42, 1, time.Minute)
			asked.Key = key
			r.store.FailNext(memory.Late, 1)
			a := r.granted(asked)
			if _, err := r.Release(r.ctx(), mine(a.ID), ""); err != nil {
				t.Fatalf("Release: %v", err)
			}
			if n := r.store.ReleaseLate(); n != 1 {
				t.Fatalf("%d late proposals, want 1", n)
			}
			if got, err := r.Get(r.ctx(), mine(a.ID)); err != nil || got.State != reserve.Released {
				t.Errorf("key %q, Get: %v %v, want released", key, got.State, err)
			}
			r.granted(ask(u42, 1, time.Minute))
		})
	}
}

func TestReserve_AnswerLostAfterTheCommitIsFound(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 2), counted("calls", 100, windows.Window{Kind: windows.Day})}, func(r *rig) {
		for _, key := range []string{"", "k1"} {
			keyed := ask(u42, 1, time.Minute)
			keyed.Key = key
			r.store.FailNext(memory.After, 1)
			if a := r.granted(keyed); a.Replayed {
				t.Errorf("key %q: the first answer calls itself a replay", key)
			}
		}
		if used := r.used("calls", u42); used != 2 {
			t.Errorf("used %d, want 2: each took effect once", used)
		}
	})
}

func TestConsume_WithoutAKeyStaysUnknown(t *testing.T) {
	inBubble(t, []limits.Limit{counted("calls", 100, windows.Window{Kind: windows.Day})}, func(r *rig) {
		r.store.FailNext(memory.After, 1)
		if _, _, err := r.Consume(r.ctx(), ask(u42, 1, 0)); !errors.Is(err, reserve.ErrUnknownOutcome) {
			t.Errorf("Consume: %v, want ErrUnknownOutcome", err)
		}
		keyed := ask(u42, 1, 0)
		keyed.Key = "k"
		r.store.FailNext(memory.After, 1)
		if d, replayed, err := r.Consume(r.ctx(), keyed); err != nil || !d.Allowed || replayed {
			t.Errorf("Consume under a key: %+v %v %v", d, replayed, err)
		}
		if d, replayed, err := r.Consume(r.ctx(), keyed); err != nil || !d.Allowed || !replayed {
			t.Errorf("Consume again: %+v %v %v, want a replay", d, replayed, err)
		}
		if used := r.used("calls", u42); used != 2 {
			t.Errorf("used %d, want 2", used)
		}
	})
}

func TestAmount_RaisedNoRefusalAfterTheAnswer(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		r.granted(ask(u42, 1, time.Minute))
		r.refused(ask(u42, 1, time.Minute))
		r.store.View("").SetLag(200 * time.Millisecond)
		r.define(slots("exports", 2))
		r.granted(ask(u42, 1, time.Minute))
	})
}

func TestAmount_LoweredNoGrantAfterTheAnswer(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 3)}, func(r *rig) {
		a := r.granted(ask(u42, 1, time.Minute))
		b := r.granted(ask(u42, 1, time.Minute))
		r.granted(ask(u42, 1, time.Minute))
		r.store.View("").SetLag(200 * time.Millisecond)
		r.define(slots("exports", 1))
		d := r.refused(ask(u42, 1, time.Minute))
		if v := d.Verdicts[0]; v.Excess != 2 || v.Remaining != 0 {
			t.Errorf("verdict %+v: want 2 in excess, 0 left", v)
		}
		for _, id := range []reserve.ID{a.ID, b.ID} {
			if _, err := r.Release(r.ctx(), mine(id), ""); err != nil {
				t.Fatalf("Release: %v", err)
			}
			r.refused(ask(u42, 1, time.Minute))
		}
	})
}

// The batch: a release that fails (its slot is gone and taken again behind this replica's
// back) beside a grant, after the amount was lowered.
func TestAmount_LoweredAReleaseThatFailsBesideAGrant(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 2)}, func(r *rig) {
		other, stop := r.replica("other")
		defer stop()
		a := r.granted(ask(u42, 1, time.Minute))
		r.granted(ask(u42, 1, time.Minute))
		r.define(slots("exports", 1))
		synctest.Wait()
		r.store.View("").SetLag(time.Second)
		if _, err := other.Release(r.ctx(), mine(a.ID), ""); err != nil {
			t.Fatalf("Release on the other replica: %v", err)
		}
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = r.Release(r.ctx(), mine(a.ID), "") })
		wg.Go(func() {
			if _, d, err := r.Reserve(r.ctx(), ask(u42, 1, time.Minute)); err != nil || d.Allowed {
				t.Errorf("Reserve beside it: %+v %v, want refused: one is still held", d, err)
			}
		})
		wg.Wait()
	})
}

func TestForce_WithBlockOnALaggingReplica(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		other, stop := r.replica("other")
		defer stop()
		a := r.granted(ask(u42, 1, time.Minute))
		if _, err := r.Force(r.ctx(), tenant, a.ID, a.Fence+1, "ops", "stuck", 0, nil); !errors.Is(err, reserve.ErrFenced) {
			t.Errorf("Force with another fence: %v, want ErrFenced", err)
		}
		synctest.Wait()
		r.store.View("other").SetLag(500 * time.Millisecond)
		if _, err := r.Force(r.ctx(), tenant, a.ID, a.Fence, "ops", "stuck", 10*time.Minute, nil); err != nil {
			t.Fatalf("Force: %v", err)
		}
		_, d, err := other.Reserve(r.ctx(), ask(u42, 1, time.Minute))
		if err != nil || d.Allowed || d.Block == nil {
			t.Errorf("Reserve on the lagging replica: %+v %v, want blocked", d, err)
		}
		var lost *reserve.LostError
		if _, err := other.Extend(r.ctx(), mine(a.ID), 0); !errors.As(err, &lost) || lost.Record.State != reserve.Forced {
			t.Errorf("Extend of the forced hold: %v", err)
		}
		time.Sleep(11 * time.Minute)
		r.granted(ask(u42, 1, time.Minute))
	})
}

func TestLease_DeadAmongAThousandGoodOnes(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 2000)}, func(r *rig) {
		dead := &deadOnce{Leaser: r.store.Leases("dead", time.Now), at: 500}
		s, stop := r.replica("dead", func(c *reserve.Config) { c.Leases = dead; c.MaxOps = 128 })
		defer stop()
		r.store.View("dead").SetDelay(2 * time.Millisecond)
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				if _, d, err := s.Reserve(r.ctx(), ask(u42, 1, 30*time.Second)); err != nil || !d.Allowed {
					t.Errorf("Reserve: %+v %v", d, err)
				}
			})
		}
		wg.Wait()
		if dead.gone.Load() == 0 {
			t.Error("the dead lease was never met")
		}
	})
}

func TestStore_FullThenFreed(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 3), counted("calls", 100, windows.Window{Kind: windows.Day})}, func(r *rig) {
		a := r.granted(ask(u42, 5, time.Minute))
		b := r.granted(ask(u42, 5, time.Minute))
		r.store.SetFull(true, 7)
		for range 20 {
			_, d, err := r.Reserve(r.ctx(), ask(u42, 5, 5*time.Second))
			if err == nil && d.Allowed {
				continue // it had committed before the alarm: found by its id
			}
			if !errors.Is(err, reserve.ErrFull) && d.Allowed {
				t.Errorf("Reserve in a full store: %+v %v", d, err)
			}
		}
		if _, err := r.Extend(r.ctx(), mine(a.ID), time.Minute); err != nil && !errors.Is(err, reserve.ErrFull) {
			t.Errorf("Extend in a full store: %v, want ErrFull", err)
		}
		if got, err := r.Release(r.ctx(), mine(a.ID), ""); err != nil || got.State != reserve.Released {
			t.Errorf("Release in a full store: %v %v", got.State, err)
		}
		if _, err := r.Commit(r.ctx(), mine(b.ID), 2); err != nil {
			t.Errorf("Commit in a full store: %v", err)
		}
		r.store.SetFull(false, 0)
		time.Sleep(10 * time.Second)
		for range 3 {
			if _, err := r.Sweep(r.ctx(), 100); err != nil {
				t.Fatalf("Sweep: %v", err)
			}
			time.Sleep(time.Second)
		}
		if got, err := r.Get(r.ctx(), mine(a.ID)); err != nil || got.State != reserve.Released || got.Refunded != 5 {
			t.Errorf("the released one: %v, %d refunded, %v", got.State, got.Refunded, err)
		}
		if got, err := r.Get(r.ctx(), mine(b.ID)); err != nil || got.State != reserve.Committed || got.Charged != 2 {
			t.Errorf("the committed one: %v, %d charged, %v", got.State, got.Charged, err)
		}
		if used := r.used("calls", u42); used != 2 {
			t.Errorf("used %d, want the committed 2", used)
		}
	})
}

// A replica whose clock stood still believes an old lease longer than it is; its freshness
// marker is gone by then, so nothing is put on that lease.
func TestReplica_SuspendedWithItsClockStill(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 5)}, func(r *rig) {
		var stopped sync.Mutex
		var behind time.Duration
		clock := func() time.Time {
			stopped.Lock()
			defer stopped.Unlock()
			return time.Now().Add(-behind)
		}
		wheel := r.store.Leases("sleepy", clock)
		s, stop := r.replica("sleepy", func(c *reserve.Config) { c.Leases, c.Now = wheel, clock })
		defer stop()
		if _, d, err := s.Reserve(r.ctx(), ask(u42, 1, 20*time.Second)); err != nil || !d.Allowed {
			t.Fatalf("Reserve: %+v %v", d, err)
		}
		time.Sleep(25 * time.Second) // 20 + 8 rounded up: the lease lives a few seconds more
		stopped.Lock()
		behind = 25 * time.Second
		stopped.Unlock()
		start := time.Now()
		a, d, err := s.Reserve(r.ctx(), ask(u42, 1, 20*time.Second))
		if err != nil || !d.Allowed {
			t.Fatalf("Reserve after the sleep: %+v %v", d, err)
		}
		for time.Since(start) < 19*time.Second {
			time.Sleep(time.Second)
			if got, err := r.Get(r.ctx(), mine(a.ID)); err != nil || got.State != reserve.Held {
				t.Fatalf("%v after its grant the hold is %v (%v), want held for 20 s", time.Since(start), got.State, err)
			}
		}
	})
}

// A short extend is stuck in the store and commits after a longer one was answered.
func TestExtend_ShortOneStuckCommitsAfterTheLonger(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		other, stop := r.replica("other")
		defer stop()
		a := r.granted(ask(u42, 1, 10*time.Second))
		r.store.View("other").FailNext(memory.Late, 1)
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = other.Extend(r.ctx(), mine(a.ID), 5*time.Second) })
		synctest.Wait()
		if _, err := r.Extend(r.ctx(), mine(a.ID), time.Minute); err != nil {
			t.Fatalf("the longer extend: %v", err)
		}
		r.store.View("other").ReleaseLate()
		wg.Wait()
		time.Sleep(55 * time.Second)
		if got, err := r.Get(r.ctx(), mine(a.ID)); err != nil || got.State != reserve.Held {
			t.Errorf("55 of 60 s later: %v %v, want held", got.State, err)
		}
	})
}

// An Else brings a record or slot of a newer state; the amounts must still come by the watch.
func TestElse_NeverBringsAnAmount(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 4)}, func(r *rig) {
		other, stop := r.replica("other")
		defer stop()
		for range 4 {
			r.granted(ask(u42, 1, time.Minute))
		}
		synctest.Wait()
		r.store.View("other").SetLag(300 * time.Millisecond)
		r.define(slots("exports", 2)) // an override that ended, say
		r.define(slots("exports", 3))
		if _, d, err := other.Reserve(r.ctx(), ask(u42, 1, time.Minute)); err != nil || d.Allowed {
			t.Errorf("Reserve on the lagging replica: %+v %v, want refused: 4 are held of 3", d, err)
		}
	})
}
