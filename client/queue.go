package client

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

// Bounds of waiting.
const (
	longestSlice = 60 * time.Second // that one request may be held back by the server; who was held back so long keeps the place for the next
	lastSlice    = 59 * time.Second // of a wait: shorter, so that no place in line is left behind
	mostSlept    = 60 * time.Second // between two questions about a limit that says when
)

// queue is one caller's wait for a yes. The first question is decided at once: what waiting does
// not help is told. From then on the server keeps the line while it holds a request back; between
// requests, and with a server that decides at once, the caller comes back by itself.
type queue struct {
	c     *Client
	limit time.Duration // until when, on the monotonic clock
	steps pace
	no    *Refusal // the last one; not nil: it stands in line from now on
}

// left is how much of the wait is left.
func (q *queue) left() time.Duration { return max(q.limit-q.c.now().mono, 0) }

// slice is how long the server is asked to hold the next request back.
func (q *queue) slice() time.Duration {
	switch left := q.left(); {
	case q.no == nil:
		return 0
	case left > longestSlice:
		return longestSlice
	default:
		return min(left, lastSlice)
	}
}

// pause waits for the right moment to ask again after a refusal; began is when it was asked.
// After the first, and after one that came at the end of a slice, that is now: there is a place
// in line to be taken.
// A slot can come free at any moment, so it is asked for every two seconds at the latest.
// What says when it comes back is not asked before.
//
// Errors: the refusal, when that moment is past the limit or waiting is no use; the cause of ctx.
func (q *queue) pause(ctx context.Context, no *Refusal, began instant) error {
	now := q.c.now()
	left := q.limit - now.mono
	if no.hopeless() || left <= 0 {
		return no
	}
	least, any := min(no.RetryAfter, mostPause), no.Code == api.NoFreeSlot || no.Code == api.LineFull
	if !any {
		if no.RetryAfter > left {
			return fmt.Errorf("waiting would take longer than there is time (%s): %w", left.Round(time.Millisecond), no)
		}
		least = min(no.RetryAfter, mostSlept)
	}
	held := now.mono-began.mono >= longTry && no.Code != api.LineFull
	if held || q.no == nil || no.DecidedBy != q.no.DecidedBy {
		q.steps = pace{} // it was held back, or something else refuses now
	}
	first := q.no == nil
	q.no = no
	switch {
	case first:
		return nil
	case held:
		least = 0
	}
	wait := q.steps.next(least, mostPause)
	if wait > left {
		// The last question comes at the very end: what comes free before it is not missed.
		wait = left
	}
	if !sleep(ctx, wait) {
		return fmt.Errorf("holdfast: %w while waiting: %w", context.Cause(ctx), no)
	}
	return nil
}
