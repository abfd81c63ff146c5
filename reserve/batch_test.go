package reserve_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/store/memory"
)

// slowStore takes a while for each transaction, and counts the holds that have expired.
type slowStore struct {
	reserve.Store
	takes   time.Duration
	expired atomic.Int64
}

func (s *slowStore) Apply(ctx context.Context, b reserve.Batch) (reserve.Result, error) {
	<-time.After(s.takes)
	res, err := s.Store.Apply(ctx, b)
	for i := range res.Outcomes {
		for _, w := range b.Groups[i].Writes {
			if w.Ref.Kind == reserve.RefEnded && res.Outcomes[i].Committed {
				s.expired.Add(1)
			}
		}
	}
	return res, err
}

func TestBatch_ACallerIsServedBesideThousandsOfExpiries(t *testing.T) {
	const holds, begun = 6_000, 2_048
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, store: memory.New(memory.Config{Now: time.Now})}
		r.define(slots("exports", holds+1))
		slow := &slowStore{Store: r.store.View("slow"), takes: 10 * time.Millisecond}
		s, stop := r.replica("slow", func(c *reserve.Config) { c.Store = slow })
		defer stop()
		errs := make(chan error, holds)
		for range holds {
			go func() {
				_, _, err := s.Reserve(r.ctx(), ask(u42, 1, 2*time.Second))
				errs <- err
			}()
		}
		for range holds {
			if err := <-errs; err != nil {
				t.Fatal(err)
			}
		}
		for slow.expired.Load() == 0 {
			<-time.After(time.Millisecond)
		}
		if _, d, err := s.Reserve(r.ctx(), ask(limits.Subject{Kind: "user", ID: "u_43"}, 1, time.Minute)); err != nil || !d.Allowed {
			t.Fatalf("Reserve beside expiries: %+v, %v", d, err)
		}
		if n := slow.expired.Load(); n >= 2*begun {
			t.Errorf("a caller was answered after %d expiries, want fewer than %d", n, 2*begun)
		}
	})
}

// crowded is a keyspace in which something unreadable stands among the lines, for ever.
type crowded struct {
	reserve.Store
	lost atomic.Int64
}

func (s *crowded) Apply(ctx context.Context, b reserve.Batch) (reserve.Result, error) {
	var kept []reserve.Group
	var at []int
	out := make([]reserve.Outcome, len(b.Groups))
	for i, g := range b.Groups {
		if g.NoLine {
			out[i].Moved = true
			s.lost.Add(1)
			continue
		}
		kept, at = append(kept, g), append(at, i)
	}
	b.Groups = kept
	res, err := s.Store.Apply(ctx, b)
	for k, o := range res.Outcomes {
		out[at[k]] = o
	}
	res.Outcomes = out
	return res, err
}

func TestLine_WhoLosesByTheLinesOfAllComparesItsOwn(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 5)}, func(r *rig) {
		crowd := &crowded{Store: r.store.View("crowd")}
		s, stop := r.replica("crowd", func(c *reserve.Config) { c.Store = crowd })
		defer stop()
		synctest.Wait()
		if _, d, err := s.Reserve(r.ctx(), ask(u42, 1, time.Minute)); err != nil || !d.Allowed {
			t.Fatalf("Reserve: %+v, %v, want granted", d, err)
		}
		if n := crowd.lost.Load(); n != 1 {
			t.Errorf("lost by the lines of all %d times, want once", n)
		}
	})
}
