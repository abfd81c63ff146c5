package reserve

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/windows"
)

// stir is lines.stir for whoever does not hold the lock.
func (d *desk) stir(k lineName) {
	d.mu.Lock()
	d.p.lines.stir(k)
	d.mu.Unlock()
	d.kick()
}

// rouse has those decided who may go now, as many as there is room for, in their order.
func (d *desk) rouse() {
	for _, at := range d.p.lines.doubles {
		if d.p.lines.standing(at.ref) == at && at.ticket.Replica == d.replica {
			d.vacate(at, false, nil) // its waiter stands elsewhere
		}
	}
	d.p.lines.doubles = d.p.lines.doubles[:0]
	stirred := slices.SortedFunc(maps.Keys(d.p.lines.stirred), func(a, b *line) int { return cmp.Compare(a.oldest(), b.oldest()) })
	clear(d.p.lines.stirred)
	for _, l := range stirred { // who has waited longest first: it may want what the head of another line wants too
		d.moveUp(l)
	}
}

func (d *desk) moveUp(l *line) {
	l.quiet()
	if len(l.tickets) == 0 {
		return
	}
	n, at := d.mayGo(l)
	if n == 0 && !at.IsZero() && d.waiters[l.tickets[0].holder()] != nil {
		wait := at.Sub(d.windowNow()) + time.Millisecond
		if wait <= 0 {
			wait = lineMoves // a pause is over by the clock, and not by the catalogue yet
		}
		l.alarm = time.AfterFunc(wait, func() { d.stir(l.key) })
	}
	for _, at := range l.tickets[:min(n, len(l.tickets))] {
		if at.ticket == nil || at.ticket.Away {
			return // nobody goes before
		}
		switch w := d.waiters[at.holder()]; {
		case w == nil:
			return // it waits at another replica, and its going stirs those behind
		case w.busy:
			w.again = true
		default:
			d.decide(w)
		}
	}
}

// reconsider decides w again if it may go, for what happened while it was decided. It stirs
// nobody else: two who do that in turns would never come to rest.
func (d *desk) reconsider(w *waiter, own *ticketAt) {
	w.again = false
	l := d.p.lines.of(lineKey(own.ref))
	if n, _ := d.mayGo(l); d.p.lines.place(own) <= n {
		d.decide(w)
	}
}

// mayGo is how many of a line there is room for, or, when for none, when there may be for its
// head; zero: only an event can tell. Those who need not wait any more, whatever for, may go.
func (d *desk) mayGo(l *line) (n int, at time.Time) {
	head := l.tickets[0].ticket
	if head == nil {
		return 0, at
	}
	cat := d.p.catalogOf(l.key.tenant)
	lim, there := cat.Limit(l.key.limit)
	if !there || lim.Shadow || !lim.Counts(head.Subject, head.Action) {
		return len(l.tickets), at
	}
	if _, blocked := cat.Block(head.Subject); blocked {
		return 1, at
	}
	s := standing{rule: cat.Rule(lim, head.Subject), scope: l.key.scope, free: -1}
	concurrent := lim.Window.Kind == windows.Concurrent
	if concurrent {
		if set := d.p.sets[d.p.names.key(l.key.set())]; set != nil {
			s.held = set.count
		}
		n = int(min(max(0, s.rule.Amount-s.held), MaxLine))
		if n > 0 {
			s.free = 0
		}
	} else {
		e, known := d.p.cache.get(usageRef(l.key.tenant, l.key.limit, l.key.scope))
		if !known || e.Fault != nil {
			return 1, at
		}
		cs, _ := e.Value.(Counts)
		s.use, s.gen = cs.standingOf(s.rule)
	}
	switch v := judge(&s, head.Cost, d.windowNow()); v.Why {
	case Fits:
		if !concurrent {
			n = fitting(l.tickets, v.Remaining)
		}
		return n, at
	case NeverFits:
		return 1, at
	default:
		return 0, v.RetryAt
	}
}

// fitting is how many of the first of a line, whose head fits, there is room for together.
func fitting(tickets []*ticketAt, room int64) (n int) {
	for _, at := range tickets {
		if at.ticket == nil {
			break
		}
		if room -= at.ticket.Cost; room < 0 && n > 0 {
			break
		}
		n++
	}
	return n
}
