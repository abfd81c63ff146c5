package storetest

import (
	"github.com/holdfast-dev/holdfast/reserve"
)

func guardCases() []testCase {
	return []testCase{
		{"a key that must be absent is created once", absentOnce},
		{"a mod revision stands until the next put", modRevision},
		{"a create revision stands through puts and not through delete and create", createRevision},
		{"another's create revision is anything but the one named, absence too", createIsNot},
		{"all guards of a group must stand, or nothing of it is written", allGuards},
		{"a loser brings back what it lost to, absent keys too", broughtBack},
		{"a group that writes nothing only compares", onlyCompares},
	}
}

func absentOnce(b *bench) {
	ref := slotRef("exports", 0)
	take := when(put(ref, slot("first")), modIs(ref, 0))
	b.wantCommitted(b.apply(take), true)
	take.Writes[0].Value = slot("second")
	b.wantCommitted(b.apply(take), false)
	b.wantValue(ref, slot("first"))
}

func modRevision(b *bench) {
	ref := slotRef("exports", 0)
	first := b.set(ref, slot("first"))
	second := b.set(ref, slot("second"))
	b.wantCommitted(b.apply(when(put(ref, slot("late")), modIs(ref, first.Mod))), false)
	b.wantCommitted(b.apply(when(put(ref, slot("early")), modIs(ref, second.Mod+1))), false)
	b.wantCommitted(b.apply(when(put(ref, slot("third")), modIs(ref, second.Mod))), true)
	b.wantValue(ref, slot("third"))
}

func createRevision(b *bench) {
	ref := slotRef("exports", 0)
	created := b.set(ref, slot("first")).Create
	guard := reserve.Guard{Ref: ref, Cond: reserve.CreateIs, Rev: created}
	for _, name := range []string{"second", "third"} {
		b.wantCommitted(b.apply(when(put(ref, slot(name)), guard)), true)
	}
	b.wantCommitted(b.apply(put(ref, nil)), true)
	b.wantCommitted(b.apply(when(put(ref, slot("fourth")), guard)), false)
	b.set(ref, slot("another's"))
	b.wantCommitted(b.apply(when(put(ref, slot("fifth")), guard)), false)
	b.wantValue(ref, slot("another's"))
}

func createIsNot(b *bench) {
	ref, other := slotRef("exports", 0), slotRef("exports", 1)
	fence := b.set(ref, slot("mine")).Create
	gone := reserve.Guard{Ref: ref, Cond: reserve.CreateIsNot, Rev: fence}
	b.wantCommitted(b.apply(when(put(other, slot("x")), gone)), false)
	b.apply(put(ref, nil))
	b.wantCommitted(b.apply(when(put(other, slot("y")), gone)), true)
	b.set(ref, slot("another's"))
	b.wantCommitted(b.apply(when(put(other, slot("z")), gone)), true)

	exists := func(ref reserve.Ref) reserve.Guard { return reserve.Guard{Ref: ref, Cond: reserve.CreateIsNot} }
	b.wantCommitted(b.apply(when(put(other, slot("v")), exists(ref))), true)
	b.wantCommitted(b.apply(when(put(other, slot("w")), exists(slotRef("exports", 2)))), false)
	b.wantValue(other, slot("v"))
}

func allGuards(b *bench) {
	here, there := slotRef("exports", 0), slotRef("gpu", 0)
	e := b.set(here, slot("old"))
	g := when(put(here, slot("new")), modIs(here, e.Mod), modIs(there, e.Mod))
	g.Writes = append(g.Writes, reserve.Write{Ref: there, Value: slot("new")})
	b.wantCommitted(b.apply(g), false)
	b.wantValue(here, slot("old"))
	b.wantValue(there, nil)
	g.Guards[1].Rev = 0
	b.wantCommitted(b.apply(g), true)
	b.wantValue(here, slot("new"))
	b.wantValue(there, slot("new"))
}

func broughtBack(b *bench) {
	taken, free, unguarded := slotRef("exports", 0), slotRef("exports", 1), slotRef("exports", 2)
	want := []reserve.Entry{b.set(unguarded, slot("beside")), b.set(taken, slot("winner")), {Ref: free}}
	g := when(put(taken, slot("loser")), modIs(taken, 0), modIs(free, 0))
	g.Reads = []reserve.Ref{unguarded, taken, free} // in an order of its own
	res := b.apply(g)
	b.wantCommitted(res, false)
	o := res.Outcomes[0]
	if o.Moved || len(o.Seen) != len(want) {
		b.t.Fatalf("outcome of %+v: got %+v, want its %d reads", g, o, len(want))
	}
	for i, w := range want {
		got := o.Seen[i]
		if got.Ref != w.Ref || got.Mod != w.Mod || got.Create != w.Create || !Same(got.Value, w.Value) {
			b.t.Errorf("seen %d: got %+v, want %+v", i, got, w)
		}
	}
	won := b.apply(when(put(taken, slot("next")), modIs(taken, want[1].Mod)))
	b.wantCommitted(won, true)
	if seen := won.Outcomes[0].Seen; len(seen) != 0 {
		b.t.Errorf("a winner brought back %+v, want nothing", seen)
	}
}

func onlyCompares(b *bench) {
	ref := slotRef("exports", 0)
	e := b.set(ref, slot("first"))
	g := reserve.Group{Tenant: tenant, Catalog: reserve.AnyCatalog}
	b.wantCommitted(b.apply(when(g, modIs(ref, e.Mod))), true)
	b.wantCommitted(b.apply(when(g, modIs(ref, 0))), false)
	if got := b.get(ref); got.Mod != e.Mod {
		b.t.Errorf("after comparing %+v: mod revision %d, want %d", ref, got.Mod, e.Mod)
	}
}
