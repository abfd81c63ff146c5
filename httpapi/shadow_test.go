package httpapi

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

// A limit in shadow lets everything through, says what it would have done, and is in no header.
func TestShadow_JudgesCountsAndTells(t *testing.T) {
	inBubble(t, func(r *rig) {
		l := r.limit(map[string]any{"id": "trial", "action": "export", "amount": 1, "enforce": false})
		if l.Enforce {
			t.Errorf("made %+v", l)
		}
		r.limit(map[string]any{"id": "daily", "action": "export", "amount": 2, "window": "day", "enforce": false})
		r.limit(map[string]any{"id": "real", "action": "export", "amount": 3})
		token := r.token("u_1", "")
		for n := range 3 {
			held := r.hold(token, map[string]any{"action": "export"})
			if held.Slots[1].Limit != "trial" && held.Slots[0].Limit != "trial" {
				t.Errorf("hold %d takes no slot of the limit in shadow: %+v", n, held.Slots)
			}
		}
		var check api.CheckAnswer
		answer := r.post(token, "/v1/checks", map[string]any{"action": "export", "mode": "reserve"}).want(http.StatusOK, &check)
		if check.Allowed || check.DecidedBy != "real" {
			t.Errorf("got allowed %v, decided by %s; want the enforced limit to refuse", check.Allowed, check.DecidedBy)
		}
		for _, v := range check.Limits {
			switch v.ID {
			case "trial":
				if v.Allowed || !v.Shadow || v.Used != 3 || v.Excess != 2 {
					t.Errorf("trial: %+v", v)
				}
			case "daily":
				if v.Allowed || !v.Shadow || v.Used != 3 {
					t.Errorf("daily: %+v", v)
				}
			case "real":
				if v.Shadow {
					t.Errorf("real: %+v", v)
				}
			}
		}
		if h := answer.header.Get("RateLimit"); !strings.HasPrefix(h, `"real"`) || strings.Contains(h, "trial") || strings.Contains(h, "daily") {
			t.Errorf("RateLimit: %s", h)
		}
		if text := string(r.get("", "/metrics").body); r.cfg.Gatherer != nil && text == "" {
			t.Error("no metrics")
		}
		// Enforced from now on: what was granted meanwhile stays, and shows as excess.
		var one api.Limit
		got := r.get(r.token("root", "limits:write"), "/v1/limits/trial").want(http.StatusOK, &one)
		r.do(ask{
			method: http.MethodPatch, path: "/v1/limits/trial", token: r.token("root", "limits:write"),
			body: map[string]any{"enforce": true}, header: map[string]string{"If-Match": got.header.Get("Etag")},
		}).want(http.StatusOK, &one)
		p := r.post(token, "/v1/reservations", map[string]any{"action": "export"}).problem(api.NoFreeSlot)
		if p.DecidedBy == "" || !one.Enforce {
			t.Errorf("got %+v, %+v", p, one)
		}
	})
}

// A schedule's turn is applied by itself, shown beforehand, and gives way to an override.
func TestSchedules_AreShownAndTakeTheirTurn(t *testing.T) {
	inBubble(t, func(r *rig) { // begins at midnight of 2000-01-01 UTC, a Saturday
		body := map[string]any{
			"id": "exports", "action": "export", "amount": 1,
			"schedules": []any{
				map[string]any{"cron": "0 8 * * *", "tz": "Europe/Berlin", "amount": 5},
				map[string]any{"cron": "0 20 * * *", "tz": "Europe/Berlin", "amount": 2},
			},
		}
		l := r.limit(body)
		if len(l.Schedules) != 2 || l.Scheduled == nil || l.Scheduled.Amount != 2 || l.Amount != 1 {
			t.Fatalf("made %+v, scheduled %+v", l, l.Scheduled)
		}
		if n := l.NextChanges; len(n) != 5 || n[0].Amount != 5 || !n[0].At.Equal(time.Date(2000, 1, 1, 7, 0, 0, 0, time.UTC)) || n[0].InSeconds <= 0 {
			t.Errorf("next changes: %+v", n)
		}
		amount := func() int64 {
			var check api.CheckAnswer
			r.post(r.token("u_1", ""), "/v1/checks", map[string]any{"action": "export", "mode": "preview"}).want(http.StatusOK, &check)
			return check.Limits[0].Amount
		}
		if got := amount(); got != 2 {
			t.Errorf("before eight: amount %d, want 2", got)
		}
		r.skew.Add(int64(7*time.Hour + time.Minute))
		cat := r.cfg.Service.Catalog("default")
		if n, rev, err := r.cfg.Editor.EndPast(r.t.Context(), "default", cat, r.windowNow()); n != 1 || err != nil {
			t.Fatalf("EndPast: %d, %v", n, err)
		} else if err := r.cfg.Service.Reached(r.t.Context(), rev); err != nil {
			t.Fatal(err)
		}
		if got := amount(); got != 5 {
			t.Errorf("after eight in Berlin: amount %d, want 5", got)
		}
		r.do(ask{
			method: http.MethodPut, path: "/v1/limits/exports/override", token: r.token("root", "limits:write"), body: map[string]any{"amount": 9},
		}).want(http.StatusOK, nil)
		if got := amount(); got != 9 {
			t.Errorf("with an override for everyone: amount %d, want 9", got)
		}
		r.post(r.token("root", "admin"), "/v1/limits", map[string]any{
			"name": "x", "subjectKind": "user", "action": "x", "amount": 1, "window": "day",
			"schedules": []any{map[string]any{"cron": "TZ=UTC 0 0 * * *", "tz": "Mars/Base", "amount": 1}},
		}).problem(api.InvalidValue)
	})
}
