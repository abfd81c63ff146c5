package lease

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// The anchor's bounds.
const (
	anchorTTL   = 10 * time.Minute
	anchorRenew = time.Minute // another one is granted when less is left

	// etcd tells what is left in whole seconds, rounded down, and two good clocks drift by at
	// most 0.3 s over the anchor's life.
	anchorRounding = time.Second
	anchorSlack    = 500 * time.Millisecond
	anchorRearmed  = 2 * time.Second // more left than this above what can be: its TTL started anew
)

// anchor is a long lease that nothing hangs on. What etcd says is left of it tells how much
// time has really passed since it was granted.
type anchor struct {
	id   ID
	ends time.Duration // by the wheel's clock, at the soonest
}

// checkClock compares the wheel's clock with etcd's and forgets all leases when it has fallen
// behind. The caller has the turn. Cost: one read of a lease's time, a grant in ten minutes.
func (w *Wheel) checkClock(ctx context.Context) error {
	if w.anchor.id == 0 {
		return w.castAnchor(ctx)
	}
	call, cancel := context.WithTimeout(ctx, putWithin)
	defer cancel()
	resp, err := w.cfg.Lease.TimeToLive(call, clientv3.LeaseID(w.anchor.id))
	if err != nil {
		return translate("compare clocks", err)
	}
	// Read after the answer, so that a slow call cannot look like a slow clock.
	believed := w.anchor.ends - w.time()
	left := time.Duration(resp.TTL) * time.Second
	behind := clockIsBehind(believed, left)
	if behind {
		w.mu.Lock()
		w.book = newBook()
		w.mu.Unlock()
		w.metrics.clockLosses.Inc()
		w.cfg.Log.Warn("this clock has fallen behind: all leases are forgotten",
			"believed", believed, "left", left)
	}
	// After an election an old anchor may have got its whole TTL back and would hide a loss.
	if behind || believed < anchorRenew || left > believed+anchorRearmed {
		return w.castAnchor(ctx)
	}
	return nil
}

// clockIsBehind reports whether more is believed to be left than can be, given etcd's answer.
func clockIsBehind(believed, left time.Duration) bool {
	return believed > left+anchorRounding+anchorSlack
}

// castAnchor grants a new anchor, counted from now.
func (w *Wheel) castAnchor(ctx context.Context) error {
	now := w.time()
	id, err := w.call(ctx, useAnchor, anchorTTL, putWithin)
	if err != nil {
		w.anchor = anchor{}
		return err
	}
	w.anchor = anchor{id: id, ends: now + anchorTTL}
	return nil
}
