package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

// errEnded is the cause of a settled hold's context.
var errEnded = errors.New("holdfast: the hold was settled")

// Commit ends the hold and keeps its charges: what SetCost said, or else the estimate. It runs
// to its own end, Config.Timeout at most, whether or not ctx does. The hold's context ends.
//
// Committing again is harmless. When it fails nobody extends the hold any more, so that its
// slot comes free by the TTL; only after a refused overage is the hold held as before.
//
// Errors: ErrHoldLost, nothing was charged; ErrUnavailable, it may have been committed;
// *api.Problem with code overage or already-settled.
func (h *Hold) Commit(ctx context.Context) error {
	h.c.heart.mu.Lock()
	body := encode(api.CommitRequest{Cost: h.cost})
	h.c.heart.mu.Unlock()
	return h.finish(ctx, "commit", body)
}

// Release ends the hold and refunds its charges. It runs to its own end as Commit does, so it
// can stand in a defer whatever has become of ctx. After a Commit that succeeded it does nothing.
//
// Errors: as Commit's. Of a hold that is lost, ErrHoldLost; one that the server may still have
// is given back all the same.
func (h *Hold) Release(ctx context.Context) error {
	return h.finish(ctx, "release", nil)
}

// finish takes the hold out of the heartbeat and settles it.
func (h *Hold) finish(ctx context.Context, verb string, body []byte) error {
	b := h.c.heart
	was, written := b.take(h)
	if !h.Guarded() {
		h.cancel(errEnded)
		if was != Ended {
			h.c.loose.Add(-1)
		}
		return nil
	}
	switch was {
	case Lost:
		if lost := h.lostTo(); lost.Reason != LostClosed {
			return h.giveUp(lost)
		}
	case Ended:
		if h.settledBy(verb) {
			return nil
		}
	case Held, Unsure:
		wait(written)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.c.cfg.Timeout)
	defer cancel()
	err := h.c.settle(ctx, h.id, verb, body)
	if p, ok := errors.AsType[*api.Problem](err); ok && p.Code == api.Overage && b.resume(h) {
		return err
	}
	h.cancel(errEnded)
	if err == nil {
		b.mu.Lock()
		h.verb = verb
		b.mu.Unlock()
	}
	return err
}

// leavesWithin bounds the wait for a beat to leave: a connection may be hard to get.
const leavesWithin = 5 * time.Second

// wait is for the last beat to leave: a later one would come after the settle's answer.
func wait(written <-chan struct{}) {
	timer := time.NewTimer(leavesWithin)
	defer timer.Stop()
	select {
	case <-written:
	case <-timer.C:
	}
}

// settledBy reports whether verb has nothing left to do: it succeeded before, or it is the
// release in a defer after a commit.
func (h *Hold) settledBy(verb string) bool {
	h.c.heart.mu.Lock()
	defer h.c.heart.mu.Unlock()
	return h.verb != "" && (h.verb == verb || verb == "release")
}

// lostTo is how the hold was lost.
func (h *Hold) lostTo() *LostError {
	h.c.heart.mu.Lock()
	defer h.c.heart.mu.Unlock()
	lost, _ := errors.AsType[*LostError](h.end)
	return lost
}

// giveUp tells that the hold is lost. One lost by the local deadline may stand a little longer
// with the server, or for long when a clock was set: it is released on the side.
func (h *Hold) giveUp(lost *LostError) error {
	if lost.Reason == LostDeadline && h.givenUp.CompareAndSwap(false, true) {
		h.c.aside(func(ctx context.Context) { _ = h.c.settle(ctx, h.id, "release", nil) })
	}
	return lost
}

// settle sends a commit or a release until it is decided. The same again is harmless, so it
// needs no key. Errors: as Commit's.
func (c *Client) settle(ctx context.Context, id, verb string, body []byte) error {
	one := call{method: "POST", path: "/v1/reservations/" + id + "/" + verb, body: body}
	f, err := c.repeat(ctx, one, c.budget())
	switch {
	case err != nil && errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	case err != nil:
		return err
	case f.problem == nil:
		return nil
	}
	if lost := lostBy(id, f.problem); lost != nil {
		return lost
	}
	return problemError(f.problem)
}
