package reserve

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/windows"
)

// pageOfRecords is how many records a list reads at a time.
const pageOfRecords = 1_000

// Get is a reservation as it stands now, by a fresh read; kept for its retention after its
// end. Errors: ErrNotFound, ErrUnavailable.
func (s *Service) Get(ctx context.Context, h HoldRef) (Reservation, error) {
	got, err := s.cfg.Store.Load(ctx, []Ref{openRef(h.By.Tenant, h.ID), endedRef(h.By.Tenant, h.ID)}, true)
	if err != nil {
		return Reservation{}, err
	}
	if err := s.Reached(ctx, got.Rev); err != nil {
		return Reservation{}, err
	}
	for _, e := range got.Entries {
		if e.Fault != nil {
			return Reservation{}, e.Fault
		}
		rec, ok := e.Value.(*Record)
		if !ok || rec.State == Aborted {
			continue
		}
		if h.By.Sees != nil && !h.By.Sees(rec.Subject, rec.Principal) {
			break
		}
		return s.standing(h.By.Tenant, rec, e.Mod), nil
	}
	return Reservation{}, ErrNotFound
}

// standing is a record as it stands now: an open one whose slots are gone has expired,
// whoever settles it.
func (s *Service) standing(tenant string, rec *Record, rev int64) Reservation {
	if rec.State != Held {
		return Reservation{Record: *rec}
	}
	s.desk.mu.Lock()
	defer s.desk.mu.Unlock()
	now := s.cfg.Now()
	res := s.desk.p.reservation(rec, tenant, rev, now)
	if l := s.desk.p.holds[holdKey{tenant, rec.ID}]; l == nil || l.fence() != rev {
		res.State, res.EndedAt = Expired, now.Round(0).Truncate(time.Millisecond)
	}
	return res
}

// List is a page of reservations in q's order after q.After, at most q.Max. Cost: it reads
// every open (and, when asked for, ended) record of the tenant once.
func (s *Service) List(ctx context.Context, q Query) ([]Reservation, error) {
	if len(q.States) == 0 {
		q.States = []State{Held}
	}
	var kinds []RefKind
	if slices.Contains(q.States, Held) {
		kinds = append(kinds, RefOpen)
	}
	if slices.ContainsFunc(q.States, func(st State) bool { return st != Held }) {
		kinds = append(kinds, RefEnded)
	}
	var page []Reservation
	for _, kind := range kinds {
		err := s.each(ctx, q.Tenant, kind, func(rec *Record, rev int64) {
			if q.matches(rec) {
				page = q.add(page, s.standing(q.Tenant, rec, rev))
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return q.first(page), nil
}

// each visits every record of a kind.
func (s *Service) each(ctx context.Context, tenant string, kind RefKind, visit func(*Record, int64)) error {
	for after := (ID{}); ; {
		page, err := s.cfg.Lister.Records(ctx, tenant, kind, after, pageOfRecords)
		if err != nil {
			return err
		}
		for _, e := range page {
			if rec, ok := e.Value.(*Record); ok && rec.State != Aborted {
				visit(rec, e.Mod)
			}
		}
		if len(page) < pageOfRecords {
			return nil
		}
		after = page[len(page)-1].Ref.ID
	}
}

// matches applies the filters that a record answers by itself.
func (q *Query) matches(rec *Record) bool {
	switch {
	case q.Visible != nil && !q.Visible(rec.Subject, rec.Principal),
		q.Subject != (limits.Subject{}) && q.Subject != rec.Subject,
		q.Action != "" && q.Action != rec.Action,
		q.Owner != "" && q.Owner != rec.Owner.Name,
		q.Host != "" && q.Host != rec.Owner.Host,
		q.Prefix != "" && !q.found(rec):
		return false
	}
	return q.Limit == "" || slices.ContainsFunc(rec.Places, func(p Place) bool { return p.Limit == q.Limit }) ||
		slices.ContainsFunc(rec.Charges, func(c Charge) bool { return c.Limit == q.Limit })
}

// found reports whether something that people know a hold by begins with q.Prefix.
func (q *Query) found(rec *Record) bool {
	return slices.ContainsFunc([]string{rec.ID.String(), rec.Subject.String(), rec.Subject.ID, rec.Owner.Name, rec.Owner.Host},
		func(name string) bool { return strings.HasPrefix(name, q.Prefix) })
}

// add takes r in if it belongs after q.After. page is at most twice q.Max long: what cannot be
// among the first q.Max any more is dropped now and then, not at each turn.
func (q *Query) add(page []Reservation, r Reservation) []Reservation {
	if !slices.Contains(q.States, r.State) {
		return page
	}
	if q.After != (Position{}) && q.compare(q.Place(r), q.After) <= 0 {
		return page
	}
	if page = append(page, r); len(page) >= 2*q.Max {
		page = q.first(page)
	}
	return page
}

// first is the first q.Max of page, in order.
func (q *Query) first(page []Reservation) []Reservation {
	slices.SortFunc(page, func(a, b Reservation) int { return q.compare(q.Place(a), q.Place(b)) })
	return page[:min(len(page), q.Max)]
}

// Place is where r stands in q's order.
func (q *Query) Place(r Reservation) Position {
	at := r.CreatedAt
	switch {
	case q.Sort == Expiring && r.State == Held:
		at = r.Expires.Truncate(time.Second) // stable while nobody extends
	case q.Sort == Expiring:
		at = r.EndedAt
	case q.Sort == Silent && r.State == Held:
		at = r.LastBeat
	}
	return Position{At: at.UnixMilli(), ID: r.ID}
}

func (q *Query) compare(a, b Position) int {
	c := cmp.Compare(a.At, b.At)
	if q.Sort == Newest {
		c = -c
	}
	return cmp.Or(c, bytes.Compare(a.ID[:], b.ID[:]))
}

// VerifyFence reports whether fence is the live one of that slot, by a fresh read.
// Errors: ErrUnavailable.
func (s *Service) VerifyFence(ctx context.Context, tenant, limit string, subject limits.Subject, slot, fence int64) (bool, error) {
	scope := subject.Scope()
	if l, ok := s.Catalog(tenant).Limit(limit); ok && l.Share == limits.All {
		scope = limits.AllScope
	}
	got, err := s.cfg.Store.Load(ctx, []Ref{Place{limit, scope, slot}.ref(tenant)}, true)
	if err != nil {
		return false, err
	}
	e := got.Entries[0]
	return e.Mod != 0 && e.Create == fence, nil
}

// Usage is every limit that counts the subject, for whatever action, as it stands, by a
// fresh read. Errors: ErrUnavailable.
func (s *Service) Usage(ctx context.Context, tenant string, subject limits.Subject) ([]Verdict, error) {
	pick := func(cat *limits.Catalog) (rules []limits.Rule) {
		for _, l := range cat.Limits() {
			if l.Enabled && (l.SubjectKind == "*" || l.SubjectKind == subject.Kind) {
				rules = append(rules, cat.Rule(l, subject))
			}
		}
		return rules
	}
	return s.judged(ctx, tenant, subject, pick)
}

// judged looks at rules as they stand for subject after a read begun now.
func (s *Service) judged(ctx context.Context, tenant string, subject limits.Subject, pick func(*limits.Catalog) []limits.Rule) ([]Verdict, error) {
	r, err := s.do(ctx, tenant, func(f *fold, j *job) move {
		a := &asking{Request: Request{Tenant: tenant, Subject: subject}, mode: preview, rules: pick(f.p.catalogOf(tenant)), scope: subject.Scope()}
		j.touches = a.keys(nil)
		if missing, err := a.look(f, nil, true); err != nil {
			return fail(err)
		} else if len(missing) > 0 {
			return load(missing...)
		}
		return j.refuse(f, result{dec: decide(a.ss, nil, 0, preview, j.at)}, j.touches)
	})
	return r.dec.Verdicts, err
}

// ScopeUsage is what one limit has counted, or whose slots it has out, within one scope.
type ScopeUsage struct {
	Scope string
	Verdict
}

// UsageOf is one limit's use by scope, as far as anything is held or counted, at most max
// scopes after after, ascending. Errors: ErrNotFound for the limit, ErrUnavailable.
func (s *Service) UsageOf(ctx context.Context, tenant, limit, after string, max int) ([]ScopeUsage, error) {
	cat := s.Catalog(tenant)
	l, ok := cat.Limit(limit)
	switch {
	case !ok:
		return nil, ErrNotFound
	case l.Window.Kind == windows.Concurrent:
		return s.heldBy(cat, tenant, l, after, max), nil
	case l.Share == limits.All:
		vs, err := s.judged(ctx, tenant, limits.Subject{}, func(c *limits.Catalog) []limits.Rule {
			if l, ok := c.Limit(limit); ok {
				return []limits.Rule{c.Rule(l, limits.Subject{})}
			}
			return nil
		})
		if err != nil || len(vs) == 0 || after != "" {
			return nil, err
		}
		return []ScopeUsage{{limits.AllScope, vs[0]}}, nil
	}
	return s.countedBy(ctx, cat, tenant, l, after, max)
}

func (s *Service) heldBy(cat *limits.Catalog, tenant string, l *limits.Limit, after string, max int) (out []ScopeUsage) {
	s.desk.mu.Lock()
	defer s.desk.mu.Unlock()
	for k, set := range s.desk.p.sets {
		if k.tenant != tenant || k.limit != l.ID || k.scope <= after && after != "" || set.holds() == 0 {
			continue
		}
		rule := cat.Rule(l, ScopeSubject(k.scope))
		st := standing{rule: rule, scope: k.scope, held: set.holds()}
		out = append(out, ScopeUsage{k.scope, judge(&st, 0, s.cfg.WindowNow())})
	}
	slices.SortFunc(out, func(a, b ScopeUsage) int { return cmp.Compare(a.Scope, b.Scope) })
	return out[:min(len(out), max)]
}

func (s *Service) countedBy(ctx context.Context, cat *limits.Catalog, tenant string, l *limits.Limit, after string, max int) (out []ScopeUsage, err error) {
	for len(out) < max {
		page, err := s.cfg.Lister.Usage(ctx, tenant, after, pageOfRecords)
		if err != nil {
			return nil, err
		}
		for _, e := range page {
			after = e.Ref.Scope
			cs, _ := e.Value.(Counts)
			rule := cat.Rule(l, ScopeSubject(e.Ref.Scope))
			use, _ := cs.standingOf(rule)
			st := standing{rule: rule, scope: e.Ref.Scope, use: use}
			if v := judge(&st, 0, s.cfg.WindowNow()); v.Used > 0 && len(out) < max {
				out = append(out, ScopeUsage{e.Ref.Scope, v})
			}
		}
		if len(page) < pageOfRecords {
			break
		}
	}
	return out, nil
}

// ScopeSubject is the subject whose scope it is; nobody for a scope that is no subject's.
func ScopeSubject(scope string) limits.Subject {
	for i := range scope {
		if scope[i] == '/' {
			return limits.Subject{Kind: scope[:i], ID: scope[i+1:]}
		}
	}
	return limits.Subject{}
}
