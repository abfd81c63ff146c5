package storetest

import (
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

func followCases() []testCase {
	return []testCase{
		{"a follower is first told all that stands, then each change in order", resetThenChanges},
		{"a follower is told of every kind of key", everyKind},
		{"nothing is lost or told twice under a thousand random writes", randomWrites},
		{"two followers are told the same", twoFollowers},
		{"a follower whose history was compacted away starts over", startsOver},
	}
}

func resetThenChanges(b *bench) {
	before, gone := slotRef("exports", 0), slotRef("exports", 1)
	b.set(before, slot("before"))
	b.set(gone, slot("gone"))
	b.apply(put(gone, nil))
	l := b.follow()
	l.wantStands(map[reserve.Ref]any{before: slot("before")})
	start := l.last
	var want []revision
	for n := range int64(5) {
		res := b.apply(put(slotRef("gpu", n), slot("x")), put(slotRef("gpu", n+5), slot("y")), put(before, slot("again")))
		want = append(want, revision{rev: res.Rev, puts: 3})
	}
	res := b.apply(put(before, nil), put(gone, nil), put(slotRef("gpu", 0), slot("z")))
	want = append(want, revision{rev: res.Rev, puts: 1, deletes: 1})
	l.awaitRev(res.Rev)
	if got := fmt.Sprint(l.changes); got != fmt.Sprint(want) {
		b.t.Errorf("changes after revision %d: got %v, want %v", start, got, want)
	}
	stands := map[reserve.Ref]any{slotRef("gpu", 0): slot("z"), slotRef("gpu", 5): slot("y")}
	for n := int64(1); n < 5; n++ {
		stands[slotRef("gpu", n)], stands[slotRef("gpu", n+5)] = slot("x"), slot("y")
	}
	l.wantStands(stands)
}

// wantStands checks the picture, markers of replicas aside.
func (l *listener) wantStands(want map[reserve.Ref]any) {
	l.t.Helper()
	for ref, e := range l.stands {
		if w, ok := want[ref]; ref.Kind != reserve.RefReplica && (!ok || !Same(e.Value, w)) {
			l.t.Errorf("told that under %+v stands %s, want %s", ref, show(e.Value), show(w))
		}
	}
	for ref, w := range want {
		if _, ok := l.stands[ref]; !ok {
			l.t.Errorf("not told of %+v: %s", ref, show(w))
		}
	}
}

// everyKind puts a key of each kind twice, before and after the follower began: the first time
// it is told of some kinds, the second of all.
func everyKind(b *bench) {
	subject := limits.Subject{Kind: "user", ID: "u_42"}
	all := []keyed{
		{reserve.Ref{Tenant: tenant, Kind: reserve.RefCatalog}, reserve.Seq(7)},
		{reserve.Ref{Tenant: tenant, Kind: reserve.RefLimit, Limit: "exports"}, sampleLimit("exports")},
		{reserve.Ref{Tenant: tenant, Kind: reserve.RefOverride, Limit: "exports"}, &limits.Override{Limit: "exports", Amount: 2}},
		{
			reserve.Ref{Tenant: tenant, Kind: reserve.RefOverride, Limit: "exports", Scope: subject.Scope()},
			&limits.Override{Limit: "exports", Subject: subject, Amount: 3},
		},
		{reserve.Ref{Tenant: tenant, Kind: reserve.RefFile}, &limits.File{Digest: "d", Plans: map[string]limits.Plan{"pro": {"exports": {Amount: 9}}}}},
		{reserve.Ref{Tenant: tenant, Kind: reserve.RefPlan, Scope: subject.Scope()}, &limits.SubjectPlan{Subject: subject, Plan: "pro"}},
		{reserve.Ref{Tenant: tenant, Kind: reserve.RefBlock, Scope: subject.Scope()}, &limits.Block{Subject: subject}},
		{slotRef("exports", 0), slot("x")},
		{
			reserve.Ref{Tenant: tenant, Kind: reserve.RefHold, ID: recordID(1)},
			&reserve.Slot{Hold: recordID(1), TTL: reserve.MinTTL, Since: slot("").Since, Beat: slot("").Beat},
		},
		{recordRef(tenant, reserve.RefOpen, 1), record(1)},
		{recordRef(tenant, reserve.RefEnded, 2), &reserve.Record{ID: recordID(2), State: reserve.Released, EndedAt: slot("").Since}},
		{reserve.Ref{Tenant: tenant, Kind: reserve.RefUsage, Scope: subject.Scope()}, reserve.Counts{{Limit: "calls", Generation: 1}}},
		{reserve.Ref{Tenant: tenant, Kind: reserve.RefUsage, Scope: limits.AllScope, Limit: "gpu"}, reserve.Counts{{Limit: "gpu"}}},
		{reserve.Ref{Tenant: tenant, Kind: reserve.RefReplay, ID: recordID(3)}, &reserve.Replay{State: reserve.Committed, At: slot("").Since}},
		{ticketRef(5), ticket("x")},
		{reserve.Ref{Tenant: tenant, Kind: reserve.RefTrail, N: 7}, &reserve.Note{At: slot("").Since, Actor: "user:ops"}},
		{reserve.Ref{Tenant: tenant, Kind: reserve.RefRollup, Limit: "exports", N: 7}, &reserve.Rollup{Started: 1}},
		{reserve.Ref{Tenant: tenant, Kind: reserve.RefTally, Limit: "exports", N: 7}, &reserve.Tally{More: true}},
		{reserve.Ref{Tenant: tenant, Kind: reserve.RefExceeded, Limit: "exports", Scope: subject.Scope()}, &reserve.Exceeded{At: slot("").Since, Amount: 3, Used: 3}},
		{reserve.Ref{Tenant: tenant, Kind: reserve.RefWebhook, Scope: "wh_1"}, &reserve.Webhook{URL: "https://a.example", Secret: reserve.Secret("s")}},
		{reserve.Ref{Tenant: tenant, Kind: reserve.RefDelivery, Scope: "wh_1"}, &reserve.Delivery{Next: 1}},
		{reserve.Ref{Tenant: tenant, Kind: reserve.RefParcel, Scope: "wh_1"}, &reserve.Parcel{Events: []reserve.Letter{{ID: "1.0", At: slot("").Since, Body: []byte("{}")}}}},
		{reserve.Ref{Kind: reserve.RefDuty, Scope: "webhooks"}, &reserve.Duty{Replica: "r1", Since: slot("").Since}},
		{reserve.Ref{Kind: reserve.RefReplica, Scope: "r-other"}, &reserve.Replica{ID: "r-other", Clock: slot("").Since}},
		{reserve.Ref{Kind: reserve.RefSecret, Scope: "cursors"}, reserve.Secret("0123456789abcdef")},
	}
	var groups []reserve.Group
	for _, k := range all {
		groups = append(groups, put(k.ref, k.value))
	}
	b.apply(groups...)
	l := b.follow()
	for _, k := range all {
		if _, told := l.stands[k.ref]; told != followed(k.ref.Kind) {
			b.t.Errorf("told by the Reset of %+v: %v, want %v", k.ref, told, followed(k.ref.Kind))
		}
	}
	res := b.apply(groups...)
	l.awaitRev(res.Rev)
	for _, k := range all {
		if e := l.stands[k.ref]; k.ref.Kind != reserve.RefSecret && (e.Mod != res.Rev || !Same(e.Value, k.value)) {
			b.t.Errorf("after putting %+v again at %d: told %+v", k.ref, res.Rev, e)
		}
	}
}

func sampleLimit(id string) *limits.Limit {
	for _, l := range limits.Samples() {
		if l.ID == id {
			return &l
		}
	}
	panic("no such sample: " + id)
}

// randomWrites has several writers put and delete a few keys at random, in transactions of up
// to three groups, some of which lose. Afterwards the follower must have been told of exactly
// the revisions that the writers made, and its picture must be what a load shows.
func randomWrites(b *bench) {
	const writers, writes, keys = 4, 250, 20
	l := b.follow()
	results := make(chan revision, writers*writes)
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 42))
			for range writes {
				groups := randomGroups(random, keys)
				res, err := b.Store.Apply(b.t.Context(), reserve.Batch{Groups: groups})
				if err != nil {
					b.t.Errorf("Apply(%+v): %v", groups, err)
					return
				}
				results <- committedPuts(res, groups)
			}
		})
	}
	all.Wait()
	close(results)
	puts := map[int64]int{}
	last := l.last
	for r := range results {
		last = max(last, r.rev)
		if r.puts > 0 {
			puts[r.rev] = r.puts
		}
	}
	l.awaitRev(last)
	l.checkPuts(puts)
	b.checkPicture(l, keys)
}

// randomGroups are one to three groups on keys of their own: puts, deletes and guarded puts.
func randomGroups(random *rand.Rand, keys int) []reserve.Group {
	var groups []reserve.Group
	for _, n := range random.Perm(keys)[:1+random.IntN(3)] {
		ref := slotRef("exports", int64(n))
		switch random.IntN(4) {
		case 0:
			groups = append(groups, put(ref, nil))
		case 1:
			groups = append(groups, when(put(ref, slot("creator")), modIs(ref, 0)))
		default:
			groups = append(groups, put(ref, slot("x")))
		}
	}
	return groups
}

// committedPuts is how many puts the batch made. How many keys it deleted it cannot know.
func committedPuts(res reserve.Result, groups []reserve.Group) revision {
	r := revision{rev: res.Rev}
	for i, o := range res.Outcomes {
		if o.Committed && groups[i].Writes[0].Value != nil {
			r.puts++
		}
	}
	return r
}

// checkPuts compares what was told, by revision, with what was put.
func (l *listener) checkPuts(want map[int64]int) {
	l.t.Helper()
	told := map[int64]int{}
	for _, c := range l.changes {
		if c.puts > 0 {
			told[c.rev] = c.puts
		}
	}
	for rev, n := range want {
		if told[rev] != n {
			l.t.Errorf("revision %d put %d keys, told of %d", rev, n, told[rev])
		}
	}
	for rev, n := range told {
		if want[rev] == 0 {
			l.t.Errorf("told of %d puts at revision %d, which nobody made", n, rev)
		}
	}
}

// checkPicture compares what the follower thinks stands with a fresh load.
func (b *bench) checkPicture(l *listener, keys int) {
	b.t.Helper()
	for n := range int64(keys) {
		want := b.get(slotRef("exports", n))
		if got := l.stands[want.Ref]; got.Mod != want.Mod || got.Create != want.Create {
			b.t.Errorf("told that slot %d stands at (%d, %d), loaded (%d, %d)", n, got.Create, got.Mod, want.Create, want.Mod)
		}
	}
}

func twoFollowers(b *bench) {
	one := b.follow()
	b.set(slotRef("exports", 0), slot("x"))
	two := b.follow()
	b.set(slotRef("exports", 1), slot("y"))
	last := b.apply(put(slotRef("exports", 0), nil))
	for _, l := range []*listener{one, two} {
		l.awaitRev(last.Rev)
		l.wantStands(map[reserve.Ref]any{slotRef("exports", 1): slot("y")})
	}
}

func startsOver(b *bench) {
	if b.Compact == nil {
		b.t.Skip("this store's bench cannot compact under a follower")
	}
	kept, lost := slotRef("exports", 0), slotRef("exports", 1)
	b.set(lost, slot("x"))
	l := b.follow()
	b.set(kept, slot("y"))
	b.apply(put(lost, nil)) // perhaps never told as such: the Reset leaves it out
	b.Compact()
	l.await("a second Reset", func() bool { return l.resets > 1 })
	l.wantStands(map[reserve.Ref]any{kept: slot("y")})
	l.awaitRev(b.apply(put(lost, slot("z"))).Rev)
	l.wantStands(map[reserve.Ref]any{kept: slot("y"), lost: slot("z")})
}
