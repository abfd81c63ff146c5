package reserve_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/windows"
)

// marks are the marks that stand for the given subjects of a limit, by subject's id.
func (r *rig) marks(limit string, ids ...string) map[string]*reserve.Exceeded {
	r.t.Helper()
	time.Sleep(2 * time.Second) // they are put away from the path
	synctest.Wait()
	refs := make([]reserve.Ref, len(ids))
	for i, id := range ids {
		refs[i] = reserve.Ref{Tenant: tenant, Kind: reserve.RefExceeded, Limit: limit, Scope: "user/" + id}
	}
	got, err := r.store.Load(r.ctx(), refs, true)
	if err != nil {
		r.t.Fatal(err)
	}
	out := map[string]*reserve.Exceeded{}
	for i, e := range got.Entries {
		if x, ok := e.Value.(*reserve.Exceeded); ok {
			out[ids[i]] = x
		}
	}
	return out
}

func TestRefused_ARefusalWritesNothingButTheHoursMark(t *testing.T) { // HF-3101
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		written := 0
		_, stop := r.replica("other", func(c *reserve.Config) {
			c.Told = func(u reserve.Update) {
				for i := range u.Entries {
					if !u.Reset && u.Entries[i].Ref.Kind != reserve.RefReplica {
						written++
					}
				}
			}
		})
		defer stop()
		r.granted(ask(u42, 1, time.Hour))
		synctest.Wait()
		written = 0
		for range 500 {
			r.refused(ask(u42, 1, time.Hour))
		}
		if got := r.marks("exports", "u_42")["u_42"]; got == nil || got.Amount != 1 || got.Used != 1 || got.Action != "export" {
			t.Errorf("mark: %+v, want 1 of 1 used by export", got)
		}
		if written != 1 {
			t.Errorf("500 refusals wrote %d values, want the mark", written)
		}
	})
}

func TestExceeded_IsToldOnceAnHourByAllReplicasTogether(t *testing.T) { // HF-3102, case O15
	inBubble(t, []limits.Limit{counted("calls", 1, windows.Window{Kind: windows.Total})}, func(r *rig) {
		var mu sync.Mutex
		var told []time.Time
		other, stop := r.replica("other", func(c *reserve.Config) {
			c.Told = func(u reserve.Update) {
				mu.Lock()
				defer mu.Unlock()
				for i := range u.Entries {
					if x, ok := u.Entries[i].Value.(*reserve.Exceeded); ok {
						told = append(told, x.At)
					}
				}
			}
		})
		defer stop()
		synctest.Wait()
		if d, _, err := r.Consume(r.ctx(), ask(u42, 1, 0)); err != nil || !d.Allowed {
			t.Fatalf("the one there is: %+v, %v", d, err)
		}
		began := time.Now()
		for time.Since(began) < 3*time.Hour-time.Minute {
			r.refused(ask(u42, 1, time.Hour))
			if _, d, err := other.Reserve(r.ctx(), ask(u42, 1, time.Hour)); err != nil || d.Allowed {
				t.Fatalf("the other replica: %+v, %v", d, err)
			}
			time.Sleep(29 * time.Second)
		}
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(told) != 3 {
			t.Fatalf("told at %v, want 3 in 3 hours", told)
		}
		for i := range told[1:] {
			if apart := told[i+1].Sub(told[i]); apart < time.Hour {
				t.Errorf("told %v apart, want an hour or more", apart)
			}
		}
	})
}

func TestExceeded_IsToldThoughTheReplicaEndsAtOnce(t *testing.T) { // HF-3103
	inBubble(t, []limits.Limit{slots("exports", 0)}, func(r *rig) {
		other, stop := r.replica("other")
		synctest.Wait()
		for i := range 100 {
			s := limits.Subject{Kind: "user", ID: fmt.Sprint("u", i)}
			if _, d, err := other.Reserve(r.ctx(), ask(s, 1, time.Hour)); err != nil || d.Allowed {
				t.Fatalf("%+v, %v", d, err)
			}
		}
		stop()
		if n := len(r.marks("exports", "u0")); n != 0 {
			t.Errorf("%d marks of what never fits, want none", n)
		}
	})
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		other, stop := r.replica("other")
		synctest.Wait()
		var ids []string
		for i := range 100 {
			s := limits.Subject{Kind: "user", ID: fmt.Sprint("u", i)}
			ids = append(ids, s.ID)
			for range 2 {
				if _, _, err := other.Reserve(r.ctx(), ask(s, 1, time.Hour)); err != nil {
					t.Fatal(err)
				}
			}
		}
		stop()
		if n := len(r.marks("exports", ids...)); n != 100 {
			t.Errorf("%d marks after the replica had ended, want all 100", n)
		}
	})
}

func TestRefusals_TheLatestAreRememberedWithinABound(t *testing.T) { // HF-3104
	var told []reserve.Refusal
	inBubble(t, []limits.Limit{slots("exports", 1), counted("calls", 5, windows.Window{Kind: windows.Hour})}, func(r *rig) {
		s, stop := r.replica("other", func(c *reserve.Config) { c.Refused = func(no reserve.Refusal) { told = append(told, no) } })
		defer stop()
		synctest.Wait()
		r.granted(ask(u42, 1, time.Hour))
		no := func(cost int64) {
			if _, d, err := s.Reserve(r.ctx(), ask(u42, cost, time.Hour)); err != nil || d.Allowed {
				t.Fatalf("%+v, %v", d, err)
			}
		}
		for range 50 {
			no(1)
		}
		no(9) // more than calls ever has
		all := s.Refusals(tenant, u42)
		if len(all) != 2 || all[0].Why != reserve.NeverFits || all[0].Limit != "calls" || all[0].Count != 1 ||
			all[1].Why != reserve.NoSlot || all[1].Limit != "exports" || all[1].Count != 50 || all[1].Wait <= 0 {
			t.Fatalf("remembered %+v, want one that never fits, before it 50 without a slot", all)
		}
		if len(told) != 2 || told[0].Count != 1 {
			t.Errorf("told %+v, want 2", told)
		}
		for range 3 * reserve.MaxRefusals {
			time.Sleep(2 * time.Second)
			no(1)
		}
		if got := s.Refusals(tenant, u42); len(got) != reserve.MaxRefusals || !got[0].At.After(got[1].At) {
			t.Errorf("%d remembered, want the latest %d", len(got), reserve.MaxRefusals)
		}
		if told[2].Count != 50 {
			t.Errorf("the next that was told stands for %d, want itself and the 49 before", told[2].Count)
		}
		if got := r.Refusals(tenant, u42); len(got) != 0 {
			t.Errorf("a replica that refused nothing remembers %+v", got)
		}
	})
}

func TestRefusals_NoMoreThanAFewAreToldASecond(t *testing.T) { // HF-3105
	told := 0
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		s, stop := r.replica("other", func(c *reserve.Config) { c.Refused = func(reserve.Refusal) { told++ } })
		defer stop()
		synctest.Wait()
		for i := range 100 {
			subject := limits.Subject{Kind: "user", ID: fmt.Sprint("u", i)}
			for range 2 {
				if _, _, err := s.Reserve(r.ctx(), ask(subject, 1, time.Hour)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if told != reserve.ToldRefusals {
			t.Errorf("told %d of 100 in a second, want %d", told, reserve.ToldRefusals)
		}
	})
}
