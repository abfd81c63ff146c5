package reserve

import "time"

// extend lets the hold last at least ttl from the moment the request came in. It never
// shortens what is left: the ttl put is the larger of the two, so that a short extend that
// is late cannot break a longer one's promise.
func extend(a *acting, f *fold, j *job, h held) move {
	if !h.whole {
		return expire(a, f, j, h)
	}
	if j.full {
		return fail(ErrFull)
	}
	if h.live == nil || h.live.fault() != nil {
		return a.unreadable(f, h)
	}
	present := &Slot{}
	if h.live != nil {
		present = h.live.slot()
	}
	promise := f.p.when(h.live.promise())
	if c := f.cells[h.keys[0]]; c != nil && c.written {
		present, _ = c.value.(*Slot) // extended in this very batch
		if p := f.now.Add(present.Beat.Add(present.TTL).Sub(f.now.Round(0))); p.After(promise) {
			promise = p
		}
	}
	ttl := a.ttl
	if ttl == 0 {
		ttl = present.TTL
	}
	if most := f.p.mostTTL(a.By.Tenant, h.rec); ttl > most {
		if a.ttl != 0 {
			return fail(&TTLError{Max: most})
		}
		ttl = most
	}
	// The longer promise stands. What is left of it is at most the TTL it was made with, so
	// that no number of extends passes the limits' maximum.
	ttl = max(ttl, roundUp(promise.Sub(f.now), time.Second))
	next := *present
	next.TTL, next.Beat, next.Beats = ttl, j.start.Round(0).Truncate(time.Millisecond), present.Beats+1
	dr := f.newDraft(AnyCatalog, j.touches)
	dr.guard(openRef(a.By.Tenant, a.ID), ModIs, h.rev)
	for _, s := range h.stand {
		dr.guard(s.Ref, ModIs, s.Mod)
		dr.put(Write{Ref: s.Ref, Value: &next, Keep: ttl})
	}
	j.finish = func(int64) result {
		return result{res: f.p.granted(h.rec, a.By.Tenant, h.rev, j.start, promise)}
	}
	j.stands = func() bool {
		left, _ := f.cells[h.keys[0]].value.(*Slot) // by the last request of the batch on this hold
		l := f.p.holds[holdKey{a.By.Tenant, a.ID}]
		return left != nil && l != nil && l.fence() == h.rev &&
			l.ttl == left.TTL && l.beat == left.Beat.UnixMilli() && l.beats == left.Beats
	}
	return change(dr)
}

// unreadable is the answer of an extend whose slot cannot be read: it is left as it is, for
// whoever can read it.
func (a *acting) unreadable(f *fold, h held) move {
	for _, k := range h.keys {
		if l, _ := f.p.placeOf(k); l != nil && l.fault() != nil {
			return fail(l.fault())
		}
	}
	return fail(ErrCorrupt)
}
