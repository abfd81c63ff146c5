package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// ID names an etcd lease; 0 is none.
type ID = int64

// Bounds of the wheel.
const (
	MinKeep      = time.Second
	MaxKeep      = 40 * 24 * time.Hour
	MinGrain     = 2 * time.Second
	Surplus      = 8 * time.Second // more than a clock can have stood still unnoticed, see the package comment
	KeysPerLease = 1000            // etcd deletes all keys of a lease at once and serves nothing meanwhile

	maxRemembered = 65536           // about 10 MB; a forgotten lease is only not shared any more
	grantWithin   = 5 * time.Second // of a lease for keys: longer than its callers wait
)

// Config is what a Wheel needs. Lease, KV, MarkerKey and Now are required.
type Config struct {
	Lease clientv3.Lease
	KV    clientv3.KV
	// MarkerKey is the key of this replica's freshness marker. No other process may use it.
	MarkerKey string
	// MarkerValue is what to put there, given the time; nil puts an empty value.
	MarkerValue func(now time.Time) []byte
	// Now reads the clock, with its monotonic part. It is called while a lock is held.
	Now     func() time.Time
	Log     *slog.Logger          // nil: nothing is logged
	Metrics prometheus.Registerer // nil: nothing is measured
}

// Wheel hands out shared leases by their deadline. Make it by NewWheel; its methods may be
// called from several goroutines. Run keeps the marker fresh; without it the wheel still
// never errs on the early side, but loses its leases every MarkerTTL.
type Wheel struct {
	cfg     Config
	metrics *metrics
	turn    chan struct{} // holds one token: who has it may change the marker and the anchor

	mu     sync.Mutex
	clock  *clock
	book   *book
	marker marker
	anchor anchor // changed by the holder of turn
}

// NewWheel checks cfg and returns all that is wrong with it, joined. It calls nothing.
func NewWheel(cfg Config) (*Wheel, error) {
	var faults []error
	missing := func(is bool, field string) {
		if is {
			faults = append(faults, fmt.Errorf("lease: Config.%s is required", field))
		}
	}
	missing(cfg.Lease == nil, "Lease")
	missing(cfg.KV == nil, "KV")
	missing(cfg.MarkerKey == "", "MarkerKey")
	missing(cfg.Now == nil, "Now")
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	w := &Wheel{cfg: cfg, turn: make(chan struct{}, 1), clock: newClock(cfg.Now), book: newBook()}
	w.turn <- struct{}{}
	m, err := newMetrics(cfg.Metrics, w.remembered)
	if err != nil {
		return nil, fmt.Errorf("lease: metrics: %w", err)
	}
	w.metrics = m
	return w, nil
}

// Lease returns a lease that ends no sooner than keep from now, even if this clock has stood
// still, provided that the put on it compares the marker (see the package comment for why the
// caller must have taken the Marker before). It counts as one key on that lease.
//
// have is the lease the key hangs on now, 0 for none. It is returned, and nothing is counted,
// when this wheel granted it and it serves keep as well as a new one.
//
// keep below MinKeep is raised to it; the lease ends at most grain and a second later than
// keep + Surplus. grain 0 means max(2 s, keep/16); below MinGrain it is raised to that, above
// MaxKeep lowered to that. A coarser grain shares better.
//
// Errors: ErrTooLong for keep above MaxKeep; ErrUnavailable, with ErrFull when etcd has no
// space; also when ctx ends first. Cost: nothing but a lock, except one LeaseGrant for the
// first key of every KeysPerLease or grain; callers that need the same one wait for it
// together.
func (w *Wheel) Lease(ctx context.Context, keep, grain time.Duration, have ID) (ID, error) {
	if keep > MaxKeep {
		return 0, fmt.Errorf("lease: %v: %w, %v", keep, ErrTooLong, MaxKeep)
	}
	keep, grain = settle(keep, grain)
	// A marker made after a lease could not vouch for the time in between.
	if _, err := w.Marker(ctx); err != nil {
		return 0, err
	}
	w.mu.Lock()
	now, b := w.clock.read(), w.book
	b.forget(now)
	need := now + keep + Surplus
	if b.lasts(have, need) {
		w.mu.Unlock()
		return have, nil
	}
	e, isNew := b.take(need, roundUp(need, grain))
	w.mu.Unlock()
	if isNew {
		// Beside the caller, who may leave before etcd answers: when its disk is slow, a grant that
		// was broken off each time would leave leases behind and never give one.
		go w.grant(context.WithoutCancel(ctx), b, e, now)
	}
	return await(ctx, e)
}

// Gone says that a put on id was refused because there is no such lease: it is forgotten.
// id 0 says that the marker was gone: all leases are forgotten, and the next need looks
// whether the marker stands and makes another if not. Cost: nothing but a lock.
func (w *Wheel) Gone(id ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if id != 0 {
		w.book.drop(id)
		return
	}
	// The revision is kept until the marker was looked for: several batches that lost one marker
	// say so one after the other, and must not each make an end of the marker made since.
	w.book = newBook()
	w.marker.doubted = true
}

// grant has etcd grant e, which was made at now. Whoever waits for e learns the end of it, and
// who comes later finds it. It ends by itself within two calls; there is one for each entry, and
// a new entry only for another deadline.
func (w *Wheel) grant(ctx context.Context, b *book, e *entry, now time.Duration) {
	ttl := wholeSeconds(e.deadline - now)
	id, err := w.call(ctx, useKeys, ttl, grantWithin)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		b.failed(e, err)
		return
	}
	b.granted(e, id, now+ttl)
}

// call makes one LeaseGrant, and a second one if etcd repeated an id it had given before.
func (w *Wheel) call(ctx context.Context, use string, ttl, within time.Duration) (ID, error) {
	for again := false; ; again = true {
		ctx, cancel := context.WithTimeout(ctx, within)
		resp, err := w.cfg.Lease.Grant(ctx, int64(ttl/time.Second))
		cancel()
		switch {
		case err == nil:
			w.metrics.grants.WithLabelValues(use).Inc()
			return ID(resp.ID), nil
		case errors.Is(err, rpctypes.ErrLeaseExist) && !again:
			// Ids come from the member's clock at its start (FAULTS.md 1.1); the next one differs.
		default:
			return 0, translate("grant", err)
		}
	}
}

// await waits until e is granted or ctx ends.
func await(ctx context.Context, e *entry) (ID, error) {
	select {
	case <-e.ready:
		return e.id, e.err
	default:
	}
	select {
	case <-e.ready:
		return e.id, e.err
	case <-ctx.Done():
		return 0, gaveUp(ctx)
	}
}

// time reads the wheel's clock.
func (w *Wheel) time() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clock.read()
}

func (w *Wheel) remembered() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.book.forget(w.clock.read())
	return float64(len(w.book.known))
}

// settle brings keep and grain within their bounds.
func settle(keep, grain time.Duration) (time.Duration, time.Duration) {
	keep = max(keep, MinKeep)
	if grain == 0 {
		grain = keep / 16
	}
	return keep, min(max(grain, MinGrain), MaxKeep)
}

// roundUp is the first multiple of grain that is not below d.
func roundUp(d, grain time.Duration) time.Duration { return (d + grain - 1) / grain * grain }

// wholeSeconds is d, rounded up to the grain of etcd's TTLs.
func wholeSeconds(d time.Duration) time.Duration { return roundUp(d, time.Second) }
