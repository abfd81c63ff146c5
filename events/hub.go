package events

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

// Bounds of a Hub.
const (
	DefaultKept    = 16_384  // events kept of one tenant
	MaxKept        = 262_144 // events kept of all tenants
	MaxReaders     = 2_048   // readers of one replica
	MaxReadersEach = 1_024   // readers of one principal at one replica
	maxTenants     = 65_536  // tenants of which anything is kept
	maxBatch       = 1_024   // events a reader is given at a time
	maxHistories   = 8       // readers that read the store's history at once; others wait their turn
	maxAsides      = 1_024   // refusals kept of all tenants, for readers that have come up
	maxRecent      = 16_384  // records remembered for the extends that follow, twice that at most

	// pace is how long, for each reader there is, a reader rests between two batches, up to
	// mostPace: a thousand readers woken for each revision would cost more than the revisions.
	// After a rest the first event passes at once.
	pace     = 50 * time.Microsecond
	mostPace = 100 * time.Millisecond
)

// What a reader can be refused or ended with.
var (
	ErrDraining = errors.New("events: shutting down")
	ErrTooMany  = errors.New("events: this replica has as many readers as it may")
	ErrYours    = errors.New("events: the principal has as many readers as it may here")
	ErrSlow     = errors.New("events: the reader fell behind what is kept and was dropped")
)

// Config of a Hub. Store, History and Now are required.
type Config struct {
	Store   Loader
	History reserve.Historian
	Now     func() time.Time // real clock with a monotonic reading
	Kept    int              // events kept of one tenant; 0: DefaultKept
	Log     *slog.Logger     // nil: discarded
	Metrics prometheus.Registerer
}

// Loader is the part of reserve.Store that finds what an event is about.
type Loader interface {
	Load(ctx context.Context, refs []reserve.Ref, fresh bool) (reserve.Loaded, error)
}

// Hub hears what the store tells this replica, keeps what happened lately, and lets readers have
// it. Safe for concurrent use, but Tell, which has one caller.
type Hub struct {
	cfg     Config
	metrics *metrics
	deriver *deriver
	past    chan struct{} // places of those who read history
	drained chan struct{}
	drain   func()

	mu     sync.Mutex
	rev    int64 // everything up to here was told; 0: nothing yet
	epoch  int   // raised by every Reset: what happened before it may be missing
	start  Pos   // of a ring that is new
	rings  map[string]*ring
	kept   int // events in all rings
	recent [2]map[holdKey]*reserve.Record
	asides []*Event // told by this replica alone, in order; the last has the number aside
	aside  int64

	readers int
	each    map[string]int // by tenant and principal
	stirs   map[string]map[*Stir]struct{}
}

// New builds a Hub. Errors: what is missing in cfg, joined; metrics that cannot be registered.
func New(cfg Config) (*Hub, error) {
	var faults []error
	for name, missing := range map[string]bool{"Store": cfg.Store == nil, "History": cfg.History == nil, "Now": cfg.Now == nil} {
		if missing {
			faults = append(faults, fmt.Errorf("events: Config.%s is required", name))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	if cfg.Kept == 0 {
		cfg.Kept = DefaultKept
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	h := &Hub{
		cfg: cfg, deriver: newDeriver(), past: make(chan struct{}, maxHistories), drained: make(chan struct{}),
		rings: map[string]*ring{}, each: map[string]int{}, stirs: map[string]map[*Stir]struct{}{},
	}
	h.recent[0], h.recent[1] = map[holdKey]*reserve.Record{}, map[holdKey]*reserve.Record{}
	h.drain = sync.OnceFunc(func() { close(h.drained) })
	var err error
	h.metrics, err = newMetrics(cfg.Metrics)
	return h, err
}

// Drain ends every reader, with ErrDraining, and lets no other begin. They resume elsewhere.
func (h *Hub) Drain() { h.drain() }

// Tell takes in what the store has told, in order. It is quick: nothing is looked up and nothing
// written until somebody reads.
func (h *Hub) Tell(u reserve.Update) {
	if u.Reset {
		h.deriver.startOver(u.Entries)
		h.startOver(&u)
		return
	}
	told := h.deriver.derive(u, h.cfg.Now())
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stir(&u)
	for len(told) > 0 {
		n := 1
		for n < len(told) && told[n].Tenant == told[0].Tenant {
			n++
		}
		h.keep(told[:n])
		told = told[n:]
	}
	h.rev = max(h.rev, u.Rev)
}

// keep puts events of one tenant into its ring, and bounds what all rings hold.
func (h *Hub) keep(es []*Event) {
	r := h.ring(es[0].Tenant)
	h.kept += len(es) - r.add(es, h.cfg.Kept)
	for _, e := range es {
		h.metrics.events.WithLabelValues(e.Type.String()).Inc()
		if e.Type == Created {
			h.remember(e)
		}
	}
	for h.kept > MaxKept {
		h.evict()
	}
}

// evict forgets half of the largest ring.
func (h *Hub) evict() {
	var largest *ring
	for _, r := range h.rings {
		if largest == nil || len(r.events) > len(largest.events) {
			largest = r
		}
	}
	h.kept -= largest.forget((len(largest.events) + 1) / 2)
}

func (h *Hub) ring(tenant string) *ring {
	r := h.rings[tenant]
	if r != nil {
		return r
	}
	if len(h.rings) >= maxTenants {
		h.start, h.epoch = Pos{Rev: h.rev, Index: Whole}, h.epoch+1 // whoever misses something looks into history
		for other, r := range h.rings {
			h.kept -= r.reset(h.start)
			delete(h.rings, other)
			break
		}
	}
	r = newRing(h.start)
	h.rings[tenant] = r
	return r
}

// startOver begins again at u's revision, after the watch has begun anew: what happened in
// between was not told, and readers look for it in the store's history.
func (h *Hub) startOver(u *reserve.Update) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stir(u)
	h.epoch++
	h.rev, h.start = max(h.rev, u.Rev), Pos{Rev: u.Rev, Index: Whole}
	for tenant, r := range h.rings {
		h.kept -= r.reset(h.start)
		delete(h.rings, tenant)
	}
}

// remember keeps the record of a new reservation for the extends that follow.
func (h *Hub) remember(e *Event) {
	if len(h.recent[0]) >= maxRecent {
		h.recent[0], h.recent[1] = map[holdKey]*reserve.Record{}, h.recent[0]
	}
	h.recent[0][holdKey{e.Tenant, e.ID}] = e.record.Load()
}

// View is what one reader wants to hear.
type View struct {
	Tenant    string
	Principal string // whose bound of readers it counts to
	After     *Pos   // from after there; nil: from now on

	Sees    func(s limits.Subject, principal string) bool // nil: everything
	NoLocal bool                                          // nothing that this replica alone tells
	Types   []Type                                        // none: every type
	Limit   string                                        // "": any
	Subject limits.Subject                                // zero: any
}

// Open lets a reader in. It must be closed.
// Errors: ErrDraining, ErrTooMany, ErrYours, reserve.ErrUnavailable before anything was told.
func (h *Hub) Open(v View) (*Reader, error) {
	select {
	case <-h.drained:
		return nil, ErrDraining
	default:
	}
	who := v.Tenant + " " + v.Principal
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.rev == 0:
		return nil, reserve.ErrUnavailable
	case h.readers >= MaxReaders:
		return nil, ErrTooMany
	case h.each[who] >= MaxReadersEach:
		return nil, ErrYours
	}
	h.readers++
	h.each[who]++
	h.metrics.readers.Set(float64(h.readers))
	r := &Reader{hub: h, view: v, pos: Pos{Rev: h.rev, Index: Whole}, live: true, epoch: h.epoch, aside: h.aside}
	if v.After != nil {
		r.pos, r.live = *v.After, false
	}
	r.leave = sync.OnceFunc(func() { h.left(who) })
	return r, nil
}

func (h *Hub) left(who string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.readers--
	if h.each[who]--; h.each[who] == 0 {
		delete(h.each, who)
	}
	h.metrics.readers.Set(float64(h.readers))
}
