package storetest

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/reserve"
)

func historyCases() []testCase {
	return []testCase{
		{"history tells again what a follower was told, of one tenant", toldAgain},
		{"history that ends where nothing happens to the tenant ends all the same", endsInSilence},
		{"history stops when it is told to", stopsEarly},
	}
}

// past collects what History tells of the revisions above after and up to upTo.
func (b *bench) past(after, upTo int64) (all []reserve.Update) {
	b.t.Helper()
	err := b.History.History(b.t.Context(), tenant, after, upTo, func(u reserve.Update) bool {
		all = append(all, u)
		return true
	})
	if err != nil {
		b.t.Fatalf("History(%d, %d): %v", after, upTo, err)
	}
	return all
}

func toldAgain(b *bench) {
	foreign := reserve.Ref{Tenant: tenant + "-other", Kind: reserve.RefSlot, Limit: "exports", Scope: "user/x"}
	b.set(slotRef("exports", 0), slot("before"))
	l := b.follow()
	start := l.last
	var last int64
	for n := range int64(6) {
		b.apply(put(slotRef("gpu", n), slot("x")), put(slotRef("exports", 0), slot("again")))
		b.apply(put(foreign, slot("theirs")))
		last = b.apply(put(slotRef("gpu", n), nil)).Rev
	}
	l.awaitRev(last)
	var want []revision
	for _, c := range l.changes {
		if c.puts == 2 || c.deletes > 0 {
			want = append(want, c)
		}
	}
	var got []revision
	for _, u := range b.past(start, last) {
		got = append(got, revision{u.Rev, len(u.Entries), len(u.Deleted)})
		for _, e := range u.Entries {
			if e.Ref.Tenant != tenant || e.Mod != u.Rev || e.Create > e.Mod || e.Value == nil {
				b.t.Errorf("history of revision %d: %+v", u.Rev, e)
			}
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || len(want) != 12 {
		b.t.Errorf("history after %d up to %d: got %v, want %v", start, last, got, want)
	}
	middle := want[4].rev
	if got := b.past(middle, last); len(got) != 7 || got[0].Rev <= middle {
		b.t.Errorf("history after %d: %d revisions, want the 7 after it", middle, len(got))
	}
	if got := b.past(last, last); len(got) != 0 {
		b.t.Errorf("history of nothing: %+v", got)
	}
}

func endsInSilence(b *bench) {
	foreign := reserve.Ref{Tenant: tenant + "-other", Kind: reserve.RefSlot, Limit: "exports", Scope: "user/x"}
	l := b.follow()
	b.set(slotRef("exports", 0), slot("x"))
	last := b.apply(put(foreign, slot("theirs"))).Rev
	l.awaitRev(last)
	if got := b.past(l.last-2, last); len(got) != 1 {
		b.t.Errorf("history up to %d: %+v, want the one of this tenant", last, got)
	}
}

func stopsEarly(b *bench) {
	l := b.follow()
	start := l.last
	for n := range int64(5) {
		b.set(slotRef("exports", n), slot("x"))
	}
	last := b.apply(put(slotRef("exports", 9), slot("x"))).Rev
	l.awaitRev(last)
	told := 0
	err := b.History.History(b.t.Context(), tenant, start, last, func(reserve.Update) bool {
		told++
		return told < 2
	})
	if err != nil || told != 2 {
		b.t.Errorf("told to stop after 2: told %d, %v", told, err)
	}
}
