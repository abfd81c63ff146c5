package memory

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/reserve"
)

// BenchmarkApply_SmallGroup is a reserve and its release: the step the random model takes a
// million times.
func BenchmarkApply_SmallGroup(b *testing.B) {
	now := time.Unix(1_800_000_000, 0)
	s := New(Config{Now: func() time.Time { return now }})
	leases := s.Leases("", func() time.Time { return now })
	ctx := b.Context()
	lease, err := leases.Lease(ctx, time.Minute, 0, 0)
	if err != nil {
		b.Fatal(err)
	}
	slot := reserve.Ref{Tenant: "default", Kind: reserve.RefSlot, Limit: "exports", Scope: "user/u_42"}
	open := reserve.Ref{Tenant: "default", Kind: reserve.RefOpen, ID: reserve.NewID()}
	usage := reserve.Ref{Tenant: "default", Kind: reserve.RefUsage, Scope: "user/u_42"}
	take := batch(lease, slot, open, usage)
	give := reserve.Batch{Groups: []reserve.Group{{
		Tenant: "default", Catalog: reserve.AnyCatalog,
		Writes: []reserve.Write{{Ref: slot}, {Ref: open}},
		Reads:  []reserve.Ref{slot, open, usage},
	}}}
	b.ReportAllocs()
	for b.Loop() {
		for _, step := range []reserve.Batch{take, give} {
			if res, err := s.Apply(ctx, step); err != nil || !res.Outcomes[0].Committed {
				b.Fatalf("%+v, %v", res, err)
			}
		}
	}
}

func batch(lease reserve.LeaseID, slot, open, usage reserve.Ref) reserve.Batch {
	return reserve.Batch{Groups: []reserve.Group{{
		Tenant: slot.Tenant, Catalog: 0,
		Guards: []reserve.Guard{
			{Ref: slot, Cond: reserve.ModIs},
			{Ref: open, Cond: reserve.ModIs},
			{Ref: usage, Cond: reserve.CreateIsNot, Rev: 1},
		},
		Writes: []reserve.Write{
			{Ref: slot, Value: &reserve.Slot{}, Lease: lease},
			{Ref: open, Value: &reserve.Record{}},
			{Ref: usage, Value: reserve.Counts{}},
		},
		Reads: []reserve.Ref{slot, open, usage},
	}}}
}
