package reserve

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// waiter is a caller that waits in line at this replica. What it waits for is its request, which
// is decided again whenever it may go; in between nothing of it runs. The desk's lock guards it.
type waiter struct {
	a    *asking
	key  holdKey
	came time.Time
	out  chan result  // the end of the wait; room for one
	lost chan LeaseID // its ticket went, and not by us; room for one

	busy      bool    // being decided
	again     bool    // it may go, once that is decided
	last      bool    // its time is out: the next answer is the last
	left      bool    // nobody waits any more
	closing   bool    // this replica is going away: a grant on its way is still told, nothing else is begun
	cancelled bool    // by somebody at this replica
	lease     LeaseID // its ticket hangs on
}

// waitRetry is how soon a waiter is decided again when the store was away.
const waitRetry = time.Second

// standInLine has a check decided when its turn comes. It holds no slot and asks nothing meanwhile.
func (s *Service) standInLine(ctx context.Context, a *asking) (result, error) {
	now := s.cfg.Now()
	a.waits, a.replica, a.until = true, s.cfg.Replica, now.Add(a.Wait)
	w := &waiter{a: a, key: holdKey{a.Tenant, a.id}, came: now, out: make(chan result, 1), lost: make(chan LeaseID, 1)}
	if err := s.desk.enter(w); err != nil {
		return result{}, err
	}
	timer := time.NewTimer(a.Wait)
	defer timer.Stop()
	for {
		select {
		case r := <-w.out:
			return s.received(ctx, w, r)
		case <-ctx.Done():
			s.desk.leave(w)
			return result{}, fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(ctx))
		case <-timer.C:
			s.desk.lastCall(w)
		case lease := <-w.lost:
			ended, err := s.lostSession(ctx, lease)
			s.desk.missed(w, ended, err)
		}
	}
}

// received hands a decision on. A grant whose caller has gone is released at once.
func (s *Service) received(ctx context.Context, w *waiter, r result) (result, error) {
	if ctx.Err() != nil && r.err == nil && r.dec.Allowed {
		if w.a.mode == take {
			s.Unreceived(w.key.tenant, w.key.id)
		}
		return result{}, fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(ctx))
	}
	return r, r.err
}

// lostSession says whether the lease of a ticket has ended, so that nobody cancelled it. Those
// who lost theirs together ask one after the other, and only the first asks the store. The error
// says that it cannot be learnt now: who is told that it ended would join again, and a cancelled
// one must not.
func (s *Service) lostSession(ctx context.Context, lease LeaseID) (ended bool, err error) {
	l := &s.sessions
	l.Lock()
	defer l.Unlock()
	now := s.cfg.Now()
	switch {
	case l.ended == lease:
		return true, nil
	case l.err != nil && now.Sub(l.failed) < waitRetry/2:
		return false, l.err
	}
	stands, err := s.cfg.Sessions.Stands(context.WithoutCancel(ctx), lease)
	l.err, l.failed = err, s.cfg.Now()
	if err == nil && !stands {
		l.ended = lease
	}
	return l.ended == lease, err
}

// sessionLoss remembers the session lease that was found to have ended, and when the store did
// not answer.
type sessionLoss struct {
	sync.Mutex
	ended  LeaseID
	err    error
	failed time.Time
}

// enter lets w in and has it decided a first time.
func (d *desk) enter(w *waiter) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closing || d.draining:
		return ErrDraining
	case len(d.waiters) >= 2*MaxWaiters: // those who are about to hear that the lines are full among them
		return ErrOverloaded
	}
	w.a.crowded = len(d.waiters) >= MaxWaiters
	d.waiters[w.key] = w
	d.decide(w)
	d.kick()
	return nil
}

// decide has w's request decided, after what is ready by now.
func (d *desk) decide(w *waiter) {
	w.busy, w.again = true, false
	w.a.under = nil // what it touches is the new job's to know
	now := d.now()
	j := &job{tenant: w.key.tenant, start: now, at: d.windowNow(), until: now.Add(actBudget)}
	j.step = func(f *fold, j *job) move {
		if w.left && !j.sent {
			return fail(ErrUnavailable) // nobody waits for it any more
		}
		if j.tries > 0 || j.sent {
			w.a.hope = Ref{}
		}
		return w.a.step(f, j)
	}
	j.reply = func(r result) { d.settled(w, r) }
	d.queue(j)
}

// queue takes in a job of the desk's own, after what callers have asked by now.
func (d *desk) queue(j *job) {
	d.pending.Add(1)
	d.inbox.Lock()
	d.inbox.jobs = append(d.inbox.jobs, j)
	d.inbox.Unlock()
	d.kick()
}

// settled takes in what was decided on w: it stays in line, or the wait is over.
func (d *desk) settled(w *waiter, r result) {
	w.busy = false
	own := d.p.lines.byID[w.key]
	granted := r.err == nil && r.dec.Allowed && !r.queued
	away := own != nil && (errors.Is(r.err, ErrUnavailable) || errors.Is(r.err, ErrContended))
	switch {
	case w.left && granted:
		d.nobodys(w)
	case w.left:
		d.vacate(own, w.keeps(true), nil)
	case granted, !r.queued && (w.last || !away):
		d.conclude(w, r)
	case w.closing:
		d.conclude(w, result{err: ErrDraining})
	case w.last:
		w.a.last = true
		d.decide(w)
	case own == nil:
		d.missing(w)
	case w.again:
		d.reconsider(w, own)
	case away:
		time.AfterFunc(waitRetry, func() { d.stir(lineKey(own.ref)) })
	}
}

// keeps says whether the place of w outlives its call: it is a key's, and its caller went away
// before the answer or has waited as long as one call may.
func (w *waiter) keeps(wentAway bool) bool {
	return w.a.Key != "" && (wentAway || w.a.Wait >= MaxWait)
}

// conclude answers w, once its place is given up.
func (d *desk) conclude(w *waiter, r result) {
	d.forget(w)
	tell := func() { w.out <- r }
	d.meter.waited(w, r, d.now())
	if own := d.p.lines.byID[w.key]; own != nil && own.ticket.Replica == w.a.replica {
		d.vacate(own, w.keeps(r.err != nil && !errors.Is(r.err, ErrWaitCancelled)), tell)
		return
	}
	tell()
}

func (d *desk) forget(w *waiter) {
	if d.waiters[w.key] == w {
		delete(d.waiters, w.key)
	}
}

// lastCall has w decided once more, whatever the answer.
func (d *desk) lastCall(w *waiter) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w.last = true; !w.busy && d.waiters[w.key] == w {
		w.a.last = true
		d.decide(w)
		d.kick()
	}
}

// leave lets w go, whose caller has gone.
func (d *desk) leave(w *waiter) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w.left = true
	select {
	case r := <-w.out:
		if r.err == nil && r.dec.Allowed {
			d.nobodys(w)
			d.kick()
		}
		return
	default:
	}
	if d.waiters[w.key] != w {
		return // its wait has ended, and its place is being given up
	}
	d.meter.waited(w, result{err: context.Canceled}, d.now())
	d.forget(w)
	if own := d.p.lines.byID[w.key]; own != nil && !w.busy && own.ticket.Replica == w.a.replica {
		d.vacate(own, w.keeps(true), nil)
		d.kick()
	}
}

// missing says that w's ticket went and nobody knows why yet.
func (d *desk) missing(w *waiter) {
	if w.cancelled {
		d.conclude(w, result{err: ErrWaitCancelled})
		return
	}
	select {
	case w.lost <- w.lease:
	default:
	}
}

// missed goes on after the reason was found out: w was cancelled, or the session has ended and
// it joins again, at the end of the line. err says that it was not found out: it is tried again.
func (d *desk) missed(w *waiter, sessionLost bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	missing := func() bool { return !w.busy && d.waiters[w.key] == w && d.p.lines.byID[w.key] == nil }
	switch {
	case !missing():
		return
	case err != nil:
		time.AfterFunc(waitRetry, func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			if missing() {
				d.missing(w)
			}
		})
		return
	case sessionLost:
		w.a.tried = Ref{}
		d.decide(w)
	default:
		d.conclude(w, result{err: ErrWaitCancelled})
	}
	d.kick()
}

// findMissing looks for waiters whose tickets went while the watch did not tell.
func (d *desk) findMissing() {
	for key, w := range d.waiters {
		if !w.busy && d.p.lines.byID[key] == nil {
			d.missing(w)
		}
	}
}

// ticketTold takes in what the watch tells of a ticket.
func (d *desk) ticketTold(at *ticketAt, stands bool) {
	w, ours := d.waiters[at.holder()], at.ticket.Replica == d.replica
	switch {
	case w == nil:
		if !stands || !ours {
			return
		}
		if !at.ticket.Away {
			d.vacate(at, at.ticket.Keyed, nil) // its caller went before it was put
			return
		}
		ref, mod := at.ref, at.mod
		time.AfterFunc(Lingers, func() { d.expirePlace(ref, mod) })
	case stands && ours:
		if w.lease = at.lease; at.ticket.Away && !w.busy {
			d.decide(w) // its caller is back
		}
	case w.busy:
	case stands: // its caller has come back elsewhere
		d.conclude(w, result{err: ErrInFlight})
	default:
		d.missing(w)
	}
}
