//go:build unix

package main

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

// Bounds of one extend.
const (
	longestExtend = 5 * time.Second // that one try may take
	firstAgain    = 100 * time.Millisecond
	longestAgain  = 2 * time.Second
)

// errOutOfTime is why a command stops while nothing is known of its hold.
var errOutOfTime = errors.New("it could not be extended in time")

// keeping is what is known of extending: one try at a time, in a goroutine of its own.
type keeping struct {
	ctx    context.Context // of all tries
	cancel context.CancelFunc
	tries  sync.WaitGroup
	beats  chan beat

	at    instant       // the next try is due after wait from here
	wait  time.Duration //
	busy  bool          // a try is under way
	again time.Duration // before the next try while they fail; 0: they do not
}

// beat is how one try went, and when it was sent.
type beat struct {
	from instant
	err  error
}

// plan begins to extend a hold that was just granted.
func (k *keeping) plan(r *execution) {
	k.ctx, k.cancel = context.WithCancel(context.WithoutCancel(r.ctx))
	k.beats = make(chan beat, 1)
	k.at, k.wait = r.from, r.job.extendAfter()
}

// stop ends a try under way and waits for it.
func (k *keeping) stop() {
	if k.cancel != nil {
		k.cancel()
		k.tries.Wait()
	}
}

// due starts a try when it is time. The hold is extended until the last process has ended, but
// not once it is lost.
func (k *keeping) due(r *execution, now instant) {
	if k.busy || r.lost != nil || now.since(k.at) < k.wait {
		return
	}
	k.busy = true
	left := r.job.killAt() - now.since(r.from)
	ctx, cancel := context.WithTimeout(k.ctx, min(r.job.terms.ttl/3, longestExtend, max(left, leastTick)))
	k.tries.Go(func() {
		defer cancel()
		from := r.app.clocks()
		k.beats <- beat{from, r.extend(ctx, r.id)}
	})
}

// extend sends one extend, once.
func (r *execution) extend(ctx context.Context, id string) error {
	_, err := r.call.once(ctx, act{method: http.MethodPost, path: of(id, "extend"), body: api.ExtendRequest{TTLSeconds: r.job.body.TTLSeconds}})
	return err
}

// beat takes the outcome of a try.
func (r *execution) beat(b beat) {
	k := &r.keep
	k.busy = false
	switch {
	case r.lost != nil:
	case b.err == nil:
		if k.again > 0 {
			r.app.say("holdfast: %s is extended again", r.id)
		}
		r.from, k.at, k.wait, k.again = b.from, b.from, r.job.extendAfter(), 0
		if r.child != nil {
			r.guard.until(r.job.terms, r.from)
		}
	case isLost(b.err):
		r.lose(b.err)
	default:
		r.failed(b.err)
	}
}

// failed plans the next try, and says so the first time.
func (r *execution) failed(err error) {
	k, now := &r.keep, r.app.clocks()
	if k.again == 0 {
		k.again = firstAgain
		r.app.say("holdfast: %s cannot be extended: %s; trying on, for %s", r.id, printable(r.app.explain(err).what),
			short(r.job.termAt()-now.since(r.from)))
	}
	k.at, k.wait = now, jitter(k.again)
	if problem, ok := errors.AsType[*api.Problem](err); ok {
		k.wait = max(k.wait, min(retryAfter(problem), r.job.terms.ttl/6))
	}
	k.again = min(2*k.again, longestAgain)
	r.call.http.CloseIdleConnections() // the next try dials anew
}

// isLost reports whether an answer says that the hold is no more. A 404 is one too: of an id
// that was granted, it says that the store forgot it.
func isLost(err error) bool {
	p, ok := errors.AsType[*api.Problem](err)
	return ok && (p.Code == api.HoldLost || p.Code == api.NotFound || p.Code == api.AlreadySettled)
}
