package reserve_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/windows"
)

func TestReserve_GrantsUpToTheAmountAndNamesTheHoldersThen(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 2)}, func(r *rig) {
		a := r.granted(ask(u42, 1, 10*time.Second))
		time.Sleep(time.Second)
		b := r.granted(ask(u42, 1, 30*time.Second))
		if a.Places[0].N != 0 || b.Places[0].N != 1 || a.Fence >= b.Fence {
			t.Errorf("slots %d, %d and fences %d, %d: want 0, 1 and rising", a.Places[0].N, b.Places[0].N, a.Fence, b.Fence)
		}
		d := r.refused(ask(u42, 1, 30*time.Second))
		if len(d.Holders) != 2 || d.Holders[0].ID != a.ID {
			t.Errorf("holders %+v: want both, the one that ends first first", d.Holders)
		}
		if at, ok := d.RetryAt(); !ok || at.Sub(d.At) > 9*time.Second || at.Sub(d.At) < 8*time.Second {
			t.Errorf("retry in %v, want at most the 9 s that %v has left", at.Sub(d.At), a.ID)
		}
	})
}

func TestHold_SlotIsFreeWhenTheGlassRunsOut(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1), counted("calls", 10, windows.Window{Kind: windows.Hour})}, func(r *rig) {
		a := r.granted(ask(u42, 3, 2*time.Second))
		time.Sleep(1900 * time.Millisecond)
		r.refused(ask(u42, 1, 2*time.Second))
		time.Sleep(150 * time.Millisecond)
		synctest.Wait()
		if used := r.used("calls", u42); used != 0 {
			t.Errorf("used %d after the expiry, want its charge refunded", used)
		}
		b := r.granted(ask(u42, 1, 2*time.Second))
		if b.Fence <= a.Fence {
			t.Errorf("fence %d after %d on one slot: want rising", b.Fence, a.Fence)
		}
		got, err := r.Get(r.ctx(), mine(a.ID))
		if err != nil || got.State != reserve.Expired {
			t.Errorf("Get: %v %v, want expired", got.State, err)
		}
		for name, act := range map[string]func() error{
			"extend":  func() error { _, err := r.Extend(r.ctx(), mine(a.ID), time.Minute); return err },
			"commit":  func() error { _, err := r.Commit(r.ctx(), mine(a.ID), -1); return err },
			"release": func() error { _, err := r.Release(r.ctx(), mine(a.ID), ""); return err },
		} {
			var lost *reserve.LostError
			if err := act(); !errors.As(err, &lost) {
				t.Errorf("%s of an expired hold: %v, want *LostError", name, err)
			}
		}
	})
}

func TestExtend_LastsFromNowAndNeverShortens(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		a := r.granted(ask(u42, 1, 4*time.Second))
		for range 5 {
			time.Sleep(3 * time.Second)
			if _, err := r.Extend(r.ctx(), mine(a.ID), 0); err != nil {
				t.Fatalf("Extend: %v", err)
			}
		}
		long, err := r.Extend(r.ctx(), mine(a.ID), time.Minute)
		if err != nil || long.Left != time.Minute {
			t.Fatalf("Extend to a minute: %v left, %v", long.Left, err)
		}
		short, err := r.Extend(r.ctx(), mine(a.ID), 2*time.Second)
		if err != nil || short.Left < 59*time.Second {
			t.Errorf("Extend to 2 s: %v left (%v), want what was left before", short.Left, err)
		}
		time.Sleep(59 * time.Second)
		r.refused(ask(u42, 1, 0))
	})
}

func TestCommit_RefundsToThePeriodChargedAndIsTheSameAgain(t *testing.T) {
	inBubble(t, []limits.Limit{counted("hourly", 10, windows.Window{Kind: windows.Hour})}, func(r *rig) {
		a := r.granted(ask(u42, 7, time.Hour))
		time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour - time.Second)))
		got, err := r.Commit(r.ctx(), mine(a.ID), 4)
		if err != nil || got.Charged != 4 || got.Refunded != 3 || got.State != reserve.Committed {
			t.Fatalf("Commit(4): %+v, %v", got, err)
		}
		if used := r.used("hourly", u42); used != 4 {
			t.Errorf("used %d, want 4", used)
		}
		if again, err := r.Commit(r.ctx(), mine(a.ID), 4); err != nil || again.Charged != 4 {
			t.Errorf("the same commit again: %+v, %v", again, err)
		}
		var settled *reserve.SettledError
		if _, err := r.Commit(r.ctx(), mine(a.ID), 5); !errors.As(err, &settled) {
			t.Errorf("a commit of another cost: %v, want *SettledError", err)
		}
		if _, err := r.Release(r.ctx(), mine(a.ID), ""); !errors.As(err, &settled) {
			t.Errorf("a release after the commit: %v, want *SettledError", err)
		}
	})
}

func TestReserve_SecondOnSameKeyIsReplay(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		keyed := ask(u42, 1, 30*time.Second)
		keyed.Key, keyed.Route, keyed.Body = "k1", "reserve", []byte("b")
		a := r.granted(keyed)
		time.Sleep(20 * time.Second)
		again := r.granted(keyed)
		if again.ID != a.ID || !again.Replayed || again.Left > 10*time.Second || again.Left < 9*time.Second {
			t.Errorf("replay after 20 of 30 s: %v, replayed %v, %v left", again.ID, again.Replayed, again.Left)
		}
		other := keyed
		other.Body = []byte("c")
		if _, _, err := r.Reserve(r.ctx(), other); !errors.Is(err, reserve.ErrMismatch) {
			t.Errorf("same key, other body: %v, want ErrMismatch", err)
		}
		time.Sleep(11 * time.Second)
		var lost *reserve.LostError
		if _, _, err := r.Reserve(r.ctx(), keyed); !errors.As(err, &lost) {
			t.Errorf("replay after the end: %v, want *LostError", err)
		}
	})
}

func TestReserve_AllOrNothingUnderAFlood(t *testing.T) {
	for _, amount := range []int64{1, 3, 64} {
		inBubble(t, []limits.Limit{
			slots("exports", amount),
			counted("each", 1000, windows.Window{Kind: windows.Day}),
			func() limits.Limit {
				l := counted("all", 1000, windows.Window{Kind: windows.Hour, Rolling: true})
				l.Share = limits.All
				return l
			}(),
		}, func(r *rig) {
			var mu sync.Mutex
			var wg sync.WaitGroup
			granted := 0
			for range 50 {
				wg.Go(func() {
					for range 20 {
						_, d, err := r.Reserve(r.ctx(), ask(u42, 2, time.Minute))
						if err != nil {
							t.Errorf("Reserve: %v", err)
						}
						mu.Lock()
						if d.Allowed {
							granted++
						}
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			if int64(granted) != amount {
				t.Errorf("amount %d: granted %d of 1,000", amount, granted)
			}
			if each, all := r.used("each", u42), r.used("all", u42); each != 2*amount || all != 2*amount {
				t.Errorf("amount %d: counted %d and %d, want %d", amount, each, all, 2*amount)
			}
		})
	}
}

func TestExtend_OfAHoldThatChargesNothingKeepsTheLimitsMaximum(t *testing.T) {
	short := counted("calls", 50, windows.Window{Kind: windows.Hour})
	short.MaxTTL = 10 * time.Second
	inBubble(t, []limits.Limit{short}, func(r *rig) {
		a := r.granted(ask(u42, 0, 10*time.Second))
		var tooLong *reserve.TTLError
		if _, err := r.Extend(r.ctx(), mine(a.ID), time.Hour); !errors.As(err, &tooLong) || tooLong.Max != 10*time.Second {
			t.Errorf("Extend to an hour: %v, want *TTLError with 10 s", err)
		}
	})
}
