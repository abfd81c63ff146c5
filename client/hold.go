package client

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

// State is where a hold stands, as far as this process knows.
type State uint8

// The states of a hold.
const (
	Held   State = iota + 1
	Unsure       // a try to extend it failed, or the clocks moved apart; not too late yet
	Lost         // stop the work
	Ended        // committed or released, or on its way to
)

var stateNames = [...]string{"", "held", "unsure", "lost", "ended"}

// String is the state's word.
func (s State) String() string { return stateNames[s] }

// Hold is a hold this process works under. Its methods may be called from several goroutines.
type Hold struct {
	c       *Client
	id      string // "" when it is unguarded
	granted api.Reservation
	margin  time.Duration // asked for
	limits  headers

	ctx    context.Context
	cancel context.CancelCauseFunc
	lost   chan struct{}

	givenUp atomic.Bool // lost, and its holder has been told by a settle

	// Guarded by c.heart.mu.
	state   State
	since   instant       // the act that granted or last extended it was first sent then
	ttl     time.Duration // from since
	end     error         // *LostError once it is lost
	cost    *int64        // SetCost
	due     time.Duration // the next beat, on the monotonic clock
	tries   int           // since the last success
	written chan struct{} // of the last call that extends it: closed when it has left
	verb    string        // that settled it
}

type headers struct{ rateLimit, policy string }

func newHold(ctx context.Context, c *Client, r Request, granted *api.Reservation, f *final) *Hold {
	h := &Hold{
		c: c, id: granted.ID, granted: *granted, margin: r.Margin, state: Held, since: f.since, lost: make(chan struct{}),
		limits: headers{f.header.Get("RateLimit"), f.header.Get("RateLimit-Policy")},
		ttl:    time.Duration(*granted.TTLSeconds) * time.Second,
	}
	h.ctx, h.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	return h
}

// unguarded is a hold without a server, under the policy Allow.
func (c *Client) unguarded(ctx context.Context, r Request, cause error) (*Hold, error) {
	if c.loose.Add(1) > int64(c.cfg.MaxAllowed) {
		c.loose.Add(-1)
		return nil, cause
	}
	c.allowed.Add(1)
	c.log.Warn("allowed without a server", "action", r.Action, "cause", cause)
	h := &Hold{c: c, state: Held, lost: make(chan struct{})}
	h.granted.Action, h.granted.Subject = r.Action, r.Subject
	h.ctx, h.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	return h, nil
}

// ID is the reservation's id; "" when the hold is unguarded.
func (h *Hold) ID() string { return h.id }

// Guarded reports whether a server granted the hold. One that went on without, under the policy
// Allow, has no slot and no fence, and nobody else knows of it.
func (h *Hold) Guarded() bool { return h.id != "" }

// Slot is the number of the slot of the first concurrent limit; -1 when the hold takes none.
// With several limits see Places.
func (h *Hold) Slot() int64 {
	if len(h.granted.Slots) == 0 {
		return -1
	}
	return h.granted.Slots[0].Slot
}

// Fence is the fencing token: per slot, a later hold's is greater. A resource that keeps the
// highest it saw per slot and refuses lower ones is safe from workers that are too late.
func (h *Hold) Fence() int64 { return h.granted.Fence }

// Places are the slots taken, one for each concurrent limit.
func (h *Hold) Places() []api.Slot { return slices.Clone(h.granted.Slots) }

// Granted is the reservation as it was granted.
func (h *Hold) Granted() api.Reservation { return h.granted }

// RateLimit are the grant's headers RateLimit and RateLimit-Policy, to pass on.
func (h *Hold) RateLimit() (rateLimit, policy string) { return h.limits.rateLimit, h.limits.policy }

// Context ends when the hold does: with a cause that is ErrHoldLost when it is lost. It has the
// values of the context given to Reserve, and not its end; see Within.
func (h *Hold) Context() context.Context { return h.ctx }

// Within is a context of the parent's that also ends when the hold does. Call cancel when done.
func (h *Hold) Within(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	stop := context.AfterFunc(h.ctx, func() { cancel(context.Cause(h.ctx)) })
	return ctx, func() { stop(); cancel(context.Canceled) }
}

// Lost is closed when the hold is lost, and never otherwise.
func (h *Hold) Lost() <-chan struct{} { return h.lost }

// State is where the hold stands now.
func (h *Hold) State() State {
	_ = h.Err()
	h.c.heart.mu.Lock()
	defer h.c.heart.mu.Unlock()
	return h.state
}

// Err is nil while the hold may be worked under, and a *LostError once it is lost. It reads the
// clocks itself: ask it right before a side effect, for after a pause of the whole process the
// context ends a moment later. Cost: no call.
func (h *Hold) Err() error {
	if !h.Guarded() {
		return nil
	}
	h.c.heart.mu.Lock()
	defer h.c.heart.mu.Unlock()
	if h.alive() && h.left(h.c.now()) <= 0 {
		h.c.heart.lose(h, &LostError{ID: h.id, Reason: LostDeadline})
	}
	return h.end
}

// Left is how long the hold may still be worked under if no extend succeeds; 0 when it is lost.
func (h *Hold) Left() time.Duration {
	h.c.heart.mu.Lock()
	defer h.c.heart.mu.Unlock()
	if !h.alive() {
		return 0
	}
	return max(h.left(h.c.now()), 0)
}

// SetCost is what the work turned out to cost; Commit and Do charge it in place of the estimate.
func (h *Hold) SetCost(n int64) {
	h.c.heart.mu.Lock()
	defer h.c.heart.mu.Unlock()
	h.cost = &n
}

// Verify asks the server whether the hold lives, by extending it now, and returns when it has
// answered. After a gap, in which the wall clock ran ahead of the monotonic one, work should go
// on only then.
//
// Errors: ErrHoldLost; ErrUnavailable and the cause of ctx, which leave the hold as it is.
func (h *Hold) Verify(ctx context.Context) error {
	if err := h.Err(); err != nil || !h.Guarded() {
		return err
	}
	err := h.extend(ctx)
	if lost, ok := err.(*LostError); ok { //nolint:errorlint // of this very call, never wrapped
		h.c.heart.mu.Lock()
		defer h.c.heart.mu.Unlock()
		h.c.heart.lose(h, lost)
		return h.end
	}
	return err
}

// extend extends the hold by a call of its own. A *LostError comes unwrapped.
func (h *Hold) extend(ctx context.Context) error {
	one := call{method: "POST", path: "/v1/reservations/" + h.id + "/extend", body: []byte("{}")}
	f, err := h.c.repeat(ctx, one, h.c.budget())
	if err != nil {
		return err
	}
	if f.problem != nil {
		if lost := lostBy(h.id, f.problem); lost != nil {
			return lost
		}
		return problemError(f.problem)
	}
	var now api.Reservation
	if err := f.into(&now); err != nil {
		return err
	}
	h.c.heart.mu.Lock()
	defer h.c.heart.mu.Unlock()
	h.extended(f.sent, now.TTLSeconds)
	if h.left(h.c.now()) <= 0 {
		return &LostError{ID: h.id, Reason: LostDeadline}
	}
	return nil
}

// The rest is called under c.heart.mu.

func (h *Hold) alive() bool { return h.state == Held || h.state == Unsure }

// left is the time to the local deadline.
func (h *Hold) left(now instant) time.Duration {
	return h.ttl - max(time.Second, h.ttl/20, h.margin) - now.since(h.since)
}

// extended takes in a successful extend that was sent then. One that arrives after a later one
// changes nothing: it promised less.
func (h *Hold) extended(sent instant, ttlSeconds *int64) {
	if ttlSeconds == nil || !sentLater(sent, *ttlSeconds, h) {
		return
	}
	h.since, h.ttl = sent, time.Duration(*ttlSeconds)*time.Second
	h.tries, h.due = 0, sent.mono+h.beatAfter()
	if h.state == Unsure {
		h.state = Held
	}
}

func sentLater(sent instant, ttlSeconds int64, h *Hold) bool {
	return sent.mono+time.Duration(ttlSeconds)*time.Second >= h.since.mono+h.ttl
}
