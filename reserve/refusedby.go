package reserve

import (
	"context"
	"time"
)

// RefusedBy is what one limit refused, in all and within each scope that is told apart.
type RefusedBy struct {
	All    int64
	Scopes map[string]int64
}

// Refused is what limit refused between two full hours, by scope. Like History's, the counts
// may be too low: what other replicas have not put into the store yet is missing, and subjects
// beyond MaxTallied. Errors: ErrUnavailable. Cost: a read.
func (s *Service) Refused(ctx context.Context, tenant, limit string, from, to time.Time) (RefusedBy, error) {
	by := RefusedBy{Scopes: map[string]int64{}}
	first, last := hourOf(from), hourOf(to)
	stored, err := s.cfg.Lister.Hours(ctx, tenant, RefTally, limit, first, last, hoursRead)
	if err != nil {
		return by, err
	}
	add := func(scope string, n int64) {
		if n > 0 {
			by.All, by.Scopes[scope] = by.All+n, by.Scopes[scope]+n
		}
	}
	for _, e := range stored {
		if t, ok := e.Value.(*Tally); ok {
			for i := range t.Subjects {
				add(t.Subjects[i].Scope, t.Subjects[i].Refused)
			}
		}
	}
	t := s.desk.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	for k, c := range t.at {
		if k.tenant == tenant && k.limit == limit && k.hour >= first && k.hour < last {
			for subject, r := range c.by {
				add(subject.Scope(), r.Refused)
			}
		}
	}
	return by, nil
}
