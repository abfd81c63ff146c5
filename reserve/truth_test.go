package reserve_test

import (
	"context"
	"errors"
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

var day = windows.Window{Kind: windows.Day}

// slowAnswer delays the answers of Apply, after the store has applied.
type slowAnswer struct {
	*memory.View
	by    atomic.Int64
	loads atomic.Int64
}

func (s *slowAnswer) Apply(ctx context.Context, b reserve.Batch) (reserve.Result, error) {
	res, err := s.View.Apply(ctx, b)
	time.Sleep(time.Duration(s.by.Load()))
	return res, err
}

func (s *slowAnswer) Load(ctx context.Context, refs []reserve.Ref, fresh bool) (reserve.Loaded, error) {
	s.loads.Add(1)
	return s.View.Load(ctx, refs, fresh)
}

// R1: the watch tells put and deletion of a slot before the answer of the write lands.
func TestTruth_GhostSlotAfterALateAnswer(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		late := &slowAnswer{View: r.store.View("late")}
		a, stop := r.replica("late", func(c *reserve.Config) { c.Store = late })
		defer stop()
		h := r.granted(ask(u42, 1, time.Minute))
		synctest.Wait()
		late.by.Store(int64(100 * time.Millisecond))
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := a.Extend(r.ctx(), mine(h.ID), time.Minute)
			t.Logf("extend on the late replica: %v", err)
		})
		time.Sleep(10 * time.Millisecond) // applied, the answer is on its way
		if _, err := r.Release(r.ctx(), mine(h.ID), ""); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		late.by.Store(0)
		began := time.Now()
		for _, after := range []time.Duration{0, 30 * time.Second, 61 * time.Second, 5 * time.Minute, 14 * time.Minute, 20 * time.Minute} {
			time.Sleep(time.Until(began.Add(after)))

			dec, perr := a.Preview(r.ctx(), ask(u42, 1, time.Minute))
			own, _ := r.Preview(r.ctx(), ask(u42, 1, time.Minute))
			t.Logf("%v after the release: late replica allowed=%v (%v) used=%d; other allowed=%v", after, dec.Allowed, perr, dec.Verdicts[0].Used, own.Allowed)
			if !dec.Allowed {
				t.Errorf("%v after the release the slot is refused by the late replica", after)
			}
		}
	})
}

// R2: nothing happened, says the service, and the hold stands.
func TestTruth_CommittedButUnavailable(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 5), counted("calls", 100, day)}, func(r *rig) {
		r.granted(ask(u42, 1, 10*time.Minute)) // usage is known
		r.store.SetDelay(2600 * time.Millisecond)
		r.store.FailNext(memory.After, 1)
		k := ask(u42, 7, 10*time.Minute)
		_, d, err := r.Reserve(r.ctx(), k)
		r.store.SetDelay(0)
		t.Logf("Reserve: allowed=%v err=%v", d.Allowed, err)
		used := r.used("exports", u42)
		if errors.Is(err, reserve.ErrUnavailable) && used == 2 {
			t.Errorf("ErrUnavailable (nothing happened), but %d slots are held and calls used is %d", used, r.used("calls", u42))
		}
	})
}

// R4: an unreadable usage value.
func TestTruth_UnreadableUsageSpins(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1), counted("calls", 100, day)}, func(r *rig) {
		s := &slowAnswer{View: r.store.View("x")}
		a, stop := r.replica("x", func(c *reserve.Config) { c.Store = s })
		defer stop()
		h, _, err := a.Reserve(r.ctx(), ask(u42, 3, time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		r.store.Spoil(reserve.Ref{Tenant: tenant, Kind: reserve.RefUsage, Scope: u42.Scope()}, reserve.ErrNewer)
		synctest.Wait()
		s.View.SetDelay(time.Millisecond)
		before := s.loads.Load()
		began := time.Now()
		_, err = a.Release(r.ctx(), mine(h.ID), "")
		t.Logf("release: %v after %v and %d reads", err, time.Since(began), s.loads.Load()-before)
		if n := s.loads.Load() - before; n > 10 {
			t.Errorf("%d reads for one release", n)
		}
	})
}

// R5: an unreadable open record.
func TestTruth_UnreadableRecordSpins(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		s := &slowAnswer{View: r.store.View("x")}
		a, stop := r.replica("x", func(c *reserve.Config) { c.Store = s })
		defer stop()
		h, _, err := a.Reserve(r.ctx(), ask(u42, 3, time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		r.store.Spoil(reserve.Ref{Tenant: tenant, Kind: reserve.RefOpen, ID: h.ID}, reserve.ErrNewer)
		synctest.Wait()
		s.View.SetDelay(time.Millisecond)
		before := s.loads.Load()
		began := time.Now()
		_, err = a.Release(r.ctx(), mine(h.ID), "")
		t.Logf("release: %v after %v and %d reads", err, time.Since(began), s.loads.Load()-before)
		if n := s.loads.Load() - before; n > 10 || !errors.Is(err, reserve.ErrNewer) {
			t.Errorf("%d reads for one release, want ErrNewer at once", n)
		}
	})
}

// R6: the same key over a record of a newer version.
func TestTruth_SameKeyOverANewerRecord(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 3), counted("calls", 100, day)}, func(r *rig) {
		k := ask(u42, 3, time.Minute)
		k.Key, k.Route, k.Body = "k", "r", []byte("b")
		h := r.granted(k)
		r.store.Spoil(reserve.Ref{Tenant: tenant, Kind: reserve.RefOpen, ID: h.ID}, reserve.ErrNewer)
		synctest.Wait()
		again, d, err := r.Reserve(r.ctx(), k)
		t.Logf("again: %v allowed=%v replayed=%v fence %d→%d slots %v→%v", err, d.Allowed, again.Replayed, h.Fence, again.Fence, h.Places, again.Places)
		if err == nil && d.Allowed {
			t.Errorf("a second grant under the same key: calls used %d, want 3", r.used("calls", u42))
		}
	})
}

// R6b: the same for a consume.
func TestTruth_SameKeyOverANewerReplay(t *testing.T) {
	inBubble(t, []limits.Limit{counted("calls", 100, day)}, func(r *rig) {
		k := ask(u42, 3, 0)
		k.Key, k.Route, k.Body = "k", "r", []byte("b")
		if _, _, err := r.Consume(r.ctx(), k); err != nil {
			t.Fatal(err)
		}
		ref := reserve.Ref{Tenant: tenant, Kind: reserve.RefReplay, ID: reserve.Derive(tenant, k.Principal, "r", "k")}
		if !r.store.Spoil(ref, reserve.ErrNewer) {
			t.Fatal("no replay there")
		}
		synctest.Wait()
		if _, _, err := r.Consume(r.ctx(), k); err == nil {
			t.Errorf("consumed again under the same key: used %d, want 3", r.used("calls", u42))
		}
	})
}

// R7: extend over a slot that cannot be read.
func TestTruth_ExtendOverAnUnreadableSlot(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		h := r.granted(ask(u42, 1, 10*time.Second))
		ref := reserve.Ref{Tenant: tenant, Kind: reserve.RefSlot, Limit: "exports", Scope: u42.Scope(), N: 0}
		r.store.Spoil(ref, reserve.ErrNewer)
		synctest.Wait()
		_, err := r.Extend(r.ctx(), mine(h.ID), 0)
		got, _ := r.store.Load(r.ctx(), []reserve.Ref{ref}, true)
		t.Logf("extend: %v; slot now %+v lease %x fault %v", err, got.Entries[0].Value, got.Entries[0].Lease, got.Entries[0].Fault)
		if s, ok := got.Entries[0].Value.(*reserve.Slot); ok {
			t.Errorf("the unreadable slot was overwritten: hold %v ttl %v lease %x", s.Hold, s.TTL, got.Entries[0].Lease)
		}
		time.Sleep(2 * time.Hour)
		got, _ = r.store.Load(r.ctx(), []reserve.Ref{ref}, true)
		if got.Entries[0].Mod != 0 {
			t.Errorf("2 h later the slot still stands: %+v", got.Entries[0].Value)
		}
	})
}

// R8: a commit of a hold whose estimate was 0.
func TestTruth_CommitAboveAnEstimateOfZero(t *testing.T) {
	l := counted("calls", 3, day)
	inBubble(t, []limits.Limit{l}, func(r *rig) {
		h := r.granted(ask(u42, 0, time.Minute))
		res, err := r.Commit(r.ctx(), mine(h.ID), 5)
		t.Logf("commit: %v charged %d", err, res.Charged)
		if used := r.used("calls", u42); used != 5 {
			t.Errorf("answered charged %d, the limit counts %d", res.Charged, used)
		}
	})
}

// R9: the same key for consume and reserve.
func TestTruth_SameKeyOtherMode(t *testing.T) {
	inBubble(t, []limits.Limit{counted("calls", 100, day)}, func(r *rig) {
		k := ask(u42, 1, 0)
		k.Key, k.Route, k.Body = "k", "POST /v1/checks", []byte(`{"mode":"consume"}`)
		if _, _, err := r.Consume(r.ctx(), k); err != nil {
			t.Fatal(err)
		}
		k.Body = []byte(`{"mode":"reserve"}`)
		_, d, err := r.Reserve(r.ctx(), k)
		if !errors.Is(err, reserve.ErrMismatch) {
			t.Errorf("reserve under the key of a consume with another body: allowed=%v %v, want ErrMismatch", d.Allowed, err)
		}
	})
}

// R10: a reset of one subject drops the count of a limit this replica has not met.
func TestTruth_ResetSubjectDropsANewLimitsCount(t *testing.T) {
	inBubble(t, []limits.Limit{counted("calls", 100, day)}, func(r *rig) {
		other, stop := r.replica("other")
		defer stop()
		r.granted(ask(u42, 4, time.Minute))
		r.seq++
		r.bump()
		seq := int64(r.seq)
		synctest.Wait()
		r.store.View("").SetLag(time.Second)
		time.Sleep(time.Millisecond)
		fresh := counted("fresh", 10, day)
		fresh.Generation = int64(r.seq) + 1
		r.define(fresh)
		synctest.Wait()
		if _, d, err := other.Reserve(r.ctx(), ask(u42, 10, time.Minute)); err != nil || !d.Allowed {
			t.Fatalf("%v %v", d.Allowed, err)
		}
		if err := r.ResetSubject(r.ctx(), tenant, "calls", u42, seq, nil); err != nil {
			t.Fatal(err)
		}
		r.store.View("").SetLag(0)
		time.Sleep(2 * time.Second)
		if used := r.used("fresh", u42); used != 10 {
			t.Errorf("after the reset of calls, fresh counts %d, want 10", used)
		}
	})
}

// R11: a repeat under a key when space is short.
func TestTruth_RepeatWhenSpaceIsShort(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		var short atomic.Bool
		s, stop := r.replica("s", func(c *reserve.Config) { c.NoSpace = short.Load })
		defer stop()
		k := ask(u42, 1, time.Minute)
		k.Key, k.Route, k.Body = "k", "r", []byte("b")
		if _, d, err := s.Reserve(r.ctx(), k); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
		short.Store(true)
		if _, d, err := s.Reserve(r.ctx(), k); err != nil || !d.Allowed {
			t.Errorf("repeat: %v; the hold of this key stands", err)
		}
	})
}

// R12: what a release in a full store says of its cost.
func TestTruth_ReleaseInAFullStoreSaysCharged(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1), counted("calls", 100, day)}, func(r *rig) {
		h := r.granted(ask(u42, 5, time.Minute))
		r.store.SetFull(true, 3)
		got, err := r.Release(r.ctx(), mine(h.ID), "")
		if err != nil {
			t.Fatal(err)
		}
		if got.Charged != 0 || got.Refunded != 5 {
			t.Errorf("release answered charged %d refunded %d, want 0 and 5", got.Charged, got.Refunded)
		}
	})
}
