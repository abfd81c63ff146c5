package client

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/holdfast-dev/holdfast/api"
)

// beat is one call that extends holds.
type beat struct {
	holds   []*Hold
	ids     []string
	written chan struct{}
	left    func() // closes written, once
}

// sendDue sends the holds that are due, and with them those that will be soon.
func (b *heart) sendDue(now instant) {
	var due []*Hold
	for h := range b.holds {
		soon := h.due - now.mono
		if soon <= 0 || h.tries == 0 && soon <= h.ttl/12 {
			due = append(due, h)
		}
	}
	slices.SortFunc(due, func(x, y *Hold) int { return int(x.left(now) - y.left(now)) })
	for chunk := range slices.Chunk(due, api.MaxHeartbeats) {
		if b.flying == maxCalls {
			return
		}
		b.start(chunk, now)
	}
}

// start sends one beat beside the loop.
func (b *heart) start(holds []*Hold, now instant) {
	one := &beat{holds: holds, ids: make([]string, len(holds)), written: make(chan struct{})}
	one.left = sync.OnceFunc(func() { close(one.written) })
	for i, h := range holds {
		one.ids[i] = h.id
		if h.tries > 0 {
			h.state = Unsure // the try before has no answer yet, or none that helps
		}
		h.tries++
		h.written = one.written
		h.due = now.mono + min(h.patience(now), tryWithin)
	}
	b.flying++
	b.count.Beats++
	b.crew.Go(func() { b.send(one) })
}

// send sends one beat, with a deadline of its own, and takes in what became of it. Each hold is
// extended by its present TTL.
func (b *heart) send(one *beat) {
	ctx, cancel := context.WithTimeout(b.calls, tryWithin)
	defer cancel()
	a, err := b.c.send(ctx, call{
		method: "POST", path: "/v1/heartbeats", body: encode(api.HeartbeatRequest{IDs: one.ids}), written: one.left,
	})
	one.left()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flying--
	results, err := resultsOf(&a, err)
	if err != nil {
		b.failed(one, &a, err)
	} else {
		b.steps, b.resting = pace{}, 0
		var last *api.Problem
		unsure := 0
		for _, h := range one.holds {
			if p := b.landed(h, a.sent, results[h.id]); p != nil {
				last, unsure = p, unsure+1
			}
		}
		if unsure > 0 {
			b.note("holds were not extended", "holds", unsure, "cause", last)
		}
	}
	b.kick()
}

var errNoResults = errors.New("the answer names no holds")

// resultsOf are the results by id.
func resultsOf(a *answer, err error) (map[string]*api.HeartbeatResult, error) {
	switch {
	case err != nil:
		return nil, err
	case a.problem != nil:
		return nil, a.problem
	}
	var all api.HeartbeatAnswer
	if err := a.into(&all); err != nil {
		return nil, err
	}
	if len(all.Results) == 0 {
		return nil, errNoResults
	}
	results := make(map[string]*api.HeartbeatResult, len(all.Results))
	for i := range all.Results {
		results[all.Results[i].ID] = &all.Results[i]
	}
	return results, nil
}

// failed makes the holds of a beat without an answer unsure and due, after a rest for all: the
// server is away, or has asked for it. The rest leaves a hold that is short of time its tries.
func (b *heart) failed(one *beat, a *answer, err error) {
	b.count.FailedBeats++
	if b.closed {
		return
	}
	now := b.c.now()
	rest := b.steps.next(min(a.retryAfter(now.wall), mostAsked), mostRest)
	unsure := 0
	for _, h := range one.holds {
		if !h.alive() {
			continue
		}
		unsure++
		h.state, h.due = Unsure, now.mono
		rest = min(rest, h.patience(now))
	}
	b.resting = now.mono + rest
	if unsure > 0 {
		b.note("holds were not extended", "holds", unsure, "again_in", rest, "cause", err)
	}
}

// landed takes in what a beat says of one hold, and returns why it does not know whether it was
// extended. A hold that is being settled is none of its business any more: that the beat found it
// gone is what settling means.
//
// What may not have happened is sent again soon: a beat that fails costs the server next to
// nothing, and the store may answer again at any moment. A server that asks for more time gets it,
// up to mostRest.
func (b *heart) landed(h *Hold, sent instant, r *api.HeartbeatResult) *api.Problem {
	if !h.alive() {
		return nil
	}
	now := b.c.now()
	switch {
	case r != nil && r.OK:
		h.extended(sent, r.TTLSeconds)
	case r != nil && lostBy(h.id, r.Problem) != nil:
		b.lose(h, lostBy(h.id, r.Problem))
	default:
		h.state = Unsure
		wait := leastRest << min(h.tries, beatTries)
		if r != nil && r.Problem != nil {
			wait = max(wait, waitOf(r.Problem.RetryAfterMs, r.Problem.RetryAfterSeconds))
		}
		h.due = now.mono + min(wait, mostRest, h.patience(now))
		if r != nil {
			return r.Problem
		}
	}
	return nil
}

// close loses what still lives, ends the calls and waits for the goroutines.
func (b *heart) close() {
	b.mu.Lock()
	b.closed = true
	for h := range b.holds {
		b.lose(h, &LostError{ID: h.id, Reason: LostClosed})
	}
	b.mu.Unlock()
	b.hangUp()
	b.kick()
	b.crew.Wait()
}

// spawn runs f beside, where Close waits for it; it does not when the client is closed.
func (b *heart) spawn(f func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.crew.Go(f)
	return true
}

func (b *heart) isClosed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

func (b *heart) stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.count
	s.Holds = int64(len(b.holds))
	return s
}
