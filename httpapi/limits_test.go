package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

// edit is a change with If-Match.
func (r *rig) edit(method, token, path, tag string, body any) got {
	r.t.Helper()
	return r.do(ask{method, path, token, body, map[string]string{"If-Match": tag}})
}

func TestLimits_EditsNeedTheRevisionRead(t *testing.T) { // CASES O19, API.md section 3
	inBubble(t, func(r *rig) {
		root := r.token("root", "admin")
		var made api.Limit
		g := r.post(root, "/v1/limits", `{"name":"Exports at once","subjectKind":"user","action":"export","amount":1,"window":"concurrent"}`).want(http.StatusCreated, &made)
		if made.ID != "exports-at-once" || g.header.Get("Location") != "/v1/limits/exports-at-once" || g.header.Get("ETag") != etag(made.Revision) {
			t.Errorf("made: got %+v, headers %v", made, g.header)
		}
		if made.Source != "api" || made.UpdatedBy != "user:root" || !made.Enabled || made.TTLSeconds != 300 || made.MaxTTLSeconds != 3600 || made.Share != "each" {
			t.Errorf("defaults: got %+v", made)
		}
		const path = "/v1/limits/exports-at-once"
		for range 3 {
			r.post(root, "/v1/limits", `{"id":"exports-at-once","name":"x","subjectKind":"user","action":"export","amount":1,"window":"concurrent"}`).problem(api.LimitExists)
		}
		for _, method := range []string{http.MethodPut, http.MethodPatch, http.MethodDelete} {
			r.edit(method, root, path, "", map[string]any{}).problem(api.PreconditionRequired)
			r.edit(method, root, "/v1/limits/none", "*", map[string]any{"name": "x", "subjectKind": "user", "action": "a", "amount": 1, "window": "day"}).problem(api.NotFound)
		}
		var five, seven api.Limit
		r.edit(http.MethodPatch, root, path, etag(made.Revision), `{"amount":5}`).want(http.StatusOK, &five)
		if p := r.edit(http.MethodPatch, root, path, etag(made.Revision), `{"amount":9}`).problem(api.PreconditionFailed); *p.Revision != five.Revision {
			t.Errorf("an edit of an old revision: got %+v, want %d told", p, five.Revision)
		}
		r.edit(http.MethodDelete, root, path, etag(made.Revision), nil).problem(api.PreconditionFailed)
		r.edit(http.MethodPut, root, path, `W/`+etag(five.Revision), map[string]any{"name": "x", "subjectKind": "user", "action": "export", "amount": 1, "window": "concurrent"}).problem(api.PreconditionFailed)
		r.edit(http.MethodPatch, root, path, etag(made.Revision)+", "+etag(five.Revision), `{"amount":7}`).want(http.StatusOK, &seven)
		if seven.Amount != 7 || seven.Name != made.Name || !seven.CreatedAt.Equal(made.CreatedAt.Time) {
			t.Errorf("patched: got %+v", seven)
		}
		r.edit(http.MethodDelete, root, path, etag(seven.Revision), nil).want(http.StatusNoContent, nil)
		r.get(root, path).problem(api.NotFound)
		r.edit(http.MethodDelete, root, path, "*", nil).problem(api.NotFound)
	})
}

func TestLimits_AnAnswerCanBeEditedAndSentBack(t *testing.T) { // API.md section 3: read-only fields are ignored
	inBubble(t, func(r *rig) {
		root := r.token("root", "admin")
		l := r.limit(map[string]any{"id": "b", "action": "b", "window": "bucket", "amount": 20, "refillPerSecond": 0.5, "labels": map[string]string{"team": "x"}, "description": "d"})
		g := r.get(root, "/v1/limits/b").want(http.StatusOK, nil)
		edited := bytes.Replace(g.body, []byte(`"amount":20`), []byte(`"amount":21`), 1)
		var put api.Limit
		r.edit(http.MethodPut, root, "/v1/limits/b", g.header.Get("ETag"), string(edited)).want(http.StatusOK, &put)
		if put.Amount != 21 || put.Revision == l.Revision || *put.RefillPerSecond != 0.5 || put.Labels["team"] != "x" || put.Description != "d" {
			t.Errorf("put: got %+v", put)
		}
		var bare api.Limit
		r.edit(http.MethodPut, root, "/v1/limits/b", "*", `{"name":"Größe 7","subjectKind":"user","action":"b","amount":3,"window":"bucket","refillPerSecond":2}`).want(http.StatusOK, &bare)
		if bare.ID != "b" || bare.Description != "" || len(bare.Labels) != 0 {
			t.Errorf("put without an id and the rest: got %+v, want the id of the path and defaults", bare)
		}
		r.edit(http.MethodPut, root, "/v1/limits/b", "*", `{"id":"c","name":"x","subjectKind":"user","action":"b","amount":3,"window":"bucket","refillPerSecond":2}`).problem(api.InvalidValue)
		r.edit(http.MethodPatch, root, "/v1/limits/b", "*", `{"id":"c"}`).problem(api.InvalidValue)
	})
}

func TestLimits_PatchIsAMergePatch(t *testing.T) {
	inBubble(t, func(r *rig) {
		root := r.token("root", "admin")
		r.limit(map[string]any{"id": "p", "action": "p", "ttlSeconds": 60, "labels": map[string]string{"a": "1", "b": "2"}, "paused": true, "pauseReason": "x"})
		var l api.Limit
		g := r.do(ask{
			http.MethodPatch, "/v1/limits/p", root, `{"labels":{"a":null,"c":"3"},"ttlSeconds":null,"paused":false}`,
			map[string]string{"If-Match": "*", "Content-Type": "application/merge-patch+json"},
		}).want(http.StatusOK, &l)
		if fmt.Sprint(l.Labels) != "map[b:2 c:3]" || l.TTLSeconds != 300 || l.Paused || l.PauseReason != "" {
			t.Errorf("patched: got %s", g.body)
		}
		for body, code := range map[string]api.Code{
			`[]`: api.InvalidBody, `{"amuont":1}`: api.InvalidBody, `{"amount":"5"}`: api.InvalidBody, `{"amount":-1}`: api.InvalidValue,
			`{"amount":null}`: api.InvalidValue, `{"amount":1.5}`: api.InvalidValue, `{"window":"month","rolling":true}`: api.InvalidValue,
			`{"window":"day"}`: api.WindowFixed, `{"share":"all"}`: api.WindowFixed, `{"rolling":true}`: api.InvalidValue,
		} {
			r.edit(http.MethodPatch, root, "/v1/limits/p", "*", body).problem(code)
		}
		var again api.Limit
		r.get(root, "/v1/limits/p").want(http.StatusOK, &again)
		if again.Revision != l.Revision {
			t.Errorf("refused patches moved the limit from %d to %d", l.Revision, again.Revision)
		}
	})
}

func TestLimits_AnEditDropsNoHolds(t *testing.T) { // CASES O20, FAULTS rows 38 to 40
	inBubble(t, func(r *rig) {
		root, token := r.token("root", "admin"), r.token("u1", "")
		r.limit(map[string]any{"id": "o20", "action": "o20", "amount": 2})
		h := r.hold(token, `{"action":"o20","ttlSeconds":600}`)
		r.hold(token, `{"action":"o20","ttlSeconds":600}`)
		r.edit(http.MethodPatch, root, "/v1/limits/o20", "*", `{"name":"o20b","amount":1}`).want(http.StatusOK, nil)
		p := r.post(token, "/v1/reservations", `{"action":"o20"}`).problem(api.NoFreeSlot)
		if p.Limits[0].Excess != 1 || p.Limits[0].Remaining != 0 || p.Detail != "o20 allows 1 at once for user:u1 and 2 are held; enough of them expire in 600 s, releases may come sooner." {
			t.Errorf("lowered below what is held: got %+v", p)
		}
		r.edit(http.MethodDelete, root, "/v1/limits/o20", "*", nil).want(http.StatusNoContent, nil)
		r.post(token, "/v1/reservations/"+h.ID+"/extend", nil).want(http.StatusOK, nil)
		r.post(token, "/v1/reservations/"+h.ID+"/release", nil).want(http.StatusOK, nil)
	})
}

func TestLimits_ListPagesByID(t *testing.T) {
	inBubble(t, func(r *rig) {
		for i := range 7 {
			r.limit(map[string]any{"id": fmt.Sprintf("l%d", 6-i), "action": "x"})
		}
		token, path := r.token("ops", "limits:read"), "/v1/limits?pageSize=3"
		var ids []string
		for range 5 {
			var p api.LimitPage
			r.get(token, path).want(http.StatusOK, &p)
			for _, l := range p.Data {
				ids = append(ids, l.ID)
			}
			if p.NextCursor == nil {
				break
			}
			path = "/v1/limits?pageSize=3&cursor=" + *p.NextCursor
		}
		if got, want := fmt.Sprint(ids), "[l0 l1 l2 l3 l4 l5 l6]"; got != want {
			t.Errorf("pages of 3: got %s, want %s", got, want)
		}
	})
}

func TestOverrides_TheMostSpecificWins(t *testing.T) { // API.md section 3
	inBubble(t, func(r *rig) {
		root := r.token("root", "limits:write")
		r.exports()
		const all, one = "/v1/limits/exports/override", "/v1/limits/exports/overrides/user/a%2Fb"
		until := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
		put := func(path, body string) (o api.Override) {
			r.do(ask{method: http.MethodPut, path: path, token: root, body: body}).want(http.StatusOK, &o)
			return o
		}
		amount := func(sub string) int64 {
			a, _ := r.check(r.token(sub, ""), `{"action":"export","mode":"preview"}`)
			return a.Limits[0].Amount
		}
		if o := put(all, `{"amount":5}`); *o.Current != 5 || o.Base != 3 || o.Subject != nil || o.By != "user:root" {
			t.Errorf("for everyone: got %+v", o)
		}
		if o := put(one, `{"amount":10,"until":"`+until+`","reason":"quarterly report"}`); *o.Current != 10 || o.Subject.ID != "a/b" || *o.EndsInSeconds != 3600 || o.Reason != "quarterly report" {
			t.Errorf("for one: got %+v", o)
		}
		if a, b := amount("a/b"), amount("c"); a != 10 || b != 5 {
			t.Errorf("amounts in force: got %d and %d, want 10 and 5", a, b)
		}
		if o := put(one, `{"amount":null}`); o.Current != nil || o.Override != nil {
			t.Errorf("unlimited: got %+v", o)
		}
		a, g := r.check(r.token("a/b", ""), `{"action":"export","mode":"preview"}`)
		if !a.Limits[0].Unlimited || g.header.Get("RateLimit-Policy") != `"exports";q=999999999999999;qu="concurrent-requests"` {
			t.Errorf("unlimited: got %+v, %v", a, g.header)
		}
		r.get(r.token("ops", "limits:read"), one).want(http.StatusOK, nil)
		r.do(ask{method: http.MethodDelete, path: one, token: root}).want(http.StatusNoContent, nil)
		r.do(ask{method: http.MethodDelete, path: one, token: root}).problem(api.NotFound)
		r.get(root, one).problem(api.NotFound)
		r.do(ask{method: http.MethodDelete, path: all, token: root}).want(http.StatusNoContent, nil)
		if b := amount("c"); b != 3 {
			t.Errorf("after both are gone: got %d, want 3", b)
		}
		for body, code := range map[string]api.Code{
			`{}`: api.InvalidValue, `{"amount":-1}`: api.InvalidValue, `{"amount":"5"}`: api.InvalidBody,
			`{"amount":1,"until":"1999-01-01T00:00:00Z"}`: api.InvalidValue, `{"amount":1,"reason":"a\u0000"}`: api.InvalidValue,
		} {
			r.do(ask{method: http.MethodPut, path: one, token: root, body: body}).problem(code)
		}
		r.do(ask{method: http.MethodPut, path: "/v1/limits/none/override", token: root, body: `{"amount":1}`}).problem(api.NotFound)
	})
}

func TestReset_ZeroesCountsAndKeepsHolds(t *testing.T) {
	inBubble(t, func(r *rig) {
		root := r.token("root", "limits:write")
		r.limit(map[string]any{"id": "d", "action": "d", "amount": 10, "window": "day"})
		r.limit(map[string]any{"id": "all", "action": "e", "amount": 10, "window": "day", "share": "all"})
		one, two := r.token("u1", ""), r.token("u2", "")
		used := func(token string) int64 {
			a, _ := r.check(token, `{"action":"d","mode":"preview"}`)
			return a.Limits[0].Used
		}
		r.check(one, `{"action":"d","cost":4}`)
		r.check(two, `{"action":"d","cost":5}`)
		hold := r.hold(one, `{"action":"d","cost":2}`)
		r.post(root, "/v1/limits/d/reset", `{"subject":{"kind":"user","id":"u1"},"reason":"charged twice"}`).want(http.StatusOK, nil)
		if a, b := used(one), used(two); a != 0 || b != 5 {
			t.Errorf("after a reset for u1: got %d and %d, want 0 and 5", a, b)
		}
		r.post(one, "/v1/reservations/"+hold.ID+"/release", nil).want(http.StatusOK, nil)
		if a := used(one); a != 0 {
			t.Errorf("a release of what was charged before the reset: used %d, want 0", a)
		}
		var l api.Limit
		r.post(root, "/v1/limits/d/reset", `{"reason":"new year"}`).want(http.StatusOK, &l)
		if a, b := used(one), used(two); a != 0 || b != 0 || l.ID != "d" {
			t.Errorf("after a reset for all: got %d and %d, want 0 and 0", a, b)
		}
		r.post(root, "/v1/limits/all/reset", `{"subject":{"kind":"user","id":"u1"},"reason":"x"}`).problem(api.InvalidValue)
		r.post(root, "/v1/limits/none/reset", `{"reason":"x"}`).problem(api.NotFound)
	})
}

func TestUsageNow_PagesBySubject(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.limit(map[string]any{"id": "d", "action": "d", "amount": 10, "window": "day"})
		r.exports()
		for i := range 5 {
			token := r.token(fmt.Sprintf("u/%d", i), "")
			r.check(token, fmt.Sprintf(`{"action":"d","cost":%d}`, i+1))
			r.hold(token, `{"action":"export"}`)
		}
		reader := r.token("ops", "holds:read")
		for limit, wantUsed := range map[string]int64{"d": 15, "exports": 5} {
			var used int64
			var subjects []string
			path := "/v1/usage/now?pageSize=2&limit=" + limit
			for range 4 {
				var p api.UsagePage
				r.get(reader, path).want(http.StatusOK, &p)
				for _, u := range p.Data {
					used += u.Used
					subjects = append(subjects, u.Subject.ID)
				}
				if p.NextCursor == nil {
					break
				}
				path = "/v1/usage/now?pageSize=2&limit=" + limit + "&cursor=" + *p.NextCursor
			}
			if got, _ := json.Marshal(subjects); used != wantUsed || string(got) != `["u/0","u/1","u/2","u/3","u/4"]` {
				t.Errorf("usage of %s: used %d by %s, want %d by five subjects in order", limit, used, got, wantUsed)
			}
		}
		r.get(reader, "/v1/usage/now?limit=none").problem(api.NotFound)
	})
}
