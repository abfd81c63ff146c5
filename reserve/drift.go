package reserve

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"
)

// Bounds of Drift.
const (
	maxFindings = 1_000   // told; more are not looked for
	driftOpen   = 100_000 // open records whose charges are added up at a time
	driftRead   = 256     // keys of counts that one read brings
)

// Kinds of findings.
const (
	SlotsMissing  = "slots-missing"  // an open record without its slots: the hold is lost to its worker
	RecordMissing = "record-missing" // slots without a record: they come free when they run out
	CountLow      = "count-low"      // a count below what open holds have charged
	Unreadable    = "unreadable"     // a record, hold key or count that cannot be read: its key is left alone
)

// Finding is one thing that does not add up. Where names a reservation, or a limit and whose
// count it is.
type Finding struct{ Kind, Where, Detail string }

// String is the finding as a sentence.
func (f Finding) String() string { return f.Where + ": " + f.Detail }

// drift is one recount.
type drift struct {
	*Service
	tenant   string
	checked  map[string]int
	findings []Finding
	seed     maphash.Seed
}

func (d *drift) found(kind, where, detail string) {
	if len(d.findings) < maxFindings {
		d.findings = append(d.findings, Finding{kind, where, detail})
	}
}

// Drift recomputes what must agree in one tenant: each open record has its slots and each slot
// its record, and no count is below the charges of the holds that are open. At most 1,000
// findings are told; checked says how much was looked at. What changes while it looks is no
// finding: whatever does not agree is looked at once more, in one read at one revision.
//
// Errors: ErrUnavailable, and ctx's own. Cost: each open record and each key of counts that one
// charged is read, in pages; records once more for each 100,000 that are open. Memory: the
// charges of 100,000 holds.
func (s *Service) Drift(ctx context.Context, tenant string) (findings []Finding, checked map[string]int, err error) {
	d := &drift{
		Service: s, tenant: tenant, seed: maphash.MakeSeed(),
		checked: map[string]int{"records": 0, "slots": 0, "counts": 0},
	}
	if err := d.records(ctx); err != nil {
		return nil, nil, err
	}
	parts := uint64(1 + d.checked["records"]/driftOpen)
	for part := range parts {
		if err := d.counts(ctx, part, parts); err != nil {
			return nil, nil, err
		}
	}
	return d.findings, d.checked, nil
}

// records compares open records with slots.
func (d *drift) records(ctx context.Context) error {
	open := map[ID]struct{}{}
	err := d.eachOpen(ctx, func(e Entry, rec *Record) {
		d.checked["records"]++
		open[e.Ref.ID] = struct{}{}
		if rec == nil {
			d.found(Unreadable, e.Ref.ID.String(), "its record cannot be read: "+e.Fault.Error())
			return
		}
		if !d.stands(d.tenant, rec.ID, e.Mod) && d.stillOpen(ctx, d.tenant, rec.ID, e.Mod) {
			d.found(SlotsMissing, rec.ID.String(), "the record is open, its slots are not held")
		}
	})
	if err != nil {
		return err
	}
	for _, l := range d.liveOf(d.tenant) {
		d.checked["slots"] += len(l.places)
		if fault := l.fault(); fault != nil {
			d.found(Unreadable, l.id.String(), "its hold key cannot be read: "+fault.Error())
			continue
		}
		if _, ok := open[l.id]; !ok && d.isStray(ctx, d.tenant, l.id, l.places[0].create) {
			d.found(RecordMissing, l.id.String(), "its slots are held, it has no record")
		}
	}
	return nil
}

// countText names whose count of a limit it is.
func countText(limit, scope string) string {
	if s := ScopeSubject(scope); !s.IsZero() {
		return limit + " " + s.String()
	}
	return limit
}

// eachOpen visits the open records; rec is nil where one cannot be read.
func (d *drift) eachOpen(ctx context.Context, visit func(e Entry, rec *Record)) error {
	for after := (ID{}); ; {
		page, err := d.cfg.Lister.Records(ctx, d.tenant, RefOpen, after, pageOfRecords)
		if err != nil {
			return err
		}
		for _, e := range page {
			switch rec, _ := e.Value.(*Record); {
			case e.Fault != nil:
				visit(e, nil)
			case rec != nil && rec.State == Held:
				visit(e, rec)
			}
		}
		if len(page) < pageOfRecords {
			return nil
		}
		after = page[len(page)-1].Ref.ID
	}
}

// slotOfTime is one slice of one limit's counts under one generation.
type slotOfTime struct {
	limit      string
	generation int64
	slice      int64
}

// charges are what open holds have charged to one key of counts.
type charges map[slotOfTime]int64

func (c charges) add(rec *Record, ref Ref, tenant string) {
	for _, g := range rec.Charges {
		if usageRef(tenant, g.Limit, g.Scope) == ref {
			c[slotOfTime{g.Limit, g.Generation, int64(g.Slice)}] += g.Cost
		}
	}
}

// counts compares counts with charges, for the keys of one part.
func (d *drift) counts(ctx context.Context, part, parts uint64) error {
	charged := map[Ref]charges{}
	err := d.eachOpen(ctx, func(_ Entry, rec *Record) {
		if rec == nil {
			return
		}
		for _, c := range rec.Charges {
			ref := usageRef(d.tenant, c.Limit, c.Scope)
			if maphash.Comparable(d.seed, ref)%parts != part {
				continue
			}
			if charged[ref] == nil {
				charged[ref] = charges{}
			}
			charged[ref][slotOfTime{c.Limit, c.Generation, int64(c.Slice)}] += c.Cost
		}
	})
	if err != nil {
		return err
	}
	refs := make([]Ref, 0, len(charged))
	for ref := range charged {
		refs = append(refs, ref)
	}
	var doubtful []Ref
	for some := range slices.Chunk(refs, driftRead) {
		got, err := d.cfg.Store.Load(ctx, some, true)
		if err != nil {
			return err
		}
		for _, e := range got.Entries {
			if e.Fault != nil {
				d.found(Unreadable, countText(e.Ref.Limit, e.Ref.Scope), "its counts cannot be read: "+e.Fault.Error())
			} else if len(d.low(e, charged[e.Ref], d.checked)) > 0 {
				doubtful = append(doubtful, e.Ref)
			}
		}
	}
	return d.lookAgain(ctx, doubtful[:min(len(doubtful), maxFindings)])
}

// low are the findings of one key of counts: slices below what was charged to them. Counts of a
// limit that is gone, or of another generation, are nothing.
func (d *drift) low(e Entry, want charges, checked map[string]int) (out []Finding) {
	cs, _ := e.Value.(Counts)
	cat := d.Catalog(d.tenant)
	for at, cost := range want {
		l, ok := cat.Limit(at.limit)
		c, counted := cs.find(at.limit)
		if !ok || !l.Window.Counting() || cost == 0 || !counted || c.Generation != at.generation {
			continue
		}
		for _, n := range c.Use.Counts {
			if int64(n.Slice) != at.slice {
				continue
			}
			if checked != nil {
				checked["counts"]++
			}
			if n.Cost < cost {
				out = append(out, Finding{
					CountLow, countText(at.limit, e.Ref.Scope),
					fmt.Sprintf("slice %d counts %d, open holds charged %d", n.Slice, n.Cost, cost),
				})
			}
		}
	}
	return out
}

// lookAgain reads each doubtful key together with all records that charged it, at one
// revision: only what does not agree then is told.
func (d *drift) lookAgain(ctx context.Context, doubtful []Ref) error {
	if len(doubtful) == 0 {
		return nil
	}
	by := map[Ref][]Ref{}
	err := d.eachOpen(ctx, func(e Entry, rec *Record) {
		if rec == nil {
			return
		}
		for _, c := range rec.Charges {
			if ref := usageRef(d.tenant, c.Limit, c.Scope); slices.Contains(doubtful, ref) {
				by[ref] = append(by[ref], e.Ref)
			}
		}
	})
	if err != nil {
		return err
	}
	for ref, records := range by {
		got, err := d.cfg.Store.Load(ctx, append([]Ref{ref}, records...), true)
		if err != nil {
			return err
		}
		want := charges{}
		seen := map[Ref]struct{}{}
		for _, e := range got.Entries[1:] {
			_, twice := seen[e.Ref]
			if rec, ok := e.Value.(*Record); ok && rec.State == Held && !twice {
				want.add(rec, ref, d.tenant)
			}
			seen[e.Ref] = struct{}{}
		}
		for _, f := range d.low(got.Entries[0], want, nil) {
			d.found(f.Kind, f.Where, f.Detail)
		}
	}
	return nil
}

func (s *Service) stands(tenant string, id ID, fence int64) bool {
	s.desk.mu.Lock()
	defer s.desk.mu.Unlock()
	l := s.desk.p.holds[holdKey{tenant, id}]
	return l != nil && l.fence() == fence
}

// stillOpen reads once more whether the record is open at rev, and lets the watch catch up.
func (s *Service) stillOpen(ctx context.Context, tenant string, id ID, rev int64) bool {
	got, err := s.cfg.Store.Load(ctx, []Ref{openRef(tenant, id)}, true)
	if err != nil || got.Entries[0].Mod != rev || s.Reached(ctx, got.Rev) != nil {
		return false
	}
	return !s.stands(tenant, id, rev)
}

// isStray reads once more whether the slots at that fence have no record.
func (s *Service) isStray(ctx context.Context, tenant string, id ID, fence int64) bool {
	got, err := s.cfg.Store.Load(ctx, []Ref{openRef(tenant, id)}, true)
	if err != nil || got.Entries[0].Mod != 0 || s.Reached(ctx, got.Rev) != nil {
		return false
	}
	return s.stands(tenant, id, fence)
}

func (s *Service) liveOf(tenant string) (out []live) {
	s.desk.mu.Lock()
	defer s.desk.mu.Unlock()
	for k, l := range s.desk.p.holds {
		if k.tenant == tenant && len(l.places) > 0 {
			c := *l
			c.places = append([]placed(nil), l.places...)
			out = append(out, c)
		}
	}
	return out
}
