package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/auth"
)

// What a first user stumbled over, each by its symptom.

func (r *rig) drop(token, path string) got {
	r.t.Helper()
	return r.do(ask{method: http.MethodDelete, path: path, token: token})
}

func (r *rig) put(token, path, body string) got {
	r.t.Helper()
	return r.do(ask{method: http.MethodPut, path: path, token: token, body: body})
}

func TestOverride_ForEveryoneIsSeen(t *testing.T) {
	inBubble(t, func(r *rig) {
		root := r.token("root", "admin")
		r.exports()
		const all = "/v1/limits/exports/override"
		r.get(root, all).problem(api.NotFound)
		until := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
		r.put(root, all, `{"amount":1,"until":"`+until+`","reason":"disk"}`).want(http.StatusOK, nil)
		var o api.Override
		r.get(r.token("ops", "limits:read"), all).want(http.StatusOK, &o)
		if *o.Current != 1 || o.Base != 3 || o.Reason != "disk" {
			t.Errorf("GET %s: got %+v, want 1 in force over 3", all, o)
		}
		var l api.Limit
		g := r.get(root, "/v1/limits/exports").want(http.StatusOK, &l)
		if l.Amount != 3 || l.Override == nil || *l.Override.Amount != 1 || l.Override.By != "user:root" {
			t.Errorf("GET of the limit: got %s, want its own amount 3 and the override 1", g.body)
		}
		// The answer can be sent back all the same: the override only reads.
		var put api.Limit
		r.edit(http.MethodPut, root, "/v1/limits/exports", g.header.Get("ETag"), string(g.body)).want(http.StatusOK, &put)
		if put.Revision != l.Revision {
			t.Errorf("the answer sent back moved the limit from %d to %d", l.Revision, put.Revision)
		}
		var page api.LimitPage
		r.get(root, "/v1/limits").want(http.StatusOK, &page)
		if page.Data[0].Override == nil {
			t.Errorf("the list does not show the override: %+v", page.Data[0])
		}
		r.drop(root, all).want(http.StatusNoContent, nil)
		var after api.Limit
		r.get(root, "/v1/limits/exports").want(http.StatusOK, &after)
		if after.Override != nil {
			t.Errorf("after its end: got %+v", after.Override)
		}
	})
}

func TestOverrides_ListPagesEveryoneFirst(t *testing.T) {
	inBubble(t, func(r *rig) {
		root := r.token("root", "admin")
		r.limit(map[string]any{"id": "any", "action": "x", "subjectKind": "*"})
		for _, who := range []string{"/user/b", "/user/a", "/org/z", "/user/a%2Fb"} {
			r.put(root, "/v1/limits/any/overrides"+who, `{"amount":4}`).want(http.StatusOK, nil)
		}
		r.put(root, "/v1/limits/any/override", `{"amount":null}`).want(http.StatusOK, nil)
		var got []string
		path := "/v1/limits/any/overrides?pageSize=2"
		for range 4 {
			var p api.OverridePage
			r.get(root, path).want(http.StatusOK, &p)
			for _, o := range p.Data {
				if o.Subject == nil {
					got = append(got, "everyone")
					continue
				}
				got = append(got, o.Subject.Kind+":"+o.Subject.ID)
			}
			if p.NextCursor == nil {
				break
			}
			path = "/v1/limits/any/overrides?pageSize=2&cursor=" + *p.NextCursor
		}
		if want := "[everyone org:z user:a user:a/b user:b]"; fmt.Sprint(got) != want {
			t.Errorf("pages of 2: got %v, want %s", got, want)
		}
		r.get(root, "/v1/limits/none/overrides").problem(api.NotFound)
		r.get(r.token("u", ""), "/v1/limits/any/overrides").problem(api.Forbidden)
	})
}

// faultsIn is what a problem names, in one line.
func faultsIn(p api.Problem) string {
	words := make([]string, len(p.Errors))
	for i, f := range p.Errors {
		words[i] = f.Pointer + " " + f.Detail
	}
	return strings.Join(words, "; ")
}

func TestOverride_AllFaultsAtOnceAndTheKindOfTheLimit(t *testing.T) {
	inBubble(t, func(r *rig) {
		root := r.token("root", "admin")
		r.exports()
		p := r.put(root, "/v1/limits/exports/overrides/org/o1", `{"amount":-1,"until":"2000-01-01T00:00:00Z","reason":"a\u0000"}`).problem(api.InvalidValue)
		for _, want := range []string{"/amount must be", "/until must be in the future", "/reason must", "kind org, and exports counts kind user"} {
			if !strings.Contains(faultsIn(p), want) {
				t.Errorf("four faults: got %q, want %q among them", faultsIn(p), want)
			}
		}
		r.put(root, "/v1/limits/exports/overrides/org/o1", `{"amount":1}`).problem(api.InvalidValue)
	})
}

func TestInvalid_NamesWhatIsMissingOnce(t *testing.T) {
	inBubble(t, func(r *rig) {
		root := r.token("root", "admin")
		for _, one := range []struct {
			path, body string
			want, not  string
		}{
			{"/v1/limits", `{}`, "/name is required", "/id"},
			{"/v1/limits", `{"name":"日本","subjectKind":"user","action":"a","amount":1,"window":"day"}`, "/id cannot be made from the name", "must match"},
			{"/v1/limits", `{"name":"b","subjectKind":"user","action":"a","amount":1,"window":"bucket"}`, "/refillPerSecond is required", "0.000000001"},
			{"/v1/limits", `{"name":"b","subjectKind":"user","action":"a","amount":1,"window":"bucket","refillPerSecond":0}`, "/refillPerSecond must be 0.000000001", "required"},
			{"/v1/fences/verify", `{}`, "/subject is required", "/subject/kind"},
		} {
			p := r.post(root, one.path, one.body).problem(api.InvalidValue)
			if told := faultsIn(p); !strings.Contains(told, one.want) || strings.Contains(told, one.not) {
				t.Errorf("POST %s %s: got %q, want %q and not %q", one.path, one.body, told, one.want, one.not)
			}
		}
		p := r.get(root, "/v1/subjects/UPPER/x").problem(api.InvalidValue)
		if p.Parameter != "kind" || len(p.Errors) != 0 || !strings.HasPrefix(p.Detail, "In the path, kind must") {
			t.Errorf("a kind of the path that is none: got %+v, want the parameter named and no pointer", p)
		}
	})
}

func TestRelease_OfAnothersHoldNamesTheScope(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.exports()
		h := r.hold(r.token("u1", ""), `{"action":"export"}`)
		g := r.post(r.token("ops", "holds:read"), "/v1/reservations/"+h.ID+"/release", nil)
		if p := g.problem(api.Forbidden); p.Scope != "act-for" || g.header.Get("WWW-Authenticate") != `Bearer error="insufficient_scope", scope="act-for"` {
			t.Errorf("release with holds:read: got %+v, %q", p, g.header.Get("WWW-Authenticate"))
		}
	})
}

func TestUnmatched_SuggestsOnlySlipsAndNamesTheKind(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.exports()
		r.limit(map[string]any{"id": "call", "action": "call", "amount": 5})
		r.limit(map[string]any{"id": "train", "action": "train", "subjectKind": "org"})
		r.limit(map[string]any{"id": "off", "action": "exporz", "enabled": false})
		act := func(c *auth.Claims) { c.Subjects = []string{"user:*", "org:*"} }
		token := r.token("u1", "act-for", act)
		for _, one := range []struct{ body, actions, detail string }{
			{`{"action":"exprot"}`, "[export]", `No limit counts the action "exprot" for subjects of kind user; near it: export.`},
			{`{"action":"zzz"}`, "[]", `No limit counts the action "zzz" for subjects of kind user.`},
			{`{"action":"export","subject":{"kind":"org","id":"c"}}`, "[]", `No limit counts the action "export" for subjects of kind org; it is counted for kind user.`},
			{`{"action":"trian"}`, "[]", `No limit counts the action "trian" for subjects of kind user.`},
		} {
			for _, path := range []string{"/v1/reservations", "/v1/checks"} {
				p := r.post(token, path, one.body).problem(api.NoMatchingLimit)
				if fmt.Sprint(p.Actions) != one.actions || p.Detail != one.detail {
					t.Errorf("POST %s %s: got %v, %s\nwant %s, %s", path, one.body, p.Actions, p.Detail, one.actions, one.detail)
				}
			}
		}
	})
}

func TestBlocked_SaysWhyAndIsLifted(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.exports()
		token, force := r.token("u1", ""), r.token("ops", "holds:force")
		h := r.hold(token, `{"action":"export"}`)
		r.post(force, "/admin/v1/reservations/"+h.ID+"/force-release",
			map[string]any{"reason": "runs wild", "fence": h.Fence, "blockSubjectSeconds": 600}).want(http.StatusOK, nil)
		a, g := r.check(token, `{"action":"export","mode":"preview"}`)
		if a.Code != api.SubjectBlocked || a.Reason != "runs wild" || a.DecidedBy != "" {
			t.Errorf("a check of a blocked subject: got %s", g.body)
		}
		if got, want := g.header.Get("RateLimit"), fmt.Sprintf(`"exports";r=%d`, a.Limits[0].Remaining); !strings.HasPrefix(got, want) {
			t.Errorf("RateLimit of a blocked subject: got %s, want %s as in the body", got, want)
		}
		r.drop(token, "/v1/subjects/user/u1/block").problem(api.Forbidden)
		r.drop(force, "/v1/subjects/user/u1/block").want(http.StatusNoContent, nil)
		r.hold(token, `{"action":"export"}`)
		r.drop(force, "/v1/subjects/user/u1/block").problem(api.NotFound)
	})
}

func TestUnlimited_HasNoStandInForItsAmount(t *testing.T) {
	inBubble(t, func(r *rig) {
		root := r.token("root", "admin")
		r.exports()
		r.put(root, "/v1/limits/exports/override", `{"amount":null}`).want(http.StatusOK, nil)
		_, g := r.check(r.token("u1", ""), `{"action":"export","mode":"reserve"}`)
		for _, want := range []string{`"amount":null`, `"remaining":null`, `"unlimited":true`} {
			if !strings.Contains(string(g.body), want) {
				t.Errorf("a check under no ceiling: got %s, want %s", g.body, want)
			}
		}
		u := r.get(root, "/v1/usage/now?limit=exports").want(http.StatusOK, nil)
		if !strings.Contains(string(u.body), `"amount":null,"remaining":null,"unlimited":true`) {
			t.Errorf("usage under no ceiling: got %s", u.body)
		}
	})
}

func TestNotFound_SpeaksOfWhatWasAskedFor(t *testing.T) {
	inBubble(t, func(r *rig) {
		root := r.token("root", "admin")
		r.exports()
		limit := map[string]any{"name": "x", "subjectKind": "user", "action": "a", "amount": 1, "window": "day"}
		for what, g := range map[string]got{
			"limit":    r.edit(http.MethodPut, root, "/v1/limits/none", "*", limit),
			"limit ":   r.edit(http.MethodDelete, root, "/v1/limits/none", "*", nil),
			"limit  ":  r.drop(root, "/v1/limits/none/override"),
			"override": r.drop(root, "/v1/limits/exports/override"),
		} {
			if p, want := g.problem(api.NotFound), "There is no such "+strings.TrimSpace(what)+"."; p.Detail != want {
				t.Errorf("%s %s: got %q, want %q", g.asked.method, g.asked.path, p.Detail, want)
			}
		}
		for _, method := range []string{http.MethodPut, http.MethodDelete} {
			p := r.edit(method, root, "/v1/limits/exports", `W/"153"`, limit).problem(api.PreconditionFailed)
			if !strings.HasPrefix(p.Detail, "A weak entity tag") {
				t.Errorf("%s with a weak If-Match: got %q, want the tag blamed", method, p.Detail)
			}
		}
	})
}
