package middleware

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/client"
)

// Config of a Guard. Client and Action are required.
type Config struct {
	Client *client.Client
	Action string

	// Reserve holds a slot while the handler runs. Default: a check that charges and holds none.
	Reserve bool
	TTL     time.Duration // of such a hold; 0: the limits' own
	Wait    time.Duration // for a free slot, before a request is refused; 0: not at all

	// Costs are by route: the pattern a mux matched ("POST /exports/{id}"), Echo's method and
	// path ("POST /exports/:id"), gRPC's full method. Default: 1. client.NoCost: none.
	Costs map[string]int64

	// Verify verifies a bearer token and tells its subject. nil: tokens are not looked at.
	// It must not believe what it has not verified; with package auth, a Verifier's Verify.
	Verify      func(ctx context.Context, token string) (subject string, err error)
	SubjectKind string // of subjects of tokens; "": user

	AddressKind    string         // of addresses; "": ip
	TrustedProxies []netip.Prefix // whose X-Forwarded-For is believed; none by default
	IPv6Bits       int            // of an IPv6 address that count, as a caller can choose the rest: 64; 0: all

	Log *slog.Logger // what kept requests from being judged; nil: discard
}

// Guard asks Holdfast before a request may pass. It is safe for concurrent use.
type Guard struct {
	cfg Config
	log *slog.Logger
}

// New makes a Guard. Errors: all faults of cfg, joined.
func New(cfg Config) (*Guard, error) {
	var faults []error
	need := func(ok bool, what string) {
		if !ok {
			faults = append(faults, errors.New("holdfast middleware: Config."+what))
		}
	}
	need(cfg.Client != nil, "Client is required")
	need(cfg.Action != "", "Action is required")
	need(cfg.IPv6Bits >= 0 && cfg.IPv6Bits <= 128, "IPv6Bits must be 0 to 128")
	need(cfg.Reserve || cfg.TTL == 0 && cfg.Wait == 0, "TTL and Wait are of a Reserve")
	for i, p := range cfg.TrustedProxies {
		need(p.IsValid(), fmt.Sprintf("TrustedProxies[%d] is no network", i))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	cfg.SubjectKind, cfg.AddressKind = cmp.Or(cfg.SubjectKind, "user"), cmp.Or(cfg.AddressKind, "ip")
	cfg.IPv6Bits = cmp.Or(cfg.IPv6Bits, 128)
	g := &Guard{cfg: cfg, log: cfg.Log}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	return g, nil
}

// Pass is leave to serve one request. Leave must be called when it was served.
type Pass struct {
	guard *Guard
	hold  *client.Hold // nil for a check

	RateLimit, RateLimitPolicy string // headers of these names for the answer
}

// Enter asks for one request. The routes are those its cost may stand under in Config.Costs; the
// first one found counts. Errors: as client.Consume and client.Reserve.
func (g *Guard) Enter(ctx context.Context, subject api.Subject, routes ...string) (*Pass, error) {
	r := client.Request{Action: g.cfg.Action, Subject: subject, TTL: g.cfg.TTL, Wait: g.cfg.Wait}
	for _, route := range routes {
		if cost, ok := g.cfg.Costs[route]; ok {
			if r.Cost = cost; cost == 0 {
				r.Cost = client.NoCost // in a table of costs, 0 is 0
			}
			break
		}
	}
	p := &Pass{guard: g}
	if g.cfg.Reserve {
		hold, err := g.cfg.Client.Reserve(ctx, r)
		if err != nil {
			return nil, err
		}
		p.hold = hold
		p.RateLimit, p.RateLimitPolicy = hold.RateLimit()
		return p, nil
	}
	d, err := g.cfg.Client.Consume(ctx, r)
	p.RateLimit, p.RateLimitPolicy = d.RateLimit, d.RateLimitPolicy
	if err != nil {
		return nil, err
	}
	return p, nil
}

type holdKey struct{}

// Within is the context to serve the request in: it ends when the hold is lost, and has the hold
// for HoldFrom. Call cancel when the request was served. For a check it is ctx.
func (p *Pass) Within(ctx context.Context) (context.Context, context.CancelFunc) {
	if p.hold == nil {
		return ctx, func() {}
	}
	ctx, cancel := p.hold.Within(ctx)
	return context.WithValue(ctx, holdKey{}, p.hold), cancel
}

// HoldFrom is the hold that a handler works under, for its slot, its fence, or SetCost. ok is
// false behind a guard that only checks.
func HoldFrom(ctx context.Context) (h *client.Hold, ok bool) {
	h, ok = ctx.Value(holdKey{}).(*client.Hold)
	return h, ok
}

// Leave settles the hold: done commits it, otherwise it is released. A check has nothing to settle.
func (p *Pass) Leave(ctx context.Context, done bool) {
	if p.hold == nil {
		return
	}
	settle := p.hold.Release
	if done {
		settle = p.hold.Commit
	}
	if err := settle(ctx); err != nil {
		p.guard.log.Warn("the hold of a request was not settled", "hold", p.hold.ID(), "cause", err)
	}
}

// Answer is how a request that may not pass is to be answered.
type Answer struct {
	Code       api.Code
	Detail     string        // a sentence for whoever sent it; names nobody
	RetryAfter time.Duration // whole seconds, rounded up; 0: nothing to wait for

	RateLimit, RateLimitPolicy string
}

// retryUnavailable is what callers are told to wait when it is Holdfast that cannot be asked.
const retryUnavailable = 5 * time.Second

// Explain is the answer to a request for which Enter failed with err. What is not a refusal is
// our own trouble, never the caller's: it is logged and told as such.
func (g *Guard) Explain(err error) Answer {
	if no, ok := errors.AsType[*client.Refusal](err); ok {
		a := Answer{
			Code: no.Code, Detail: "Too many requests.", RateLimit: no.RateLimit, RateLimitPolicy: no.RateLimitPolicy,
			RetryAfter: (no.RetryAfter + time.Second - 1).Truncate(time.Second),
		}
		switch {
		case errors.Is(err, client.ErrNeverFits):
			a.Detail = "This request is more than is ever allowed at once."
		case errors.Is(err, client.ErrPaused):
			a.Detail = "This is paused at the moment."
		}
		if a.RetryAfter > 0 {
			a.Detail += fmt.Sprintf(" Try again in %d s.", a.RetryAfter/time.Second)
		}
		return a
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return Answer{Code: api.StoreUnavailable, Detail: "The request was given up before its turn came.", RetryAfter: time.Second}
	}
	g.log.Error("a request could not be judged", "action", g.cfg.Action, "cause", err)
	if errors.Is(err, client.ErrUnavailable) || errors.Is(err, client.ErrUnauthorized) {
		return Answer{Code: api.StoreUnavailable, Detail: "It cannot be told now whether this is allowed.", RetryAfter: retryUnavailable}
	}
	return Answer{Code: api.Internal, Detail: "It cannot be told whether this is allowed."}
}
