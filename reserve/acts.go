package reserve

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
)

// Extend lets the hold last at least ttl from now (0: its present TTL); it never shortens
// what is left. ttl is whole seconds within [MinTTL, MaxTTL] and the limits' maximum.
//
// Errors: ErrNotFound, ErrForbidden, *LostError for the hold; *TTLError; ErrFull, ErrContended,
// ErrUnavailable (nothing happened), ErrUnknownOutcome (repeating is safe).
// Cost: its share of one transaction.
func (s *Service) Extend(ctx context.Context, h HoldRef, ttl time.Duration) (Reservation, error) {
	a := &acting{HoldRef: h, do: extend, ttl: ttl, retain: s.cfg.Retain}
	return s.act(ctx, a)
}

// Commit ends the hold and keeps its charges: actual is what was used, < 0 for the estimate.
// What was not used goes back to the very slice charged; what was used beyond the estimate is
// charged to the present one. The same commit again is the same answer.
//
// Errors: as Extend's, without *TTLError; *SettledError after a release or another cost;
// *OverageError where a limit rejects it: the hold stays held.
func (s *Service) Commit(ctx context.Context, h HoldRef, actual int64) (Reservation, error) {
	a := &acting{HoldRef: h, do: settleHold, to: Committed, actual: actual, by: h.By.Principal, retain: s.cfg.Retain}
	return s.act(ctx, a)
}

// Release ends the hold and refunds its charges. Errors: as Commit's, without *OverageError.
func (s *Service) Release(ctx context.Context, h HoldRef, note string) (Reservation, error) {
	a := &acting{HoldRef: h, do: settleHold, to: Released, note: note, by: h.By.Principal, retain: s.cfg.Retain}
	return s.act(ctx, a)
}

// Force ends another's hold, as an administrator; its charges are refunded. fence must be the
// live one. block > 0 also refuses its subject every new grant for that long, in the same
// transaction, which also puts trail, if there is one. Errors: as Release's, and ErrFenced.
func (s *Service) Force(ctx context.Context, tenant string, id ID, fence int64, by, note string, block time.Duration, trail *Note) (Reservation, error) {
	a := &acting{
		HoldRef: HoldRef{ID: id, By: Caller{Tenant: tenant}}, do: settleHold, to: Forced,
		fence: fence, note: note, by: by, retain: s.cfg.Retain, trail: trail,
	}
	if block > 0 {
		a.block = &blocking{length: block, until: s.cfg.WindowNow().Add(block).Round(0)}
	}
	return s.act(ctx, a)
}

func (s *Service) act(ctx context.Context, a *acting) (Reservation, error) {
	res, err := s.do(ctx, a.By.Tenant, a.step)
	if err == nil && res.res.State > Held {
		s.meter.ended.WithLabelValues(res.res.State.String()).Inc()
	}
	return res.res, err
}

// ResetSubject forgets what limit has counted for subject (zero subject: the count shared by
// all), and counts on under the generation seq, so that no open charge is refunded from the
// new counts. catalogue.Editor has raised seq before. trail, if there is one, goes into the
// same transaction. Errors: as Release's.
func (s *Service) ResetSubject(ctx context.Context, tenant, limit string, subject limits.Subject, seq int64, trail *Note) error {
	scope := limits.AllScope
	if subject != (limits.Subject{}) {
		scope = subject.Scope()
	}
	_, err := s.do(ctx, tenant, func(f *fold, j *job) move {
		ref := usageRef(tenant, limit, scope)
		j.touches = append(j.touches[:0], ref)
		if r, ok := f.blocked(j.touches); ok {
			return park(r)
		}
		e, known := f.read(ref)
		if !known {
			return load(ref)
		}
		cat := f.p.catalogOf(tenant)
		if cat.Seq() < seq {
			return j.refuse(f, result{}, nil) // our catalogue has not come to seq: read, and wait for it
		}
		if e.Fault != nil {
			return fail(e.Fault)
		}
		cs, _ := e.Value.(Counts)
		if j.sent && slices.ContainsFunc(cs, func(c LimitCount) bool { return c.Limit == limit && c.Generation == seq }) {
			return answer(result{}) // by this very call, whose answer was lost
		}
		dr := f.newDraft(cat.Revision(), j.touches)
		dr.guard(ref, ModIs, e.Mod)
		dr.put(usageWrite(ref, cs.with(LimitCount{Limit: limit, Generation: seq}), cat, j.at))
		if trail != nil {
			dr.note(tenant, trail.With(Change{
				Act: "limit.reset", Target: limit + "/" + subject.String(), Before: usedFacts(cs, limit, cat, subject, j.at),
				After: Facts{"used": 0}.String(),
			}))
		}
		j.finish = func(int64) result { return result{} }
		return change(dr)
	})
	return err
}

// Sweep settles open records whose slots are gone: what was left by a time when no replica
// lived, or when the store had no space. It looks at most at max records and goes on from
// there the next time, through all tenants. The janitor's `expire`. Errors: ErrUnavailable.
//
// looked below max says that every tenant's records were looked at to their end.
func (s *Service) Sweep(ctx context.Context, max int) (looked int, err error) {
	if !s.sweep.TryLock() {
		return 0, nil // one is under way
	}
	defer s.sweep.Unlock()
	tenants, err := s.cfg.Lister.Tenants(ctx)
	if err != nil {
		return 0, err
	}
	for range tenants { // each once, and the one it left off in to its end
		if looked >= max {
			break
		}
		n, err := s.sweepTenant(ctx, tenants, max-looked)
		if looked += n; err != nil {
			return looked, err
		}
	}
	return looked, nil
}

// sweepTenant looks at at most max records of the tenant whose turn it is.
func (s *Service) sweepTenant(ctx context.Context, tenants []string, max int) (looked int, err error) {
	tenant, _ := nextTenant(tenants, s.sweep.tenant, s.sweep.after)
	if tenant != s.sweep.tenant || s.sweep.after == lastOfAll {
		s.sweep.tenant, s.sweep.after = tenant, ID{}
	}
	page, err := s.cfg.Lister.Records(ctx, tenant, RefOpen, s.sweep.after, max)
	if err != nil {
		return 0, err
	}
	s.sweep.after = lastID(page, max)
	s.desk.mu.Lock()
	now := s.desk.now()
	for _, e := range page {
		rec, ok := e.Value.(*Record)
		if !ok || rec.State != Held || s.desk.p.holds[holdKey{tenant, rec.ID}] != nil {
			continue
		}
		s.desk.end(tenant, rec.ID, now)
	}
	s.desk.mu.Unlock()
	s.desk.kick()
	return len(page), nil
}

var lastOfAll = ID{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// lastID is where the next page begins; lastOfAll when this was the last one of its tenant.
func lastID(page []Entry, max int) ID {
	if len(page) < max {
		return lastOfAll
	}
	return page[len(page)-1].Ref.ID
}

// nextTenant is whose records are looked at now: the same tenant's until they end, then the
// next one's by name, then the first one's again.
func nextTenant(tenants []string, last string, after ID) (string, bool) {
	if len(tenants) == 0 {
		return "", false
	}
	for _, t := range tenants {
		if t == last && after != lastOfAll || t > last {
			return t, true
		}
	}
	return tenants[0], true
}
