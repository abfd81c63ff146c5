package webhooks

import (
	"context"

	"github.com/holdfast-dev/holdfast/reserve"
)

// maxSpan bounds the ranks that whoever loads an outbox must look at, beside its parcels.
const maxSpan = 1_024

// closeUp moves parcels that were left far behind, by an event that is not accepted, next to
// those that follow. From the last to the first: the order stays as it is at each step.
func (c *courier) closeUp(ctx context.Context) error {
	ps := c.q.parcels
	if c.state.Next-c.state.First <= maxSpan+2*int64(len(ps)) {
		return nil
	}
	to := c.state.Next
	for end := len(ps); end > 0; {
		from := max(0, end-maxParcels/2)
		var writes []reserve.Write
		for i := end - 1; i >= from; i-- {
			if to--; ps[i].rank != to {
				writes = append(writes, reserve.Write{Ref: c.ref(reserve.RefParcel, to), Value: ps[i].rest()})
			}
		}
		for _, p := range ps[from:end] {
			if p.rank < to { // another has not taken its place: no key is written twice
				writes = append(writes, reserve.Write{Ref: c.ref(reserve.RefParcel, p.rank)})
			}
		}
		state := c.state
		if from == 0 {
			state.First = to
		}
		if err := c.write(ctx, writes, state); err != nil {
			return err
		}
		for i := end - 1; i >= from; i-- {
			ps[i].rank = to + int64(i-from)
		}
		end = from
	}
	return nil
}
