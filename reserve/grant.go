package reserve

import (
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/windows"
)

// asking is one check (consume, preview or reserve) as the desk works on it.
type asking struct {
	Request
	mode      mode
	id        ID // of the reservation, or of the replay of a consume with a key
	digest    [16]byte
	retain    time.Duration
	unmatched bool
	noSpace   bool // the store is nearly full: nothing that puts is begun
	asked     bool // counts are being loaded
	sent      bool // an attempt may have been committed, whichever job of its made it: what stands under its id is its own

	// The store was restored not long ago: a hold that is not in it may still be at work. What a
	// key has begun before is told all the same.
	quarantined bool

	waits   bool      // it stands in line when it is refused
	last    bool      // and does not any more
	crowded bool      // too many wait at this replica: it cannot join
	until   time.Time // when its caller gives up
	replica string    // this one's id
	tried   Ref       // where it was last to stand
	hope    Ref       // a slot that is being freed, and that it may take then

	under *limits.Catalog // what rules, sets and touches were found under
	rules []limits.Rule
	ss    []standing
	sets  []Ref  // per rule: its set of slots, or its usage key
	scope string // of the subject

	room struct { // most requests need no more than this
		rules   [2]limits.Rule
		ss      [2]standing
		sets    [2]Ref
		touches [5]Ref
	}
}

// step decides the check on the batch so far.
func (a *asking) step(f *fold, j *job) move {
	if err := f.p.unreadable(a.Tenant); err != nil {
		return fail(err)
	}
	cat := f.p.catalogOf(a.Tenant)
	if a.under != cat {
		a.match(cat, j)
	}
	if len(a.rules) > limits.MaxMatching {
		return j.refuse(f, result{err: &TooManyLimitsError{Matching: len(a.rules)}}, nil)
	}
	if len(a.rules) == 0 && !a.unmatched {
		return j.refuse(f, result{err: &NoLimitError{Nearest: nearest(cat, a)}}, nil)
	}
	if f.skewed && counting(a.rules) {
		return fail(ErrClockSkew)
	}
	if r, ok := f.blocked(j.touches); ok {
		return park(r)
	}
	if m, ok := a.earlier(f, j); ok {
		return m
	}
	if a.quarantined {
		return fail(ErrQuarantine)
	}
	own, err := a.stands(f)
	switch {
	case err != nil:
		return fail(err)
	case own != nil && (f.busy(own.ref) || !f.untouched(own.ref)):
		return park(own.ref) // it may be put away this instant
	}
	if missing, err := a.look(f, own, j.sure); err != nil {
		return fail(err)
	} else if len(missing) > 0 {
		a.asked = true
		return load(missing...)
	}
	block, _ := cat.Block(a.Subject)
	d := decide(a.ss, block, a.Cost, a.mode, j.at)
	if a.queues(&d) {
		return a.stand(f, j, d, own)
	}
	if !d.Allowed && a.joinsHere(f) {
		return park(a.sets[0]) // decided when who joins stands there
	}
	if !d.Allowed || a.mode == preview {
		a.countWaiting(f, &d, own)
		if l := a.overdue(f, d); l != nil && !j.waited {
			j.waited, j.after = true, l
			return move{kind: outlasts}
		}
		unknown := a.nameHolders(f, &d, j.fresh != 0)
		return j.refuse(f, result{dec: d}, append(slices.Clip(j.touches), unknown...))
	}
	if j.full || a.noSpace {
		return fail(ErrFull)
	}
	if a.mode == consume {
		return a.consume(f, j, cat, d, own)
	}
	return a.take(f, j, cat, d, own)
}

// counting says whether any of the rules needs a clock that can be trusted.
func counting(rules []limits.Rule) bool {
	return slices.ContainsFunc(rules, func(r limits.Rule) bool { return r.Window.Kind != windows.Concurrent })
}

func nearest(cat *limits.Catalog, a *asking) []string {
	var out []string
	for _, n := range cat.Nearest(a.Subject, a.Action, 3) {
		out = append(out, string(n))
	}
	return out
}

// match finds the limits that judge the check, and the keys it decides on.
func (a *asking) match(cat *limits.Catalog, j *job) {
	if a.under == nil {
		a.rules, a.ss, a.sets, j.touches = a.room.rules[:0], a.room.ss[:0], a.room.sets[:0], a.room.touches[:0]
		a.scope = a.Subject.Scope()
	}
	a.under = cat
	a.rules = cat.AppendMatch(a.rules[:0], a.Subject, a.Action)
	j.touches = a.keys(j.touches[:0])
}

// keys are the keys the check decides on: usage, sets of slots, and its own record or replay.
func (a *asking) keys(out []Ref) []Ref {
	a.sets = a.sets[:0]
	for _, r := range a.rules {
		scope := a.scope
		if r.Share == limits.All {
			scope = limits.AllScope
		}
		ref := usageRef(a.Tenant, r.ID, scope)
		if r.Window.Kind == windows.Concurrent {
			ref = setRef(a.Tenant, r.ID, scope)
		}
		a.sets = append(a.sets, ref)
		if !slices.Contains(out, ref) {
			out = append(out, ref)
		}
	}
	switch {
	case a.Key != "": // a key belongs to one request, whatever its mode
		out = append(out, openRef(a.Tenant, a.id), endedRef(a.Tenant, a.id), a.replayRef())
	case a.mode == take:
		out = append(out, openRef(a.Tenant, a.id))
	}
	return out
}

// look reads how each limit stands, and names the keys that must be loaded first. A value
// that cannot be read is an error: what it forbids is not known.
//
// Unless it must be sure, it guesses that counts nobody has met are not there, where that is
// likely: a grant is guarded by the guess, a refusal is read anew anyhow.
func (a *asking) look(f *fold, own *ticketAt, sure bool) (missing []Ref, err error) {
	rank := newcomer
	if own != nil {
		rank = own.ref.N
	}
	a.ss = a.ss[:0]
	if a.asked { // what was loaded tells what a guess would have been worth
		a.asked = false
		if e, known := f.read(usageRef(a.Tenant, "", a.scope)); known {
			f.p.odds.saw(e.Mod == 0)
		}
	}
	for i, r := range a.rules {
		ref := a.sets[i]
		s := standing{rule: r, scope: ref.Scope, free: -1, ahead: !r.Shadow && f.ahead(lineName{a.Tenant, r.ID, ref.Scope}, rank)}
		if ref.isSet() {
			set := f.p.sets[f.p.names.key(ref)]
			if set == nil {
				set = &slotSet{}
			}
			if s.held, s.free = set.count, set.free(r.Ceiling()); a.hopes(f, set, r.Ceiling()) {
				s.held, s.free = s.held-1, a.hope.N
			}
			s.ends = set
			set.asOf = f.p.read(f.now)
		} else {
			e, known := f.read(ref)
			if !known && (sure || !f.p.odds.good()) {
				missing = append(missing, ref)
				continue
			}
			if e.Fault != nil {
				return nil, e.Fault
			}
			cs, _ := e.Value.(Counts)
			s.use, s.gen = cs.standingOf(r)
		}
		a.ss = append(a.ss, s)
	}
	return missing, nil
}

// consume charges the counting limits; each concurrent one lends a free slot to compare.
func (a *asking) consume(f *fold, j *job, cat *limits.Catalog, d Decision, own *ticketAt) move {
	dr := f.newDraft(cat.Revision(), j.touches)
	if _, err := a.charge(f, dr, cat, j.at); err != nil {
		return fail(err)
	}
	for i := range a.ss {
		if s := &a.ss[i]; a.sets[i].isSet() {
			dr.guard(Place{s.rule.ID, s.scope, s.free}.ref(a.Tenant), ModIs, 0)
		}
	}
	j.mark, j.blind = nil, a.Key == ""
	if a.Key != "" {
		ref := a.replayRef()
		e, _ := f.read(ref)
		dr.guard(ref, ModIs, e.Mod)
		a.guardKey(f, dr, openRef(a.Tenant, a.id), endedRef(a.Tenant, a.id))
		dr.put(Write{
			Ref: ref, Keep: a.retain, Grain: a.retain / 16,
			Value: &Replay{State: Committed, Principal: a.Principal, Body: a.digest, At: j.start.Round(0)},
		})
		j.mark = func() (Write, []Guard) {
			return Write{
				Ref: ref, Keep: a.retain,
				Value: &Replay{State: Aborted, Principal: a.Principal, Body: a.digest, At: j.start.Round(0)},
			}, []Guard{{ref, ModIs, e.Mod}}
		}
	}
	a.pass(f, dr, own, j.sure)
	if len(dr.writes) == 0 {
		return j.refuse(f, result{dec: d}, j.touches) // nothing to charge: the fresh read decides
	}
	j.finish = func(rev int64) result {
		a.passed(f.p, own, rev)
		return result{dec: d}
	}
	return change(dr)
}

// guardKey compares what else a key could have been used for, so that it is used once.
func (a *asking) guardKey(f *fold, dr *draft, refs ...Ref) {
	for _, r := range refs {
		e, _ := f.read(r)
		dr.guard(r, ModIs, e.Mod)
	}
}

// take takes a slot of each concurrent limit, charges the others, and writes the record.
func (a *asking) take(f *fold, j *job, cat *limits.Catalog, d Decision, own *ticketAt) move {
	ttl, err := ttlOf(a.ss, a.TTL)
	if err != nil {
		return j.refuse(f, result{err: err}, nil)
	}
	dr := f.newDraft(cat.Revision(), j.touches)
	dr.bytes = a.size()
	rec := &Record{
		ID: a.id, State: Held, Subject: a.Subject, Action: a.Action, Cost: a.Cost, TTL: ttl,
		Principal: a.Principal, Keyed: a.Key != "", Body: a.digest, CreatedAt: j.start.Round(0).Truncate(time.Millisecond),
		Owner: a.Owner, Labels: a.Labels,
	}
	if rec.Charges, err = a.charge(f, dr, cat, j.at); err != nil {
		return fail(err)
	}
	for i := range a.ss {
		if s := &a.ss[i]; a.sets[i].isSet() {
			rec.Places = append(rec.Places, Place{Limit: s.rule.ID, Scope: s.scope, N: s.free})
		}
	}
	slot := &Slot{Hold: a.id, TTL: ttl, Since: rec.CreatedAt, Beat: rec.CreatedAt, Name: a.Owner.Name, Host: a.Owner.Host}
	for _, ref := range rec.keys(a.Tenant) {
		if ref == a.hope {
			f.cell(ref).base = Entry{Ref: ref} // as it is to be
		}
		dr.guard(ref, ModIs, 0)
		dr.put(Write{Ref: ref, Value: slot, Keep: ttl})
		if ref.Kind == RefSlot {
			dr.chosen = append(dr.chosen, ref)
		}
	}
	// What ended stays, what is open goes: an attempt that is late by the whole life of the next
	// one, which took its place, still meets how that ended.
	open, ended := openRef(a.Tenant, a.id), endedRef(a.Tenant, a.id)
	a.guardKey(f, dr, ended)
	if a.Key != "" || a.sent {
		a.guardKey(f, dr, open, a.replayRef())
	}
	dr.put(Write{Ref: open, Value: rec})
	opened, _ := f.read(open)
	over, _ := f.read(ended)
	openAt, overAt := opened.Mod, over.Mod
	j.mark = func() (Write, []Guard) {
		aborted := *rec
		aborted.State = Aborted
		return Write{Ref: ended, Value: &aborted, Keep: a.retain}, []Guard{{ended, ModIs, overAt}, {open, ModIs, openAt}}
	}
	a.pass(f, dr, own, j.sure)
	j.finish = func(rev int64) result {
		a.passed(f.p, own, rev)
		return result{res: f.p.granted(rec, a.Tenant, rev, j.start, time.Time{}), dec: d}
	}
	return change(dr)
}

// size estimates the bytes a record of the request takes.
func (a *asking) size() int {
	n := 300 + len(a.Subject.ID) + len(a.Action) + len(a.Owner.Name) + len(a.Owner.Host) + len(a.Owner.URL)
	for k, v := range a.Labels {
		n += len(k) + len(v)
	}
	return n
}
