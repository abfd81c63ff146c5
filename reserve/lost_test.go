package reserve_test

import (
	"context"
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
)

func TestTrouble_ForceWhoseAnswerWasLost(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		a := r.granted(ask(u42, 1, time.Minute))
		r.store.FailNext(memory.After, 1)
		got, err := r.Force(r.ctx(), tenant, a.ID, a.Fence, "ops", "stuck", 0, nil)
		if err != nil {
			t.Errorf("force: %v (%v), want forced: it did what was asked", err, got.State)
		}
	})
}

// HF-313: a store whose every write takes longer than anybody waits. Each extend is committed, and
// its answer comes too late; decided again it would be late again, until its caller's time is up.
func TestExtend_CommittedEachTimeAndNeverAnswered(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		a := r.granted(ask(u42, 1, 10*time.Second))
		synctest.Wait()
		r.store.FailNext(memory.After, 1_000)
		time.Sleep(4 * time.Second)
		got, err := r.Extend(r.ctx(), mine(a.ID), 0)
		if err != nil {
			t.Fatalf("extend: %v, want extended: it was committed, and a read shows it", err)
		}
		if got.Left != 10*time.Second || got.Beats != 1 || got.Fence != a.Fence {
			t.Errorf("extend: %+v, want 10 s left after one heartbeat and fence %d", got, a.Fence)
		}
	})
}

// HF-314: what stands is another's extend, not the one whose answer was lost.
func TestExtend_LostAnswerOfOneThatLost(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		a := r.granted(ask(u42, 1, 10*time.Second))
		cut := &overtaken{View: r.store.View("b")}
		s, stop := r.replica("b", func(c *reserve.Config) { c.Store = cut })
		defer stop()
		synctest.Wait()
		time.Sleep(4 * time.Second)
		cut.by = func() {
			if got, err := r.Extend(r.ctx(), mine(a.ID), 0); err != nil || got.Left != 10*time.Second {
				t.Errorf("the other's extend: %v left, %v", got.Left, err)
			}
		}
		if got, err := s.Extend(r.ctx(), mine(a.ID), 20*time.Second); err != nil || got.Left != 20*time.Second {
			t.Errorf("extend by 20 s: %v left, %v", got.Left, err)
		}
		synctest.Wait()
		if now, err := r.Get(r.ctx(), mine(a.ID)); err != nil || now.HoldTTL != 20*time.Second {
			t.Errorf("the hold has a TTL of %v, %v, want the 20 s that were promised", now.HoldTTL, err)
		}
	})
}

// overtaken never sends its first write: another goes by instead, and nobody is told.
type overtaken struct {
	*memory.View
	by func()
}

func (o *overtaken) Apply(ctx context.Context, batch reserve.Batch) (reserve.Result, error) {
	if by := o.by; by != nil {
		o.by = nil
		by()
		return reserve.Result{}, reserve.ErrUnknownOutcome
	}
	return o.View.Apply(ctx, batch)
}

type bigs struct {
	*memory.View
	n, widest atomic.Int64
}

func (b *bigs) Apply(ctx context.Context, batch reserve.Batch) (reserve.Result, error) {
	res, err := b.View.Apply(ctx, batch)
	if errors.Is(err, reserve.ErrTooBig) {
		b.n.Add(1)
	} else {
		b.widest.Store(max(b.widest.Load(), int64(len(batch.Groups))))
	}
	return res, err
}

func TestTrouble_TwoHotKeysAndABridge(t *testing.T) {
	one, two := slots("one", 10000), slots("two", 10000)
	one.Share, two.Share = limits.All, limits.All
	one.Action, two.Action = "a", "b"
	oneB, twoB := one, two
	_ = oneB
	_ = twoB
	any := slots("each", 1000)
	any.Action = "*"
	inBubble(t, []limits.Limit{one, two, any}, func(r *rig) {
		b := &bigs{View: r.store.View("b")}
		s, stop := r.replica("b", func(c *reserve.Config) { c.Store = b })
		defer stop()
		b.View.SetDelay(2 * time.Millisecond)
		var wg sync.WaitGroup
		for i := range 300 {
			wg.Go(func() {
				a := ask(limits.Subject{Kind: "user", ID: fmt.Sprint(i)}, 1, time.Minute)
				a.Action = []limits.Action{"a", "b"}[i%2]
				if i%10 >= 8 { // the same user does both: a bridge
					a.Subject.ID = "bridge"
				}
				if _, d, err := s.Reserve(r.ctx(), a); err != nil || !d.Allowed {
					t.Errorf("%v %v", d.Allowed, err)
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		if n := b.n.Load(); n > 0 {
			t.Errorf("%d batches were too big: each halves the batches of this replica for good", n)
		}
	})
}
