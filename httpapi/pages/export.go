package pages

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/reserve"
)

func printable(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, unicode.IsControl) < 0
}

// exported is one hold for a spreadsheet or a program.
type exported struct {
	ID, Limits, Subject, Action, Owner, Host string
	PID, Fence, Cost                         int64
	CreatedAt, ExpiresAt, LastHeartbeatAt    string
	Labels                                   map[string]string
}

// exportHolds answers with the holds of a filter, as CSV or JSON by the address's end.
func (p *Pages) exportHolds(w http.ResponseWriter, r *http.Request) {
	p.signedIn(func(ctx context.Context, v *visit) {
		if !v.who.Has(auth.HoldsRead) {
			p.forbid(v, auth.HoldsRead)
			return
		}
		q, err := v.holdQuery()
		if err != nil {
			p.fail(v, err)
			return
		}
		all, err := p.Service.List(ctx, q)
		if err != nil {
			p.fail(v, err)
			return
		}
		headers(w.Header())
		rows := make([]exported, len(all))
		for i := range all {
			rows[i] = export(&all[i])
		}
		if strings.HasSuffix(r.URL.Path, ".json") {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Disposition", `attachment; filename="holds.json"`)
			_ = json.NewEncoder(w).Encode(rows) // a browser that went away is no event
			return
		}
		w.Header().Set("Content-Type", "text/csv; charset=utf-8")
		w.Header().Set("Content-Disposition", `attachment; filename="holds.csv"`)
		out := csv.NewWriter(w)
		_ = out.Write([]string{"id", "limits", "subject", "action", "owner", "host", "pid", "fence", "cost", "createdAt", "expiresAt", "lastHeartbeatAt", "labels"})
		for _, e := range rows {
			_ = out.Write([]string{
				e.ID, plain(e.Limits), plain(e.Subject), plain(e.Action), plain(e.Owner), plain(e.Host), strconv.FormatInt(e.PID, 10),
				strconv.FormatInt(e.Fence, 10), strconv.FormatInt(e.Cost, 10), e.CreatedAt, e.ExpiresAt, e.LastHeartbeatAt, plain(labelWords(e.Labels)),
			})
		}
		out.Flush()
	})(w, r)
}

func export(h *reserve.Reservation) exported {
	e := exported{
		ID: h.ID.String(), Limits: placeWords(h), Subject: h.Subject.String(), Action: string(h.Action), Owner: h.Owner.Name, Host: h.Owner.Host,
		PID: h.Owner.PID, Fence: h.Fence, Cost: h.Cost, CreatedAt: stamp(h.CreatedAt), ExpiresAt: stamp(h.Expires), Labels: h.Labels,
	}
	if h.Beats > 0 {
		e.LastHeartbeatAt = stamp(h.LastBeat)
	}
	return e
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// plain keeps a spreadsheet from taking what somebody named their job for a formula.
func plain(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}
