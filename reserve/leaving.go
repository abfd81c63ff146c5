package reserve

import (
	"context"
	"time"
)

// vacate gives a place up, or keeps it for Lingers. after is called when that is done or has
// failed; it is tried again then. A ticket that was put again meanwhile is somebody's, and so is
// one whose caller has come back.
func (d *desk) vacate(at *ticketAt, away bool, after func()) {
	if at == nil {
		if after != nil {
			after()
		}
		return
	}
	until := time.Time{}
	if away {
		until = d.now().Add(Lingers)
	}
	d.vacateUntil(at.ref, at.mod, until, after)
}

// vacateUntil has the ticket that was put at mod go, at once or, with until, when that is over.
func (d *desk) vacateUntil(ref Ref, mod int64, until time.Time, after func()) {
	now := d.now()
	away := now.Before(until)
	j := &job{tenant: ref.Tenant, start: now, at: d.windowNow(), until: now.Add(actBudget)}
	j.step = func(f *fold, j *job) move {
		at := f.p.lines.standing(ref)
		if at == nil || at.mod != mod || d.waiters[at.holder()] != nil && f.p.lines.byID[at.holder()] == at {
			return answer(result{})
		}
		j.touches = append(j.touches[:0], at.ref)
		if r, ok := f.blocked(j.touches); ok {
			return park(r)
		}
		if !f.untouched(at.ref) {
			return park(at.ref)
		}
		dr := f.newDraft(AnyCatalog, j.touches)
		dr.guard(at.ref, ModIs, at.mod)
		if !away {
			dr.drop(at.ref)
			return change(dr)
		}
		t := *at.ticket
		t.Away, t.Until = true, until.Round(0).Truncate(time.Millisecond)
		dr.put(Write{Ref: at.ref, Value: &t, Session: true})
		return change(dr)
	}
	j.finish = func(int64) result { return result{} }
	j.reply = func(r result) {
		if after != nil {
			after()
		}
		if r.err != nil && !d.draining {
			time.AfterFunc(waitRetry, func() { d.vacateLater(ref, mod, until) })
		}
	}
	d.queue(j)
}

// vacateLater is vacateUntil once more, unless the ticket has gone or was put again.
func (d *desk) vacateLater(ref Ref, mod int64, until time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if at := d.p.lines.standing(ref); at != nil && at.mod == mod && !d.draining {
		d.vacateUntil(ref, mod, until, nil)
		d.kick()
	}
}

// expirePlace gives up the place of a caller that has not come back.
func (d *desk) expirePlace(ref Ref, mod int64) { d.vacateLater(ref, mod, time.Time{}) }

// comesBackNoMore gives up the place of a caller that is away, if it has one. That it is away may
// be on its way to the store still: then the ticket is another one when it is there. What cannot
// be given up now is given up when it has lingered.
func (d *desk) comesBackNoMore(ctx context.Context, k holdKey) {
	const tries = 3
	for range tries {
		d.mu.Lock()
		own := d.p.lines.byID[k]
		if own == nil || d.waiters[k] != nil || !own.ticket.Away && own.ticket.Replica != d.replica {
			d.mu.Unlock()
			return
		}
		done := make(chan struct{})
		d.vacate(own, false, func() { close(done) })
		d.mu.Unlock()
		d.kick()
		select {
		case <-done:
		case <-ctx.Done():
			return
		}
	}
}

// nobodys undoes what was granted to w, whose caller has gone, unless another stands under the
// same key here: that one is told of the grant.
func (d *desk) nobodys(w *waiter) {
	if w.a.mode != take {
		return // what a consume has charged stays
	}
	if back := d.waiters[w.key]; back != nil && back != w {
		if !back.busy {
			d.decide(back)
		}
		return
	}
	d.undo(w.key)
}

// undo releases what was granted to a caller that has gone: it counts as never granted, and its
// key as unused. It does so only while nobody has asked for it under its key, or extended it:
// whoever did was told of it.
func (d *desk) undo(k holdKey) {
	a := &acting{HoldRef: HoldRef{ID: k.id, By: Caller{Tenant: k.tenant}}, do: settleHold, to: Aborted, note: "nobody received it", retain: d.retain}
	now := d.now()
	j := &job{tenant: k.tenant, start: now, at: d.windowNow(), until: now.Add(actBudget)}
	d.p.lines.unreceived[k] = struct{}{}
	j.step = func(f *fold, j *job) move {
		if _, still := f.p.lines.unreceived[k]; !still {
			return answer(result{})
		}
		return a.step(f, j)
	}
	j.reply = func(result) { delete(d.p.lines.unreceived, k) } // if it cannot be released, the hold runs out
	d.queue(j)
}

// Unreceived says that the answer that told of a grant to somebody who had waited could not be
// delivered: the hold is released at once, as if it had never been, and its key counts as unused.
func (s *Service) Unreceived(tenant string, id ID) {
	s.desk.mu.Lock()
	s.desk.undo(holdKey{tenant, id})
	s.desk.mu.Unlock()
	s.desk.kick()
}

// closeLines answers everybody who waits, because this replica is going away. Places that are
// a key's are kept for a moment, to be taken up at another replica. Who is being decided on hears
// what was decided: a grant that was thrown away would be a place lost.
func (d *desk) closeLines() {
	d.closing = true
	for _, w := range d.waiters {
		if w.closing = true; !w.busy {
			d.conclude(w, result{err: ErrDraining})
		}
	}
}

// Drain answers everybody who waits in line with ErrDraining, and lets nobody join any more;
// all else goes on. Call it when the doors are about to close.
func (s *Service) Drain() {
	s.desk.mu.Lock()
	s.desk.closeLines()
	s.desk.mu.Unlock()
	s.desk.kick()
}

// ClockMoved has every line looked at again: the clock of windows was set.
func (s *Service) ClockMoved() {
	s.desk.mu.Lock()
	s.desk.p.lines.stirAll("")
	s.desk.mu.Unlock()
	s.desk.kick()
}
