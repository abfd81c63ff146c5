package reserve

import (
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/windows"
)

const (
	unknownWait   = time.Duration(-1)
	estimateGrain = time.Second // between two of a line, so that no two are told the same instant
	maxLengths    = 65_536      // limits whose hold times are remembered
	lengthWeight  = 8           // of what was known, to one more that is measured
)

// limitKey names a limit of a tenant.
type limitKey struct{ tenant, limit string }

// measure remembers how long a hold lasted, as a mean that leans to the last few. Only those
// that this replica settled are measured.
func (p *picture) measure(tenant string, rec *Record) {
	lasted := rec.EndedAt.Sub(rec.CreatedAt)
	if lasted < 0 || rec.State == Aborted {
		return
	}
	for i := range rec.Places {
		k := limitKey{tenant, rec.Places[i].Limit}
		mean, known := p.lengths[k]
		switch {
		case known:
			p.lengths[k] = mean + (lasted-mean)/lengthWeight
		case len(p.lengths) < maxLengths:
			if p.lengths == nil {
				p.lengths = map[limitKey]time.Duration{}
			}
			p.lengths[k] = lasted
		}
	}
}

// estimates is when each of the line of k may have its turn, from now, and then those who are
// to come: from the time that holds have left, or less when they mostly end sooner, and from
// when use leaves its window. They rise along the line; unknownWait where nobody can tell.
func (d *desk) estimates(k lineName, more ...*Ticket) []time.Duration {
	var tickets []*Ticket
	if l := d.p.lines.of(k); l != nil {
		for _, at := range l.tickets {
			tickets = append(tickets, at.ticket)
		}
	}
	tickets = append(tickets, more...)
	out := make([]time.Duration, len(tickets))
	for i := range out {
		out[i] = unknownWait
	}
	lim, there := d.p.catalogOf(k.tenant).Limit(k.limit)
	if !there || len(tickets) == 0 || tickets[0] == nil {
		return out
	}
	rule := d.p.catalogOf(k.tenant).Rule(lim, tickets[0].Subject)
	if lim.Window.Kind == windows.Concurrent {
		d.turnsBySlots(k, rule, out)
	} else {
		d.turnsByUse(k, rule, tickets, out)
	}
	least := time.Duration(0)
	if rule.Paused {
		if least = rule.PausedUntil.Sub(d.windowNow()); rule.PausedUntil.IsZero() {
			return slices.Repeat([]time.Duration{unknownWait}, len(out))
		}
	}
	for i := range out {
		if out[i] == unknownWait {
			continue
		}
		out[i] = max(out[i], least)
		least = out[i] + estimateGrain
	}
	return out
}

// turnsBySlots: the first goes when the first slot comes free, and so on; then the slots that
// those took come free.
func (d *desk) turnsBySlots(k lineName, rule limits.Rule, out []time.Duration) {
	now, mean := d.now(), d.p.lengths[limitKey{k.tenant, k.limit}]
	clock, length := d.p.read(now), mean
	if length == 0 {
		if length = rule.TTL; length == 0 {
			length = DefaultTTL
		}
	}
	var ends []time.Duration
	if set := d.p.sets[d.p.names.key(k.set())]; set != nil {
		for l := range set.all() {
			end := l.left(clock)
			if mean > 0 {
				end = min(end, max(mean-now.Sub(time.UnixMilli(l.since)), mean/lengthWeight))
			}
			ends = append(ends, end)
		}
	}
	slices.Sort(ends)
	amount := int(min(rule.Amount, MaxLine))
	if len(ends) > amount {
		ends = ends[len(ends)-amount:] // those before make room for nobody
	}
	for free := amount - len(ends); free > 0; free-- {
		ends = slices.Insert(ends, 0, 0)
	}
	for i := range out {
		if len(ends) > 0 {
			out[i] = ends[i%len(ends)] + time.Duration(i/len(ends))*length
		}
	}
}

// turnsByUse: each goes when there is room for it and all before it.
func (d *desk) turnsByUse(k lineName, rule limits.Rule, tickets []*Ticket, out []time.Duration) {
	e, known := d.p.cache.get(usageRef(k.tenant, k.limit, k.scope))
	if !known || e.Fault != nil || rule.Amount == 0 {
		return
	}
	cs, _ := e.Value.(Counts)
	use, _ := cs.standingOf(rule)
	now, cost := d.windowNow(), int64(0)
	for i, t := range tickets {
		if t == nil {
			return
		}
		cost += t.Cost
		at, ok := rule.Window.RoomAt(use, now, rule.Amount, min(max(cost, 1), rule.Amount))
		rounds := (max(cost, 1) - 1) / rule.Amount
		if !ok || rounds > 0 && rule.Window.Kind == windows.Total {
			return
		}
		round := time.Duration(rule.Window.Seconds(now)) * time.Second
		if rule.Window.Kind == windows.Bucket {
			round = rule.Window.FullRefill(rule.Amount)
		}
		out[i] = max(at.Sub(now), 0) + time.Duration(rounds)*round
	}
}
