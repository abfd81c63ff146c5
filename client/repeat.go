package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

// Bounds of repeating an act.
const (
	tryWithin  = 8 * time.Second        // one try; the server answers within 5 s unless it is to wait
	firstPause = 250 * time.Millisecond // between tries, doubled up to
	mostPause  = 2 * time.Second        // while a slot may come free at any moment, or
	mostRest   = 5 * time.Second        // while the server is away
	mostAsked  = 10 * time.Second       // of a Retry-After that is waited out while the server is away
	longTry    = 2 * time.Second        // a try that took so long was no hurry: the pauses begin anew
)

// pace spreads tries out: each pause is twice the one before and random by a fifth, so that
// callers that were refused together do not come back together. Ten seconds of refusals are
// never more than ten tries, whatever Retry-After says.
type pace struct{ last time.Duration }

// next is the pause before the next try: least and a little more, or what doubling up to most
// has come to.
func (p *pace) next(least, most time.Duration) time.Duration {
	p.last = min(max(2*p.last, firstPause), most)
	if least > p.last {
		return least + rand.N(p.last/4)
	}
	return p.last*4/5 + rand.N(p.last*2/5)
}

// outcome is what an answer, or none, means for the act.
type outcome uint8

const (
	decided outcome = iota // yes, or no for a reason that stays
	nothing                // surely nothing happened: it may be sent again
	unknown                // it may have happened: only the same again tells
)

// judge tells what came of one try.
func judge(a *answer, err error) outcome {
	if _, none := errors.AsType[*notSent](err); none {
		return nothing
	}
	if err != nil {
		return unknown
	}
	if a.problem == nil {
		return decided
	}
	switch a.problem.Code {
	case api.StoreUnavailable, api.Contended, api.Overloaded, api.Draining, api.ClockSkew,
		api.StorageFull, api.Quarantine, api.SlowDown:
		return nothing
	case api.OutcomeUnknown, api.IdempotencyInFlight, api.Internal:
		return unknown
	}
	if a.status >= 500 { // a code of a newer server
		return unknown
	}
	return decided
}

// final is what became of an act after all its tries.
type final struct {
	answer
	since instant // first sent then: nothing of it can have happened before
	doubt bool    // it may have happened, and nobody knows
}

// repeat sends an act until it is decided, under the same key, for as long as ctx and limit
// (on the monotonic clock) allow.
//
// The act counts as first sent at the first try that may have taken effect: those before it,
// of which the server said that nothing happened, took none.
//
// Errors: ErrUnavailable, ErrUnauthorized without a token; the cause of ctx.
func (c *Client) repeat(ctx context.Context, one call, limit time.Duration) (final, error) {
	var f final
	var steps pace
	for {
		wait := time.Duration(0)
		if one.anew != nil {
			one.body, wait = one.anew()
		}
		a, err := c.try(ctx, one, limit, wait)
		if !f.doubt {
			f.since = a.sent
		}
		f.answer = a
		result := judge(&a, err)
		if result == decided {
			f.doubt = false
			return f, nil
		}
		f.doubt = f.doubt || result == unknown
		if ctx.Err() != nil {
			return f, gaveUp(ctx, err)
		}
		if errors.Is(err, errNoToken) {
			return f, err
		}
		now := c.now()
		pause := steps.next(min(a.retryAfter(now.wall), mostAsked), mostRest)
		if now.mono+pause >= limit {
			return f, unavailable(&a, err)
		}
		if !sleep(ctx, pause) {
			return f, gaveUp(ctx, err)
		}
	}
}

// try is one try with its own deadline, which is never past the act's by more than a try.
func (c *Client) try(ctx context.Context, one call, limit, wait time.Duration) (answer, error) {
	within := min(tryWithin, max(limit-c.now().mono, time.Second))
	ctx, cancel := context.WithTimeout(ctx, within+wait)
	defer cancel()
	return c.send(ctx, one)
}

// unavailable is the error of an act that was given up.
func unavailable(a *answer, err error) error {
	switch {
	case errors.Is(err, ErrUnauthorized):
		return err
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, a.problem)
}

// gaveUp is the error of an act whose caller went away.
func gaveUp(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if err == nil || errors.Is(err, cause) {
		return fmt.Errorf("holdfast: %w", cause)
	}
	return fmt.Errorf("holdfast: %w (last: %w)", cause, err)
}

// encode is a body. The types of package api always have a JSON form.
func encode(v any) []byte {
	body, err := json.Marshal(v)
	if err != nil {
		panic("holdfast: " + err.Error())
	}
	return body
}

// budget is until when, on the monotonic clock, an act that begins now may go on.
func (c *Client) budget() time.Duration { return c.now().mono + c.cfg.Timeout }
