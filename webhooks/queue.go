package webhooks

import (
	"math/rand/v2"
	"time"

	"github.com/holdfast-dev/holdfast/reserve"
)

// Bounds of the queue of one webhook, and of what is done with it.
const (
	MaxQueued   = 5_000   // events that wait; then the stream is not read until there is room
	MaxBytes    = 4 << 20 // of their bodies
	mostFlights = 8       // deliveries at once
	lookAhead   = 512     // events that are looked at for one that may go

	DefaultFirstRetry = time.Second // doubled from try to try
	DefaultMostRetry  = 5 * time.Minute
	MaxTries          = 30             // of one event at one replica
	GiveUpAfter       = 24 * time.Hour // since it was queued
)

// queue is what waits for one webhook, in order: what is in its outbox. One goroutine uses it.
type queue struct {
	parcels []*parcel
	left    int // events that wait
	bytes   int
	lanes   map[string]*lane // by limit, of the events that wait or waited lately
	turn    int64            // of looking for the next
}

// lane is the events of one limit, or of none: they go one after the other.
type lane struct{ taken int64 } // the turn in which an earlier event was seen

// parcel is one key of the outbox.
type parcel struct {
	rank    int64
	letters []*letter
	left    int
	changed bool // some of it was sent since it was written
}

type letter struct {
	reserve.Letter
	of     *parcel
	lanes  []*lane
	tries  int
	due    time.Time
	flying bool
	done   bool
}

// add takes in a parcel that stands in the outbox.
func (q *queue) add(rank int64, p *reserve.Parcel) {
	at := &parcel{rank: rank, left: len(p.Events)}
	if q.left == 0 {
		q.lanes = map[string]*lane{}
	}
	for i := range p.Events {
		at.letters = append(at.letters, &letter{Letter: p.Events[i], of: at, lanes: q.lanesOf(p.Events[i].Limits)})
		q.bytes += len(p.Events[i].Body)
	}
	q.left += at.left
	q.parcels = append(q.parcels, at)
}

// full reports whether there is no room for what the stream may give at once.
func (q *queue) full() bool { return q.left+maxStream > MaxQueued || q.bytes > MaxBytes }

// lanesOf are those of an event about limits. Lanes are let go when nothing waits.
func (q *queue) lanesOf(limits []string) (all []*lane) {
	if len(limits) == 0 {
		limits = []string{""}
	}
	for _, id := range limits {
		if q.lanes[id] == nil {
			q.lanes[id] = &lane{}
		}
		all = append(all, q.lanes[id])
	}
	return all
}

// next is the first event that may go now: none of its limits has an earlier event that was not
// accepted. due is when another may have to be tried again; zero: nothing waits for that.
func (q *queue) next(now time.Time) (l *letter, due time.Time) {
	q.turn++
	looked := 0
	for _, p := range q.parcels {
		if p.left == 0 {
			continue
		}
		for _, l := range p.letters {
			if l.done {
				continue
			}
			if looked++; looked > lookAhead {
				return nil, due
			}
			if l.waits(q.turn) || l.flying {
				continue
			}
			if !now.Before(l.due) {
				return l, due
			}
			if due.IsZero() || l.due.Before(due) {
				due = l.due
			}
		}
	}
	return nil, due
}

// waits reports whether an earlier event of the turn is in a lane of l's, and takes l's lanes.
func (l *letter) waits(turn int64) (wait bool) {
	for _, at := range l.lanes {
		wait = wait || at.taken == turn
		at.taken = turn
	}
	return wait
}

// finish takes an event out: it was accepted, or given up.
func (q *queue) finish(l *letter) {
	l.done, l.of.changed = true, true
	l.of.left--
	q.left--
	q.bytes -= len(l.Body)
}

// changed are parcels to be written or deleted, at most most.
func (q *queue) changed(most int) (out []*parcel) {
	for _, p := range q.parcels {
		if p.changed {
			if out = append(out, p); len(out) == most {
				break
			}
		}
	}
	return out
}

// rest is what of a parcel waits still; nil: nothing.
func (p *parcel) rest() *reserve.Parcel {
	if p.left == 0 {
		return nil
	}
	out := &reserve.Parcel{}
	for _, l := range p.letters {
		if !l.done {
			out.Events = append(out.Events, l.Letter)
		}
	}
	return out
}

// written says that the outbox has what is left of ps.
func (q *queue) written(ps []*parcel) {
	for _, p := range ps {
		p.changed = false
	}
	kept := q.parcels[:0]
	for _, p := range q.parcels {
		if p.left > 0 || p.changed {
			kept = append(kept, p)
		}
	}
	clear(q.parcels[len(kept):])
	q.parcels = kept
}

// first is the lowest rank there is, or next when there is none.
func (q *queue) first(next int64) int64 {
	for _, p := range q.parcels {
		if p.left > 0 {
			return p.rank
		}
	}
	return next
}

// backOff is how long to wait after the given number of failures: doubled each time, up to most,
// and made shorter or longer by up to a half, so that a receiver that comes back is not met by
// all at once.
func backOff(tries int, first, most time.Duration) time.Duration {
	wait := most
	if shift := tries - 1; shift < 30 && first<<shift < most {
		wait = first << shift
	}
	return wait/2 + rand.N(wait)
}
