package httpapi

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

func TestSubject_ShowsItsRefusals(t *testing.T) { // HF-3104
	inBubble(t, func(r *rig) {
		r.exports()
		u1 := r.token("u1", "")
		for range 3 {
			r.hold(u1, `{"action":"export"}`)
		}
		for range 4 {
			r.post(u1, "/v1/reservations", `{"action":"export"}`).problem(api.NoFreeSlot)
		}
		r.post(r.token("root", "admin"), "/v1/checks", `{"subject":{"kind":"user","id":"u2"},"action":"export","mode":"preview"}`).want(http.StatusOK, nil)
		var view api.SubjectView
		r.get(u1, "/v1/subjects/user/u1").want(http.StatusOK, &view)
		if len(view.Refusals) != 1 || view.Refusals[0].Code != api.NoFreeSlot || view.Refusals[0].Limit != "exports" || view.Refusals[0].Count != 4 || view.Refusals[0].Action != "export" {
			t.Errorf("refusals of u1: %+v, want one that stands for 4", view.Refusals)
		}
		r.get(r.token("root", "admin"), "/v1/subjects/user/u2").want(http.StatusOK, &view)
		if view.Refusals == nil || len(view.Refusals) != 0 {
			t.Errorf("refusals of u2: %+v, want none", view.Refusals)
		}
	})
}

func TestEvents_TellOfRefusalsHereAndOfLimitsExceeded(t *testing.T) { // HF-3105, HF-3106
	inBubble(t, func(r *rig) {
		r.exports()
		root, u1, u2 := r.token("root", "admin"), r.token("u1", ""), r.token("u2", "")
		all, own, others := r.listen(root, "?type=check.refused,limit.exceeded", ""), r.listen(u1, "?type=check.refused", ""), r.listen(u2, "", "")
		for range 3 {
			r.hold(u1, `{"action":"export"}`)
		}
		for range 10 {
			r.post(u1, "/v1/reservations", `{"action":"export"}`).problem(api.NoFreeSlot)
		}
		time.Sleep(2 * time.Second)
		r.post(u1, "/v1/reservations", `{"action":"export"}`).problem(api.NoFreeSlot)
		time.Sleep(time.Second)
		synctest.Wait()
		heard := all.heard()
		// A refusal has no position, so the limit's event may be heard before it or after it.
		slices.SortStableFunc(heard, func(a, b api.Event) int { return strings.Compare(a.Type, b.Type) })
		if len(heard) != 3 || heard[1].Type != "check.refused" || heard[2].Type != "limit.exceeded" {
			t.Fatalf("heard %v, want two refusals and one limit that was exceeded", all.types())
		}
		for i, refused := range []int64{1, 10} {
			e := heard[i]
			if e.ID != "" || e.Code != api.NoFreeSlot || *e.Refused != refused || e.Subject.ID != "u1" || !slices.Equal(e.Limits, []string{"exports"}) || e.By != "user:u1" || *e.RetryAfterSeconds < 1 {
				t.Errorf("event %d: %+v, want a refusal that stands for %d", i, e, refused)
			}
		}
		if e := heard[2]; e.ID == "" || *e.Amount != 3 || *e.Used != 3 || e.Subject.ID != "u1" || e.Action != "export" {
			t.Errorf("exceeded: %+v", e)
		}
		if got := own.types(); len(got) != 2 {
			t.Errorf("u1 heard %v, want its two refusals", got)
		}
		if got := others.types(); len(got) != 0 {
			t.Errorf("u2 heard %v of u1", got)
		}
		// A refusal leaves the position as it was; whoever resumes does not hear it again.
		again := r.listen(root, "?type=check.refused,limit.exceeded", heard[2].ID)
		if got := again.types(); len(got) != 0 {
			t.Errorf("after the limit's event: %v, want nothing", got)
		}
		if text := all.text(); strings.Contains(text, "id: 0.0") {
			t.Errorf("a refusal has an id: %s", text)
		}
	})
}

func TestEvents_TellOfWaiters(t *testing.T) { // HF-3107
	inBubble(t, func(r *rig) {
		root, u1 := r.token("root", "admin"), r.token("u1", "")
		all, others := r.listen(root, "?type=waiter.joined,waiter.left", ""), r.listen(r.token("u2", ""), "", "")
		held := r.one(u1)
		first, second := r.waitFor(u1, `{"action":"a","waitSeconds":60,"owner":{"name":"w"}}`), r.waitFor(u1, `{"action":"a","waitSeconds":5}`)
		time.Sleep(10 * time.Second)
		r.post(u1, "/v1/reservations/"+held.ID+"/release", nil).want(http.StatusOK, nil)
		<-first.done
		<-second.done
		var got api.Reservation
		first.got.want(http.StatusCreated, &got)
		second.got.problem(api.NoFreeSlot)
		heard := all.heard()
		if types := all.types(); !slices.Equal(types, []string{"waiter.joined", "waiter.joined", "waiter.left", "waiter.left"}) {
			t.Fatalf("heard %v", types)
		}
		for i, e := range heard {
			if e.Waiter == "" || e.Subject.ID != "u1" || e.Action != "a" || len(e.Limits) != 1 || e.ID == "" {
				t.Errorf("event %d: %+v, want the waiter, its subject, action and limit", i, e)
			}
		}
		if e := heard[2]; e.Reservation != "" || e.Waiter != heard[1].Waiter {
			t.Errorf("the second gave up: %+v", e)
		}
		if e := heard[3]; e.Reservation != got.ID || e.Waiter != heard[0].Waiter || heard[0].Owner.Name != "w" {
			t.Errorf("the first was granted %s: %+v", got.ID, e)
		}
		if got := others.types(); len(got) != 0 {
			t.Errorf("u2 heard %v of u1", got)
		}
		// From history the same, for as long as it tells who joined.
		again := r.listen(root, "?type=waiter.joined,waiter.left", heard[0].ID)
		if got := again.heard(); len(got) != 3 || got[2].Reservation != heard[3].Reservation {
			t.Errorf("after the first: %+v", got)
		}
	})
}
