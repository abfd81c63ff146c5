package httpapi

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

func (r *rig) check(token, body string) (api.CheckAnswer, got) {
	r.t.Helper()
	var a api.CheckAnswer
	g := r.post(token, "/v1/checks", body).want(http.StatusOK, &a)
	return a, g
}

func TestCheck_ModesChargeWhatTheySay(t *testing.T) { // CASES O30
	inBubble(t, func(r *rig) {
		r.limit(map[string]any{"id": "o30-d", "action": "o30", "amount": 10, "window": "day"})
		r.limit(map[string]any{"id": "o30-c", "action": "o30", "amount": 1})
		token := r.token("u1", "")
		for range 20 {
			a, _ := r.check(token, `{"action":"o30","mode":"preview"}`)
			if !a.Allowed || a.Mode != "preview" || a.Limits[1].Used != 0 || a.Limits[1].Remaining != 10 {
				t.Fatalf("preview: got %+v, want nothing used", a)
			}
		}
		for range 3 {
			if a, _ := r.check(token, `{"action":"o30"}`); !a.Allowed || a.Mode != "consume" || a.Reservation != nil {
				t.Fatalf("consume: got %+v, want allowed, no reservation", a)
			}
		}
		a, _ := r.check(token, `{"action":"o30","mode":"reserve","ttlSeconds":60}`)
		if !a.Allowed || a.Reservation == nil || a.Reservation.State != "held" || *a.Reservation.TTLSeconds != 60 || len(a.Reservation.Limits) != 2 {
			t.Fatalf("reserve: got %+v, want a hold of 60 s", a)
		}
		for _, mode := range []string{"preview", "consume", "reserve"} {
			no, g := r.check(token, `{"action":"o30","mode":"`+mode+`"}`)
			if no.Allowed || no.DecidedBy != "o30-c" || no.Code != api.NoFreeSlot || *no.RetryAfterSeconds > 60 || len(no.Holders) != 1 {
				t.Errorf("%s while the slot is held: got %+v, want refused by o30-c", mode, no)
			}
			if g.header.Get("Retry-After") != "" {
				t.Errorf("%s: a 200 has Retry-After %q", mode, g.header.Get("Retry-After"))
			}
		}
		var view api.SubjectView
		r.get(token, "/v1/subjects/user/u1").want(http.StatusOK, &view)
		if used := view.Limits[1].Used; used != 4 || len(view.Holds) != 1 {
			t.Errorf("in the end: used %d, holds %d, want 4 and 1", used, len(view.Holds))
		}
	})
}

func TestCheck_ARefusalIsPaidNowhereAndNamesItsLimit(t *testing.T) { // CASES O11, O12
	inBubble(t, func(r *rig) {
		r.limit(map[string]any{"id": "m", "action": "a", "amount": 2, "window": "hour"})
		r.limit(map[string]any{"id": "c", "action": "a", "amount": 1})
		token := r.token("u1", "")
		first := r.hold(token, `{"action":"a","ttlSeconds":60}`)
		if p := r.post(token, "/v1/reservations", `{"action":"a"}`).problem(api.NoFreeSlot); p.DecidedBy != "c" || len(p.Limits) != 2 {
			t.Errorf("B: got %+v, want c to decide and both limits told", p)
		}
		r.post(token, "/v1/reservations/"+first.ID+"/commit", `{}`).want(http.StatusOK, nil)
		second := r.hold(token, `{"action":"a"}`)
		r.post(token, "/v1/reservations/"+second.ID+"/commit", `{}`).want(http.StatusOK, nil)
		p := r.post(token, "/v1/reservations", `{"action":"a"}`).problem(api.QuotaExceeded)
		if p.DecidedBy != "m" || *p.Used != 2 || *p.Amount != 2 {
			t.Errorf("D: got %+v, want m to decide, 2 of 2 used", p)
		}
	})
}

func TestReserve_NeverFitsHasNoRetry(t *testing.T) { // CASES O14
	inBubble(t, func(r *rig) {
		r.limit(map[string]any{"id": "o14", "action": "o14", "amount": 10, "window": "minute", "rolling": true})
		r.limit(map[string]any{"id": "closed", "action": "closed", "amount": 0})
		token := r.token("u1", "")
		for _, one := range []struct{ body, detail string }{
			{`{"action":"o14","cost":100}`, "o14 allows 10 a rolling minute, less than this cost. Waiting would not help."},
			{`{"action":"closed"}`, "closed is closed: its amount is 0. Waiting would not help."},
		} {
			g := r.post(token, "/v1/reservations", one.body)
			p := g.problem(api.NeverFits)
			if !p.NeverFits || p.RetryAfterSeconds != nil || g.header.Get("Retry-After") != "" || p.Detail != one.detail {
				t.Errorf("%s: got %s, Retry-After %q, want never, no retry, %q", one.body, g.body, g.header.Get("Retry-After"), one.detail)
			}
			a, _ := r.check(token, one.body)
			if a.Allowed || !a.NeverFits || a.Code != api.NeverFits || a.RetryAfterSeconds != nil {
				t.Errorf("check of %s: got %+v, want never, no retry", one.body, a)
			}
		}
	})
}

func TestReserve_WaitingAsToldIsEnough(t *testing.T) { // CASES O18, API.md section 4 rule 4
	inBubble(t, func(r *rig) {
		for _, l := range []map[string]any{
			{"id": "cal", "action": "cal", "amount": 5, "window": "minute"},
			{"id": "rol", "action": "rol", "amount": 5, "window": "minute", "rolling": true},
			{"id": "buc", "action": "buc", "amount": 5, "window": "bucket", "refillPerSecond": 0.3},
			{"id": "con", "action": "con", "amount": 1},
		} {
			r.limit(l)
		}
		token := r.token("u1", "")
		time.Sleep(59*time.Second + 400*time.Millisecond)
		for _, action := range []string{"cal", "rol", "buc", "con"} {
			body := `{"action":"` + action + `","ttlSeconds":7,"cost":2}`
			var g got
			for g = r.post(token, "/v1/reservations", body); g.status == http.StatusCreated; g = r.post(token, "/v1/reservations", body) {
				time.Sleep(123 * time.Millisecond)
			}
			header := g.header.Get("Retry-After")
			wait, err := strconv.Atoi(header)
			if err != nil || wait < 1 {
				t.Fatalf("%s: Retry-After %q, want whole seconds of at least 1: %s", action, header, g.body)
			}
			time.Sleep(time.Duration(wait) * time.Second)
			r.hold(token, body)
		}
	})
}

func TestReserve_PausedAndBlocked(t *testing.T) {
	inBubble(t, func(r *rig) {
		until := time.Now().Add(90 * time.Second).UTC().Format(time.RFC3339)
		r.limit(map[string]any{"id": "p", "action": "p", "amount": 3, "paused": true, "pauseReason": "vendor outage", "pausedUntil": until})
		r.limit(map[string]any{"id": "q", "action": "q", "amount": 3, "paused": true})
		token := r.token("u1", "")
		g := r.post(token, "/v1/reservations", `{"action":"p"}`)
		p := g.problem(api.LimitPaused)
		if p.Detail != "p is paused (vendor outage); it resumes in 90 s." || g.header.Get("Retry-After") != "90" || p.Reason != "vendor outage" {
			t.Errorf("paused for 90 s: got %s, Retry-After %q", g.body, g.header.Get("Retry-After"))
		}
		g = r.post(token, "/v1/reservations", `{"action":"q"}`)
		if p := g.problem(api.LimitPaused); p.RetryAfterSeconds != nil || g.header.Get("Retry-After") != "" || p.Detail != "q is paused; it says no end." {
			t.Errorf("paused without end: got %s, Retry-After %q, want no retry", g.body, g.header.Get("Retry-After"))
		}
		r.exports()
		hold := r.hold(token, `{"action":"export"}`)
		var ended api.Reservation
		r.post(r.token("root", "holds:force"), "/admin/v1/reservations/"+hold.ID+"/force-release",
			map[string]any{"reason": "it hangs", "fence": hold.Fence, "blockSubjectSeconds": 600}).want(http.StatusOK, &ended)
		if ended.State != "forced" || ended.Note != "it hangs" || ended.EndedBy != "user:root" {
			t.Errorf("forced: got %+v", ended)
		}
		g = r.post(token, "/v1/reservations", `{"action":"export"}`)
		if p := g.problem(api.SubjectBlocked); p.Reason != "it hangs" || p.RetryAfterSeconds == nil || p.Detail != "user:u1 is blocked; it ends in 600 s." {
			t.Errorf("blocked: got %s", g.body)
		}
		var view api.SubjectView
		r.get(token, "/v1/subjects/user/u1").want(http.StatusOK, &view)
		if view.BlockedForSeconds == nil || *view.BlockedForSeconds != 600 {
			t.Errorf("subject: got %+v, want blocked for 600 s", view)
		}
		p = r.post(token, "/v1/reservations/"+hold.ID+"/extend", nil).problem(api.HoldLost)
		if p.Reason != "forced" || p.By != "user:root" || p.Note != "it hangs" || p.At == nil {
			t.Errorf("extend after force: got %+v", p)
		}
	})
}

func TestReserve_HoldersAreOnesOwnUnlessOneMaySeeAll(t *testing.T) { // FAULTS section 3 row 31
	inBubble(t, func(r *rig) {
		r.limit(map[string]any{"id": "gpu", "action": "train", "amount": 2, "share": "all"})
		r.hold(r.token("u_1", ""), `{"action":"train","owner":{"name":"one","host":"w7"}}`)
		r.hold(r.token("u_2", ""), `{"action":"train","owner":{"name":"two"}}`)
		for scope, want := range map[string]int{"": 1, "holds:read": 2, "admin": 2, "act-for": 1} {
			p := r.post(r.token("u_1", scope), "/v1/reservations", `{"action":"train"}`).problem(api.NoFreeSlot)
			if len(p.Holders) != want || p.Detail != "gpu allows 2 at once for all and 2 are held; the earliest expires in 300 s, a release may come sooner." {
				t.Errorf("holders with scope %q: got %+v (%s), want %d", scope, p.Holders, p.Detail, want)
			}
		}
		p := r.post(r.token("u_3", ""), "/v1/reservations", `{"action":"train"}`).problem(api.NoFreeSlot)
		if len(p.Holders) != 0 {
			t.Errorf("holders shown to a stranger: %+v", p.Holders)
		}
	})
}

func TestIdempotencyKey_OverHTTP(t *testing.T) { // FAULTS rows 30 and 31, CASES O10
	inBubble(t, func(r *rig) {
		r.limit(map[string]any{"id": "reboot", "action": "reboot", "amount": 1})
		r.limit(map[string]any{"id": "call", "action": "call", "amount": 10, "window": "hour"})
		token := r.token("u1", "")
		ask := func(token, path, key, body string) got {
			return r.do(ask{http.MethodPost, path, token, body, map[string]string{"Idempotency-Key": key}})
		}
		var first, again api.Reservation
		g := ask(token, "/v1/reservations", "m17-boot9", `{"action":"reboot","ttlSeconds":60}`).want(http.StatusCreated, &first)
		if g.header.Get("Location") != "/v1/reservations/"+first.ID || g.header.Get("Idempotent-Replayed") != "" {
			t.Errorf("the first: headers %v", g.header)
		}
		time.Sleep(10 * time.Second)
		g = ask(token, "/v1/reservations", `"m17-boot9"`, `{"action":"reboot","ttlSeconds":60}`).want(http.StatusCreated, &again)
		if again.ID != first.ID || g.header.Get("Idempotent-Replayed") != "true" || *again.TTLSeconds != 50 {
			t.Errorf("the same key quoted, 10 s later: got %+v, %v, want the same hold with 50 s left", again, g.header)
		}
		ask(token, "/v1/reservations", "m17-boot9", `{"action":"reboot","ttlSeconds":61}`).problem(api.IdempotencyMismatch)
		ask(token, "/v1/reservations", "m18-boot1", `{"action":"reboot"}`).problem(api.NoFreeSlot)
		ask(r.token("u2", ""), "/v1/reservations", "m17-boot9", `{"action":"reboot"}`).want(http.StatusCreated, nil) // another's key is another key
		for i := range 2 {
			var a api.CheckAnswer
			g := ask(token, "/v1/checks", "c1", `{"action":"call","cost":4}`).want(http.StatusOK, &a)
			if !a.Allowed || a.Limits[0].Used != 4 || (g.header.Get("Idempotent-Replayed") == "true") != (i == 1) {
				t.Errorf("consume %d: got %s, %v, want used 4", i, g.body, g.header)
			}
		}
		ask(token, "/v1/checks", "c2", `{"action":"call","mode":"preview"}`).want(http.StatusOK, nil)
		ask(token, "/v1/checks", "c2", `{"action":"call","mode":"consume"}`).want(http.StatusOK, nil) // a preview uses no key up
		r.post(token, "/v1/reservations/"+first.ID+"/release", nil).want(http.StatusOK, nil)
		if p := ask(token, "/v1/reservations", "m17-boot9", `{"action":"reboot","ttlSeconds":60}`).problem(api.HoldLost); p.Reason != "released" {
			t.Errorf("the key of a hold that ended: got %+v, want hold-lost, released", p)
		}
	})
}

func TestReserve_ASlowStoreIsToldAsSuch(t *testing.T) { // FAULTS rows 18 and 30, GUARANTEES 4
	inBubble(t, func(r *rig) {
		r.exports()
		token := r.token("u1", "")
		keyed := ask{http.MethodPost, "/v1/reservations", token, `{"action":"export"}`, map[string]string{"Idempotency-Key": "k1"}}
		r.view.SetDelay(time.Second)
		first := make(chan got, 1)
		go func() { first <- r.do(keyed) }()
		synctest.Wait()
		if g := r.do(keyed); g.problem(api.IdempotencyInFlight).Status != http.StatusConflict || g.header.Get("Retry-After") != "" {
			t.Errorf("the same key while it runs: got %s, %v", g.body, g.header)
		}
		(<-first).want(http.StatusCreated, nil)
		r.view.SetDelay(time.Minute)
		began := time.Now()
		g := r.post(token, "/v1/reservations", `{"action":"export"}`)
		if g.status != http.StatusServiceUnavailable || g.header.Get("Retry-After") == "" || time.Since(began) > requestBudget {
			t.Errorf("a store that does not answer: got %d %s after %s, want 503 within %s", g.status, g.body, time.Since(began), requestBudget)
		}
		r.view.SetDelay(0)
		time.Sleep(2 * time.Minute)
	})
}

func TestReserve_AFullStoreStillReleases(t *testing.T) { // FAULTS row 17
	inBubble(t, func(r *rig) {
		r.exports()
		token := r.token("u1", "")
		h := r.hold(token, `{"action":"export"}`)
		r.view.SetFull(true, 1)
		r.post(token, "/v1/reservations", `{"action":"export"}`).problem(api.StorageFull)
		r.post(token, "/v1/reservations/"+h.ID+"/release", nil).want(http.StatusOK, nil)
	})
}

func TestReserve_WhatNoLimitCountsNamesTheNearest(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.exports()
		p := r.post(r.token("u1", ""), "/v1/reservations", `{"action":"exprot"}`).problem(api.NoMatchingLimit)
		if len(p.Actions) != 1 || p.Actions[0] != "export" {
			t.Errorf("nearest of exprot: got %v, want [export]", p.Actions)
		}
		for i := range 21 {
			r.limit(map[string]any{"id": fmt.Sprintf("many-%d", i), "action": "many", "amount": 1, "window": "day"})
		}
		if p := r.post(r.token("u1", ""), "/v1/reservations", `{"action":"many"}`).problem(api.TooManyLimits); p.Matching != 21 {
			t.Errorf("21 limits match: got %+v", p)
		}
	})
}

func TestRateLimit_OnEveryDecision(t *testing.T) { // API.md section 7
	inBubble(t, func(r *rig) {
		r.exports()
		r.limit(map[string]any{"id": "calls", "action": "export", "amount": 100, "window": "day", "rolling": true})
		token := r.token("u_42", "")
		const policy = `"calls";q=100;w=86400, "exports";q=3;qu="concurrent-requests"`
		for i, want := range []string{
			`"calls";r=99;t=87840, "exports";r=2`, `"calls";r=98;t=87840, "exports";r=1`, `"calls";r=97;t=87840, "exports";r=0`,
			`"calls";r=97, "exports";r=0;t=300`,
		} {
			g := r.post(token, "/v1/reservations", `{"action":"export"}`)
			if g.header.Get("RateLimit-Policy") != policy || g.header.Get("RateLimit") != want {
				t.Errorf("reservation %d: got %d, %s and %s, want %s and %s", i, g.status, g.header.Get("RateLimit-Policy"), g.header.Get("RateLimit"), policy, want)
			}
		}
		_, g := r.check(token, `{"action":"export","mode":"preview"}`)
		if g.header.Get("RateLimit") == "" || g.header.Get("RateLimit-Policy") != policy {
			t.Errorf("check: headers %v", g.header)
		}
	})
}
