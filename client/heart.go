package client

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

// Bounds of the heartbeat.
const (
	beatsPerTTL = 3 // a beat is due at a third of the TTL, up to a fifth of that earlier
	beatTries   = 3 // a try that has no answer is followed by the next after a third of what is left
	maxCalls    = 8 // under way at once; further beats wait
	look        = time.Second
	maxApart    = 2 * time.Second        // that the clocks may move apart between two looks
	leastRest   = 250 * time.Millisecond // between calls while they fail
)

// heart extends all holds of a client. One goroutine looks after them while there are any:
// it loses those past their deadline, and sends those that are due together, each call beside
// it, so that a call that hangs never keeps it from a deadline.
type heart struct {
	c    *Client
	wake chan struct{}

	calls  context.Context // of all calls; ends with Close
	hangUp context.CancelFunc
	crew   sync.WaitGroup // goroutines; grows under mu and only while not closed

	mu      sync.Mutex // guards all below, and what Hold says it guards
	holds   map[*Hold]struct{}
	beating bool
	closed  bool
	flying  int
	steps   pace
	resting time.Duration // no call before, on the monotonic clock
	last    instant
	count   Stats
}

func newHeart(c *Client) *heart {
	b := &heart{c: c, wake: make(chan struct{}, 1), holds: map[*Hold]struct{}{}}
	b.calls, b.hangUp = context.WithCancel(context.Background())
	return b
}

// add begins to extend a hold. Errors: ErrUnavailable when the client is closed; a *LostError
// for a hold that is past its deadline.
func (b *heart) add(h *Hold) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return errClosed
	}
	if h.left(b.c.now()) <= 0 {
		return &LostError{ID: h.id, Reason: LostDeadline}
	}
	b.follow(h)
	return nil
}

// follow is called under the lock, as all below that do not take it.
func (b *heart) follow(h *Hold) {
	h.state, h.due = Held, h.since.mono+h.beatAfter()
	b.holds[h] = struct{}{}
	if !b.beating {
		b.beating, b.last = true, b.c.now()
		b.crew.Go(b.run)
	}
	b.kick()
}

// beatAfter is when, after an extend was sent, the next is due: at a third of the TTL, some
// sooner, so that many holds made together do not stay together. A short TTL leaves half of
// what its margin leaves.
func (h *Hold) beatAfter() time.Duration {
	third := min(h.ttl/beatsPerTTL, (h.ttl-max(time.Second, h.ttl/20, h.margin))/2)
	if third <= 0 {
		return 0
	}
	return third - rand.N(third/5+1)
}

// patience is how long a hold waits for a try before the next: a third of the time that is left,
// so that there are three tries and more however slow the first ones are.
func (h *Hold) patience(now instant) time.Duration {
	return max(h.left(now)/beatTries, leastRest, h.ttl/30)
}

// take ends the extending of a hold that is to be settled. written is closed when the last beat
// that names it has left.
func (b *heart) take(h *Hold) (was State, written <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was, written = h.state, h.written
	if h.written == nil {
		written = closedChan
	}
	if h.alive() {
		h.state = Ended
		delete(b.holds, h)
		b.kick()
	}
	return was, written
}

var closedChan = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// resume goes on extending a hold whose settling was refused. It reports whether it does.
func (b *heart) resume(h *Hold) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || h.left(b.c.now()) <= 0 {
		return false
	}
	b.follow(h)
	return true
}

// lose ends a hold's context.
func (b *heart) lose(h *Hold, why *LostError) {
	if !h.alive() {
		return
	}
	h.state, h.end = Lost, why
	delete(b.holds, h)
	close(h.lost)
	h.cancel(why)
	if why.Reason != LostClosed {
		b.count.Lost++
		b.note("hold lost", "hold", h.id, "reason", why.Reason, "by", why.By, "note", why.Note)
	}
}

// note logs beside: a log that blocks must keep no hold from its deadline. What is noted comes
// at the pace of beats.
func (b *heart) note(text string, args ...any) {
	if !b.closed && b.c.log.Enabled(context.Background(), slog.LevelWarn) {
		b.crew.Go(func() { b.c.log.Warn(text, args...) })
	}
}

func (b *heart) kick() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// run looks after the holds until there are none.
func (b *heart) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		pause, more := b.turn()
		if !more {
			return
		}
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-b.wake:
		}
	}
}

// turn does what is due and says when to look again.
func (b *heart) turn() (pause time.Duration, more bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || len(b.holds) == 0 {
		b.beating = false
		return 0, false
	}
	now := b.c.now()
	b.noticeGap(now)
	late := false
	for h := range b.holds {
		if h.left(now) <= 0 {
			b.lose(h, &LostError{ID: h.id, Reason: LostDeadline})
			continue
		}
		late = late || h.due <= now.mono
	}
	if late && b.resting <= now.mono {
		b.sendDue(now)
	}
	return b.untilNext(now), true
}

// untilNext is when to look again: at the next beat or deadline, and each second for the clocks.
func (b *heart) untilNext(now instant) time.Duration {
	pause := look
	for h := range b.holds {
		pause = min(pause, h.left(now))
		if b.flying < maxCalls { // else one that lands kicks
			pause = min(pause, max(h.due, b.resting)-now.mono)
		}
	}
	return max(pause, time.Millisecond)
}

// noticeGap makes every hold unsure when the wall clock ran ahead since the last look: the
// machine may have slept, and only the server knows what has become of the holds.
func (b *heart) noticeGap(now instant) {
	gap := now.apart(b.last)
	b.last = now
	if gap <= maxApart {
		return
	}
	b.note("the wall clock ran ahead: every hold is verified", "gap", gap)
	b.resting = 0
	for h := range b.holds {
		h.state, h.due = Unsure, now.mono
	}
}
