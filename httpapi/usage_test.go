package httpapi

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

func TestUsage_CountsWhatWasDone(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.limit(map[string]any{"id": "exports", "action": "export", "amount": 1})
		r.limit(map[string]any{"id": "calls", "action": "call", "amount": 100, "window": "day"})
		worker, ops := r.token("u_42", ""), r.token("ops", "holds:read")
		h := r.hold(worker, `{"action":"export"}`)
		r.post(worker, "/v1/reservations", `{"action":"export"}`).problem(api.NoFreeSlot)
		r.post(worker, "/v1/reservations/"+h.ID+"/commit", nil).want(http.StatusOK, nil)
		r.post(worker, "/v1/checks", `{"action":"call","cost":7}`).want(http.StatusOK, nil)
		r.post(worker, "/v1/checks", `{"action":"call","mode":"preview"}`).want(http.StatusOK, nil)

		var all api.UsageHistory
		r.get(ops, "/v1/usage").want(http.StatusOK, &all)
		hour := time.Now().UTC().Truncate(time.Hour)
		want := []api.Usage{
			{Limit: "calls", From: api.At(hour), To: api.At(hour.Add(time.Hour)), Started: 1, Committed: 1, Charged: 7},
			{Limit: "exports", From: api.At(hour), To: api.At(hour.Add(time.Hour)), Started: 1, Refused: 1, Committed: 1},
		}
		if len(all.Data) != 2 || all.Data[0] != want[0] || all.Data[1] != want[1] || all.Complete != nil {
			t.Errorf("usage: got %+v, want %+v", all, want)
		}
		for path, token := range map[string]string{
			"/v1/usage?limit=exports&subject=user:u_42": ops,
			"/v1/usage?limit=exports":                   worker,
			"/v1/usage?subject=user:u_42&limit=exports": worker,
		} {
			var mine api.UsageHistory
			if r.get(token, path).want(http.StatusOK, &mine); len(mine.Data) != 1 || mine.Data[0] != want[1] || mine.Complete == nil || !*mine.Complete {
				t.Errorf("%s: got %+v, want %+v, complete", path, mine, want[1])
			}
		}
		var day api.UsageHistory
		if r.get(ops, "/v1/usage?limit=calls&step=day").want(http.StatusOK, &day); len(day.Data) != 1 || day.Data[0].To.Sub(day.Data[0].From.Time) != 24*time.Hour {
			t.Errorf("by day: got %+v", day)
		}
		var page api.UsageHistory
		r.get(ops, "/v1/usage?pageSize=1").want(http.StatusOK, &page)
		r.get(ops, "/v1/usage?pageSize=1&cursor="+url.QueryEscape(*page.NextCursor)).want(http.StatusOK, &page)
		if len(page.Data) != 1 || page.Data[0] != want[1] || page.NextCursor != nil {
			t.Errorf("the second page: got %+v, want %+v and no third", page, want[1])
		}
		var none api.UsageHistory
		if r.get(ops, "/v1/usage?to="+url.QueryEscape(hour.Add(-72*time.Hour).Format(time.RFC3339))).want(http.StatusOK, &none); len(none.Data) != 0 {
			t.Errorf("three days before: got %+v", none)
		}
	})
}

func TestUsage_IsOnesOwn(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.exports()
		for _, scope := range []string{"", "act-for", "limits:write", "audit:read"} {
			r.get(r.token("eve", scope), "/v1/usage?subject=user:u_42").problem(api.Forbidden)
			r.get(r.token("eve", scope), "/v1/usage?subject=user:eve").want(http.StatusOK, nil)
		}
		ops := r.token("ops", "holds:read")
		r.get(ops, "/v1/usage?limit=none").problem(api.NotFound)
		for _, query := range []string{
			"subject=u_42", "subject=", "step=week", "step=", "from=now", "limit=", "to=" + url.QueryEscape("2020-01-01T00:00:00+25:00"),
			"from=" + url.QueryEscape(time.Now().Add(time.Hour).UTC().Format(time.RFC3339)), "until=x", "cursor=abc",
		} {
			if g := r.get(ops, "/v1/usage?"+query); g.status != http.StatusBadRequest {
				t.Errorf("%s: got %d %s, want 400", query, g.status, g.body)
			}
		}
	})
}
