package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/auth"
)

// trail is the audit trail, the latest first, by "act target".
func (r *rig) trail(query string) (lines []api.AuditLine, said []string) {
	r.t.Helper()
	var page api.AuditPage
	r.get(r.token("ops", "audit:read"), "/admin/v1/audit"+query).want(http.StatusOK, &page)
	for _, l := range page.Data {
		said = append(said, l.Act+" "+l.Target)
	}
	return page.Data, said
}

// One line an act, in the act's own transaction, with what it changed.
func TestAudit_EachActLeavesALine(t *testing.T) {
	inBubble(t, func(r *rig) {
		root := r.token("root", "admin")
		act := func(method, path string, body any, header map[string]string) got {
			return r.do(ask{method: method, path: path, token: root, body: body, header: header})
		}
		match := map[string]string{"If-Match": "*"}
		r.limit(map[string]any{"id": "exports", "action": "export", "amount": 3})
		r.limit(map[string]any{"id": "calls", "action": "call", "amount": 9, "window": "day"})
		act(http.MethodPatch, "/v1/limits/exports", `{"amount":5}`, match).want(http.StatusOK, nil)
		act(http.MethodPatch, "/v1/limits/exports", `{"amount":5}`, match).want(http.StatusOK, nil) // changes nothing
		act(http.MethodPatch, "/v1/limits/exports", `{"paused":true,"pauseReason":"vendor outage"}`, match).want(http.StatusOK, nil)
		act(http.MethodPatch, "/v1/limits/exports", `{"paused":false}`, match).want(http.StatusOK, nil)
		act(http.MethodPut, "/v1/limits/exports/overrides/user/u_42", `{"amount":null,"reason":"month end"}`, nil).want(http.StatusOK, nil)
		act(http.MethodDelete, "/v1/limits/exports/overrides/user/u_42", nil, nil).want(http.StatusNoContent, nil)
		act(http.MethodPut, "/v1/limits/exports/override", `{"amount":8}`, nil).want(http.StatusOK, nil)
		r.post(r.token("u_42", ""), "/v1/checks", `{"action":"call","cost":4}`).want(http.StatusOK, nil)
		act(http.MethodPost, "/v1/limits/calls/reset", `{"subject":{"kind":"user","id":"u_42"},"reason":"test ran wild"}`, nil).want(http.StatusOK, nil)
		act(http.MethodPost, "/v1/limits/calls/reset", `{"reason":"new month"}`, nil).want(http.StatusOK, nil)
		h := r.hold(r.token("u_42", ""), `{"action":"export","owner":{"name":"sleep"}}`)
		force := fmt.Sprintf(`{"reason":"stuck","fence":%d,"blockSubjectSeconds":60}`, h.Fence)
		r.post(root, "/admin/v1/reservations/"+h.ID+"/force-release", strings.Replace(force, "fence\":", "fence\":9", 1)).problem(api.FenceDiffers)
		r.post(root, "/admin/v1/reservations/"+h.ID+"/force-release", force).want(http.StatusOK, nil)
		act(http.MethodDelete, "/v1/subjects/user/u_42/block", nil, nil).want(http.StatusNoContent, nil)
		r.post(root, "/admin/v1/janitor/expire/run", nil).want(http.StatusOK, nil)
		r.post(root, "/admin/v1/janitor/none/run", nil).problem(api.NotFound)
		r.post(root, "/admin/v1/clock", `{"advanceSeconds":60}`).want(http.StatusOK, nil)
		act(http.MethodDelete, "/v1/limits/exports", nil, match).want(http.StatusNoContent, nil)

		lines, said := r.trail("")
		want := []string{
			"limit.delete exports", "clock.advance clock", "janitor.run expire", "subject.unblock user:u_42",
			"reservation.force-release " + h.ID, "limit.reset calls", "limit.reset calls/user:u_42", "override.set exports",
			"override.delete exports/user:u_42", "override.set exports/user:u_42", "limit.resume exports",
			"limit.pause exports", "limit.change exports", "limit.create calls", "limit.create exports",
		}
		// Lines of one millisecond have no order among them.
		slices.Sort(said)
		slices.Sort(want)
		if !slices.Equal(said, want) {
			t.Fatalf("the trail: got\n%s\nwant\n%s", strings.Join(said, "\n"), strings.Join(want, "\n"))
		}
		for _, c := range []struct{ act, target, before, after, reason string }{
			{"limit.change", "exports", `{"amount":3}`, `{"amount":5}`, ""},
			{"limit.pause", "exports", `{"pauseReason":"","paused":false}`, `{"pauseReason":"vendor outage","paused":true}`, "vendor outage"},
			{"override.set", "exports/user:u_42", `null`, `{"amount":null,"by":"user:root","reason":"month end","until":null}`, "month end"},
			{"limit.reset", "calls/user:u_42", `{"used":4}`, `{"used":0}`, "test ran wild"},
			{"limit.reset", "calls", `null`, `null`, "new month"},
			{"reservation.force-release", h.ID, fmt.Sprintf(`{"action":"export","fence":%d,"owner":"sleep","state":"held","subject":"user:u_42"}`, h.Fence), "", "stuck"},
			{"clock.advance", "clock", `null`, `{"advanceSeconds":60}`, ""},
		} {
			i := slices.IndexFunc(lines, func(l api.AuditLine) bool { return l.Act == c.act && l.Target == c.target })
			l := lines[i]
			if l.Actor != "user:root" || l.Address != "192.0.2.1" || l.RequestID == "" || l.At.IsZero() || l.Reason != c.reason {
				t.Errorf("%s %s: who and why: got %+v", c.act, c.target, l)
			}
			if string(l.Before) != c.before || c.after != "" && string(l.After) != c.after {
				t.Errorf("%s %s: got %s, then %s; want %s, then %s", c.act, c.target, l.Before, l.After, c.before, c.after)
			}
		}
	}, func(c *Config) { c.Janitor = jobs{} })
}

// Whoever works leaves no line: the trail is no log of requests.
func TestAudit_WorkersAreNotInIt(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.exports()
		worker := r.token("u_42", "")
		h := r.hold(worker, `{"action":"export"}`)
		r.post(worker, "/v1/reservations/"+h.ID+"/extend", nil).want(http.StatusOK, nil)
		r.post(worker, "/v1/reservations/"+h.ID+"/commit", nil).want(http.StatusOK, nil)
		if _, said := r.trail(""); len(said) != 1 {
			t.Errorf("the trail: got %q, want the limit alone", said)
		}
	})
}

func TestAudit_PagesAndFilters(t *testing.T) {
	inBubble(t, func(r *rig) {
		began := time.Now()
		for n := range 7 {
			r.limit(map[string]any{"id": fmt.Sprintf("l%d", n), "action": "a"})
			time.Sleep(time.Minute)
		}
		other := r.token("dana", "limits:write")
		r.do(ask{method: http.MethodPut, path: "/v1/limits/l3/overrides/user/a", token: other, body: `{"amount":2}`}).want(http.StatusOK, nil)

		ops := r.token("ops", "audit:read")
		var got []string
		for path := "/admin/v1/audit?pageSize=3"; path != ""; {
			var page api.AuditPage
			r.get(ops, path).want(http.StatusOK, &page)
			for _, l := range page.Data {
				got = append(got, l.Target)
			}
			if path = ""; page.NextCursor != nil {
				path = "/admin/v1/audit?pageSize=3&cursor=" + url.QueryEscape(*page.NextCursor)
			}
		}
		if want := []string{"l3/user:a", "l6", "l5", "l4", "l3", "l2", "l1", "l0"}; !slices.Equal(got, want) {
			t.Errorf("pages of 3: got %q, want %q", got, want)
		}
		at := func(minutes int) string {
			return url.QueryEscape(began.Add(time.Duration(minutes) * time.Minute).UTC().Format(time.RFC3339Nano))
		}
		for query, want := range map[string][]string{
			"?actor=user:dana":                    {"override.set l3/user:a"},
			"?act=override.set":                   {"override.set l3/user:a"},
			"?target=l3":                          {"override.set l3/user:a", "limit.create l3"},
			"?target=l3/user:a":                   {"override.set l3/user:a"},
			"?target=l":                           nil,
			"?actor=user:nobody":                  nil,
			"?from=" + at(2) + "&to=" + at(4):     {"limit.create l3", "limit.create l2"},
			"?to=" + at(1):                        {"limit.create l0"},
			"?act=limit.create&from=" + at(6):     {"limit.create l6"},
			"?from=" + at(400) + "&actor=user:me": nil,
		} {
			if _, said := r.trail(query); !slices.Equal(said, want) {
				t.Errorf("%s: got %q, want %q", query, said, want)
			}
		}
		for _, query := range []string{"?from=yesterday", "?to=2027-01-01", "?actor=", "?act=%00", "?from=" + at(2) + "&to=" + at(2), "?limit=l3", "?cursor=x", "?pageSize=0"} {
			if g := r.get(ops, "/admin/v1/audit"+query); g.status != http.StatusBadRequest {
				t.Errorf("%s: got %d, want 400", query, g.status)
			}
		}
	})
}

func TestAudit_IsForThoseWhoMay(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.exports()
		for _, scope := range []string{"", "limits:write", "holds:force", "act-for"} {
			r.get(r.token("eve", scope), "/admin/v1/audit").problem(api.Forbidden)
		}
		other := r.token("eve", "admin", func(c *auth.Claims) { c.Tenant = "acme" })
		var page api.AuditPage
		if r.get(other, "/admin/v1/audit").want(http.StatusOK, &page); len(page.Data) != 0 {
			t.Errorf("another tenant's trail: got %+v", page.Data)
		}
	})
}

// A line is never of an act that did not happen: both are one transaction.
func TestAudit_NothingHappenedNoLine(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.exports()
		root := r.token("root", "admin")
		r.do(ask{method: http.MethodPatch, path: "/v1/limits/exports", token: root, body: `{"amount":5}`, header: map[string]string{"If-Match": `"1"`}}).problem(api.PreconditionFailed)
		r.post(root, "/v1/limits", map[string]any{"id": "exports", "name": "x", "action": "a", "subjectKind": "user", "amount": 1, "window": "day"}).problem(api.LimitExists)
		if _, said := r.trail(""); len(said) != 1 {
			t.Errorf("the trail: got %q, want the limit's beginning alone", said)
		}
	})
}

func TestAudit_NoLongFactsTwice(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.limit(map[string]any{"id": "exports", "action": "a", "labels": map[string]string{"team": "a"}})
		r.do(ask{
			method: http.MethodPatch, path: "/v1/limits/exports", token: r.token("root", "admin"),
			body: `{"labels":{"team":"b"}}`, header: map[string]string{"If-Match": "*"},
		}).want(http.StatusOK, nil)
		lines, _ := r.trail("?act=limit.change")
		var before map[string]map[string]string
		if err := json.Unmarshal(lines[0].Before, &before); err != nil || len(before) != 1 || before["labels"]["team"] != "a" {
			t.Errorf("before: got %s, %v; want the labels alone", lines[0].Before, err)
		}
	})
}
