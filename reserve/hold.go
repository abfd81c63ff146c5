package reserve

import "time"

// acting is one act on a hold that exists: extend, commit, release, force or expire.
type acting struct {
	HoldRef
	do     func(a *acting, f *fold, j *job, h held) move
	to     State         // settle: what it ends as
	actual int64         // commit: the cost, < 0 for the estimate
	ttl    time.Duration // extend: asked for, 0 for the present one
	fence  int64         // force: the fence the administrator saw
	note   string
	by     string
	trail  *Note     // force: what the audit trail is told
	block  *blocking // force: refuse the subject new grants meanwhile
	retain time.Duration
}

// held is a hold as a batch sees it.
type held struct {
	rec   *Record
	rev   int64 // of the open record; also the fence, since slots and record are put together
	live  *live // nil when no slot of its stands
	keys  []Ref
	stand []Entry // what stands under keys, of this hold; Mod 0 where it is gone
	whole bool    // every key stands
}

// step finds the hold and hands it to do.
//
// An open record whose slots are not all there is over: that is what holding means (DESIGN.md
// section 1). It is settled as expired on the spot, whoever asked, once a fresh read has shown
// that the picture is not just behind.
func (a *acting) step(f *fold, j *job) move {
	tenant := a.By.Tenant
	j.stands = nil // it spoke of the attempt before
	open, ended := openRef(tenant, a.ID), endedRef(tenant, a.ID)
	e, known := f.read(open)
	if !known {
		return load(open, ended)
	}
	if e.Fault != nil {
		return fail(e.Fault)
	}
	rec, _ := e.Value.(*Record)
	if rec == nil || rec.State != Held {
		return a.over(f, j, open, ended)
	}
	if a.By.Sees != nil && !a.By.Sees(rec.Subject, rec.Principal) {
		return j.refuse(f, result{err: ErrNotFound}, []Ref{open, ended})
	}
	if a.By.Acts != nil && !a.By.Acts(rec.Subject, rec.Principal) {
		return j.refuse(f, result{err: ErrForbidden}, []Ref{open, ended})
	}
	h := held{rec: rec, rev: e.Mod, live: f.p.holds[holdKey{tenant, a.ID}], keys: rec.keys(tenant), whole: true}
	j.touches = append(append(j.touches[:0], open), h.keys...)
	if r, ok := f.blocked(j.touches); ok {
		return park(r)
	}
	if !f.untouched(open) && f.cells[open].base.Mod == 0 {
		return park(open) // made in this very batch: it has no fence yet
	}
	for _, k := range h.keys {
		s, _ := f.read(k)
		if s.Create != h.rev {
			s, h.whole = Entry{Ref: k}, false
		}
		h.stand = append(h.stand, s)
	}
	if !h.whole && (j.fresh == 0 || f.p.rev < max(j.fresh, h.rev)) {
		return confirm([]Ref{open, ended})
	}
	return a.do(a, f, j, h)
}

// over answers for a reservation that is not open.
func (a *acting) over(f *fold, j *job, open, ended Ref) move {
	e, known := f.read(ended)
	if !known {
		return load(open, ended)
	}
	if e.Fault != nil {
		return fail(e.Fault)
	}
	delete(f.p.owed, holdKey{a.By.Tenant, a.ID}) // settled, by whomever
	rec, _ := e.Value.(*Record)
	if rec == nil || a.By.Sees != nil && !a.By.Sees(rec.Subject, rec.Principal) {
		return j.refuse(f, result{err: ErrNotFound}, []Ref{open, ended})
	}
	if !f.untouched(ended) {
		return park(ended) // ended in this very batch
	}
	if a.By.Acts != nil && !a.By.Acts(rec.Subject, rec.Principal) {
		return fail(ErrForbidden)
	}
	if a.to == Forced && rec.State == Forced && j.sent {
		return answer(result{res: Reservation{Record: *rec}}) // by this very call, whose answer was lost
	}
	return answer(a.verdictOn(rec))
}

// verdictOn is the answer of an act on a reservation that ended before. The same settlement
// again is the same answer; another one is told how it ended.
func (a *acting) verdictOn(rec *Record) result {
	res := Reservation{Record: *rec}
	switch {
	case a.to == Expired: // nobody asks
		return result{err: errEnded}
	case a.to == rec.State && a.to == Released,
		a.to == rec.State && a.to == Committed && (a.actual < 0 || a.actual == rec.Charged):
		return result{res: res}
	case rec.State == Expired, rec.State == Forced, a.to == 0:
		return result{err: &LostError{Record: *rec}}
	}
	return result{err: &SettledError{Record: *rec}}
}

// settleHold ends a hold: commit, release or force.
func settleHold(a *acting, f *fold, j *job, h held) move {
	if !h.whole {
		return expire(a, f, j, h)
	}
	if a.to == Forced && a.fence != h.rev {
		return j.refuse(f, result{err: ErrFenced}, j.touches)
	}
	dr, cond := f.newDraft(AnyCatalog, nil), CreateIs
	if a.to == Aborted {
		cond = ModIs
	}
	for _, s := range h.stand {
		if a.to == Aborted && s.Mod != h.rev {
			return answer(result{}) // it was extended: somebody knows of it
		}
		dr.guard(s.Ref, cond, h.rev)
		dr.drop(s.Ref)
	}
	return a.end(f, j, h, dr, a.to)
}

// expire ends a hold that nobody extended. A slot that stands is deleted under the very
// revision whose glass ran out here; one that does not is guarded by "not this fence", never
// by "absent": another holder may be in it. Source: DESIGN.md section 4.
func expire(a *acting, f *fold, j *job, h held) move {
	if h.whole && (h.live == nil || h.live.ends > f.p.at(f.now) || !f.untouched(h.keys[0])) {
		return answer(result{}) // it was extended since, or in this very batch: its glass runs again
	}
	dr := f.newDraft(AnyCatalog, nil)
	for _, s := range h.stand {
		if s.Mod == 0 {
			dr.guard(s.Ref, CreateIsNot, h.rev)
			continue
		}
		dr.guard(s.Ref, ModIs, s.Mod)
		dr.drop(s.Ref)
	}
	key := holdKey{a.By.Tenant, a.ID}
	o, owed := f.p.owed[key]
	if !owed || j.full {
		return a.end(f, j, h, dr, Expired)
	}
	as := o.a // its slots were given back before, when there was no space to say so
	as.to = a.to
	m := as.end(f, j, h, dr, o.to)
	if finish := j.finish; m.kind == changes {
		j.finish = func(rev int64) result { delete(f.p.owed, key); return finish(rev) }
	}
	return m
}

// end settles the record and its charges beside what dr does to the slots.
func (a *acting) end(f *fold, j *job, h held, dr *draft, to State) move {
	tenant, cat := a.By.Tenant, f.p.catalogOf(a.By.Tenant)
	dr.guard(openRef(tenant, a.ID), ModIs, h.rev)
	dr.touches = j.touches
	if j.full {
		return a.leave(f, j, h, dr, to)
	}
	usage, missing := map[Ref]Counts{}, []Ref(nil)
	for _, c := range h.rec.Charges {
		if c.Cost == 0 && (to != Committed || a.actual <= 0) {
			continue // nothing was charged, and nothing is
		}
		ref := usageRef(tenant, c.Limit, c.Scope)
		j.touches = append(j.touches, ref)
		e, known := f.read(ref)
		if e.Fault != nil {
			return fail(e.Fault)
		}
		if !known {
			missing = append(missing, ref)
			continue
		}
		usage[ref], _ = e.Value.(Counts)
		if stale(usage[ref], cat) && j.fresh == 0 {
			return confirm([]Ref{ref}) // counted under a catalogue newer than ours
		}
	}
	if len(missing) > 0 {
		return load(missing...)
	}
	if r, ok := f.blocked(j.touches); ok {
		return park(r)
	}
	dr.touches = j.touches
	changed := map[Ref]bool{}
	end, err := settle(h.rec, to, a.actual, cat, j.at,
		func(c Charge) Counts { return usage[usageRef(tenant, c.Limit, c.Scope)] },
		func(c Charge, cs Counts) { r := usageRef(tenant, c.Limit, c.Scope); usage[r], changed[r] = cs, true })
	if err != nil {
		return j.refuse(f, result{err: err}, j.touches)
	}
	for ref, cs := range usage {
		e, _ := f.read(ref)
		dr.guard(ref, ModIs, e.Mod)
		if changed[ref] {
			dr.put(usageWrite(ref, cs, cat, j.at))
		}
	}
	if to == Committed && end.charged > h.rec.Cost {
		dr.catalog = cat.Revision()
	}
	rec := a.ended(h, to, j.start, end)
	dr.drop(openRef(tenant, a.ID))
	dr.put(Write{Ref: endedRef(tenant, a.ID), Value: rec, Keep: a.retain, Grain: a.retain / 16})
	if a.block != nil {
		if m, ok := a.block.draft(f, j, dr, rec); !ok {
			return m
		}
	}
	if a.trail != nil {
		dr.note(tenant, a.trail.With(a.forced(rec)))
	}
	j.finish = func(int64) result {
		f.p.measure(tenant, rec)
		return a.result(rec)
	}
	return change(dr)
}

// forced is what the trail is told of a hold that was ended for somebody else.
func (a *acting) forced(rec *Record) Change {
	after := Facts{"state": rec.State.String(), "refunded": rec.Refunded}
	if a.block != nil {
		after["blockedUntil"] = a.block.until.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	before := Facts{"state": Held.String(), "subject": rec.Subject.String(), "action": string(rec.Action), "fence": rec.Fence}
	if rec.Owner.Name != "" {
		before["owner"] = rec.Owner.Name
	}
	return Change{Act: "reservation.force-release", Target: rec.ID.String(), Before: before.String(), After: after.String()}
}

// leave frees the slots and nothing else, because the store takes no puts: the record is
// settled later as what it ended as, from memory, or as expired when this replica is gone.
func (a *acting) leave(f *fold, j *job, h held, dr *draft, to State) move {
	if a.block != nil {
		return fail(ErrFull) // a block is a put
	}
	end := settlement{refunded: h.rec.Cost}
	if actual := a.actual; to == Committed {
		if actual < 0 {
			actual = h.rec.Cost
		}
		end = settlement{charged: actual, refunded: max(0, h.rec.Cost-actual)}
	}
	rec := a.ended(h, to, j.start, end)
	j.finish = func(int64) result {
		f.p.owe(a.By.Tenant, *a, to)
		return a.result(rec)
	}
	if len(dr.writes) == 0 {
		return fail(ErrFull) // nothing to delete: the sweep will see to it
	}
	return change(dr)
}

// ended is the record as it is kept after the end.
func (a *acting) ended(h held, to State, at time.Time, end settlement) *Record {
	rec := *h.rec
	rec.State, rec.Fence, rec.EndedAt = to, h.rev, at.Round(0).Truncate(time.Millisecond)
	rec.Charged, rec.Refunded = end.charged, end.refunded
	if to != Expired {
		rec.EndedBy, rec.Note = a.by, a.note
	}
	return &rec
}

// result is what the caller of the act hears once rec has ended.
func (a *acting) result(rec *Record) result {
	r := result{res: Reservation{Record: *rec}}
	if a.to != rec.State {
		r.err = &LostError{Record: *rec}
	}
	return r
}

// stale says that cs counts under a generation the catalogue has not come to.
func stale(cs Counts, cat interface{ Seq() int64 }) bool {
	for _, c := range cs {
		if c.Generation > cat.Seq() {
			return true
		}
	}
	return false
}

func roundUp(d, grain time.Duration) time.Duration { return (d + grain - 1) / grain * grain }
