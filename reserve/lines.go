package reserve

import (
	"cmp"
	"slices"
	"time"
)

// Line is those who wait for one limit within one scope.
type Line struct {
	Limit, Scope string
	Waiting      int
	Since        time.Time     // when the one who has waited longest came; zero: not known
	Estimate     time.Duration // until the turn of the first; below 0: nobody can tell
}

// Lines are the lines of a tenant in which anybody stands, the longest wait first: at most max
// of them, and how many stand in all of them. It is what this replica knows, at no cost.
func (s *Service) Lines(tenant string, max int) (lines []Line, waiting int) {
	s.desk.mu.Lock()
	defer s.desk.mu.Unlock()
	for key, byLimit := range s.desk.p.lines.byScope {
		if key.tenant != tenant {
			continue
		}
		for limit, l := range byLimit {
			if len(l.tickets) == 0 {
				continue
			}
			waiting += len(l.tickets)
			lines = append(lines, Line{Limit: limit, Scope: key.scope, Waiting: len(l.tickets), Since: l.since()})
		}
	}
	slices.SortFunc(lines, func(a, b Line) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Limit, b.Limit), cmp.Compare(a.Scope, b.Scope))
	})
	lines = lines[:min(len(lines), max)]
	for i := range lines {
		lines[i].Estimate = s.desk.estimates(lineName{tenant, lines[i].Limit, lines[i].Scope})[0]
	}
	return lines, waiting
}

// since is when the one who has waited longest came. A place that was kept over a hang-up may
// be older than its neighbours'.
func (l *line) since() (oldest time.Time) {
	for _, at := range l.tickets {
		if at.ticket != nil && (oldest.IsZero() || at.ticket.Since.Before(oldest)) {
			oldest = at.ticket.Since
		}
	}
	return oldest
}
