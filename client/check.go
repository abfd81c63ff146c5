package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

// NoCost is the Cost of a Request that charges nothing, since 0 stands for 1.
const NoCost = math.MinInt64

// Request is what is asked for. Action is required.
type Request struct {
	Action  string
	Subject api.Subject   // zero: the token's own
	Cost    int64         // units charged to counting limits; 0: 1; NoCost: none
	TTL     time.Duration // of a hold between two extends, whole seconds, rounded up; 0: the limits' own

	// Wait is how long Reserve and Do wait for a free slot, or for room in a counting limit that
	// comes back within it. 0: refused at once. Holdfast keeps the line: first come, first served.
	Wait time.Duration

	// Key is the Idempotency-Key: whoever asks again with it, in another process too, gets the
	// same grant. "": a new one for each call.
	Key string

	// Margin is how long before the server can give the slot on the hold counts as lost. It is
	// never less than max(1 s, 5 % of the TTL), the default.
	Margin time.Duration

	Owner         *api.Owner        // nil: as Config says
	Labels        map[string]string // remembered with a hold
	OnUnavailable Unavailable       // default: as Config says
}

func (r *Request) subject() *api.Subject {
	if r.Subject == (api.Subject{}) {
		return nil
	}
	return &r.Subject
}

func (r *Request) cost() *int64 {
	cost := r.Cost
	switch cost {
	case 0:
		return nil
	case NoCost:
		cost = 0
	}
	return &cost
}

// seconds is d in whole seconds, rounded up; nil for 0.
func seconds(d time.Duration) *int64 {
	if d == 0 {
		return nil
	}
	n := int64((d + time.Second - 1) / time.Second)
	return &n
}

func (r *Request) key() string { return cmp.Or(r.Key, rand.Text()) }

// Decision is the answer to a check.
type Decision struct {
	Allowed   bool
	Unguarded bool     // allowed without a server, under the policy Allow
	Refusal   *Refusal // nil when allowed
	Limits    []api.Verdict

	RateLimit, RateLimitPolicy string // the answer's headers of these names, to pass on
}

// Consume charges the counting limits that match, all or nothing; of each concurrent one it
// needs a free slot and takes none.
//
// Errors: a *Refusal when a limit said no; ErrUnauthorized; ErrUnavailable; *api.Problem.
func (c *Client) Consume(ctx context.Context, r Request) (Decision, error) {
	d, err := c.check(ctx, r, api.ModeConsume, r.key(), nil)
	if err != nil {
		return c.letThrough(r, err)
	}
	if !d.Allowed {
		return d, d.Refusal
	}
	return d, nil
}

// Preview tells what would be decided now and changes nothing. A refusal is a value here.
//
// Errors: ErrUnauthorized, ErrUnavailable, *api.Problem.
func (c *Client) Preview(ctx context.Context, r Request) (Decision, error) {
	return c.check(ctx, r, api.ModePreview, "", nil)
}

// Wait blocks until r is allowed, as x/time/rate's does: it charges as Consume and fails at
// once when the cost can never fit or ctx ends before it would. Without a deadline it waits for
// as long as ctx lives. Request.Wait does not count. Holdfast keeps the line, as for Reserve.
//
// Errors: a *Refusal when waiting is no use; the cause of ctx; otherwise as Consume.
func (c *Client) Wait(ctx context.Context, r Request) error {
	q := queue{c: c}
	if deadline, ok := ctx.Deadline(); ok {
		q.limit = c.now().mono + deadline.Sub(c.now().wall)
	} else {
		q.limit = math.MaxInt64
	}
	key := r.key()
	for {
		began := c.now()
		d, err := c.check(ctx, r, api.ModeConsume, key, &q)
		switch {
		case err != nil && q.no != nil && ctx.Err() != nil:
			return fmt.Errorf("%w while waiting: %w", err, q.no)
		case err != nil:
			_, err = c.letThrough(r, err)
			return err
		case d.Allowed:
			return nil
		}
		if err := q.pause(ctx, d.Refusal, began); err != nil {
			return err
		}
	}
}

// check asks once and repeats until there is an answer; q not nil: as q says, in line.
//
// The server is to answer before ctx ends, so that no place is left behind: it is asked to wait
// for whole seconds, rounded down. Who goes away in between leaves the line.
func (c *Client) check(ctx context.Context, r Request, mode, key string, q *queue) (Decision, error) {
	ask := api.CheckRequest{Subject: r.subject(), Action: r.Action, Mode: mode, Cost: r.cost(), Labels: r.Labels}
	one, limit := call{method: "POST", path: "/v1/checks", body: encode(ask), key: key}, c.budget()
	stood := false
	if q != nil {
		limit += q.slice()
		one.anew = func() ([]byte, time.Duration) {
			wait := q.slice().Truncate(time.Second)
			ask.WaitSeconds, stood = seconds(wait), stood || wait > 0
			return encode(ask), wait
		}
	}
	f, err := c.repeat(ctx, one, limit)
	if err != nil && f.doubt && stood {
		ask.WaitSeconds = new(int64) // a wait of 0 that is spelt out leaves the line
		one.anew, one.body = nil, encode(ask)
		c.aside(func(ctx context.Context) { c.giveBack(ctx, one) })
	}
	if err != nil {
		return Decision{}, err
	}
	if f.problem != nil {
		if no := refusalIn(&f.answer, r.Action, c.now().wall); no != nil {
			return Decision{Refusal: no, Limits: no.Limits, RateLimit: no.RateLimit, RateLimitPolicy: no.RateLimitPolicy}, nil
		}
		return Decision{}, problemError(f.problem)
	}
	var a api.CheckAnswer
	if err := f.into(&a); err != nil {
		return Decision{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	d := Decision{Allowed: a.Allowed, Limits: a.Limits, RateLimit: f.header.Get("RateLimit"), RateLimitPolicy: f.header.Get("RateLimit-Policy")}
	if !a.Allowed {
		d.Refusal = &Refusal{
			Code: a.Code, Action: r.Action, DecidedBy: a.DecidedBy, Detail: a.Detail, Waiting: a.Waiting,
			RetryAfter: waitOf(a.RetryAfterMs, a.RetryAfterSeconds), Limits: a.Limits, Holders: a.Holders,
			RateLimit: d.RateLimit, RateLimitPolicy: d.RateLimitPolicy,
		}
		if a.NeverFits {
			d.Refusal.Code = api.NeverFits
		}
	}
	return d, nil
}

// refusalIn is the refusal an answer with a problem is; nil when it is something else.
func refusalIn(a *answer, action string, now time.Time) *Refusal {
	p := a.problem
	switch p.Code {
	case api.NoFreeSlot, api.QuotaExceeded, api.LimitPaused, api.SubjectBlocked, api.LineFull, api.WaitCancelled, api.NeverFits:
	default:
		return nil
	}
	no := &Refusal{
		Code: p.Code, Action: action, DecidedBy: p.DecidedBy, Detail: p.Detail, RetryAfter: a.retryAfter(now),
		Limits: p.Limits, Holders: p.Holders,
		RateLimit: a.header.Get("RateLimit"), RateLimitPolicy: a.header.Get("RateLimit-Policy"),
	}
	if p.Waiting != nil {
		no.Waiting = *p.Waiting
	}
	return no
}

// letThrough applies the policy to a check that no server decided.
func (c *Client) letThrough(r Request, err error) (Decision, error) {
	if !c.allows(r, err) {
		return Decision{}, err
	}
	c.allowed.Add(1)
	c.log.Warn("allowed without a server", "action", r.Action, "cause", err)
	return Decision{Allowed: true, Unguarded: true}, nil
}

func (c *Client) policy(r Request) Unavailable { return cmp.Or(r.OnUnavailable, c.cfg.OnUnavailable) }

// allows reports whether err is one that the policy of r lets pass.
func (c *Client) allows(r Request, err error) bool {
	return c.policy(r) == Allow && errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrUnauthorized) && !errors.Is(err, errClosed)
}
