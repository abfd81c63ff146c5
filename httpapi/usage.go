package httpapi

import (
	"context"
	"encoding/binary"
	"errors"
	"net/http"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

var historyFilters = []string{"limit", "subject", "from", "to", "step", "pageSize", "cursor"}

// How far a look back goes when `from` is not given.
const (
	hoursBack = 24 * time.Hour
	daysBack  = reserve.RollupKept
)

// usage answers GET /v1/usage: what limits did, by hour or day.
//
// Access: with holds:read of everybody; else of one's own subject, which is what is meant when
// none is named. Cost: a read for each limit.
func (s *server) usage(ctx context.Context, c *call) (int, any, error) {
	p, err := s.page(c)
	if err != nil {
		return 0, nil, err
	}
	q, err := c.query.history(s.WindowNow())
	if err != nil {
		return 0, nil, err
	}
	if !c.who.Has(auth.HoldsRead) {
		if q.Subject.IsZero() {
			q.Subject = c.who.Subject
		}
		if q.Subject != c.who.Subject {
			return 0, nil, &scopeError{auth.HoldsRead}
		}
	}
	if q.After, err = readHistoryPlace(p.after); err != nil {
		return 0, nil, err
	}
	q.Tenant, q.Max = c.who.Tenant, p.size+1
	rows, complete, err := s.Service.History(ctx, q)
	if errors.Is(err, reserve.ErrNotFound) {
		return 0, nil, errNoLimit
	}
	if err != nil {
		return 0, nil, err
	}
	more := len(rows) > p.size
	rows = rows[:min(len(rows), p.size)]
	answer := api.UsageHistory{Data: make([]api.Usage, len(rows))}
	for i, r := range rows {
		answer.Data[i] = api.Usage{
			Limit: r.Limit, From: api.At(r.From), To: api.At(r.To), Started: r.Started, Refused: r.Refused,
			Committed: r.Committed, Released: r.Released, Expired: r.Expired, Forced: r.Forced, Charged: r.Charged,
		}
	}
	if !q.Subject.IsZero() {
		answer.Complete = &complete
	}
	if more {
		last := rows[len(rows)-1]
		answer.NextCursor = s.next(c, p, append(binary.BigEndian.AppendUint64(nil, uint64(last.From.Unix())), last.Limit...))
	}
	return http.StatusOK, answer, nil
}

func readHistoryPlace(b []byte) (p reserve.HistoryPlace, err error) {
	switch {
	case b == nil:
	case len(b) < 9:
		return p, errBadCursor
	default:
		p.From, p.Limit = time.Unix(int64(binary.BigEndian.Uint64(b)), 0).UTC(), string(b[8:])
	}
	return p, nil
}

// history is the filter of usage. now stands for the end of a time that has none.
func (q query) history(now time.Time) (f reserve.HistoryQuery, err error) {
	if text, there := q["subject"]; there {
		if f.Subject, err = limits.ParseSubject(text); err != nil {
			return f, badQuery("subject", "A subject is written kind:id, such as user:u_42.")
		}
	}
	if text, there := q["limit"]; there && (text == "" || len(text) > limits.MaxLimitID || !printable(text)) {
		return f, badQuery("limit", "The filter must be a limit's id.")
	}
	f.Limit = q["limit"]
	if step, there := q["step"]; there && step != "hour" && step != "day" {
		return f, badQuery("step", "The step must be hour or day.")
	}
	f.Day = q["step"] == "day"
	if f.From, f.To, err = q.span(); err != nil {
		return f, err
	}
	if f.To.IsZero() {
		f.To = now.Add(1) // the present hour also in its first instant
	}
	if f.From.IsZero() {
		back := hoursBack
		if f.Day {
			back = daysBack
		}
		f.From = f.To.Add(-back)
	}
	if !f.From.Before(f.To) {
		return f, badQuery("from", "The time from which must be before the time to which, which is now when it is not given.")
	}
	return f, nil
}
