package reserve_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/windows"
)

// queued is a caller in line, in a goroutine of its own.
type queued struct {
	res    reserve.Reservation
	d      reserve.Decision
	err    error
	done   chan struct{}
	hangUp context.CancelFunc
}

// waits asks at s and waits in line; it returns when everything has come to rest.
func (r *rig) waits(s *reserve.Service, a reserve.Request, wait time.Duration) *queued {
	ctx, cancel := context.WithCancel(r.ctx())
	q := &queued{done: make(chan struct{}), hangUp: cancel}
	a.Wait = wait
	go func() {
		defer close(q.done)
		q.res, q.d, q.err = s.Reserve(ctx, a)
	}()
	synctest.Wait()
	time.Sleep(time.Millisecond) // the next one's rank is another's
	return q
}

func (q *queued) over() bool {
	select {
	case <-q.done:
		return true
	default:
		return false
	}
}

// want checks that q is granted by now, or still waits.
func (r *rig) want(what string, q *queued, granted bool) {
	r.t.Helper()
	synctest.Wait()
	switch {
	case granted && (!q.over() || q.err != nil || !q.d.Allowed):
		r.t.Fatalf("%s: over %v, %+v, %v; want granted", what, q.over(), q.d, q.err)
	case !granted && q.over():
		r.t.Fatalf("%s: over, %+v, %v; want still in line", what, q.d, q.err)
	}
}

func (r *rig) release(s *reserve.Service, id reserve.ID) {
	r.t.Helper()
	if _, err := s.Release(r.ctx(), reserve.HoldRef{ID: id, By: reserve.Caller{Tenant: tenant}}, ""); err != nil {
		r.t.Fatalf("Release(%v): %v", id, err)
	}
}

// tickets are the ranks in the line of a limit for u_42, by a look at the store.
func (r *rig) tickets(limit string) (n int) {
	r.t.Helper()
	seen := make(chan int, 1)
	ctx, cancel := context.WithCancel(r.ctx())
	go func() {
		_ = r.store.Follow(ctx, func(u reserve.Update) {
			if !u.Reset {
				return
			}
			n := 0
			for _, e := range u.Entries {
				if e.Ref.Kind == reserve.RefTicket && e.Ref.Limit == limit {
					n++
				}
			}
			seen <- n
			cancel()
		})
	}()
	return <-seen
}

func (r *rig) wantTickets(limit string, want int) {
	r.t.Helper()
	synctest.Wait()
	if got := r.tickets(limit); got != want {
		r.t.Errorf("%d tickets in the line of %s, want %d", got, limit, want)
	}
}

func TestWait_FirstComeFirstServed(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		held := r.granted(ask(u42, 1, time.Minute)).ID
		var line []*queued
		for range 10 {
			line = append(line, r.waits(r.Service, ask(u42, 1, time.Minute), time.Minute))
		}
		for i, q := range line {
			r.want(fmt.Sprint("the head, ", i), q, false)
			r.release(r.Service, held)
			r.want(fmt.Sprint("the head, ", i), q, true)
			held = q.res.ID
			for k, later := range line[i+1:] {
				r.want(fmt.Sprint("number ", k+1, " behind ", i), later, false)
			}
		}
		r.wantTickets("exports", 0)
	})
}

func TestWait_AcrossReplicas(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		services := []*reserve.Service{r.Service}
		for _, name := range []string{"b", "c"} {
			s, stop := r.replica(name)
			defer stop()
			services = append(services, s)
		}
		synctest.Wait()
		held := r.granted(ask(u42, 1, time.Minute)).ID
		synctest.Wait()
		var line []*queued
		for i := range 9 {
			line = append(line, r.waits(services[i%3], ask(u42, 1, time.Minute), time.Minute))
		}
		for i, q := range line {
			r.release(services[i%2], held)
			r.want(fmt.Sprint("the head, ", i), q, true)
			held = q.res.ID
			for k, later := range line[i+1:] {
				r.want(fmt.Sprint("number ", k+1, " behind ", i), later, false)
			}
		}
	})
}

func TestWait_TimeIsOut(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		r.granted(ask(u42, 1, time.Minute))
		began := time.Now()
		a := ask(u42, 1, time.Minute)
		a.Wait = 5 * time.Second
		d := r.refused(a)
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("refused after %v, want 5 s", took)
		}
		if len(d.Verdicts) != 1 || d.Verdicts[0].Why != reserve.NoSlot || len(d.Holders) != 1 {
			t.Errorf("refusal: %+v, want no slot and its holder", d)
		}
		r.wantTickets("exports", 0)
	})
}

// A call that does not wait is refused while others stand in line, although a slot is free.
func TestWait_NewcomerBesideARelease(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		for round := range 30 {
			held := r.granted(ask(u42, 1, time.Minute)).ID
			q := r.waits(r.Service, ask(u42, 1, time.Minute), time.Minute)
			r.store.SetDelay(5 * time.Millisecond)
			var wg sync.WaitGroup
			granted := false
			wg.Go(func() { r.release(r.Service, held) })
			for range round % 3 {
				synctest.Wait()
				time.Sleep(2 * time.Millisecond)
			}
			wg.Go(func() {
				_, d, err := r.Reserve(r.ctx(), ask(u42, 1, time.Minute))
				granted = d.Allowed
				if err != nil {
					t.Errorf("Reserve: %v", err)
				}
			})
			wg.Wait()
			r.store.SetDelay(0)
			<-q.done
			if granted || q.err != nil || !q.d.Allowed {
				t.Fatalf("round %d: newcomer granted %v, waiter %+v %v", round, granted, q.d, q.err)
			}
			r.release(r.Service, q.res.ID)
		}
	})
}

func TestWait_RefusedWhileOthersStandInLineOnAnotherReplica(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		other, stop := r.replica("other")
		defer stop()
		synctest.Wait()
		held := r.granted(ask(u42, 1, time.Minute)).ID
		r.store.View("").SetLag(time.Hour) // this one sees no ticket
		q := r.waits(other, ask(u42, 1, time.Minute), time.Minute)
		r.store.View("other").SetLag(100 * time.Millisecond) // and the other one hears of the release late
		r.release(r.Service, held)
		done := make(chan bool, 1)
		go func() {
			_, d, err := r.Reserve(r.ctx(), ask(u42, 1, time.Minute))
			done <- err == nil && d.Allowed
		}()
		time.Sleep(50 * time.Millisecond)
		select {
		case ok := <-done:
			t.Errorf("the newcomer is answered already: granted %v", ok)
		default:
		}
		time.Sleep(100 * time.Millisecond)
		r.want("the waiter", q, true)
		r.store.View("").SetLag(0)
		if <-done {
			t.Error("the newcomer was granted the waiter's slot")
		}
	})
}

func TestWait_AsManyAreWokenAsCanGo(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 20)}, func(r *rig) {
		var held []reserve.ID
		for range 20 {
			held = append(held, r.granted(ask(u42, 1, time.Minute)).ID)
		}
		var line []*queued
		for range 50 {
			line = append(line, r.waits(r.Service, ask(u42, 1, time.Minute), time.Minute))
		}
		var wg sync.WaitGroup
		for _, id := range held[:7] {
			wg.Go(func() { r.release(r.Service, id) })
		}
		wg.Wait()
		for i, q := range line {
			r.want(fmt.Sprint("number ", i), q, i < 7)
		}
		r.wantTickets("exports", 43)
	})
}

func TestWait_ACallerThatHangsUpLosesItsPlaceAtOnce(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		held := r.granted(ask(u42, 1, time.Minute)).ID
		head := r.waits(r.Service, ask(u42, 1, time.Minute), time.Minute)
		next := r.waits(r.Service, ask(u42, 1, time.Minute), time.Minute)
		head.hangUp()
		r.wantTickets("exports", 1)
		r.release(r.Service, held)
		r.want("the next", next, true)
	})
}

func keyed(key string) reserve.Request {
	a := ask(u42, 1, time.Minute)
	a.Key, a.Route, a.Body = key, "r", []byte("body")
	return a
}

// HF: a place belongs to its key and lingers 10 s, at another replica too.
func TestWait_APlaceUnderAKeyLingers(t *testing.T) {
	for name, elsewhere := range map[string]bool{"at the same replica": false, "at another replica": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
				back := r.Service
				if elsewhere {
					other, stop := r.replica("other")
					defer stop()
					back = other
				}
				held := r.granted(ask(u42, 1, 2*time.Minute)).ID
				head := r.waits(r.Service, keyed("k"), time.Minute)
				next := r.waits(r.Service, ask(u42, 1, time.Minute), time.Minute)
				head.hangUp()
				time.Sleep(9 * time.Second)
				r.wantTickets("exports", 2)
				again := r.waits(back, keyed("k"), 30*time.Second)
				time.Sleep(11 * time.Second)
				r.release(r.Service, held)
				r.want("the one that came back", again, true)
				r.want("the next", next, false)
				if again.res.Replayed {
					t.Error("granted as a replay, want as the first grant")
				}
				r.release(r.Service, again.res.ID)
				r.want("the next", next, true)
			})
		})
	}
}

func TestWait_APlaceUnderAKeyIsGivenUpAfterTenSeconds(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		held := r.granted(ask(u42, 1, 2*time.Minute)).ID
		head := r.waits(r.Service, keyed("k"), time.Minute)
		next := r.waits(r.Service, ask(u42, 1, time.Minute), time.Minute)
		head.hangUp()
		synctest.Wait()
		r.release(r.Service, held)
		time.Sleep(9 * time.Second)
		r.want("the next", next, false)
		time.Sleep(2 * time.Second)
		r.want("the next", next, true)
	})
}

// A caller that goes for good says so: its place does not hold up the line.
func TestWait_APlaceUnderAKeyIsGivenUpWhenItsCallerSaysSo(t *testing.T) {
	for name, elsewhere := range map[string]bool{"at the same replica": false, "at another replica": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
				at := r.Service
				if elsewhere {
					other, stop := r.replica("other")
					defer stop()
					at = other
				}
				held := r.granted(ask(u42, 1, 2*time.Minute)).ID
				head := r.waits(r.Service, keyed("k"), time.Minute)
				next := r.waits(r.Service, ask(u42, 1, time.Minute), time.Minute)
				head.hangUp()
				synctest.Wait()
				repeat := keyed("k")
				if _, d, err := at.Reserve(r.ctx(), repeat); err != nil || d.Allowed {
					t.Fatalf("a repeat that does not wait: %+v, %v, want refused", d, err)
				}
				r.wantTickets("exports", 2)
				repeat.Leaves = true
				if _, d, err := at.Reserve(r.ctx(), repeat); err != nil || d.Allowed {
					t.Fatalf("a repeat that leaves: %+v, %v, want refused", d, err)
				}
				r.wantTickets("exports", 1)
				r.release(r.Service, held)
				r.want("the next", next, true)
			})
		})
	}
}

func TestWait_AnotherBodyUnderTheKeyOfAPlace(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		r.granted(ask(u42, 1, 2*time.Minute))
		r.waits(r.Service, keyed("k"), time.Minute).hangUp()
		synctest.Wait()
		a := keyed("k")
		a.Body, a.Wait = []byte("another"), time.Minute
		if _, _, err := r.Reserve(r.ctx(), a); !errors.Is(err, reserve.ErrMismatch) {
			t.Errorf("got %v, want ErrMismatch", err)
		}
	})
}

// Who waits for two limits stands in one line at a time and blocks nobody on the other.
func TestWait_MovesToTheLineThatRefusesItAndKeepsItsAge(t *testing.T) {
	shared := slots("shared", 1)
	shared.Share = limits.All
	inBubble(t, []limits.Limit{slots("exports", 1), shared}, func(r *rig) {
		other := limits.Subject{Kind: "user", ID: "u_7"}
		a := r.granted(ask(u42, 1, time.Minute)).ID // holds exports of u_42, and shared
		first := r.waits(r.Service, ask(u42, 1, time.Minute), time.Minute)
		second := r.waits(r.Service, ask(other, 1, time.Minute), time.Minute) // its own exports is free
		r.release(r.Service, a)
		synctest.Wait()
		switch {
		case first.over():
			r.want("the first", first, true)
			r.want("the second", second, false)
			r.release(r.Service, first.res.ID)
			r.want("the second", second, true)
		default:
			t.Fatal("the first does not go first")
		}
		r.wantTickets("exports", 0)
		r.wantTickets("shared", 0)
	})
}

func TestWait_HeadThatCanNeverFitLeavesAtOnce(t *testing.T) {
	inBubble(t, []limits.Limit{counted("calls", 10, windows.Window{Kind: windows.Hour})}, func(r *rig) {
		r.granted(ask(u42, 10, time.Minute))
		head := r.waits(r.Service, ask(u42, 8, time.Minute), time.Minute)
		next := r.waits(r.Service, ask(u42, 2, time.Minute), time.Minute)
		r.define(counted("calls", 5, windows.Window{Kind: windows.Hour}))
		synctest.Wait()
		if !head.over() || head.err != nil || head.d.Allowed || head.d.Verdicts[0].Why != reserve.NeverFits {
			t.Errorf("head: over %v, %+v %v; want never fits", head.over(), head.d, head.err)
		}
		r.want("the next", next, false)
	})
}

// A counting limit's head goes at the first instant that fits, and nothing happens before.
func TestWait_CountingLimitMovesByItsTimer(t *testing.T) {
	inBubble(t, []limits.Limit{counted("calls", 3, windows.Window{Kind: windows.Minute})}, func(r *rig) {
		r.granted(ask(u42, 3, time.Minute))
		time.Sleep(30 * time.Second)
		var line []*queued
		for range 5 {
			line = append(line, r.waits(r.Service, ask(u42, 1, time.Minute), time.Minute))
		}
		time.Sleep(29 * time.Second)
		r.want("the head", line[0], false)
		time.Sleep(time.Second)
		for i, q := range line {
			r.want(fmt.Sprint("number ", i), q, i < 3)
		}
	})
}

// The tickets of a replica whose session has ended go; its callers join again, at the end.
func TestWait_SessionLost(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		other, stop := r.replica("other")
		defer stop()
		synctest.Wait()
		held := r.granted(ask(u42, 1, 2*time.Minute)).ID
		paused := r.waits(r.Service, ask(u42, 1, time.Minute), time.Minute)
		behind := r.waits(other, ask(u42, 1, time.Minute), time.Minute)
		r.store.View("").SetDown(true)
		time.Sleep(15 * time.Second)
		r.store.View("").SetDown(false)
		time.Sleep(5 * time.Second)
		r.wantTickets("exports", 2)
		r.release(other, held)
		r.want("who was behind", behind, true)
		r.want("who was paused", paused, false)
		r.release(other, behind.res.ID)
		r.want("who was paused", paused, true)
	})
}

func TestWait_ReplicaDies(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		other, stop := r.replica("other")
		held := r.granted(ask(u42, 1, 2*time.Minute)).ID
		synctest.Wait()
		dead := r.waits(other, ask(u42, 1, time.Minute), time.Minute)
		mine := r.waits(r.Service, ask(u42, 1, time.Minute), time.Minute)
		r.store.View("other").SetDown(true)
		stop()
		<-dead.done
		r.release(r.Service, held)
		time.Sleep(12 * time.Second)
		r.want("who lives", mine, true)
	})
}

func TestWait_GrantThatNobodyReceived(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1), counted("calls", 100, windows.Window{Kind: windows.Day})}, func(r *rig) {
		held := r.granted(ask(u42, 1, 2*time.Minute)).ID
		a := keyed("k")
		q := r.waits(r.Service, a, time.Minute)
		next := r.waits(r.Service, ask(u42, 1, time.Minute), time.Minute)
		r.release(r.Service, held)
		r.store.SetDelay(20 * time.Millisecond)
		synctest.Wait()
		q.hangUp() // while its grant is on the way
		r.store.SetDelay(0)
		<-q.done
		if q.err == nil {
			return // it was answered before
		}
		time.Sleep(11 * time.Second)
		r.want("the next", next, true)
		if used := r.used("calls", u42); used != 1 {
			t.Errorf("used %d, want the next one's 1 alone", used)
		}
		r.release(r.Service, next.res.ID)
		if again := r.granted(a); again.Replayed {
			t.Error("the key counts as used, though nobody received its grant")
		}
	})
}

func TestWait_LineIsFull(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		r.granted(ask(u42, 1, time.Hour))
		var wg sync.WaitGroup
		ctx, cancel := context.WithCancel(r.ctx())
		for range reserve.MaxLine {
			wg.Go(func() {
				a := ask(u42, 1, time.Minute)
				a.Wait = time.Minute
				_, _, _ = r.Reserve(ctx, a)
			})
		}
		synctest.Wait()
		r.wantTickets("exports", reserve.MaxLine)
		a := ask(u42, 1, time.Minute)
		a.Wait = time.Minute
		var full *reserve.LineFullError
		if _, _, err := r.Reserve(r.ctx(), a); !errors.As(err, &full) {
			t.Errorf("one more: %v, want LineFullError", err)
		}
		cancel()
		wg.Wait()
		r.wantTickets("exports", 0)
	})
}

func TestWait_DrainAnswersAtOnce(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		r.granted(ask(u42, 1, time.Hour))
		plain := r.waits(r.Service, ask(u42, 1, time.Minute), time.Minute)
		withKey := r.waits(r.Service, keyed("k"), time.Minute)
		r.Drain()
		synctest.Wait()
		for i, q := range []*queued{plain, withKey} {
			if !q.over() || !errors.Is(q.err, reserve.ErrDraining) {
				t.Errorf("%d: over %v, %v; want ErrDraining", i, q.over(), q.err)
			}
		}
		r.wantTickets("exports", 1)
		a := ask(u42, 1, time.Minute)
		a.Wait = time.Minute
		if _, _, err := r.Reserve(r.ctx(), a); !errors.Is(err, reserve.ErrDraining) {
			t.Errorf("one more: %v, want ErrDraining", err)
		}
	})
}

// Nothing is asked of the store while callers wait.
func TestWait_NothingPolls(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		var calls int
		var mu sync.Mutex
		r.store.SetFaults(func(reserve.Batch) memory.Fault {
			mu.Lock()
			defer mu.Unlock()
			calls++
			return 0
		})
		r.granted(ask(u42, 1, time.Hour))
		var line []*queued
		for range 20 {
			line = append(line, r.waits(r.Service, ask(u42, 1, time.Minute), time.Minute))
		}
		mu.Lock()
		before := calls
		mu.Unlock()
		time.Sleep(50 * time.Second)
		mu.Lock()
		if calls != before {
			t.Errorf("%d transactions while 20 waited for 50 s, want none", calls-before)
		}
		mu.Unlock()
		if slices.ContainsFunc(line, (*queued).over) {
			t.Error("somebody's wait is over")
		}
	})
}
