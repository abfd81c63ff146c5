package webhooks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-dev/holdfast/events"
	"github.com/holdfast-dev/holdfast/reserve"
)

// Bounds of a Dispatcher.
const (
	MaxWebhooks = 16 // of a tenant; a few more when they are made at the same moment
	MaxCouriers = 64 // of all tenants, likewise; what is beyond is not delivered to until an older one goes

	dutyEvery   = 3 * time.Second // the duty is looked at
	dutyGood    = 8 * time.Second // after it was last seen; the session that it hangs on lasts 10 s
	hearWithin  = 5 * time.Second
	courierRest = time.Second // before a courier that failed begins anew
)

// dutyRef is the key of the duty: one replica sends for all tenants.
var dutyRef = reserve.Ref{Kind: reserve.RefDuty, Scope: "webhooks"}

// Config of a Dispatcher. Store, Sessions, Events, Encode, Now, Policy and Replica are required.
type Config struct {
	Store    reserve.Store
	Sessions reserve.Sessions
	Events   *events.Hub
	Encode   func(*events.Event) ([]byte, error) // an event as it is sent
	Now      func() time.Time                    // real clock with a monotonic reading
	Policy   *Policy
	Replica  string

	Within     time.Duration // of one attempt; 0: DefaultWithin
	FirstRetry time.Duration // 0: DefaultFirstRetry
	MostRetry  time.Duration // 0: DefaultMostRetry
	Log        *slog.Logger  // nil: discarded
	Metrics    prometheus.Registerer
}

// Dispatcher keeps the webhooks of all tenants, and sends while this replica has the duty. Safe
// for concurrent use, but Tell, which has one caller.
type Dispatcher struct {
	cfg     Config
	metrics *metrics
	poster  *poster
	stir    chan struct{}

	mu    sync.Mutex
	rev   int64         // everything up to here was told
	heard chan struct{} // closed when more was told
	hooks map[hookKey]hookAt
	far   map[hookKey]*reserve.Delivery // how far each is, those of webhooks that are gone among them
	seen  time.Time                     // when the duty was last seen to be ours; zero: it is not
	waits map[hookKey]waits             // of those that are delivered to here
	duty  int64                         // create revision of the key, 0: not ours; Run's own
}

type hookKey struct{ tenant, id string }

// waits is what waits for one webhook.
type waits struct {
	events int
	full   bool // and there is no room for more
}

type hookAt struct {
	hook   *reserve.Webhook
	create int64
	mod    int64
}

// New builds a Dispatcher; it sends nothing until Run. Errors: what is missing in cfg, joined;
// metrics that cannot be registered.
func New(cfg Config) (*Dispatcher, error) {
	var faults []error
	for name, missing := range map[string]bool{
		"Store": cfg.Store == nil, "Sessions": cfg.Sessions == nil, "Events": cfg.Events == nil, "Encode": cfg.Encode == nil,
		"Now": cfg.Now == nil, "Policy": cfg.Policy == nil, "Replica": cfg.Replica == "",
	} {
		if missing {
			faults = append(faults, fmt.Errorf("webhooks: Config.%s is required", name))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	cfg.Within, cfg.FirstRetry, cfg.MostRetry = cmp.Or(cfg.Within, DefaultWithin), cmp.Or(cfg.FirstRetry, DefaultFirstRetry), cmp.Or(cfg.MostRetry, DefaultMostRetry)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	d := &Dispatcher{
		cfg: cfg, poster: newPoster(cfg.Policy, cfg.Within, cfg.Now), stir: make(chan struct{}, 1), heard: make(chan struct{}),
		hooks: map[hookKey]hookAt{}, far: map[hookKey]*reserve.Delivery{}, waits: map[hookKey]waits{},
	}
	var err error
	d.metrics, err = newMetrics(cfg.Metrics, d.waiting, d.full, d.hasDuty)
	return d, err
}

// Tell takes in what the store has told, in order. It is quick.
func (d *Dispatcher) Tell(u reserve.Update) {
	d.mu.Lock()
	defer d.mu.Unlock()
	changed := u.Reset
	if u.Reset {
		clear(d.hooks)
		clear(d.far)
	}
	for i := range u.Entries {
		e := &u.Entries[i]
		switch k := (hookKey{e.Ref.Tenant, e.Ref.Scope}); e.Ref.Kind {
		case reserve.RefWebhook:
			if w, ok := e.Value.(*reserve.Webhook); ok {
				d.hooks[k], changed = hookAt{w, e.Create, e.Mod}, true
			}
		case reserve.RefDelivery:
			if v, ok := e.Value.(*reserve.Delivery); ok {
				d.far[k] = v
			}
		}
	}
	for i := range u.Deleted {
		switch r := &u.Deleted[i].Ref; r.Kind {
		case reserve.RefWebhook:
			delete(d.hooks, hookKey{r.Tenant, r.Scope})
			changed = true
		case reserve.RefDelivery:
			delete(d.far, hookKey{r.Tenant, r.Scope})
		case reserve.RefDuty:
			changed = true
		}
	}
	d.rev = max(d.rev, u.Rev)
	close(d.heard)
	d.heard = make(chan struct{})
	if changed {
		d.wake()
	}
}

func (d *Dispatcher) wake() {
	select {
	case d.stir <- struct{}{}:
	default:
	}
}

// reached waits until everything up to rev was told.
func (d *Dispatcher) reached(ctx context.Context, rev int64) error {
	ctx, cancel := context.WithTimeout(ctx, hearWithin)
	defer cancel()
	for {
		d.mu.Lock()
		there, heard := d.rev >= rev, d.heard
		d.mu.Unlock()
		if there {
			return nil
		}
		select {
		case <-heard:
		case <-ctx.Done():
			return reserve.ErrUnavailable
		}
	}
}

// load reads refs as they are now.
func (d *Dispatcher) load(ctx context.Context, refs ...reserve.Ref) (reserve.Loaded, error) {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	return d.cfg.Store.Load(ctx, refs, true)
}

// apply is one transaction, which is not cut when ctx ends.
func (d *Dispatcher) apply(ctx context.Context, g reserve.Group) (reserve.Result, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callWithin)
	defer cancel()
	return d.cfg.Store.Apply(ctx, reserve.Batch{Groups: []reserve.Group{g}})
}

// onDuty reports whether the duty was seen to be this replica's so lately that nobody else can
// have it: the session it hangs on has not ended.
func (d *Dispatcher) onDuty() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.seen.IsZero() && d.cfg.Now().Sub(d.seen) < dutyGood
}

func (d *Dispatcher) hasDuty() float64 {
	if d.onDuty() {
		return 1
	}
	return 0
}

func (d *Dispatcher) queued(k hookKey, w waits) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waits[k] = w; w == (waits{}) {
		delete(d.waits, k)
	}
}

// waiting and full are for the metrics.
func (d *Dispatcher) waiting() (n float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.waits {
		n += float64(w.events)
	}
	return n
}

func (d *Dispatcher) full() (n float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.waits {
		if w.full {
			n++
		}
	}
	return n
}

// wanted are the webhooks to deliver to: the oldest, within MaxCouriers.
func (d *Dispatcher) wanted() map[hookKey]hookAt {
	d.mu.Lock()
	defer d.mu.Unlock()
	type one struct {
		key hookKey
		at  hookAt
	}
	all := make([]one, 0, len(d.hooks))
	for k, at := range d.hooks {
		all = append(all, one{k, at})
	}
	slices.SortFunc(all, func(a, b one) int {
		return cmp.Or(cmp.Compare(a.at.create, b.at.create), cmp.Compare(a.key.tenant, b.key.tenant), cmp.Compare(a.key.id, b.key.id))
	})
	out := map[hookKey]hookAt{}
	for _, o := range all[:min(len(all), MaxCouriers)] {
		out[o.key] = o.at
	}
	return out
}
