package events

import "slices"

// ring is what happened lately in one tenant, in order. The hub's lock guards it.
type ring struct {
	start  Pos // everything after it is here
	events []*Event
	wake   chan struct{} // closed when something was added, or the hub started over
}

func newRing(start Pos) *ring { return &ring{start: start, wake: make(chan struct{})} }

// add takes events in and forgets the oldest half when there are more than most.
func (r *ring) add(es []*Event, most int) (forgotten int) {
	r.events = append(r.events, es...)
	if len(r.events) > most {
		forgotten = r.forget(max(len(r.events)/2, len(r.events)-most))
	}
	r.stir()
	return forgotten
}

// forget drops the n oldest. What is left moves to the front, so that forgotten events are free.
func (r *ring) forget(n int) int {
	if n <= 0 {
		return 0
	}
	r.start = r.events[n-1].Pos
	r.events = slices.Delete(r.events, 0, n)
	return n
}

// after is at most most events after pos; ok is false when some after pos are here no more.
func (r *ring) after(pos Pos, most int) (es []*Event, ok bool) {
	if pos.before(r.start) {
		return nil, false
	}
	i, found := slices.BinarySearchFunc(r.events, pos, func(e *Event, pos Pos) int {
		switch {
		case e.Pos.before(pos):
			return -1
		case pos.before(e.Pos):
			return 1
		}
		return 0
	})
	if found {
		i++
	}
	return r.events[i:min(len(r.events), i+most)], true
}

// reset forgets everything: what happened up to start is not all here.
func (r *ring) reset(start Pos) (forgotten int) {
	forgotten = len(r.events)
	r.start, r.events = start, nil
	r.stir()
	return forgotten
}

func (r *ring) stir() {
	close(r.wake)
	r.wake = make(chan struct{})
}
