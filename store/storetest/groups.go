package storetest

import (
	"errors"

	"github.com/holdfast-dev/holdfast/reserve"
)

func groupCases() []testCase {
	return []testCase{
		{"one loser does not fail its neighbours", oneLoser},
		{"a group decided under another catalogue is not committed", catalogMoved},
		{"a catalogue can be compared and raised at once", catalogRaised},
		{"each group is held to the catalogue of its own tenant", ownCatalog},
		{"a marker that is not this replica's fails the whole batch", markerGone},
		{"a key written twice in one batch is a fault and writes nothing", writtenTwice},
		{"a batch of too many operations writes nothing", tooBig},
	}
}

func oneLoser(b *bench) {
	taken := slotRef("exports", 1)
	b.set(taken, slot("holder"))
	var groups []reserve.Group
	for n := range int64(3) {
		ref := slotRef("exports", n)
		g := when(put(ref, slot("newcomer")), modIs(ref, 0))
		g.Writes = append(g.Writes, reserve.Write{Ref: slotRef("gpu", n), Value: slot("newcomer")})
		groups = append(groups, g)
	}
	b.wantCommitted(b.apply(groups...), true, false, true)
	b.wantValue(slotRef("exports", 0), slot("newcomer"))
	b.wantValue(taken, slot("holder"))
	b.wantValue(slotRef("exports", 2), slot("newcomer"))
	b.wantValue(slotRef("gpu", 0), slot("newcomer"))
	b.wantValue(slotRef("gpu", 1), nil)
}

func catalogMoved(b *bench) {
	ref := slotRef("exports", 0)
	under := func(catalog int64, name string) reserve.Group {
		g := put(ref, slot(name))
		g.Catalog = catalog
		return g
	}
	b.wantCommitted(b.apply(under(0, "before there was one")), true)
	old := b.set(catalogRef, reserve.Seq(1)).Mod
	now := b.set(catalogRef, reserve.Seq(2)).Mod
	for _, stale := range []int64{0, old, now + 1} {
		res := b.apply(under(stale, "stale"))
		b.wantCommitted(res, false)
		if !res.Outcomes[0].Moved {
			b.t.Errorf("decided under %d, now %d: got %+v, want Moved", stale, now, res.Outcomes[0])
		}
	}
	b.wantValue(ref, slot("before there was one"))
	b.wantCommitted(b.apply(under(now, "under this one")), true)
	b.wantCommitted(b.apply(under(reserve.AnyCatalog, "under any")), true)
	lost := under(now, "guard")
	res := b.apply(when(lost, modIs(ref, 0)))
	b.wantCommitted(res, false)
	if res.Outcomes[0].Moved {
		b.t.Errorf("lost by a guard under the right catalogue: got %+v, want Moved false", res.Outcomes[0])
	}
}

func catalogRaised(b *bench) {
	raise := func(from int64, to reserve.Seq) bool {
		g := put(catalogRef, to)
		g.Catalog = from
		return b.apply(g).Outcomes[0].Committed
	}
	if !raise(0, 1) {
		b.t.Fatal("raising the first catalogue: not committed")
	}
	rev := b.get(catalogRef).Mod
	if raise(0, 2) {
		b.t.Fatal("raising the catalogue under an old one: committed")
	}
	if !raise(rev, 2) {
		b.t.Fatal("raising the catalogue under the present one: not committed")
	}
	b.wantValue(catalogRef, reserve.Seq(2))
}

func ownCatalog(b *bench) {
	acme := reserve.Ref{Tenant: "acme", Kind: reserve.RefCatalog}
	ours, theirs := b.set(catalogRef, reserve.Seq(1)).Mod, b.set(acme, reserve.Seq(1)).Mod
	group := func(tenant string, n, catalog int64) reserve.Group {
		ref := slotRef("exports", n)
		ref.Tenant = tenant
		g := put(ref, slot(tenant))
		g.Catalog = catalog
		return g
	}
	b.wantCommitted(b.apply(
		group(tenant, 0, ours), group("acme", 0, theirs),
		group(tenant, 1, theirs), group("acme", 1, ours),
		group(tenant, 2, reserve.AnyCatalog), group("acme", 2, theirs), group(tenant, 3, ours),
	), true, true, false, false, true, true, true)
}

func markerGone(b *bench) {
	marker, err := b.Leases.Marker(b.t.Context())
	if err != nil || marker == 0 {
		b.t.Fatalf("Marker: got %d, %v", marker, err)
	}
	one, two := slotRef("exports", 0), slotRef("exports", 1)
	res := b.send(reserve.Batch{Marker: marker + 1, Groups: []reserve.Group{put(one, slot("a")), put(two, slot("b"))}})
	if !res.MarkerGone {
		b.t.Fatalf("under a marker that never was: got %+v, want MarkerGone", res)
	}
	b.wantValue(one, nil)
	b.wantValue(two, nil)
	res = b.send(reserve.Batch{Marker: marker, Groups: []reserve.Group{put(one, slot("a"))}})
	if res.MarkerGone {
		b.t.Fatalf("under the marker that stands: got %+v", res)
	}
	b.wantCommitted(res, true)
}

func writtenTwice(b *bench) {
	ref, beside := slotRef("exports", 0), slotRef("exports", 1)
	once := put(beside, slot("beside"))
	twice := put(ref, slot("a"))
	twice.Writes = append(twice.Writes, reserve.Write{Ref: ref, Value: slot("b")})
	for name, groups := range map[string][]reserve.Group{
		"in one group":  {once, twice},
		"in two groups": {put(ref, slot("a")), once, put(ref, slot("b"))},
		"put and deleted": {once, {
			Tenant: tenant, Catalog: reserve.AnyCatalog,
			Writes: []reserve.Write{{Ref: ref, Value: slot("a")}, {Ref: ref}},
		}},
	} {
		_, err := b.Store.Apply(b.t.Context(), reserve.Batch{Groups: groups})
		if err == nil || errors.Is(err, reserve.ErrUnknownOutcome) {
			b.t.Errorf("%s: got error %v, want one that says nothing happened", name, err)
		}
		b.wantValue(ref, nil)
		b.wantValue(beside, nil)
	}
}

func tooBig(b *bench) {
	const many = 5000 // above what any server of ours takes
	wide := put(slotRef("exports", 0), slot("x"))
	var groups []reserve.Group
	for n := range int64(many) {
		wide.Guards = append(wide.Guards, reserve.Guard{Ref: slotRef("exports", n+1), Cond: reserve.ModIs})
		groups = append(groups, put(slotRef("exports", n), slot("x")))
	}
	for name, batch := range map[string]reserve.Batch{
		"groups": {Groups: groups}, "guards in one group": {Groups: []reserve.Group{wide}},
	} {
		_, err := b.Store.Apply(b.t.Context(), batch)
		if !errors.Is(err, reserve.ErrTooBig) {
			b.t.Errorf("%d %s: got error %v, want ErrTooBig", many, name, err)
		}
		b.wantValue(slotRef("exports", 0), nil)
	}
	b.wantCommitted(b.apply(groups[:20]...), yes(20)...)
}

// yes is n times true.
func yes(n int) []bool {
	all := make([]bool, n)
	for i := range all {
		all[i] = true
	}
	return all
}
