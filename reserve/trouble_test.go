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
	"github.com/holdfast-dev/holdfast/windows"
)

// R3b
func TestTrouble_BlindConsumeInAFullStore(t *testing.T) {
	inBubble(t, []limits.Limit{counted("calls", 1000, windows.Window{Kind: windows.Total})}, func(r *rig) {
		if _, _, err := r.Consume(r.ctx(), ask(u42, 1, 0)); err != nil {
			t.Fatal(err)
		}
		r.store.SetFull(true, 7)
		full := int64(0)
		for range 20 {
			_, _, err := r.Consume(r.ctx(), ask(u42, 1, 0))
			if errors.Is(err, reserve.ErrFull) && !errors.Is(err, reserve.ErrUnknownOutcome) {
				full++
			}
		}
		r.store.SetFull(false, 0)
		if used := r.used("calls", u42); full == 20 && used > 1 {
			t.Errorf("20 consumes answered ErrFull (nothing happened), %d units were charged", used-1)
		}
	})
}

// R14: expiry under a queue.
func TestTrouble_ExpiryStarvesBehindAQueue(t *testing.T) {
	if testing.Short() {
		t.Skip("short: 1,800 callers for seconds of fake time")
	}
	var ls []limits.Limit
	ls = append(ls, slots("exports", 1))
	inBubble(t, ls, func(r *rig) {
		h := r.granted(ask(u42, 1, 2*time.Second))
		synctest.Wait()
		began := time.Now()
		r.store.SetDelay(20 * time.Millisecond)
		stop := make(chan struct{})
		var wg sync.WaitGroup
		var done, failed atomic.Int64
		for i := range 1800 {
			wg.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					default:
					}
					s := limits.Subject{Kind: "user", ID: fmt.Sprint("s", i)}
					ctx, cancel := context.WithTimeout(r.ctx(), 5*time.Second)
					res, d, err := r.Reserve(ctx, ask(s, 1, time.Minute))
					if err == nil && d.Allowed {
						_, err = r.Release(ctx, mine(res.ID), "")
					}
					cancel()
					if err != nil {
						failed.Add(1)
					} else {
						done.Add(1)
					}
				}
			})
		}
		for time.Since(began) < 13*time.Second {
			time.Sleep(time.Second)
			got, _ := r.store.Load(r.ctx(), []reserve.Ref{{Tenant: tenant, Kind: reserve.RefSlot, Limit: "exports", Scope: u42.Scope()}}, true)
			t.Logf("%v after the grant of 2 s: slot stands=%v (reserve+release pairs done %d, failed %d)", time.Since(began).Round(time.Millisecond), got.Entries[0].Mod != 0, done.Load(), failed.Load())
			if got.Entries[0].Mod != 0 && time.Since(began) > 4*time.Second {
				t.Errorf("a hold of 2 s still holds its slot after %v", time.Since(began))
				break
			}
		}
		close(stop)
		wg.Wait()
		_ = h
	})
}

// R21: a block that cannot be read.
func TestTrouble_UnreadableBlock(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		a := r.granted(ask(u42, 1, time.Minute))
		if _, err := r.Force(r.ctx(), tenant, a.ID, a.Fence, "ops", "stuck", 10*time.Minute, nil); err != nil {
			t.Fatal(err)
		}
		r.refused(ask(u42, 1, time.Minute))
		r.store.Spoil(reserve.Ref{Tenant: tenant, Kind: reserve.RefBlock, Scope: u42.Scope()}, reserve.ErrNewer)
		synctest.Wait()
		if _, d, err := r.Reserve(r.ctx(), ask(u42, 1, time.Minute)); err == nil && d.Allowed {
			t.Errorf("granted to a blocked subject: its block cannot be read")
		}
	})
}

// R22: the store is away, and the caller has the HTTP layer's 5 s.
func TestTrouble_StoreAwayWithinTheHTTPBudget(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		r.store.SetDown(true)
		ctx, cancel := context.WithTimeout(r.ctx(), 5*time.Second)
		defer cancel()
		_, _, err := r.Reserve(ctx, ask(u42, 1, time.Minute))
		t.Logf("%v", err)
		if errors.Is(err, reserve.ErrUnknownOutcome) {
			t.Errorf("nothing was ever sent, the answer says it may have happened")
		}
		ctx, cancel = context.WithTimeout(r.ctx(), 5*time.Second)
		defer cancel()
		_, err = r.Preview(ctx, ask(u42, 1, time.Minute))
		if errors.Is(err, reserve.ErrUnknownOutcome) {
			t.Errorf("a preview may have happened: %v", err)
		}
	})
}

// R17: the mark of an unknown outcome meets a dead lease.
func TestTrouble_MarkOnADeadLease(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		w := &stuckWheel{Leaser: r.store.Leases("w", time.Now)}
		s, stop := r.replica("w", func(c *reserve.Config) { c.Leases = w })
		defer stop()
		k := ask(u42, 1, time.Minute)
		k.Key, k.Route, k.Body = "k", "r", []byte("b")
		r.store.View("w").FailNext(memory.Late, 1)
		w.from.Store(2) // the first lease is good, the next one is dead until the wheel is told
		began := time.Now()
		_, d, err := s.Reserve(r.ctx(), k)
		t.Logf("%v, %d leases asked", time.Since(began), w.n.Load())
		t.Logf("reserve: allowed=%v %v; the wheel was told %d times", d.Allowed, err, w.told.Load())
		if w.told.Load() == 0 {
			t.Errorf("the wheel was never told that its lease is dead: %v", err)
		}
	})
}

type stuckWheel struct {
	reserve.Leaser
	n, from, told atomic.Int64
}

func (w *stuckWheel) Lease(ctx context.Context, keep, grain time.Duration, have reserve.LeaseID) (reserve.LeaseID, error) {
	if n := w.n.Add(1); w.from.Load() > 0 && n >= w.from.Load() && w.told.Load() == 0 {
		return 0x7fffffff, nil
	}
	return w.Leaser.Lease(ctx, keep, grain, have)
}

func (w *stuckWheel) Gone(id reserve.LeaseID) {
	if id != 0 {
		w.told.Add(1)
	}
	w.Leaser.Gone(id)
}

// R19: short extends in a hurry.
func TestTrouble_ShortExtendsPassTheMaximum(t *testing.T) {
	l := slots("exports", 1)
	l.MaxTTL = 10 * time.Second
	inBubble(t, []limits.Limit{l}, func(r *rig) {
		h := r.granted(ask(u42, 1, 10*time.Second))
		r.store.SetDelay(10 * time.Millisecond)
		var wg sync.WaitGroup
		for i := range 300 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 5 * time.Millisecond)
				_, _ = r.Extend(r.ctx(), mine(h.ID), 2*time.Second)
			})
		}
		wg.Wait()
		r.store.SetDelay(0)
		got, err := r.Get(r.ctx(), mine(h.ID))
		t.Logf("%v ttl %v left %v", err, got.HoldTTL, got.Left)
		if got.HoldTTL > l.MaxTTL {
			t.Errorf("ttl %v under a maximum of %v", got.HoldTTL, l.MaxTTL)
		}
	})
}

// R23: a reservation of cost 0 under a counting limit with a maximum ttl.
func TestTrouble_CostZeroForgetsTheMaximumTTL(t *testing.T) {
	l := counted("calls", 10, day)
	l.MaxTTL = 60 * time.Second
	inBubble(t, []limits.Limit{l}, func(r *rig) {
		h := r.granted(ask(u42, 0, 30*time.Second))
		var ttl *reserve.TTLError
		if _, err := r.Extend(r.ctx(), mine(h.ID), time.Hour); !errors.As(err, &ttl) {
			t.Errorf("extend by an hour: %v, want *TTLError with 60 s", err)
		}
	})
}
