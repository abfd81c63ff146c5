package memory

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/reserve"
)

// What the wheel goes by (DESIGN.md section 6).
const (
	wheelSlack    = 8 * time.Second // beyond what was asked, so that the sand-glass comes first
	wheelGrain    = 2 * time.Second // of deadlines, at least
	wheelGrains   = 16              // the grain is at least the length asked for divided by this
	keysALease    = 1000
	markerSeconds = 5
	markerEvery   = time.Second
	wheelLoses    = 1500 * time.Millisecond // this clock may fall so far behind the keyspace's
)

// Wheel hands out shared leases of the model to one replica: reserve.Leaser. It believes in
// its own clock, which need not be that of the keyspace. Safe for concurrent use.
type Wheel struct {
	view *View
	now  func() time.Time
	zero time.Time // deadlines are counted from here, so that steps of a wall clock do not matter

	mu     sync.Mutex
	leases map[reserve.LeaseID]*shared
	open   map[time.Duration]*shared        // by deadline: the lease that still has room
	marker int64                            // create revision; 0: none that we know of
	doubt  bool                             // somebody found it gone: look before it is used again
	seen   struct{ mine, theirs time.Time } // both clocks when they were last taken to agree
}

// shared is one lease of the wheel.
type shared struct {
	id   reserve.LeaseID
	ends time.Duration // after zero: the lease lives at least until then
	keys int           // handed out for so many
}

var _ reserve.Leaser = (*Wheel)(nil)

// Leases is a wheel for replica that goes by now. The faults Down and Full of the replica's
// View hold for it too. Run, or Tick each second, keeps its marker standing.
func (s *Store) Leases(replica string, now func() time.Time) *Wheel {
	return &Wheel{
		view: s.View(replica), now: now, zero: now(),
		leases: map[reserve.LeaseID]*shared{},
		open:   map[time.Duration]*shared{},
	}
}

// Run puts the marker again each second until ctx ends.
func (w *Wheel) Run(ctx context.Context) {
	ticker := time.NewTicker(markerEvery)
	defer ticker.Stop()
	for {
		w.Tick()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Tick puts the marker again if it still stands. If it does not, all leases are dropped; the
// next call of Marker makes a new one.
func (w *Wheel) Tick() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.marker == 0 || w.view.leasable() != nil {
		return
	}
	if !w.view.keys.beat(w.view.replica, w.marker, w.now()) {
		w.forget()
		return
	}
	w.checkClock()
}

// checkClock compares this clock with the one leases run by, and forgets all leases when it
// has fallen behind. The marker notices one long stop; many short ones add up unseen by it.
func (w *Wheel) checkClock() {
	mine, theirs := w.now(), w.view.keys.now()
	if w.seen.mine.IsZero() || theirs.Sub(w.seen.theirs)-mine.Sub(w.seen.mine) > wheelLoses {
		w.seen.mine, w.seen.theirs = mine, theirs
		clear(w.leases)
		clear(w.open)
	}
}

// Lease is reserve.Leaser's: 8 s more than keep, rounded up to the grain; 0 is max(2 s, keep/16).
// The marker is made first, as a lease older than it proves nothing.
// Errors: ErrUnavailable, ErrFull.
func (w *Wheel) Lease(
	ctx context.Context, keep, grain time.Duration, have reserve.LeaseID,
) (reserve.LeaseID, error) {
	if _, err := w.Marker(ctx); err != nil {
		return 0, err
	}
	if grain <= 0 {
		grain = max(wheelGrain, keep/wheelGrains)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.now().Sub(w.zero)
	if h := w.leases[have]; h != nil && h.ends >= at+keep+wheelSlack {
		return have, nil
	}
	ends := (at + keep + wheelSlack + grain - 1) / grain * grain
	if s := w.open[ends]; s != nil && s.keys < keysALease {
		s.keys++
		return s.id, nil
	}
	return w.grant(at, ends)
}

// grant gets a lease that ends no sooner than ends, counted from before it is asked for.
func (w *Wheel) grant(at, ends time.Duration) (reserve.LeaseID, error) {
	if err := w.view.leasable(); err != nil {
		return 0, err
	}
	w.dropEnded(at)
	seconds := int64((ends - at + time.Second - 1) / time.Second)
	id, err := w.view.keys.grantLocked(seconds)
	if err != nil {
		return 0, err
	}
	s := &shared{id: id, ends: ends, keys: 1}
	w.leases[id], w.open[ends] = s, s
	return id, nil
}

// dropEnded bounds what is remembered by what can still be used.
func (w *Wheel) dropEnded(at time.Duration) {
	for id, s := range w.leases {
		if s.ends > at {
			continue
		}
		delete(w.leases, id)
		if w.open[s.ends] == s {
			delete(w.open, s.ends)
		}
	}
}

// Marker is reserve.Leaser's. The marker is made when it is first asked for, and after Gone(0).
// Take it before the leases of the same batch: one that has changed since proves nothing.
// Errors: ErrUnavailable, ErrFull.
func (w *Wheel) Marker(ctx context.Context) (int64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil {
		return 0, fmt.Errorf("%w: %w", reserve.ErrUnavailable, ctx.Err())
	}
	if w.marker != 0 && !w.doubt {
		return w.marker, nil
	}
	if err := w.view.leasable(); err != nil {
		return 0, err
	}
	if w.marker == 0 || !w.view.keys.marked(w.view.replica, w.marker) {
		w.forget()
		w.marker = w.view.keys.mark(w.view.replica, w.now())
	}
	w.doubt = false
	return w.marker, nil
}

// Gone is reserve.Leaser's. Several batches may say that they lost the same marker, so one
// made since is kept; the leases are not.
func (w *Wheel) Gone(id reserve.LeaseID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if id == 0 {
		w.doubt = true
		clear(w.leases)
		clear(w.open)
		return
	}
	if s := w.leases[id]; s != nil {
		delete(w.leases, id)
		if w.open[s.ends] == s {
			delete(w.open, s.ends)
		}
	}
}

// forget drops the marker and every lease.
func (w *Wheel) forget() {
	w.marker, w.doubt = 0, false
	clear(w.leases)
	clear(w.open)
}

// markerRef is the key of a replica's freshness marker: what it tells of itself.
func markerRef(replica string) reserve.Ref {
	return reserve.Ref{Kind: reserve.RefReplica, Scope: replica}
}

func (k *keyspace) grantLocked(seconds int64) (reserve.LeaseID, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tick()
	return k.grant(seconds)
}

// marked reports whether the marker's create revision is create.
func (k *keyspace) marked(replica string, create int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tick()
	return k.entry(markerRef(replica)).Create == create
}

// beat puts the marker again, on a new lease, if its create revision is still create.
func (k *keyspace) beat(replica string, create int64, clock time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tick()
	if k.entry(markerRef(replica)).Create != create {
		return false
	}
	k.putMarker(replica, clock)
	return true
}

// mark makes the marker and returns its create revision. One that stands already is never
// taken over: it may be that of an earlier process of the same name, which it would vouch for.
func (k *keyspace) mark(replica string, clock time.Time) int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tick()
	c := k.begin()
	k.delete(&c, markerRef(replica))
	k.end(&c)
	return k.putMarker(replica, clock)
}

func (k *keyspace) putMarker(replica string, clock time.Time) int64 {
	id, _ := k.grant(markerSeconds) // refused only when too long
	c := k.begin()
	it := k.put(&c, markerRef(replica), &reserve.Replica{ID: replica, Clock: clock.Round(0)}, id)
	k.end(&c)
	return it.Create
}
