package reserve

import (
	"context"
	"time"
)

// nudge turns the desk if it is free, else has it turned by its own goroutine: an idle replica
// saves its callers a switch of goroutines, a busy one does not make them queue.
func (d *desk) nudge() {
	if !d.mu.TryLock() {
		d.kick()
		return
	}
	d.onward(d.now())
	d.mu.Unlock()
}

// onward turns, and sees that the desk's own goroutine wakes when something is due.
func (d *desk) onward(now time.Time) {
	if next := now.Add(d.turn(now)); next.Before(d.looksAt) || d.draining {
		d.kick()
	}
}

// kick has the desk's own goroutine turn.
func (d *desk) kick() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// run turns until ctx has ended and everything accepted is answered: a job's budget and its
// last flight, 10 s at most.
func (d *desk) run(ctx context.Context) {
	timer := time.NewTimer(tick)
	defer timer.Stop()
	done, ending := ctx.Done(), false // a context that never ends has no Done
	for {
		select {
		case <-d.wake:
		case <-timer.C:
		case <-done:
			done, ending = nil, true
			d.inbox.Lock()
			d.inbox.closed = true
			d.inbox.Unlock()
			d.mu.Lock()
			d.closeLines()
			d.draining = true // nothing is begun any more, no expiry either; jobs end within their budget
			d.mu.Unlock()
		}
		d.mu.Lock()
		now := d.now()
		next := d.turn(now)
		d.looksAt = now.Add(next)
		d.mu.Unlock()
		if ending && d.pending.Load() == 0 {
			d.flying.Wait()
			return
		}
		timer.Reset(next)
	}
}

// turn decides what can be decided now, and says how long nothing will be due.
func (d *desk) turn(now time.Time) time.Duration {
	d.rouse()
	d.inbox.Lock()
	d.ready = append(d.ready, d.inbox.jobs...)
	d.inbox.jobs = d.inbox.jobs[:0]
	d.inbox.Unlock()
	if now.Sub(d.lookedOver) >= tick/2 || now.Before(d.lookedOver) {
		d.lookedOver = now
		d.giveUp(now)
	}
	if d.p.loaded {
		if !d.draining {
			d.endDue(now)
		}
		d.outlast(now)
		for d.writes < maxFlights && d.reads < maxFlights && d.goes(now) {
			d.assemble(now)
		}
	}
	next := tick
	if !d.held.IsZero() {
		next = mostHeld
	}
	if at, ok := d.p.glass.next(); ok && !d.draining {
		next = min(next, max(time.Duration(at-d.p.at(now)), 0)+time.Millisecond/10)
	}
	return next
}

// share is how many groups a batch should have: an equal part of all that is pending. Callers
// who were answered together come back together; were they all put into one batch again, one
// part of the way (deciding, the log on disk, etcd's apply loop, answering) would work at a
// time while the others stand idle.
func (d *desk) share() int { return max(leastShare, (d.underWay()+shares-1)/shares) }

// underWay is what is pending, without the jobs of the desk's own that have not begun.
func (d *desk) underWay() int { return int(d.pending.Load()) - len(d.own) }

// beside is how many of the desk's own jobs a batch may have: holds that end by the thousand
// must not starve who asks meanwhile, nor be starved.
func (d *desk) beside() int {
	if asked := int(d.asked.Load()); asked > 0 {
		return min(max(asked, leastBeside), d.most/2)
	}
	return d.most
}

// goes says whether a batch is to be made now. What is ready waits for more while others are on
// their way and it is less than its share: what comes back first would else travel alone, at the
// price of a batch. Jobs of the desk's own leave room for callers who are about to come back.
func (d *desk) goes(now time.Time) bool {
	if len(d.ready) == 0 {
		d.held = time.Time{}
		return len(d.own) > 0 && (d.asked.Load() == 0 || d.writes < maxFlights/2)
	}
	if d.writes+d.reads == 0 || len(d.ready)*shares >= d.underWay() {
		d.held = time.Time{}
		return true
	}
	if d.held.IsZero() {
		d.held = now
	}
	if now.Sub(d.held) < mostHeld {
		return false
	}
	d.held = time.Time{}
	return true
}

// tell takes in what the watch tells, and wakes what waited for it.
func (d *desk) tell(u Update) {
	d.mu.Lock()
	now := d.now()
	d.p.tell(u, now)
	for i := range u.Entries {
		if u.Entries[i].Ref.Kind == RefReplica {
			d.clock.compare(d.p.offsets(), now)
			break
		}
	}
	if u.Reset {
		d.findMissing()
	}
	kept := d.waiting[:0]
	for _, j := range d.waiting {
		if j.fresh <= d.p.rev {
			d.ready = append(d.ready, j)
		} else {
			kept = append(kept, j)
		}
	}
	d.waiting = kept
	d.onward(now)
	d.mu.Unlock()
}
