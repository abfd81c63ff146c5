package reserve

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
)

// Bounds of the audit trail. The janitor trims it, so it may be over them for a minute.
const (
	MaxTrail  = 10_000              // notes a tenant keeps, the latest
	TrailKept = 90 * 24 * time.Hour // of a note

	// maxNoteFacts bounds what one note tells of before and after, in bytes; past it only acts
	// and targets are told. An import of all limits a tenant may have is one note.
	maxNoteFacts = 64 << 10
)

// Note is what somebody did on purpose, as the audit trail keeps it: one key, written in the
// transaction of the act where the act is one. A note without Changes is none.
type Note struct {
	At        time.Time // by the real clock
	Actor     string    // kind:id of the token's subject
	Reason    string
	Address   string // where the request came from
	RequestID string
	Changes   []Change
}

// Change is one thing that a note tells: an act on a target, and what that was before and
// after as JSON objects, "" where there was, or is, nothing.
type Change struct {
	Act, Target   string
	Before, After string
}

// Facts is what Change.Before and After are written as. It holds no secret: whoever makes it
// names each fact.
type Facts map[string]any

// String is the facts as a JSON object, "" for none.
func (f Facts) String() string {
	if len(f) == 0 {
		return ""
	}
	text, err := json.Marshal(map[string]any(f))
	if err != nil {
		return "" // facts are text, numbers and truths
	}
	return string(text)
}

// With is n with changes, cut to what a note may tell.
func (n Note) With(changes ...Change) *Note {
	n.At = n.At.UTC().Truncate(time.Millisecond)
	n.Changes = changes
	left := maxNoteFacts
	for i := range n.Changes {
		c := &n.Changes[i]
		if left -= len(c.Before) + len(c.After); left < 0 {
			c.Before, c.After = "", ""
		}
	}
	return &n
}

// trailBits of a rank tell notes of one millisecond apart.
const trailBits = 20

// TrailRank is a rank that every note made at or after at is below or at, and every earlier
// one above: ranks go down, so that the latest note comes first.
func TrailRank(at time.Time) int64 { return math.MaxInt64 - max(at.UnixMilli(), 0)<<trailBits }

// Write puts n under a rank of its own; the guard sees that it is. Both belong into the
// transaction of the act.
func (n *Note) Write(tenant string) (Guard, Write) {
	ref := Ref{Tenant: tenant, Kind: RefTrail, N: TrailRank(n.At) - rand.Int64N(1<<trailBits)}
	return Guard{Ref: ref, Cond: ModIs}, Write{Ref: ref, Value: n}
}

// note puts n beside what a draft does.
func (d *draft) note(tenant string, n *Note) {
	g, w := n.Write(tenant)
	d.guards, d.writes = append(d.guards, g), append(d.writes, w)
}

// Note puts n into the trail by itself, for an act that is no transaction of ours; it is to be
// called before the act, so that nothing is done that the trail does not tell.
// Errors: ErrUnavailable, ErrContended, ErrFull, ErrUnknownOutcome.
func (s *Service) Note(ctx context.Context, tenant string, n *Note) error {
	ctx, cancel := context.WithTimeout(ctx, flightBudget)
	defer cancel()
	g, w := n.Write(tenant)
	res, err := s.cfg.Store.Apply(ctx, Batch{Groups: []Group{{
		Tenant: tenant, Catalog: AnyCatalog, Guards: []Guard{g}, Writes: []Write{w},
	}}})
	switch {
	case err != nil:
		return fmt.Errorf("the audit trail: %w", err)
	case !res.Outcomes[0].Committed:
		return ErrContended // another note has the rank: one in a million of the same millisecond
	}
	return nil
}

// TrailQuery selects from the trail. Zero fields select everything.
type TrailQuery struct {
	Tenant             string
	Actor, Act, Target string
	From, To           time.Time // From included, To not
	After              TrailPlace
	Max                int // lines
}

// TrailPlace is where a line stands in the trail: the rank of its note, and which of its
// changes it is.
type TrailPlace struct{ Rank, Index int64 }

// TrailLine is one change of one note.
type TrailLine struct {
	Place TrailPlace
	Note  *Note // whose Changes hold it
	Change
}

// pageOfTrail is how many notes are read at a time.
const pageOfTrail = 500

// Trail is a page of the trail, the latest first. Cost: a read for each 500 notes it looks at.
// Errors: ErrUnavailable.
func (s *Service) Trail(ctx context.Context, q TrailQuery) (lines []TrailLine, err error) {
	after := max(q.After.Rank-1, 0) // the note itself once more, for the rest of its lines
	if !q.To.IsZero() {
		after = max(after, TrailRank(q.To)) // exactly those before To rank above
	}
	for {
		page, err := s.cfg.Lister.Trail(ctx, q.Tenant, after, pageOfTrail)
		if err != nil {
			return nil, err
		}
		for _, e := range page {
			n, ok := e.Value.(*Note)
			if !ok {
				continue // it cannot be read, and stays for whoever can
			}
			if !q.From.IsZero() && n.At.Before(q.From) {
				return lines, nil
			}
			if lines = q.pick(lines, e.Ref.N, n); len(lines) >= q.Max {
				return lines[:q.Max], nil
			}
		}
		if len(page) < pageOfTrail {
			return lines, nil
		}
		after = page[len(page)-1].Ref.N
	}
}

// pick appends the lines of a note that q selects.
func (q *TrailQuery) pick(lines []TrailLine, rank int64, n *Note) []TrailLine {
	if q.Actor != "" && q.Actor != n.Actor {
		return lines
	}
	for i, c := range n.Changes {
		told := rank == q.After.Rank && int64(i) <= q.After.Index
		if told || q.Act != "" && q.Act != c.Act || q.Target != "" && !within(c.Target, q.Target) {
			continue
		}
		lines = append(lines, TrailLine{Place: TrailPlace{rank, int64(i)}, Note: n, Change: c})
	}
	return lines
}

// within says that target is what was asked for, or an override of the limit asked for. A
// limit's id has no colon and no slash.
func within(target, asked string) bool {
	return target == asked || !strings.ContainsAny(asked, ":/") && strings.HasPrefix(target, asked+"/")
}

// usedFacts is what limit has counted for subject, as the trail tells it.
func usedFacts(cs Counts, limit string, cat *limits.Catalog, subject limits.Subject, at time.Time) string {
	l, ok := cat.Limit(limit)
	if !ok {
		return ""
	}
	st := standing{rule: cat.Rule(l, subject)}
	st.use, _ = cs.standingOf(st.rule)
	return Facts{"used": judge(&st, 0, at).Used}.String()
}
