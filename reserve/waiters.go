package reserve

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
)

// Waiter is a caller in line as it stands now.
type Waiter struct {
	Ticket
	Limit, Scope string
	Rank         int64
	Place        int           // from 1
	Estimate     time.Duration // until its turn; below 0: nobody can tell
}

// WaiterQuery filters a list of waiters. Zero fields do not filter.
type WaiterQuery struct {
	Tenant  string
	ID      ID
	Limit   string
	Subject limits.Subject
	Visible func(s limits.Subject, principal string) bool // nil: everything
	After   Position                                      // last item of the page before, by rank; zero: the first page
	Max     int                                           // 1–500
}

// Waiters is a page of those who stand in line, at whatever replica, by rank, after q.After: at
// most q.Max. It is no older than the call. Errors: ErrUnavailable. Cost: a read, and a look at
// every ticket of the tenant.
func (s *Service) Waiters(ctx context.Context, q WaiterQuery) ([]Waiter, error) {
	if err := s.catchUp(ctx); err != nil {
		return nil, err
	}
	s.desk.mu.Lock()
	defer s.desk.mu.Unlock()
	var page []*ticketAt
	for k, at := range s.desk.p.lines.byID {
		t := at.ticket
		if k.tenant != q.Tenant || q.ID != (ID{}) && q.ID != k.id || q.Limit != "" && q.Limit != at.ref.Limit || q.Subject != (limits.Subject{}) && q.Subject != t.Subject ||
			q.Visible != nil && !q.Visible(t.Subject, t.Principal) || q.After != (Position{}) && at.compare(q.After) <= 0 {
			continue
		}
		page = append(page, at)
	}
	slices.SortFunc(page, func(a, b *ticketAt) int { return a.compare(Position{b.ref.N, b.ticket.ID}) })
	page = page[:min(len(page), q.Max)]
	out := make([]Waiter, len(page))
	estimates := map[lineName][]time.Duration{}
	for i, at := range page {
		k := lineKey(at.ref)
		if estimates[k] == nil {
			estimates[k] = s.desk.estimates(k)
		}
		place := s.desk.p.lines.place(at)
		out[i] = Waiter{Ticket: *at.ticket, Limit: at.ref.Limit, Scope: at.ref.Scope, Rank: at.ref.N, Place: place, Estimate: estimates[k][place-1]}
	}
	return out, nil
}

// Position is where w stands in the order of a list.
func (w *Waiter) Position() Position { return Position{At: w.Rank, ID: w.ID} }

func (at *ticketAt) compare(p Position) int {
	return cmp.Or(cmp.Compare(at.ref.N, p.At), bytes.Compare(at.ticket.ID[:], p.ID[:]))
}

// catchUp waits until everything is known that was there when it was called.
func (s *Service) catchUp(ctx context.Context) error {
	got, err := s.cfg.Store.Load(ctx, nil, true)
	if err != nil {
		return err
	}
	return s.Reached(ctx, got.Rev)
}

// WaiterID is the id of a waiter as it is shown: that of the reservation it is to become, under
// another prefix.
func WaiterID(id ID) string { return waiterPrefix + strings.TrimPrefix(id.String(), idPrefix) }

// ParseWaiterID reads what WaiterID writes.
func ParseWaiterID(text string) (ID, error) {
	rest, ours := strings.CutPrefix(text, waiterPrefix)
	if !ours {
		return ID{}, ErrNotFound
	}
	return ParseID(idPrefix + rest)
}

const waiterPrefix = "wtr_"

// Cancel ends a wait, at whatever replica: its caller is answered ErrWaitCancelled. The same
// transaction puts trail, if there is one: whoever ends another's wait is noted.
// Errors: ErrNotFound, ErrForbidden; ErrContended, ErrUnavailable, with trail ErrFull (nothing
// happened); ErrUnknownOutcome (repeating is safe). Cost: its share of one transaction.
func (s *Service) Cancel(ctx context.Context, h HoldRef, trail *Note) error {
	key := holdKey{h.By.Tenant, h.ID}
	var here *waiter
	_, err := s.do(ctx, h.By.Tenant, func(f *fold, j *job) move {
		at := f.p.lines.byID[key]
		switch {
		case at == nil && j.sent:
			return answer(result{}) // by this very call, whose answer was lost
		case at == nil, h.By.Sees != nil && !h.By.Sees(at.ticket.Subject, at.ticket.Principal):
			return j.refuse(f, result{err: ErrNotFound}, nil)
		case h.By.Acts != nil && !h.By.Acts(at.ticket.Subject, at.ticket.Principal):
			return j.refuse(f, result{err: ErrForbidden}, nil)
		}
		j.touches = append(j.touches[:0], at.ref)
		if r, ok := f.blocked(j.touches); ok {
			return park(r)
		}
		if !f.untouched(at.ref) {
			return park(at.ref)
		}
		if j.full && trail != nil {
			return fail(ErrFull)
		}
		if here = s.desk.waiters[key]; here != nil {
			here.cancelled = true
		}
		dr := f.newDraft(AnyCatalog, j.touches)
		dr.guard(at.ref, ModIs, at.mod)
		dr.drop(at.ref)
		if trail != nil {
			dr.note(h.By.Tenant, trail.With(cancelled(at)))
		}
		j.finish = func(int64) result { return result{} }
		return change(dr)
	})
	if err != nil && !errors.Is(err, ErrUnknownOutcome) {
		s.desk.mu.Lock()
		if here != nil && s.desk.p.lines.byID[key] != nil {
			here.cancelled = false // it stands: what ends its wait will be something else
		}
		s.desk.mu.Unlock()
	}
	return err
}

// cancelled is what the trail is told of a wait that was ended for somebody else.
func cancelled(at *ticketAt) Change {
	t := at.ticket
	before := Facts{
		"limit": at.ref.Limit, "subject": t.Subject.String(), "action": string(t.Action), "cost": t.Cost,
		"since": t.Since.UTC().Format("2006-01-02T15:04:05.000Z"),
	}
	if t.Owner.Name != "" {
		before["owner"] = t.Owner.Name
	}
	return Change{Act: "waiter.cancel", Target: WaiterID(t.ID), Before: before.String()}
}

// Explanation is what would be decided, and where its caller would stand.
type Explanation struct {
	Decision Decision
	Place    int           // in the line of the limit that refuses, from 1; 0: there is nothing to wait for
	Estimate time.Duration // until its turn there; below 0: nobody can tell
}

// Explain decides like Preview and changes nothing. Errors as Preview's.
func (s *Service) Explain(ctx context.Context, r Request) (Explanation, error) {
	d, err := s.Preview(ctx, r)
	e := Explanation{Decision: d, Estimate: -1}
	if err != nil || d.Allowed || d.Block != nil || d.Binding < 0 || d.Verdicts[d.Binding].Why == NeverFits {
		return e, err
	}
	v := &d.Verdicts[d.Binding]
	s.desk.mu.Lock()
	defer s.desk.mu.Unlock()
	all := s.desk.estimates(lineName{r.Tenant, v.Rule.ID, v.Scope}, &Ticket{Subject: r.Subject, Action: r.Action, Cost: r.Cost})
	e.Place, e.Estimate = len(all), all[len(all)-1]
	return e, nil
}
