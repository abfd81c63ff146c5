package reserve

import (
	"errors"
	"time"
)

// endDue starts the end of holds whose glass has run out.
func (d *desk) endDue(now time.Time) {
	for _, l := range d.p.glass.due(d.p.at(now), maxDue-d.ending) {
		if l.ttl == 0 {
			continue // unreadable: it stays taken until somebody mends it
		}
		d.end(l.tenant, l.id, now)
	}
}

// outlast takes up again what waited for a hold that has been settled, or could not be.
func (d *desk) outlast(now time.Time) {
	kept := d.lasting[:0]
	for _, j := range d.lasting {
		l := j.after
		if !d.draining && d.p.holds[holdKey{l.tenant, l.id}] == l && (l.index < 0 || l.due <= d.p.at(now)) {
			kept = append(kept, j)
		} else {
			d.ready = append(d.ready, j)
		}
	}
	d.lasting = kept
}

// end has a hold settled as expired; when that fails the glass is turned for another second.
func (d *desk) end(tenant string, id ID, now time.Time) {
	if d.draining {
		return
	}
	a := &acting{HoldRef: HoldRef{ID: id, By: Caller{Tenant: tenant}}, do: expire, to: Expired, retain: d.retain}
	j := &job{tenant: tenant, start: now, at: d.windowNow(), until: now.Add(actBudget), step: a.step}
	j.reply = func(r result) {
		d.ending--
		d.ended(tenant, id, r)
	}
	d.begin(j)
}

// errEnded says that the hold that was to expire had ended before.
var errEnded = errors.New("reserve: ended before")

// begin takes in a job of the desk's own. Such jobs have a part of each batch beside what
// callers ask, and all of it when nobody asks.
func (d *desk) begin(j *job) {
	d.ending++
	d.pending.Add(1)
	d.own = append(d.own, j)
}

// ended looks whether a hold that was to end has; called under the lock.
func (d *desk) ended(tenant string, id ID, r result) {
	l := d.p.holds[holdKey{tenant, id}]
	switch {
	case l == nil || l.index >= 0:
		if r.err == nil && l == nil {
			d.meter.ended.WithLabelValues(Expired.String()).Inc()
		}
	case d.draining:
	case errors.Is(r.err, ErrNotFound), errors.Is(r.err, errEnded):
		d.begin(d.strayJob(l)) // it has no open record: the slot is given back by itself
	default:
		now := d.now()
		d.tellLate(tenant, id, r.err, now)
		l.due = d.p.at(now).plus(time.Second)
		d.p.glass.put(l)
	}
}

// lateEvery is how often at most it is told that a hold cannot be ended: there may be many,
// for one reason.
const lateEvery = 10 * time.Second

// tellLate logs that a hold has run out and stands all the same, which nobody else can see.
func (d *desk) tellLate(tenant string, id ID, why error, now time.Time) {
	if why == nil || now.Sub(d.toldLate) < lateEvery {
		return
	}
	d.toldLate = now
	d.log.Warn("a hold has run out and cannot be ended yet; its slot stays taken until it is", "tenant", tenant, "reservation", id, "cause", why)
}

// strayJob deletes the slots of a hold that has no record. It speaks of l as the picture has it:
// one from before the picture was made anew says nothing of who stands there now.
func (d *desk) strayJob(l *live) *job {
	now, key := d.now(), holdKey{l.tenant, l.id}
	j := &job{tenant: l.tenant, start: now, at: d.windowNow(), until: now.Add(actBudget)}
	j.reply = func(result) {
		d.ending--
		if l.index < 0 && d.p.holds[key] == l {
			l.due = d.p.at(d.now()).plus(time.Second)
			d.p.glass.put(l)
		}
	}
	j.finish = func(int64) result { return result{} }
	j.step = func(f *fold, j *job) move {
		if f.p.holds[key] != l {
			return answer(result{})
		}
		dr := f.newDraft(AnyCatalog, nil)
		for i := range l.places {
			at := &l.places[i]
			ref := l.ref(at)
			if !f.untouched(ref) {
				return park(ref) // its comparison would be another's
			}
			dr.touches = append(dr.touches, ref)
			dr.guard(ref, ModIs, at.mod)
			dr.drop(ref)
		}
		j.touches = dr.touches
		if r, ok := f.blocked(dr.touches); ok {
			return park(r)
		}
		return change(dr)
	}
	return j
}
