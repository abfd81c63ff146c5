package reserve_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

func TestLines_TheLongestWaitFirstAndACancelIsNoted(t *testing.T) { // HF-4303
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		other, stop := r.replica("other")
		defer stop()
		bob := limits.Subject{Kind: "user", ID: "bob"}
		r.granted(ask(u42, 1, 5*time.Minute))
		r.granted(ask(bob, 1, 4*time.Minute))
		r.waits(other, ask(bob, 1, time.Minute), time.Minute)
		time.Sleep(5 * time.Second)
		first := r.waits(r.Service, ask(u42, 1, time.Minute), time.Minute)
		r.waits(r.Service, ask(u42, 1, time.Minute), time.Minute)

		lines, waiting := r.Lines(tenant, 10)
		if len(lines) != 2 || waiting != 3 || lines[0].Scope != bob.Scope() || lines[0].Waiting != 1 || lines[1].Scope != u42.Scope() || lines[1].Waiting != 2 {
			t.Fatalf("lines: %+v, %d waiting; want bob's with 1 and then u_42's with 2", lines, waiting)
		}
		if wait := time.Since(lines[0].Since); wait < 5*time.Second || lines[0].Estimate <= 0 {
			t.Errorf("bob's line: waiting for %s, turn in %s", wait, lines[0].Estimate)
		}
		if lines, waiting = r.Lines(tenant, 1); len(lines) != 1 || waiting != 3 {
			t.Errorf("one line of two: %+v, %d waiting", lines, waiting)
		}

		all, err := r.Waiters(r.ctx(), reserve.WaiterQuery{Tenant: tenant, Limit: "exports", Subject: u42, Max: 10})
		if err != nil || len(all) != 2 {
			t.Fatalf("u_42's waiters: %+v, %v", all, err)
		}
		if none, err := r.Waiters(r.ctx(), reserve.WaiterQuery{Tenant: tenant, Limit: "others", Max: 10}); err != nil || len(none) != 0 {
			t.Errorf("waiters of another limit: %+v, %v", none, err)
		}
		one, err := r.Waiters(r.ctx(), reserve.WaiterQuery{Tenant: tenant, ID: all[0].ID, Max: 10})
		if err != nil || len(one) != 1 || one[0].ID != all[0].ID {
			t.Errorf("the waiter by its id: %+v, %v", one, err)
		}
		if err := r.Cancel(r.ctx(), reserve.HoldRef{ID: all[0].ID, By: reserve.Caller{Tenant: tenant}}, &reserve.Note{At: time.Now(), Actor: "user:dana", Reason: "stuck"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !first.over() || !errors.Is(first.err, reserve.ErrWaitCancelled) {
			t.Errorf("the waiter that was cancelled: over %v, %v", first.over(), first.err)
		}
		trail, err := r.Trail(r.ctx(), reserve.TrailQuery{Tenant: tenant, Act: "waiter.cancel", Max: 10})
		if err != nil || len(trail) != 1 || trail[0].Target != reserve.WaiterID(all[0].ID) || trail[0].Note.Reason != "stuck" || !strings.Contains(trail[0].Before, "exports") {
			t.Errorf("the trail: %+v, %v", trail, err)
		}
		if id, err := reserve.ParseWaiterID(reserve.WaiterID(all[0].ID)); err != nil || id != all[0].ID {
			t.Errorf("an id and back: %v, %v", id, err)
		}
	})
}

func TestReplicas_WhoIsThereAndWhoHasGone(t *testing.T) { // HF-4301
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		put := func(id, address string) {
			ref := reserve.Ref{Kind: reserve.RefReplica, Scope: id}
			res, err := r.store.Apply(r.ctx(), reserve.Batch{Groups: []reserve.Group{{
				Tenant: tenant, Catalog: reserve.AnyCatalog,
				Writes: []reserve.Write{{Ref: ref, Value: &reserve.Replica{ID: id, Version: "v1", Address: address, Clock: time.Now().Add(time.Second)}}},
			}}})
			if err != nil || !res.Outcomes[0].Committed {
				t.Fatalf("marker of %s: %+v, %v", id, res, err)
			}
			synctest.Wait()
		}
		end := func(id string) {
			ref := reserve.Ref{Kind: reserve.RefReplica, Scope: id}
			if _, err := r.store.Apply(r.ctx(), reserve.Batch{Groups: []reserve.Group{{Tenant: tenant, Catalog: reserve.AnyCatalog, Writes: []reserve.Write{{Ref: ref}}}}}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		told := func() string {
			var words []string
			for _, p := range r.Replicas() {
				word := p.ID + "@" + p.Address
				if p.Own {
					word += " own"
				}
				if !p.Gone.IsZero() {
					word += " gone"
				}
				words = append(words, word)
			}
			return strings.Join(words, ", ")
		}
		want := func(what, want string) {
			t.Helper()
			if got := told(); got != want {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		put("", "a:1") // this one's own
		put("b", "b:1")
		want("two are there", "@a:1 own, b@b:1")
		if p := r.Replicas()[1]; p.Version != "v1" || p.Apart < time.Second/2 || p.Apart > 2*time.Second {
			t.Errorf("the other one: %+v", p)
		}
		end("b")
		want("one has gone", "@a:1 own, b@b:1 gone")
		put("b2", "b:1")
		want("it came back under another id", "@a:1 own, b2@b:1")
		end("b2")
		time.Sleep(16 * time.Minute)
		want("a while later", "@a:1 own")
	})
}
