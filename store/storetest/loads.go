package storetest

import (
	"sync"

	"github.com/holdfast-dev/holdfast/reserve"
)

func loadCases() []testCase {
	return []testCase{
		{"a load brings one entry a ref, in order, absent ones too", loadInOrder},
		{"a load of many keys is at one revision", loadAtOneRevision},
		{"a fresh load sees what was committed before it", loadFresh},
	}
}

func loadInOrder(b *bench) {
	var refs []reserve.Ref
	for n := range int64(300) { // more than one transaction of the usual server takes
		refs = append(refs, slotRef("exports", (n*7)%300))
	}
	at := b.set(refs[3], slot("three")).Mod
	b.set(refs[250], slot("late"))
	for _, fresh := range []bool{true, false} {
		loaded, err := b.Store.Load(b.t.Context(), refs, fresh)
		if err != nil {
			b.t.Fatalf("Load(fresh %v): %v", fresh, err)
		}
		b.checkLoaded(refs, loaded)
		if !fresh {
			continue // any recent state will do
		}
		for i, e := range loaded.Entries {
			if (e.Mod != 0) != (i == 3 || i == 250) || (e.Value != nil) != (e.Mod != 0) {
				b.t.Errorf("entry %d is %+v", i, e)
			}
		}
		if loaded.Entries[3].Mod != at || loaded.Rev < at {
			b.t.Errorf("loaded at %d: got %+v, want mod revision %d", loaded.Rev, loaded.Entries[3], at)
		}
	}
	if none, err := b.Store.Load(b.t.Context(), nil, true); err != nil || len(none.Entries) != 0 || none.Rev < at {
		b.t.Errorf("Load(nothing): got %+v, %v; want no entries at a revision of %d or later", none, err, at)
	}
}

// loadAtOneRevision reads, over and over, keys that every transaction makes the same.
func loadAtOneRevision(b *bench) {
	var refs []reserve.Ref
	for n := range int64(150) {
		refs = append(refs, slotRef("exports", n))
	}
	// The transactions write a few of them, spread over all that are read.
	few := []reserve.Ref{refs[0], refs[70], refs[149]}
	var writer sync.WaitGroup
	defer writer.Wait()
	writer.Go(func() {
		for i := range int64(200) {
			var g reserve.Group
			g.Tenant, g.Catalog = tenant, reserve.AnyCatalog
			s := slot("x")
			s.Beats = i + 1
			for _, ref := range few {
				g.Writes = append(g.Writes, reserve.Write{Ref: ref, Value: s})
			}
			if _, err := b.Store.Apply(b.t.Context(), reserve.Batch{Groups: []reserve.Group{g}}); err != nil {
				b.t.Errorf("Apply %d: %v", i, err)
				return
			}
		}
	})
	for i := range 100 {
		loaded, err := b.Store.Load(b.t.Context(), refs, i%2 == 0)
		if err != nil {
			b.t.Errorf("Load %d: %v", i, err)
			return
		}
		first := loaded.Entries[0]
		for _, n := range []int{70, 149} {
			if e := loaded.Entries[n]; e.Mod != first.Mod || !Same(e.Value, first.Value) {
				b.t.Errorf("loaded at %d: %+v and %+v were always written together", loaded.Rev, first, e)
				return
			}
		}
	}
}

func loadFresh(b *bench) {
	ref := slotRef("exports", 0)
	for range 50 {
		res := b.apply(put(ref, slot("x")))
		loaded, err := b.Store.Load(b.t.Context(), []reserve.Ref{ref}, true)
		if err != nil || loaded.Rev < res.Rev || loaded.Entries[0].Mod != res.Rev {
			b.t.Fatalf("after revision %d: got %+v, %v", res.Rev, loaded, err)
		}
	}
}
