package reserve

import (
	"context"
	"errors"
	"time"
)

// flight is one batch on its way to the store.
type flight struct {
	plans   []Group
	from    []*group // in step with plans
	touches []Ref
	fold    *fold // what it was made of, to be used again
}

// fly sends the batch; its keys stay busy until it has landed.
func (d *desk) fly(f *fold) {
	fl := &flight{fold: f}
	fl.plans, fl.from = f.plan()
	for _, g := range fl.from {
		for _, j := range g.jobs {
			for _, r := range j.touches {
				if _, ok := d.busy[r]; !ok {
					d.busy[r] = struct{}{}
					fl.touches = append(fl.touches, r)
				}
			}
		}
	}
	d.writes++
	d.meter.batch(f.jobs)
	d.hopeFor(fl.plans) // before they are the flight's, which fills in leases
	d.flying.Go(func() {
		res, err := d.send(fl.plans)
		d.mu.Lock()
		d.land(fl, res, err)
		d.onward(d.now())
		d.mu.Unlock()
	})
}

// send finds a lease for each put that wants one, and applies the groups as one transaction.
func (d *desk) send(plans []Group) (Result, error) {
	ctx, cancel := context.WithTimeout(context.Background(), flightBudget)
	defer cancel()
	b := Batch{Groups: plans}
	for i := range plans {
		for k := range plans[i].Writes {
			w := &plans[i].Writes[k]
			if w.Session {
				lease, err := d.sessions.Session(ctx)
				if err != nil {
					return Result{}, nothingHappened(err)
				}
				w.Lease = lease
				continue
			}
			if w.Keep == 0 || w.Value == nil {
				continue
			}
			if b.Marker == 0 {
				marker, err := d.leases.Marker(ctx)
				if err != nil {
					return Result{}, nothingHappened(err)
				}
				b.Marker = marker
			}
			lease, err := d.leases.Lease(ctx, w.Keep, w.Grain, w.Have)
			if err != nil {
				return Result{}, nothingHappened(err)
			}
			w.Lease = lease
		}
	}
	return d.store.Apply(ctx, b)
}

// nothingHappened keeps what the caller can tell apart and calls all else unavailable: no
// write had been sent.
func nothingHappened(err error) error {
	if errors.Is(err, ErrFull) {
		return ErrFull
	}
	return errors.Join(ErrUnavailable, err)
}

// land takes in what became of a batch.
func (d *desk) land(fl *flight, res Result, err error) {
	if errors.Is(err, ErrUnknownOutcome) {
		d.flying.Go(func() { d.resolve(fl, err) }) // its keys stay busy
		return
	}
	d.unmark(fl)
	switch {
	case err != nil:
		d.retryAll(fl, err)
	case res.MarkerGone:
		d.leases.Gone(0)
		d.retryAll(fl, ErrUnavailable)
	default:
		now := d.now()
		for i, o := range res.Outcomes {
			d.outcome(fl.plans[i], fl.from[i], o, res.Rev, now)
		}
	}
	d.recycle(fl.fold)
}

// recycle keeps a fold for another batch.
func (d *desk) recycle(f *fold) {
	if len(d.spare) <= maxFlights && f.used <= maxSpareCells {
		f.clear()
		d.spare = append(d.spare, f)
	}
}

// outcome answers the requests of one group, or decides them again.
func (d *desk) outcome(plan Group, g *group, o Outcome, rev int64, now time.Time) {
	d.p.odds.note(g, o)
	if o.Committed {
		cells := g.cells // the writes come in the order of their cells
		for _, w := range plan.Writes {
			d.count(w)
			for cells[0].base.Ref != w.Ref {
				cells = cells[1:]
			}
			d.p.wrote(cells[0].wrote(w, rev), rev, now)
		}
		for _, j := range g.jobs {
			d.reply(j, j.finish(rev))
		}
		return
	}
	for _, e := range o.Seen {
		d.p.learn(e, rev, now)
	}
	unseen := !o.Moved && len(plan.Reads) == 0
	if unseen {
		for _, c := range g.cells {
			d.p.cache.drop(c.base.Ref) // one of them is not as we thought
		}
	}
	untold := d.p.rev < rev && (o.Moved || unseen || lostByLine(&plan, o.Seen))
	for _, j := range g.jobs {
		j.sure = j.sure || unseen || o.Moved && plan.NoLine
		if untold {
			j.fresh, j.why = rev, ErrContended // the watch must tell first what it lost to
			d.waiting = append(d.waiting, j)
			continue
		}
		d.again(j, ErrContended)
	}
}

// count takes a reservation that was begun or ended into the tally.
func (d *desk) count(w Write) {
	if rec, ok := w.Value.(*Record); ok {
		d.tally.record(w.Ref.Tenant, rec, d.p.catalogOf(w.Ref.Tenant), hourOf(d.windowNow()))
	}
}

// wrote is what the committed write w of a cell left under its key.
func (c *cell) wrote(w Write, rev int64) Entry {
	if w.Value == nil {
		return Entry{Ref: w.Ref}
	}
	e := Entry{Ref: w.Ref, Value: w.Value, Create: rev, Mod: rev, Lease: w.Lease}
	if c.base.Mod != 0 {
		e.Create = c.base.Create
	}
	return e
}

// unmark frees the batch's keys, and the slots it chose unless somebody is in them.
func (d *desk) unmark(fl *flight) {
	d.writes--
	for _, g := range fl.from {
		for _, r := range g.chosen {
			k := d.p.names.key(r)
			if s := d.p.sets[k]; s != nil && s.holder(r.N) == nil {
				s.clear(r.N)
				d.p.lines.stirSet(k)
				if s.count == 0 {
					delete(d.p.sets, k)
				}
			}
		}
	}
	for _, r := range fl.touches {
		delete(d.busy, r)
		if js := d.parked[r]; js != nil {
			d.ready = append(js, d.ready...) // they came before what is ready now
			delete(d.parked, r)
		}
	}
}

// retryAll decides a whole batch again: nothing of it happened.
func (d *desk) retryAll(fl *flight, err error) {
	var dead *LeaseError
	lease, big, full := errors.As(err, &dead), errors.Is(err, ErrTooBig), errors.Is(err, ErrFull)
	why := ErrUnavailable
	if full {
		why = ErrFull
	}
	if lease {
		d.leases.Gone(dead.ID)
		if d.sessions != nil {
			d.sessions.Ended(dead.ID)
		}
	}
	if big {
		d.most = max(1, d.most/2)
	}
	for i, g := range fl.from {
		for _, w := range fl.plans[i].Writes {
			for _, j := range g.jobs {
				j.apart = j.apart || lease && w.Keep > 0 && w.Keep < shortTTL
			}
		}
		for _, j := range g.jobs {
			if lease || big || full {
				j.tries = 0 // no fault of theirs: at once
			}
			j.full, j.apart = j.full || full, j.apart || full
			d.again(j, why)
		}
	}
}

// fetch reads keys for requests that cannot be decided without, and decides them again.
func (d *desk) fetch(js []*job, refs []Ref, fresh bool) {
	if len(js) == 0 {
		return
	}
	refs = distinct(refs)
	d.reads++
	d.flying.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), flightBudget)
		defer cancel()
		got, err := d.store.Load(ctx, refs, fresh)
		d.mu.Lock()
		defer d.mu.Unlock()
		defer d.kick()
		d.reads--
		if err != nil {
			for _, j := range js {
				d.again(j, ErrUnavailable)
			}
			return
		}
		d.learnAll(got)
		var now []*job
		for _, j := range js {
			if fresh {
				j.fresh = got.Rev
			}
			if j.fresh > d.p.rev {
				d.waiting = append(d.waiting, j)
				continue
			}
			now = append(now, j)
		}
		d.ready = append(now, d.ready...)
	})
}

func (d *desk) learnAll(got Loaded) {
	now := d.now()
	for _, e := range got.Entries {
		d.p.learn(e, got.Rev, now)
	}
}

// distinct leaves one of each ref that is a key of the store.
func distinct(refs []Ref) []Ref {
	seen := make(map[Ref]struct{}, len(refs))
	out := refs[:0]
	for _, r := range refs {
		if _, ok := seen[r]; ok || r.isSet() {
			continue
		}
		seen[r] = struct{}{}
		out = append(out, r)
	}
	return out
}
