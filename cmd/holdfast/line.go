package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

// Bounds of standing in line.
const (
	longestWait  = time.Minute               // that a server holds one answer back; who has waited so long keeps the place for the next call under the same key
	lastWait     = longestWait - time.Second // of the last call: after a shorter wait no place is left behind
	leaveTime    = 700 * time.Millisecond    // for giving a place up; what is not given up by then is kept for 10 s
	leaveEvery   = 20 * time.Millisecond     // while the server has not noticed yet that the call before hung up
	giveBackTime = 2 * time.Second           // for a slot that nobody wants any more
)

// inLine is r with a place in line for what is left of a wait, and how long that call may take.
func inLine(r api.ReserveRequest, left time.Duration) (api.ReserveRequest, time.Duration) {
	wait := longestWait
	if left <= longestWait {
		wait = min(max(left, time.Second), lastWait)
	}
	r.WaitSeconds = wholeSeconds(wait)
	return r, wait
}

// leaveLine gives up the place in line that one may have, because nobody waits for it any more:
// others would be held up by it. A slot that it was granted meanwhile is given back. ctx may
// have ended.
func (c *caller) leaveLine(ctx context.Context, one act) {
	body, ok := one.body.(api.ReserveRequest)
	if !ok || body.WaitSeconds == nil {
		return // it never stood in line
	}
	body.WaitSeconds = new(int64) // a wait of 0 that is spelt out leaves the line
	var granted api.Reservation
	one.body, one.wait, one.into = body, 0, &granted
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	for {
		_, err := c.once(leaving, one)
		if err == nil {
			_ = c.giveBack(ctx, granted.ID, "nobody waits for it any more") // its TTL does it otherwise
			return
		}
		problem, ok := errors.AsType[*api.Problem](err)
		if !ok || problem.Code != api.IdempotencyInFlight || !sleep(leaving, leaveEvery) {
			return
		}
	}
}

// giveBack releases a hold that nobody wants. Errors as do.
func (c *caller) giveBack(ctx context.Context, id, reason string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTime)
	defer cancel()
	_, err := c.do(ctx, act{method: http.MethodPost, path: of(id, "release"), body: api.ReleaseRequest{Reason: reason}, repeatable: true})
	return err
}
