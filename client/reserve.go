package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

// asideWithin bounds the giving back of a grant whose caller has gone away.
const asideWithin = 3 * time.Second

// Reserve takes a slot of every concurrent limit that matches and charges the counting ones, all
// or nothing. The hold is extended until it is settled with Commit or Release, which the caller
// owes; Do does that too. ctx bounds the call, not the hold: its values stay with the hold.
//
// The hold that is returned lives: one whose grant took so long to arrive that it is due for an
// extend is extended first.
//
// Errors: a *Refusal when a limit said no, in time; ErrUnauthorized; ErrUnavailable; the cause
// of ctx; *api.Problem; ErrHoldLost for a grant that ended before it arrived, which is asked for
// anew while there is time to wait and the Key is not the caller's own. What may have been
// granted to a caller that gave up is given back on the side, or at the latest by its TTL.
func (c *Client) Reserve(ctx context.Context, r Request) (*Hold, error) {
	h, err := c.reserve(ctx, r)
	if err != nil && c.allows(r, err) {
		return c.unguarded(ctx, r, err)
	}
	return h, err
}

func (c *Client) reserve(ctx context.Context, r Request) (*Hold, error) {
	q := queue{c: c, limit: c.now().mono + max(r.Wait, 0)}
	key := r.key()
	for {
		if c.heart.isClosed() {
			return nil, errClosed
		}
		began := c.now()
		h, err := c.reserveOnce(ctx, r, &q, key)
		if err == nil {
			return h, nil
		}
		if errors.Is(err, ErrHoldLost) && r.Key == "" && q.left() > 0 {
			key = r.key() // granted, and gone before it was in our hands: a new act
			if !sleep(ctx, q.steps.next(0, mostPause)) {
				return nil, gaveUp(ctx, err)
			}
			continue
		}
		no, ok := err.(*Refusal) //nolint:errorlint // of this very call, never wrapped
		switch {
		case !ok && q.no != nil && ctx.Err() != nil:
			return nil, fmt.Errorf("%w while waiting: %w", err, q.no)
		case !ok:
			return nil, err
		}
		if err := q.pause(ctx, no, began); err != nil {
			return nil, err
		}
	}
}

// reserveOnce is one question, repeated until it is decided. ErrHoldLost: it was granted and
// is gone already.
func (c *Client) reserveOnce(ctx context.Context, r Request, q *queue, key string) (*Hold, error) {
	owner := r.Owner
	if owner == nil {
		owner = c.cfg.Owner
	}
	body := func(wait *int64) []byte {
		return encode(api.ReserveRequest{
			Subject: r.subject(), Action: r.Action, Cost: r.cost(), TTLSeconds: seconds(r.TTL),
			WaitSeconds: wait, Owner: owner, Labels: r.Labels,
		})
	}
	one := call{method: "POST", path: "/v1/reservations", key: key, anew: func() ([]byte, time.Duration) {
		wait := q.slice()
		return body(seconds(wait)), wait
	}}
	limit := c.budget()
	if c.policy(r) != Allow { // who waits for a slot waits for the server too
		limit = max(limit, q.limit)
	}
	f, err := c.repeat(ctx, one, limit)
	switch {
	case err != nil && f.doubt:
		one.anew, one.body = nil, body(new(int64)) // a wait of 0 that is spelt out leaves the line
		c.aside(func(ctx context.Context) { c.giveBack(ctx, one) })
		return nil, err
	case err != nil:
		return nil, err
	case f.problem == nil:
		return c.receive(ctx, r, &f)
	}
	if no := refusalIn(&f.answer, r.Action, c.now().wall); no != nil {
		return nil, no
	}
	if lost := lostBy(key, f.problem); lost != nil && f.problem.Code == api.HoldLost {
		return nil, lost
	}
	return nil, problemError(f.problem)
}

// receive makes a Hold of a grant. Its time counts from the first sending; when that was a while
// ago, an extend with a sending of its own comes first, so that nothing half used up, and
// nothing dead, is handed over.
func (c *Client) receive(ctx context.Context, r Request, f *final) (*Hold, error) {
	var granted api.Reservation
	err := f.into(&granted)
	if err == nil && (granted.ID == "" || granted.TTLSeconds == nil) {
		err = errors.New("the answer is no hold")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	h := newHold(ctx, c, r, &granted, f)
	if late := c.now().since(f.since); late > h.ttl/lateFraction {
		if err := h.extend(ctx); err != nil {
			c.aside(func(ctx context.Context) { _ = c.settle(ctx, granted.ID, "release", nil) })
			return nil, err
		}
	}
	if err := c.heart.add(h); err != nil {
		c.aside(func(ctx context.Context) { _ = c.settle(ctx, granted.ID, "release", nil) })
		return nil, err
	}
	return h, nil
}

// lateFraction of a TTL gone by at the grant calls for an extend before it is handed over.
const lateFraction = 10

// giveBack finds out what became of an act that nobody waits for any more, by sending it
// once again, and releases what it was granted. It is sent until the server has noticed that
// the one before hung up.
func (c *Client) giveBack(ctx context.Context, one call) {
	a, err := c.send(ctx, one)
	for steps := (pace{}); err == nil && a.problem != nil && a.problem.Code == api.IdempotencyInFlight && sleep(ctx, steps.next(0, firstPause)); {
		a, err = c.send(ctx, one)
	}
	var granted api.Reservation
	if err != nil || a.problem != nil || a.into(&granted) != nil || granted.ID == "" {
		return
	}
	_ = c.settle(ctx, granted.ID, "release", nil) // its TTL does it otherwise
}

// aside runs what nobody waits for but Close; on a closed client the caller waits.
func (c *Client) aside(what func(ctx context.Context)) {
	run := func() {
		ctx, cancel := context.WithTimeout(context.Background(), asideWithin)
		defer cancel()
		what(ctx)
	}
	if !c.heart.spawn(run) {
		run()
	}
}
