package lease

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// The marker's times. A put that fails leaves time for another before the marker is lost.
const (
	MarkerTTL   = 5 * time.Second
	MarkerEvery = 2 * time.Second // between two puts, and at least between two grants

	retryEvery = 500 * time.Millisecond // after a put that failed
	putWithin  = 2 * time.Second        // of each call for it
)

// marker is the state of the freshness marker, guarded by the wheel's lock.
type marker struct {
	rev     int64         // create revision; 0: there is none
	doubted bool          // somebody found it gone: look before it is used again
	on      ID            // the lease it was last put on
	lease   ID            // the newest lease granted for it
	at      time.Duration // before that lease was granted
}

// Marker returns the create revision of this replica's freshness marker, which a transaction
// must compare when it puts a key on a lease of this wheel. It makes a marker if there is none.
//
// Errors: ErrUnavailable, with ErrFull when etcd has no space; also when ctx ends first.
// Cost: nothing but a lock while the marker stands; a read when it was doubted by Gone(0); a
// grant, at most one in MarkerEvery, and one to five transactions when it must be made.
func (w *Wheel) Marker(ctx context.Context) (createRevision int64, err error) {
	if rev, ok := w.trusted(); ok {
		return rev, nil
	}
	if err := w.takeTurn(ctx); err != nil {
		return 0, err
	}
	defer w.endTurn()
	// Others wait for it: the caller that happens to make it must not break it off.
	return w.stand(context.WithoutCancel(ctx))
}

// Run keeps the marker fresh until ctx ends and returns nil then. It logs when it begins to
// fail and when it has recovered. Run it once; the marker runs out by itself afterwards.
func (w *Wheel) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		err := w.refresh(ctx)
		if ctx.Err() != nil {
			return nil
		}
		switch {
		case err != nil && !failing:
			w.cfg.Log.Warn("the freshness marker cannot be kept", "error", err)
		case err == nil && failing:
			w.cfg.Log.Info("the freshness marker is kept again")
		}
		failing = err != nil
		if failing {
			timer.Reset(retryEvery)
		} else {
			timer.Reset(w.untilStale())
		}
	}
}

// untilStale is when the marker wants its next lease. It counts from the grant of the last one, as
// etcd does: a refresh that was slow leaves no less time for the next.
func (w *Wheel) untilStale() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return max(w.marker.at+MarkerEvery-w.clock.read(), retryEvery)
}

// refresh moves the marker to a new lease, or makes one if it is gone.
//
// The order counts: grant, compare the clock with the anchor, put. What the clock loses after
// the comparison is then bounded by the lease that was granted before it.
func (w *Wheel) refresh(ctx context.Context) error {
	if err := w.takeTurn(ctx); err != nil {
		return err
	}
	defer w.endTurn()
	rev, err := w.stand(ctx)
	if err != nil || w.fresh() {
		return err
	}
	id, err := w.markerLease(ctx)
	if err != nil {
		return err
	}
	if err := w.checkClock(ctx); err != nil {
		return err
	}
	found, err := w.putMarker(ctx, rev, id)
	if err != nil {
		return err
	}
	if found != rev {
		w.lost()
		_, err = w.makeMarker(ctx)
	}
	return err
}

// stand returns the revision of the marker; it looks for one that is in doubt and makes one
// that is gone. The caller has the turn.
func (w *Wheel) stand(ctx context.Context) (int64, error) {
	if rev, ok := w.trusted(); ok {
		return rev, nil // perhaps since this caller began to wait for its turn
	}
	if err := w.lookAgain(ctx); err != nil {
		return 0, err
	}
	if rev, ok := w.trusted(); ok {
		return rev, nil
	}
	return w.makeMarker(ctx)
}

// lookAgain settles a doubt: it reads the marker and gives it up when it is another or gone.
func (w *Wheel) lookAgain(ctx context.Context) error {
	w.mu.Lock()
	rev := w.marker.rev
	w.mu.Unlock()
	if rev == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, putWithin)
	defer cancel()
	resp, err := w.cfg.KV.Get(ctx, w.cfg.MarkerKey, clientv3.WithKeysOnly())
	if err != nil {
		return translate("find the marker", err)
	}
	if len(resp.Kvs) == 0 || resp.Kvs[0].CreateRevision != rev {
		w.lost()
		return nil
	}
	w.mu.Lock()
	w.marker.doubted = false
	w.mu.Unlock()
	return nil
}

// lost notes that the marker is gone. The clock may have stood still, so no lease is trusted.
func (w *Wheel) lost() {
	w.mu.Lock()
	w.marker.rev, w.marker.doubted = 0, false
	w.book = newBook()
	w.mu.Unlock()
	w.metrics.markerLosses.Inc()
	w.cfg.Log.Warn("the freshness marker was gone: all leases are forgotten", "key", w.cfg.MarkerKey)
}

// trusted is the marker's revision if there is one that nobody doubts.
func (w *Wheel) trusted() (int64, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.marker.rev, w.marker.rev != 0 && !w.marker.doubted
}

// fresh reports whether the marker was put on a lease granted less than MarkerEvery ago.
func (w *Wheel) fresh() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.marker.on == w.marker.lease && w.youngLease() != 0
}

// youngLease is the lease granted for the marker less than MarkerEvery ago, or 0. The caller
// holds the lock.
func (w *Wheel) youngLease() ID {
	if w.clock.read()-w.marker.at >= MarkerEvery {
		return 0
	}
	return w.marker.lease
}

// takeTurn waits until no other goroutine works on the marker.
func (w *Wheel) takeTurn(ctx context.Context) error {
	select {
	case <-w.turn:
		return nil
	case <-ctx.Done():
		return gaveUp(ctx)
	}
}

func (w *Wheel) endTurn() { w.turn <- struct{}{} }

// errTaken: the marker was made by others as often as it was deleted.
var errTaken = errors.New("another process keeps making it")

// errDead: a put found its lease ended. It is retried with another lease.
var errDead = translate("put the marker", rpctypes.ErrLeaseNotFound)
