package memory_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/store/memory"
)

func slotRef(n int64) reserve.Ref {
	return reserve.Ref{Tenant: "default", Kind: reserve.RefSlot, Limit: "exports", Scope: "user/u_42", N: n}
}

func group(writes ...reserve.Write) reserve.Group {
	return reserve.Group{Tenant: "default", Catalog: reserve.AnyCatalog, Writes: writes}
}

func putSlot(n int64, id reserve.LeaseID) reserve.Group {
	return group(reserve.Write{Ref: slotRef(n), Value: &reserve.Slot{}, Lease: id})
}

func apply(t *testing.T, s reserve.Store, groups ...reserve.Group) reserve.Result {
	t.Helper()
	res, err := s.Apply(t.Context(), reserve.Batch{Groups: groups})
	if err != nil {
		t.Fatalf("Apply(%+v): %v", groups, err)
	}
	return res
}

// mods are the mod revisions of slots 0 to n-1.
func mods(t *testing.T, s reserve.Store, n int64) []int64 {
	t.Helper()
	var refs []reserve.Ref
	for i := range n {
		refs = append(refs, slotRef(i))
	}
	loaded, err := s.Load(t.Context(), refs, true)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	var all []int64
	for _, e := range loaded.Entries {
		all = append(all, e.Mod)
	}
	return all
}

func lease(t *testing.T, l reserve.Leaser, keep time.Duration) reserve.LeaseID {
	t.Helper()
	id, err := l.Lease(t.Context(), keep, 0, 0)
	if err != nil {
		t.Fatalf("Lease(%v): %v", keep, err)
	}
	return id
}

func TestRevisions_OneATransactionThatWrites(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Config{Now: newHandClock().now})
	var got []int64
	for _, groups := range [][]reserve.Group{
		{putSlot(0, 0), putSlot(1, 0)},
		{group(reserve.Write{Ref: slotRef(2)})}, // deletes nothing
		{group()},
		{putSlot(0, 0)},
		{group(reserve.Write{Ref: slotRef(0)})},
	} {
		got = append(got, apply(t, s, groups...).Rev)
	}
	if want := []int64{2, 2, 2, 3, 4}; !slices.Equal(got, want) {
		t.Errorf("revisions: got %v, want %v", got, want)
	}
}

func TestRecord_IsToldEachRevisionInOrder(t *testing.T) {
	t.Parallel()
	var told []string
	clock := newHandClock()
	s := memory.New(memory.Config{Now: clock.now, Record: func(rev int64, puts []reserve.Entry, deletes []reserve.Deleted) {
		told = append(told, fmt.Sprintf("%d: %d put, %d deleted", rev, len(puts), len(deletes)))
	}})
	wheel := s.Leases("r1", clock.now)
	id := lease(t, wheel, 2*time.Second)               // revision 2: the marker
	apply(t, s, putSlot(0, id), putSlot(1, id))        // 3
	apply(t, s, group(reserve.Write{Ref: slotRef(0)})) // 4
	apply(t, s, group(reserve.Write{Ref: slotRef(0)})) // nothing
	clock.advance(time.Minute)
	s.Tick() // 5: the marker's lease, 6: the slot's
	want := []string{
		"2: 1 put, 0 deleted", "3: 2 put, 0 deleted", "4: 0 put, 1 deleted", "5: 0 put, 1 deleted", "6: 0 put, 1 deleted",
	}
	if !slices.Equal(told, want) {
		t.Errorf("told: got %q, want %q", told, want)
	}
}

// What etcd would not find, or find only in the bytes, is refused all the same.
func TestApply_RefusesWrongBatches(t *testing.T) {
	t.Parallel()
	guarded := reserve.Group{
		Tenant: "default", Catalog: reserve.AnyCatalog,
		Guards: []reserve.Guard{{Ref: slotRef(0), Cond: reserve.ModIs}},
	}
	reading := putSlot(1, 0)
	reading.Reads = []reserve.Ref{slotRef(0)}
	for name, groups := range map[string][]reserve.Group{
		"a value of another kind":           {group(reserve.Write{Ref: slotRef(0), Value: &reserve.Record{}})},
		"a slot that is no pointer":         {group(reserve.Write{Ref: slotRef(0), Value: reserve.Slot{}})},
		"no such condition":                 {{Catalog: reserve.AnyCatalog, Guards: []reserve.Guard{{Ref: slotRef(0)}}}},
		"one group writes, another guards":  {putSlot(0, 0), guarded},
		"one group reads, another writes":   {reading, putSlot(0, 0)},
		"written twice among very many":     {group(manySlots(20)...), putSlot(7, 0)},
		"written twice in one of very many": {group(append(manySlots(20), reserve.Write{Ref: slotRef(7)})...)},
	} {
		s := memory.New(memory.Config{Now: newHandClock().now})
		res, err := s.Apply(t.Context(), reserve.Batch{Groups: groups})
		if err == nil {
			t.Errorf("%s: got %+v, want an error", name, res)
		}
		if got := mods(t, s, 20); slices.Max(got) != 0 {
			t.Errorf("%s: written at %v, want nothing", name, got)
		}
	}
	both := guarded
	s := memory.New(memory.Config{Now: newHandClock().now})
	if res := apply(t, s, guarded, both); !res.Outcomes[0].Committed || !res.Outcomes[1].Committed {
		t.Errorf("two groups that only compare a key: got %+v, want both committed", res)
	}
}

func manySlots(n int64) []reserve.Write {
	var all []reserve.Write
	for i := range n {
		all = append(all, reserve.Write{Ref: slotRef(i), Value: &reserve.Slot{}})
	}
	return all
}

func TestApply_CountsOperationsAsEtcdDoes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		groups, writes int
		tooBig         bool
	}{{1, 64, false}, {1, 3900, false}, {1, 4096, true}, {126, 1, false}, {127, 1, true}, {64, 63, false}, {64, 64, true}} {
		s := memory.New(memory.Config{Now: newHandClock().now})
		var groups []reserve.Group
		for i := range c.groups {
			g := group()
			for j := range c.writes {
				g.Writes = append(g.Writes, reserve.Write{Ref: slotRef(int64(i*1000 + j))})
			}
			groups = append(groups, g)
		}
		_, err := s.Apply(t.Context(), reserve.Batch{Groups: groups})
		if got := errors.Is(err, reserve.ErrTooBig); got != c.tooBig {
			t.Errorf("%d groups of %d writes, 128 allowed: got %v, want too big %v", c.groups, c.writes, err, c.tooBig)
		}
	}
}

func TestRearm_StartsLeasesAgain(t *testing.T) {
	t.Parallel()
	clock := newHandClock()
	s := memory.New(memory.Config{Now: clock.now})
	id := lease(t, s.Leases("r1", clock.now), 10*time.Second) // T+8 rounded up to 2 s: 18 s
	apply(t, s, putSlot(0, id))
	clock.advance(17 * time.Second)
	s.Rearm()
	clock.advance(17 * time.Second)
	if got := mods(t, s, 1); got[0] == 0 {
		t.Error("17 s after a leader change: the slot is gone, want it to have its 18 s anew")
	}
	clock.advance(time.Second)
	if got := mods(t, s, 1); got[0] != 0 {
		t.Errorf("18 s after a leader change: the slot stands at %d, want it gone", got[0])
	}
	s.Rearm() // nothing is left to start again, so nothing comes back
	if got := mods(t, s, 1); got[0] != 0 {
		t.Errorf("a leader change brought a slot back at %d", got[0])
	}
}

func TestCheckValues_FindsWhoChangedOne(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Config{Now: newHandClock().now, CheckValues: true})
	r := &reserve.Record{Labels: map[string]string{"job": "1"}}
	apply(t, s, group(reserve.Write{Ref: reserve.Ref{Tenant: "default", Kind: reserve.RefOpen, ID: r.ID}, Value: r}), putSlot(0, 0))
	s.Tick()
	r.Labels["job"] = "2"
	defer func() {
		if got := fmt.Sprint(recover()); !strings.Contains(got, "was changed") {
			t.Errorf("Tick after a label was changed: got panic %q, want one that says so", got)
		}
	}()
	s.Tick()
}

func TestLimit_CarriesItsRevision(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Config{Now: newHandClock().now})
	given := limits.Samples()[0]
	ref := reserve.Ref{Tenant: "default", Kind: reserve.RefLimit, Limit: given.ID}
	res := apply(t, s, group(reserve.Write{Ref: ref, Value: &given}))
	loaded, err := s.Load(t.Context(), []reserve.Ref{ref}, true)
	if err != nil {
		t.Fatal(err)
	}
	got := loaded.Entries[0].Value.(*limits.Limit)
	if got.Revision != res.Rev || given.Revision != 0 {
		t.Errorf("put at %d: the limit read has revision %d, the one given %d; want the first to have it", res.Rev, got.Revision, given.Revision)
	}
}

// FAULTS row 53: what cannot be read is told as such, and stands.
func TestSpoil_LeavesAnUnreadableKey(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Config{Now: newHandClock().now, CheckValues: true})
	apply(t, s, putSlot(0, 0))
	if s.Spoil(slotRef(1), reserve.ErrCorrupt) {
		t.Error("spoilt a key that does not stand")
	}
	if !s.Spoil(slotRef(0), reserve.ErrNewer) {
		t.Fatal("could not spoil a key that stands")
	}
	s.Tick()
	loaded, err := s.Load(t.Context(), []reserve.Ref{slotRef(0)}, true)
	if err != nil {
		t.Fatal(err)
	}
	if e := loaded.Entries[0]; e.Mod != 3 || e.Value != nil || !errors.Is(e.Fault, reserve.ErrNewer) {
		t.Errorf("got %+v, want no value, ErrNewer, revision 3", e)
	}
	apply(t, s, putSlot(0, 0))
	if loaded, err = s.Load(t.Context(), []reserve.Ref{slotRef(0)}, true); err != nil || loaded.Entries[0].Fault != nil {
		t.Errorf("after a new put: got %+v, %v; want no fault", loaded.Entries[0], err)
	}
}

func TestContext_ThatHasEndedReachesNothing(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Config{Now: newHandClock().now})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Apply(ctx, reserve.Batch{Groups: []reserve.Group{putSlot(0, 0)}}); !errors.Is(err, reserve.ErrUnavailable) {
		t.Errorf("Apply: got %v, want ErrUnavailable", err)
	}
	if _, err := s.Load(ctx, nil, true); !errors.Is(err, reserve.ErrUnavailable) {
		t.Errorf("Load: got %v, want ErrUnavailable", err)
	}
	if got := mods(t, s, 1); got[0] != 0 {
		t.Errorf("written at %d, want nothing", got[0])
	}
}
