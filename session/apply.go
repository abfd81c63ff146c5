package session

import (
	"context"
	"errors"

	"github.com/holdfast-dev/holdfast/reserve"
)

// maxTries is how often a write is tried whose lease was gone before it arrived.
const maxTries = 5

// apply writes one group, a lease for each write that asks for one. won is false when a guard
// did not hold.
func (k *Keeper) apply(ctx context.Context, g reserve.Group) (won bool, err error) {
	for range maxTries {
		var marker int64
		if marker, err = k.fillLeases(ctx, g.Writes); err != nil {
			return false, err
		}
		res, err := k.cfg.Store.Apply(ctx, reserve.Batch{Marker: marker, Groups: []reserve.Group{g}})
		if lost, ok := errors.AsType[*reserve.LeaseError](err); ok {
			k.cfg.Leases.Gone(lost.ID)
			continue
		}
		if err != nil {
			return false, err
		}
		if res.MarkerGone {
			k.cfg.Leases.Gone(0)
			continue
		}
		return res.Outcomes[0].Committed, nil
	}
	return false, reserve.ErrContended
}

// fillLeases takes the marker first: one made later would not vouch for the lease.
func (k *Keeper) fillLeases(ctx context.Context, writes []reserve.Write) (marker int64, err error) {
	for i := range writes {
		w := &writes[i]
		if w.Keep <= 0 {
			continue
		}
		if marker == 0 {
			if marker, err = k.cfg.Leases.Marker(ctx); err != nil {
				return 0, err
			}
		}
		if w.Lease, err = k.cfg.Leases.Lease(ctx, w.Keep, w.Grain, w.Have); err != nil {
			return 0, err
		}
	}
	return marker, nil
}
