package httpapi

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/catalogue"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

var auditFilters = []string{"actor", "act", "target", "from", "to", "pageSize", "cursor"}

// maxActor bounds what actor and target are compared with, in bytes: a limit's id and a
// subject's kind and id, and what is between them.
const maxActor = limits.MaxLimitID + limits.MaxKind + limits.MaxSubjectID + 2

// note is what the audit trail is told of the caller of an act, at this moment.
func (s *server) note(c *call, reason string) reserve.Note {
	return reserve.Note{At: s.Now(), Actor: c.by(), Reason: reason, Address: c.address, RequestID: c.id}
}

// edits is the editor for the caller: what it does is noted.
func (s *server) edits(c *call, reason string) *catalogue.Editor {
	return s.Editor.As(s.note(c, reason))
}

// did notes an act that is no transaction of ours, before it is done.
func (s *server) did(ctx context.Context, c *call, act, target string, after reserve.Facts) error {
	n := s.note(c, "")
	return s.Service.Note(ctx, c.who.Tenant, n.With(reserve.Change{Act: act, Target: target, After: after.String()}))
}

// audit answers GET /admin/v1/audit: who did what to what, the latest first.
//
// Access: audit:read. Cost: a filter may look at the whole trail, 10,000 notes at most.
func (s *server) audit(ctx context.Context, c *call) (int, any, error) {
	p, err := s.page(c)
	if err != nil {
		return 0, nil, err
	}
	q, err := c.query.trail()
	if err != nil {
		return 0, nil, err
	}
	if q.After, err = readTrailPlace(p.after); err != nil {
		return 0, nil, err
	}
	q.Tenant, q.Max = c.who.Tenant, p.size+1
	lines, err := s.Service.Trail(ctx, q)
	if err != nil {
		return 0, nil, err
	}
	more := len(lines) > p.size
	lines = lines[:min(len(lines), p.size)]
	answer := api.AuditPage{Data: make([]api.AuditLine, len(lines))}
	for i := range lines {
		answer.Data[i] = auditView(&lines[i])
	}
	if more {
		last := lines[len(lines)-1].Place
		answer.NextCursor = s.next(c, p, binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(last.Rank)), uint64(last.Index)))
	}
	return http.StatusOK, answer, nil
}

func readTrailPlace(b []byte) (p reserve.TrailPlace, err error) {
	switch {
	case b == nil:
	case len(b) != 16:
		return p, errBadCursor
	default:
		p.Rank, p.Index = int64(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint64(b[8:]))
	}
	return p, nil
}

func auditView(l *reserve.TrailLine) api.AuditLine {
	return api.AuditLine{
		At: api.At(l.Note.At), Actor: l.Note.Actor, Act: l.Act, Target: l.Target, Before: facts(l.Before), After: facts(l.After),
		Reason: l.Note.Reason, Address: l.Note.Address, RequestID: l.Note.RequestID,
	}
}

// facts are told as they were noted; null for none.
func facts(text string) json.RawMessage {
	if text == "" {
		return json.RawMessage("null")
	}
	return json.RawMessage(text)
}

// trail is the filter of the audit trail.
func (q query) trail() (f reserve.TrailQuery, err error) {
	for _, name := range [...]string{"actor", "act", "target"} {
		if text, there := q[name]; there && (text == "" || len(text) > maxActor || !printable(text)) {
			return f, badQuery(name, "The filter must be 1 to 352 bytes of readable text.")
		}
	}
	f.Actor, f.Act, f.Target = q["actor"], q["act"], q["target"]
	if f.From, f.To, err = q.span(); err != nil {
		return f, err
	}
	return f, nil
}

// span is the time from `from`, included, to `to`, not; zero for what is not given.
func (q query) span() (from, to time.Time, err error) {
	for _, end := range [...]struct {
		name string
		at   *time.Time
	}{{"from", &from}, {"to", &to}} {
		text, there := q[end.name]
		if !there {
			continue
		}
		var at api.Time
		if err := at.UnmarshalText([]byte(text)); err != nil {
			return from, to, badQuery(end.name, "An instant is written like 2027-01-31T12:00:00Z.")
		}
		*end.at = at.Time
	}
	if !from.IsZero() && !to.IsZero() && !from.Before(to) {
		return from, to, badQuery("from", "The time from which must be before the time to which.")
	}
	return from, to, nil
}
