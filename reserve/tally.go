package reserve

import (
	"slices"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
)

// maxTallyHours bounds the limits and hours that a replica counts in memory while the store
// takes nothing; what comes past it is not counted.
const maxTallyHours = 20_000

// tally counts in memory what this replica did, until RollUp puts it into the store: no
// request writes for being counted. Safe for concurrent use.
type tally struct {
	mu sync.Mutex
	at map[hourKey]*hourCount
}

// hourKey is one limit's hour, counted from the Unix epoch.
type hourKey struct {
	tenant, limit string
	hour          int64
}

// hourCount is what was done in it, in all and by the first MaxTallied subjects.
type hourCount struct {
	Rollup
	by   map[limits.Subject]*Rollup
	more bool
}

func newTally() *tally { return &tally{at: map[hourKey]*hourCount{}} }

func hourOf(at time.Time) int64 { return at.Unix() / int64(time.Hour/time.Second) }

// add counts what one does for one subject of a limit; called under the lock.
func (t *tally) add(k hourKey, s limits.Subject, r Rollup) {
	c := t.at[k]
	if c == nil {
		if len(t.at) >= maxTallyHours {
			return
		}
		c = &hourCount{by: make(map[limits.Subject]*Rollup, 1)}
		t.at[k] = c
	}
	c.Rollup.add(r)
	c.addBy(s, r)
}

func (c *hourCount) addBy(s limits.Subject, r Rollup) {
	one := c.by[s]
	if one == nil {
		if len(c.by) >= MaxTallied {
			c.more = true
			return
		}
		one = &Rollup{}
		c.by[s] = one
	}
	one.add(r)
}

// record counts a reservation that was just begun or ended. Units are counted when it is
// known that they stay charged: at its end.
func (t *tally) record(tenant string, rec *Record, cat *limits.Catalog, hour int64) {
	var r Rollup
	switch rec.State {
	case Held:
		r.Started = 1
	case Committed:
		r.Committed = 1
	case Released:
		r.Released = 1
	case Expired:
		r.Expired = 1
	case Forced:
		r.Forced = 1
	default:
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, p := range rec.Places {
		if !slices.ContainsFunc(rec.Places[:i], func(o Place) bool { return o.Limit == p.Limit }) {
			t.add(hourKey{tenant, p.Limit, hour}, rec.Subject, r)
		}
	}
	for _, c := range rec.Charges {
		one := r
		switch l, ok := cat.Limit(c.Limit); {
		case rec.State == Committed:
			one.Charged = rec.Charged
		case rec.State == Expired && ok && l.OnExpiry == limits.ChargeOnExpiry:
			one.Charged = c.Cost
		}
		t.add(hourKey{tenant, c.Limit, hour}, rec.Subject, one)
	}
}

// decision counts a check that was decided: a refusal for the limit that decided it, a
// consume for every limit that it charged. A reserve that is granted is counted as a record.
func (t *tally) decision(r *Request, m mode, d *Decision, replay bool, hour int64) {
	if m == preview || d.Allowed && (m != consume || replay) || !d.Allowed && d.Binding < 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !d.Allowed {
		t.add(hourKey{r.Tenant, d.Verdicts[d.Binding].Rule.ID, hour}, r.Subject, Rollup{Refused: 1})
		return
	}
	for i := range d.Verdicts {
		if l := d.Verdicts[i].Rule.Limit; l.Window.Counting() {
			t.add(hourKey{r.Tenant, l.ID, hour}, r.Subject, Rollup{Started: 1, Committed: 1, Charged: r.Cost})
		}
	}
}

// counted is one hour's counts, taken out to be put into the store.
type counted struct {
	key hourKey
	hourCount
}

// take takes out at most most hours, the oldest first.
func (t *tally) take(most int) []counted {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]counted, 0, len(t.at))
	for k, c := range t.at {
		out = append(out, counted{k, *c})
	}
	slices.SortFunc(out, func(a, b counted) int { return int(a.key.hour - b.key.hour) })
	out = out[:min(len(out), max(most, 0))]
	for i := range out {
		delete(t.at, out[i].key)
	}
	return out
}

// give puts back what could not be put into the store.
func (t *tally) give(back []counted) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range back {
		have := t.at[c.key]
		if have == nil {
			t.at[c.key] = &hourCount{c.Rollup, c.by, c.more}
			continue
		}
		have.Rollup.add(c.Rollup)
		have.more = have.more || c.more
		for s, r := range c.by {
			have.addBy(s, *r)
		}
	}
}

// pending is what this replica has counted of a limit and not put into the store, by hour; of
// one subject when s is not nobody.
func (t *tally) pending(tenant, limit string, s limits.Subject, from, to int64) (hours map[int64]Rollup, more bool) {
	hours = map[int64]Rollup{}
	t.mu.Lock()
	defer t.mu.Unlock()
	for k, c := range t.at {
		if k.tenant != tenant || k.limit != limit || k.hour < from || k.hour >= to {
			continue
		}
		if s.IsZero() {
			hours[k.hour] = c.Rollup
			continue
		}
		more = more || c.more
		if r := c.by[s]; r != nil {
			hours[k.hour] = *r
		}
	}
	return hours, more
}
