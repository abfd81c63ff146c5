package reserve_test

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/windows"
)

// calls is a limit of another action than export.
func calls(id string) limits.Limit {
	l := counted(id, 1000, windows.Window{Kind: windows.Day})
	l.Action = "call"
	return l
}

// history is the sum of a limit's roll-ups as s tells it.
func history(t *testing.T, s *reserve.Service, limit string, of limits.Subject) (sum reserve.Rollup, complete bool) {
	t.Helper()
	now := time.Now()
	rows, complete, err := s.History(t.Context(), reserve.HistoryQuery{
		Tenant: tenant, Limit: limit, Subject: of, From: now.Add(-48 * time.Hour), To: now.Add(time.Second), Max: 100,
	})
	if err != nil {
		t.Fatalf("History(%s, %v): %v", limit, of, err)
	}
	for _, r := range rows {
		sum.Started += r.Started
		sum.Refused += r.Refused
		sum.Committed += r.Committed
		sum.Released += r.Released
		sum.Expired += r.Expired
		sum.Forced += r.Forced
		sum.Charged += r.Charged
	}
	return sum, complete
}

func asks(action string, cost int64, of limits.Subject) reserve.Request {
	return reserve.Request{Tenant: tenant, Subject: of, Action: limits.Action(action), Cost: cost, TTL: time.Minute, Principal: "p/u_42"}
}

// live goes through every way a reservation and a check can go.
func live(r *rig, s *reserve.Service) {
	r.t.Helper()
	ask := asks("export", 5, u42)
	reserveOne := func() reserve.Reservation {
		r.t.Helper()
		res, d, err := s.Reserve(r.ctx(), ask)
		if err != nil || !d.Allowed {
			r.t.Fatalf("Reserve: %+v, %v", d, err)
		}
		return res
	}
	a, b := reserveOne(), reserveOne()
	if _, d, err := s.Reserve(r.ctx(), ask); err != nil || d.Allowed {
		r.t.Fatalf("a third: %+v, %v; want it refused", d, err)
	}
	if _, err := s.Preview(r.ctx(), ask); err != nil {
		r.t.Fatal(err)
	}
	if _, err := s.Commit(r.ctx(), mine(a.ID), 3); err != nil {
		r.t.Fatal(err)
	}
	if _, err := s.Release(r.ctx(), mine(b.ID), ""); err != nil {
		r.t.Fatal(err)
	}
	c := reserveOne()
	if _, err := s.Force(r.ctx(), tenant, c.ID, c.Fence, "ops", "stuck", 0, nil); err != nil {
		r.t.Fatal(err)
	}
	reserveOne()
	if d, _, err := s.Consume(r.ctx(), asks("call", 4, u42)); err != nil || !d.Allowed {
		r.t.Fatalf("Consume: %+v, %v", d, err)
	}
	time.Sleep(2 * time.Minute) // the last one ends by itself
}

var (
	lived      = reserve.Rollup{Started: 4, Refused: 1, Committed: 1, Released: 1, Expired: 1, Forced: 1}
	livedUnits = reserve.Rollup{Started: 4, Committed: 1, Released: 1, Expired: 1, Forced: 1, Charged: 3}
	livedCalls = reserve.Rollup{Started: 1, Committed: 1, Charged: 4}
)

func TestRollup_CountsEachWay(t *testing.T) {
	t.Parallel()
	inBubble(t, []limits.Limit{slots("exports", 2), counted("units", 1000, windows.Window{Kind: windows.Day}), calls("calls")}, func(r *rig) {
		live(r, r.Service)
		check := func(when string) {
			t.Helper()
			if got, _ := history(t, r.Service, "exports", limits.Subject{}); got != lived {
				t.Errorf("%s: exports: got %+v, want %+v", when, got, lived)
			}
			if got, _ := history(t, r.Service, "units", limits.Subject{}); got != livedUnits {
				t.Errorf("%s: units: got %+v, want %+v", when, got, livedUnits)
			}
			if got, _ := history(t, r.Service, "calls", limits.Subject{}); got != livedCalls {
				t.Errorf("%s: calls: got %+v, want %+v", when, got, livedCalls)
			}
			if got, complete := history(t, r.Service, "exports", u42); got != lived || !complete {
				t.Errorf("%s: exports of %v: got %+v, complete %v; want %+v", when, u42, got, complete, lived)
			}
			if got, _ := history(t, r.Service, "exports", limits.Subject{Kind: "user", ID: "other"}); got != (reserve.Rollup{}) {
				t.Errorf("%s: exports of another: got %+v", when, got)
			}
		}
		check("before the first roll-up")
		if n, err := r.RollUp(t.Context(), 100); err != nil || n != 3 {
			t.Errorf("RollUp: got %d, %v; want three limits", n, err)
		}
		check("after it")
		if n, err := r.RollUp(t.Context(), 100); err != nil || n != 0 {
			t.Errorf("a second RollUp: got %d, %v; want nothing to do", n, err)
		}
	})
}

// Replicas add up, whoever is first; what one of them has put the other tells.
func TestRollup_ReplicasAddUp(t *testing.T) {
	t.Parallel()
	inBubble(t, []limits.Limit{slots("exports", 2), calls("calls")}, func(r *rig) {
		other, stop := r.replica("r2")
		defer stop()
		time.Sleep(time.Second) // its picture is loaded
		live(r, r.Service)
		live(r, other)
		done := make(chan error, 2)
		for _, s := range []*reserve.Service{r.Service, other} {
			go func() {
				_, err := s.RollUp(r.ctx(), 100)
				done <- err
			}()
		}
		if err := errors.Join(<-done, <-done); err != nil {
			t.Fatalf("RollUp: %v", err)
		}
		want := reserve.Rollup{Started: 8, Refused: 2, Committed: 2, Released: 2, Expired: 2, Forced: 2}
		for i, s := range []*reserve.Service{r.Service, other} {
			if got, _ := history(t, s, "exports", u42); got != want {
				t.Errorf("replica %d: got %+v, want %+v", i, got, want)
			}
		}
	})
}

// Nothing that was not put is lost, nothing that may have been is counted twice.
func TestRollup_Trouble(t *testing.T) {
	t.Parallel()
	inBubble(t, []limits.Limit{slots("exports", 2), calls("calls")}, func(r *rig) {
		live(r, r.Service)
		r.store.FailNext(memory.Before, 1)
		if n, err := r.RollUp(t.Context(), 100); !errors.Is(err, reserve.ErrUnavailable) || n != 0 {
			t.Errorf("store away: got %d, %v; want ErrUnavailable", n, err)
		}
		if _, err := r.RollUp(t.Context(), 100); err != nil {
			t.Errorf("store back: %v", err)
		}
		if got, _ := history(t, r.Service, "exports", limits.Subject{}); got != lived {
			t.Errorf("after the store was away: got %+v, want %+v", got, lived)
		}
		live(r, r.Service)
		r.store.FailNext(memory.After, 1)
		if _, err := r.RollUp(t.Context(), 100); !errors.Is(err, reserve.ErrUnknownOutcome) {
			t.Errorf("answer lost: got %v, want ErrUnknownOutcome", err)
		}
		if _, err := r.RollUp(t.Context(), 100); err != nil {
			t.Error(err)
		}
		want := reserve.Rollup{Started: 8, Refused: 2, Committed: 2, Released: 2, Expired: 2, Forced: 2}
		if got, _ := history(t, r.Service, "exports", limits.Subject{}); got != want {
			t.Errorf("after a lost answer: got %+v, want %+v, nothing twice", got, want)
		}
	})
}

// Subjects are told apart up to a bound, and past it the answer says so.
func TestRollup_ManySubjects(t *testing.T) {
	t.Parallel()
	inBubble(t, []limits.Limit{calls("calls")}, func(r *rig) {
		for i := range reserve.MaxTallied + 10 {
			s := limits.Subject{Kind: "user", ID: fmt.Sprintf("u_%03d", i)}
			if d, _, err := r.Consume(r.ctx(), asks("call", 1, s)); err != nil || !d.Allowed {
				t.Fatalf("Consume: %+v, %v", d, err)
			}
		}
		if _, err := r.RollUp(t.Context(), 100); err != nil {
			t.Fatal(err)
		}
		sum, _ := history(t, r.Service, "calls", limits.Subject{})
		first, complete := history(t, r.Service, "calls", limits.Subject{Kind: "user", ID: "u_000"})
		last, _ := history(t, r.Service, "calls", limits.Subject{Kind: "user", ID: fmt.Sprintf("u_%03d", reserve.MaxTallied+9)})
		if sum.Started != reserve.MaxTallied+10 || first.Started != 1 || last.Started != 0 || complete {
			t.Errorf("all %+v, the first %+v, the last %+v, complete %v", sum, first, last, complete)
		}
	})
}

func TestHistory_RowsAndPages(t *testing.T) {
	t.Parallel()
	inBubble(t, []limits.Limit{calls("a"), calls("b")}, func(r *rig) {
		began := time.Now().UTC().Truncate(24 * time.Hour)
		var ahead atomic.Int64 // hours that the clock of windows is from midnight
		late, stop := r.replica("r2", func(c *reserve.Config) {
			c.WindowNow = func() time.Time { return began.Add(time.Duration(ahead.Load()) * time.Hour) }
		})
		defer stop()
		for range 30 {
			if d, _, err := late.Consume(r.ctx(), asks("call", 2, u42)); err != nil || !d.Allowed {
				t.Fatalf("Consume: %+v, %v", d, err)
			}
			ahead.Add(1)
		}
		if _, err := late.RollUp(t.Context(), 1000); err != nil {
			t.Fatal(err)
		}
		rows := func(q reserve.HistoryQuery) (said []string) {
			t.Helper()
			q.Tenant = tenant
			got, _, err := r.History(t.Context(), q)
			if err != nil {
				t.Fatalf("History(%+v): %v", q, err)
			}
			for _, row := range got {
				said = append(said, fmt.Sprintf("%s %s+%d %d", row.Limit, row.From.Sub(began), row.To.Sub(row.From)/time.Hour, row.Charged))
			}
			return said
		}
		for _, c := range []struct {
			q    reserve.HistoryQuery
			want []string
		}{
			{
				reserve.HistoryQuery{Limit: "a", From: began.Add(90 * time.Minute), To: began.Add(3 * time.Hour), Max: 9},
				[]string{"a 1h0m0s+1 2", "a 2h0m0s+1 2"},
			},
			{
				reserve.HistoryQuery{From: began.Add(23 * time.Hour), To: began.Add(48 * time.Hour), Day: true, Max: 9},
				[]string{"a 0s+24 48", "a 24h0m0s+24 12", "b 0s+24 48", "b 24h0m0s+24 12"},
			},
			{
				reserve.HistoryQuery{From: began, To: began.Add(48 * time.Hour), Day: true, Max: 2, After: reserve.HistoryPlace{Limit: "a", From: began}},
				[]string{"a 24h0m0s+24 12", "b 0s+24 48"},
			},
			{reserve.HistoryQuery{Limit: "a", From: began.Add(300 * time.Hour), To: began.Add(301 * time.Hour), Max: 9}, nil},
		} {
			if got := rows(c.q); !slices.Equal(got, c.want) {
				t.Errorf("%+v: got %q, want %q", c.q, got, c.want)
			}
		}
		if _, _, err := r.History(t.Context(), reserve.HistoryQuery{Tenant: tenant, Limit: "none", From: began, To: time.Now(), Max: 9}); !errors.Is(err, reserve.ErrNotFound) {
			t.Errorf("a limit that never was: got %v, want ErrNotFound", err)
		}
	})
}
