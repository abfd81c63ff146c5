package webhooks

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/store/memory"
)

const afterAll = 1_200 // the rank of the next parcel

// leftBehind are the ranks of an outbox: two parcels that wait for ever, some of the middle, and a
// run that ends one short of all, so that each of it takes the place of the one that follows.
func leftBehind() (ranks []int64) {
	ranks = []int64{0, 1}
	for n := range int64(15) {
		ranks = append(ranks, 500+n)
	}
	for n := range int64(19) {
		ranks = append(ranks, afterAll-20+n)
	}
	return ranks
}

// outbox writes it over whatever there was.
func (r *rig) outbox(key hookKey, ranks []int64) {
	r.t.Helper()
	g := reserve.Group{Tenant: key.tenant, Catalog: reserve.AnyCatalog}
	for n := range int64(afterAll) {
		w := reserve.Write{Ref: reserve.Ref{Tenant: key.tenant, Kind: reserve.RefParcel, Scope: key.id, N: n}}
		if slices.Contains(ranks, n) {
			w.Value = &reserve.Parcel{Events: []reserve.Letter{{ID: fmt.Sprint(n, ".0"), Type: "gap", At: time.Unix(1_796_040_000, 0).UTC(), Body: []byte("{}")}}}
		}
		g.Writes = append(g.Writes, w)
	}
	g.Writes = append(g.Writes, reserve.Write{Ref: reserve.Ref{Tenant: key.tenant, Kind: reserve.RefDelivery, Scope: key.id}, Value: &reserve.Delivery{Next: afterAll, Queued: int64(len(ranks))}})
	if _, err := r.store.Apply(r.t.Context(), reserve.Batch{Groups: []reserve.Group{g}}); err != nil {
		r.t.Fatal(err)
	}
}

// ids are those of what waits, in order.
func (q *queue) ids() (all []string) {
	for _, p := range q.parcels {
		for _, l := range p.letters {
			all = append(all, l.ID)
		}
	}
	return all
}

// Ranks that are free are not all read for ever; and whoever goes on after a replica that died in
// between finds what waits in its order.
func TestCloseUp_KeepsTheOrderWhereverItIsCut(t *testing.T) { // HF-3208
	r := newRig(t)
	one, view, key := r.replica("one"), r.store.View("one"), hookKey{tenant, "wh_1"}
	hook := &reserve.Webhook{URL: "https://hooks.example/", Secret: reserve.Secret("0123456789abcdef"), At: time.Unix(1_796_040_000, 0).UTC(), By: "user:root"}
	res, err := r.store.Apply(t.Context(), reserve.Batch{Groups: []reserve.Group{{Tenant: tenant, Catalog: reserve.AnyCatalog, Writes: []reserve.Write{
		{Ref: dutyRef, Value: &reserve.Duty{Replica: "this test", Since: hook.At}}, // the dispatcher that runs here leaves it alone
		{Ref: reserve.Ref{Tenant: tenant, Kind: reserve.RefWebhook, Scope: key.id}, Value: hook},
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	ranks := leftBehind()
	loaded := func() *courier {
		c := &courier{d: one.hooks, key: key, create: res.Rev, duty: res.Rev}
		c.hook.Store(hook)
		if err := c.load(t.Context()); err != nil {
			t.Fatal(err)
		}
		return c
	}
	cuts := int64(0)
	for done := false; !done; cuts++ {
		r.outbox(key, ranks)
		c := loaded()
		want := c.q.ids()
		var applied atomic.Int64
		view.SetFaults(func(reserve.Batch) memory.Fault {
			if applied.Add(1) > cuts {
				return memory.Before
			}
			return memory.NoFault
		})
		err := c.closeUp(t.Context())
		view.SetFaults(nil)
		if done = err == nil; !done && !errors.Is(err, reserve.ErrUnavailable) {
			t.Fatalf("cut after %d: %v", cuts, err)
		}
		again := loaded()
		if got := again.q.ids(); !slices.Equal(got, want) || len(got) != len(ranks) {
			t.Errorf("cut after %d: there wait %v, want %v", cuts, got, want)
		}
		if first := afterAll - int64(len(ranks)); done && (again.state.First != first || again.q.parcels[0].rank != first || r.stands(reserve.RefParcel, key.id, 0)) {
			t.Errorf("ranks begin at %d and %d, want %d", again.state.First, again.q.parcels[0].rank, first)
		}
	}
	if cuts < 4 {
		t.Errorf("%d transactions: is it cut anywhere?", cuts-1)
	}
	c := loaded() // closed up as it is
	if err := c.closeUp(t.Context()); err != nil || c.mod != loaded().mod {
		t.Errorf("closed up once more: %v", err)
	}
}
