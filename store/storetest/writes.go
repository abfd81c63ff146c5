package storetest

import (
	"github.com/holdfast-dev/holdfast/reserve"
)

func writeCases() []testCase {
	return []testCase{
		{"all writes of a batch have the revision of its result", oneRevision},
		{"putting again keeps the create revision", putAgain},
		{"delete and create in two transactions give a greater create revision", fenceRises},
		{"deleting what is not there does no harm", deleteAbsent},
	}
}

func oneRevision(b *bench) {
	var groups []reserve.Group
	var refs []reserve.Ref
	for n := range int64(4) {
		g := put(slotRef("exports", n), slot("x"))
		g.Writes = append(g.Writes, reserve.Write{Ref: slotRef("gpu", n), Value: slot("y")})
		groups = append(groups, g)
		refs = append(refs, slotRef("exports", n), slotRef("gpu", n))
	}
	res := b.apply(groups...)
	b.wantCommitted(res, yes(len(groups))...)
	for _, e := range b.load(refs...) {
		if e.Mod != res.Rev || e.Create != res.Rev {
			b.t.Errorf("%+v: revisions %d and %d, want %d", e.Ref, e.Create, e.Mod, res.Rev)
		}
	}
	if again := b.apply(groups...); again.Rev <= res.Rev {
		b.t.Errorf("the next batch has revision %d, want one above %d", again.Rev, res.Rev)
	}
}

func putAgain(b *bench) {
	ref := slotRef("exports", 0)
	first := b.set(ref, slot("first"))
	again := b.set(ref, slot("again"))
	if again.Create != first.Create || again.Mod <= first.Mod {
		b.t.Errorf("put again: create and mod went from %d, %d to %d, %d; want the same create and a greater mod",
			first.Create, first.Mod, again.Create, again.Mod)
	}
}

// fenceRises is what fences rest on: GUARANTEES.md promise 6.
func fenceRises(b *bench) {
	ref := slotRef("exports", 0)
	fence := int64(0)
	for range 5 {
		e := b.set(ref, slot("holder"))
		if e.Create <= fence {
			b.t.Fatalf("create revision %d after %d, want a greater one", e.Create, fence)
		}
		fence = e.Create
		b.wantCommitted(b.apply(when(put(ref, nil), reserve.Guard{Ref: ref, Cond: reserve.CreateIs, Rev: fence})), true)
		b.wantValue(ref, nil)
	}
}

func deleteAbsent(b *bench) {
	ref := slotRef("exports", 0)
	g := put(ref, nil)
	g.Writes = append(g.Writes, reserve.Write{Ref: slotRef("exports", 1), Value: slot("beside")})
	b.wantCommitted(b.apply(g), true)
	b.wantCommitted(b.apply(put(ref, nil)), true)
	b.wantValue(ref, nil)
	b.wantValue(slotRef("exports", 1), slot("beside"))
}
