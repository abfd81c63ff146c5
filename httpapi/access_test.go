package httpapi

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/auth"
)

var allScopes = []auth.Scope{auth.ActFor, auth.LimitsRead, auth.LimitsWrite, auth.HoldsRead, auth.HoldsForce, auth.AuditRead, auth.Admin}

// path fills a pattern's parameters with what nobody has.
func (row route) examplePath() string {
	parts := strings.Split(row.path, "/")
	for i, p := range parts {
		switch p {
		case ":kind":
			parts[i] = "user"
		case ":id", ":subjectId", ":job", ":asset":
			parts[i] = "nobody"
		}
	}
	return strings.Join(parts, "/")
}

func TestRoutes_EachWithEachScope(t *testing.T) { // FAULTS section 3 row 15
	inBubble(t, func(r *rig) {
		for _, row := range allRoutes(r) {
			if row.access.open {
				continue
			}
			path := row.examplePath()
			g := r.do(ask{method: row.method, path: path})
			g.problem(api.Unauthenticated)
			if got := g.header.Get("WWW-Authenticate"); got != `Bearer error="invalid_token"` {
				t.Errorf("%s %s without a token: WWW-Authenticate %q", row.method, path, got)
			}
			for _, scope := range append([]auth.Scope{""}, allScopes...) {
				g := r.do(ask{method: row.method, path: path, token: r.token("u_1", string(scope))})
				may := row.access.scope == "" || auth.ParseScopes(string(scope)).Has(row.access.scope)
				refused := g.status == http.StatusForbidden
				if path == "/v1/subjects/user/nobody" { // another's: the verb asks for holds:read itself
					may = auth.ParseScopes(string(scope)).Has(auth.HoldsRead)
				}
				if refused == may || g.status == http.StatusUnauthorized {
					t.Errorf("%s %s with scope %q: got %d %s, want it refused: %v", row.method, path, scope, g.status, g.body, !may)
				}
				if refused {
					want := `Bearer error="insufficient_scope", scope="` + g.problem(api.Forbidden).Scope + `"`
					if got := g.header.Get("WWW-Authenticate"); got != want {
						t.Errorf("%s %s with scope %q: WWW-Authenticate %s, want %s", row.method, path, scope, got, want)
					}
				}
			}
		}
	})
}

func TestTokens_BadOnesAre401(t *testing.T) { // FAULTS section 3 rows 1 to 7
	inBubble(t, func(r *rig) {
		good := r.token("u_42", "")
		for name, header := range map[string]string{
			"garbage":        "Bearer x",
			"another scheme": "Basic dTpw",
			"no token":       "Bearer ",
			"a changed one":  "Bearer " + good[:len(good)-4] + "AAAA",
			"two in one":     "Bearer " + good + ", Bearer " + good,
			"other audience": "Bearer " + r.token("u_42", "", func(c *auth.Claims) { c.Audience = "others" }),
			"other issuer":   "Bearer " + r.token("u_42", "", func(c *auth.Claims) { c.Issuer = "https://others.test" }),
		} {
			p := r.do(ask{method: http.MethodGet, path: "/v1/reservations", header: map[string]string{"Authorization": header}}).problem(api.Unauthenticated)
			if contains(p.Detail, good) {
				t.Errorf("%s: the answer quotes the token: %s", name, p.Detail)
			}
		}
		r.get("", "/v1/reservations?access_token="+good).problem(api.Unauthenticated)
		r.do(ask{method: http.MethodGet, path: "/v1/reservations", header: map[string]string{"Authorization": "bearer " + good}}).want(http.StatusOK, nil)
		time.Sleep(time.Hour + time.Minute)
		r.get(good, "/v1/reservations").problem(api.Unauthenticated)
	})
}

// same is a problem document without what differs from request to request.
func same(t *testing.T, g got) string {
	t.Helper()
	var p api.Problem
	if err := json.Unmarshal(g.body, &p); err != nil {
		t.Fatalf("%s: %v", g.body, err)
	}
	p.RequestID, p.Instance = "", ""
	text, _ := json.Marshal(p)
	return string(text)
}

func TestReservations_ForeignLooksLikeUnknown(t *testing.T) { // FAULTS row 34, section 3 rows 14 and 31
	inBubble(t, func(r *rig) {
		r.exports()
		mine := r.hold(r.token("u_42", ""), `{"action":"export","ttlSeconds":600}`)
		eve, reader := r.token("eve", "act-for"), r.token("rita", "holds:read")
		const unknown = "rsv_00000000000000000000000000"
		for _, act := range []string{"", "/extend", "/commit", "/release"} {
			method := http.MethodPost
			if act == "" {
				method = http.MethodGet
			}
			var answers []string
			for _, id := range []string{mine.ID, unknown, "nope", strings.ToLower(mine.ID)} {
				g := r.do(ask{method: method, path: "/v1/reservations/" + id + act, token: eve})
				g.problem(api.NotFound)
				answers = append(answers, same(t, g))
			}
			for _, a := range answers {
				if a != answers[0] {
					t.Errorf("%s%s: foreign, unknown and malformed differ: %v", method, act, answers)
				}
			}
			g := r.do(ask{method: method, path: "/v1/reservations/" + mine.ID + act, token: reader})
			if want := map[bool]int{true: http.StatusOK, false: http.StatusForbidden}[act == ""]; g.status != want {
				t.Errorf("%s%s with holds:read: got %d %s, want %d", method, act, g.status, g.body, want)
			}
		}
		var beats api.HeartbeatAnswer
		r.post(eve, "/v1/heartbeats", map[string]any{"ids": []string{mine.ID, unknown, "nope"}}).want(http.StatusOK, &beats)
		for _, b := range beats.Results {
			if b.OK || b.Problem == nil || b.Problem.Code != api.NotFound {
				t.Errorf("heartbeat of %s by another: got %+v, want not-found", b.ID, b)
			}
		}
		var list api.ReservationPage
		r.get(eve, "/v1/reservations").want(http.StatusOK, &list)
		if len(list.Data) != 0 {
			t.Errorf("list of another: got %+v, want none", list.Data)
		}
		var still api.Reservation
		r.get(r.token("u_42", ""), "/v1/reservations/"+mine.ID).want(http.StatusOK, &still)
		if still.State != api.StateHeld || *still.TTLSeconds != *mine.TTLSeconds {
			t.Errorf("the hold was changed by others: %+v", still)
		}
	})
}

func TestSubjects_ForeignOnesNeedAScope(t *testing.T) { // FAULTS section 3 row 13
	inBubble(t, func(r *rig) {
		r.exports()
		foreign := `"subject":{"kind":"user","id":"u_42"}`
		asks := []ask{
			{method: http.MethodPost, path: "/v1/checks", body: with(foreign)},
			{method: http.MethodPost, path: "/v1/checks", body: with(`"mode":"preview",` + foreign)},
			{method: http.MethodPost, path: "/v1/reservations", body: with(foreign)},
			{method: http.MethodPost, path: "/v1/fences/verify", body: `{"limit":"exports",` + foreign + `,"slot":0,"fence":1}`},
		}
		narrow := func(c *auth.Claims) { c.Subjects = []string{"org:*", "user:u_7"} }
		for _, a := range asks {
			before := r.revision()
			a.token = r.token("eve", "")
			if p := r.do(a).problem(api.Forbidden); p.Scope != "act-for" {
				t.Errorf("%s %s by another: scope %q, want act-for", a.path, a.body, p.Scope)
			}
			a.token = r.token("eve", "act-for", narrow)
			r.do(a).problem(api.Forbidden)
			if after := r.revision(); after != before {
				t.Errorf("%s %s: a refused call moved the store", a.path, a.body)
			}
			a.token = r.token("eve", "act-for")
			if g := r.do(a); g.status >= 300 {
				t.Errorf("%s %s with act-for: got %d %s", a.path, a.body, g.status, g.body)
			}
			a.token = r.token("eve", "act-for", func(c *auth.Claims) { c.Subjects = []string{"user:u_42"} })
			if g := r.do(a); g.status >= 300 {
				t.Errorf("%s %s with act-for for it: got %d %s", a.path, a.body, g.status, g.body)
			}
		}
		r.get(r.token("eve", "act-for"), "/v1/subjects/user/u_42").problem(api.Forbidden)
		r.get(r.token("u_42", ""), "/v1/subjects/user/u_42").want(http.StatusOK, nil)
	})
}

func TestHolds_MadeForAnotherAreOnesOwnToSettle(t *testing.T) { // API.md section 2, act-for
	inBubble(t, func(r *rig) {
		r.exports()
		worker, other := r.token("worker", "act-for"), r.token("other", "act-for")
		body := with(`"subject":{"kind":"user","id":"u_42"},"ttlSeconds":600`)
		hold := r.hold(worker, body)
		r.post(other, "/v1/reservations/"+hold.ID+"/release", nil).problem(api.NotFound)
		r.post(worker, "/v1/reservations/"+hold.ID+"/extend", nil).want(http.StatusOK, nil)
		r.post(r.token("worker", ""), "/v1/reservations/"+hold.ID+"/extend", nil).problem(api.NotFound)  // lost the scope
		r.post(r.token("u_42", ""), "/v1/reservations/"+hold.ID+"/extend", nil).want(http.StatusOK, nil) // its subject's own
		var ended api.Reservation
		r.post(worker, "/v1/reservations/"+hold.ID+"/release", nil).want(http.StatusOK, &ended)
		if ended.EndedBy != "user:worker" {
			t.Errorf("ended by: got %q, want user:worker", ended.EndedBy)
		}
	})
}

func TestTenants_SeeNothingOfEachOther(t *testing.T) { // FAULTS section 3 row 17
	inBubble(t, func(r *rig) {
		r.exports()
		for range 3 {
			r.limit(map[string]any{"name": "more", "id": "x" + strings.ToLower(time.Now().Format("150405.000000000")), "action": "x"})
			time.Sleep(time.Second)
		}
		hold := r.hold(r.token("u_42", ""), `{"action":"export"}`)
		there := func(c *auth.Claims) { c.Tenant = "acme" }
		root := r.token("root", "admin", there)
		var limits api.LimitPage
		r.get(root, "/v1/limits").want(http.StatusOK, &limits)
		if len(limits.Data) != 0 {
			t.Errorf("limits of an empty tenant: got %+v", limits.Data)
		}
		r.get(root, "/v1/limits/exports").problem(api.NotFound)
		r.get(root, "/v1/reservations/"+hold.ID).problem(api.NotFound)
		r.post(r.token("u_42", "", there), "/v1/reservations/"+hold.ID+"/release", nil).problem(api.NotFound)
		r.post(root, "/admin/v1/reservations/"+hold.ID+"/force-release", map[string]any{"reason": "x", "fence": hold.Fence}).problem(api.NotFound)
		r.post(r.token("u_42", "", there), "/v1/checks", `{"action":"export"}`).problem(api.NoMatchingLimit)
		r.get(r.token("root", "admin"), "/v1/limits?pageSize=1").want(http.StatusOK, &limits)
		if limits.NextCursor == nil {
			t.Fatalf("a page of 1 of 4 limits has no next: %+v", limits)
		}
		r.get(root, "/v1/limits?pageSize=1&cursor="+*limits.NextCursor).problem(api.InvalidCursor)
	})
}
