package storetest

import (
	"slices"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

func listCases() []testCase {
	return []testCase{
		{"records come in pages, ascending by id", recordPages},
		{"counts come in pages by subject, those shared by all left out", usagePages},
		{"the trail comes in pages by rank", trailPages},
		{"hours of a limit come in order, from the first to before the last", hours},
		{"tenants are those that have any key", tenants},
	}
}

func recordID(n int) (id reserve.ID) {
	id[0], id[15] = byte(n*37), byte(n+1) // not in the order they are put, and never zero
	return id
}

func recordRef(tenant string, kind reserve.RefKind, n int) reserve.Ref {
	return reserve.Ref{Tenant: tenant, Kind: kind, ID: recordID(n)}
}

func record(n int) *reserve.Record { return &reserve.Record{ID: recordID(n), State: reserve.Held} }

func recordPages(b *bench) {
	const records = 25
	var want []reserve.ID
	var groups []reserve.Group
	for n := range records {
		groups = append(groups, put(recordRef(tenant, reserve.RefOpen, n), record(n)))
		want = append(want, recordID(n))
	}
	slices.SortFunc(want, func(a, b reserve.ID) int { return slices.Compare(a[:], b[:]) })
	groups = append(groups,
		put(recordRef(tenant, reserve.RefEnded, 200), record(200)),
		put(recordRef("default-2", reserve.RefOpen, 201), record(201)),
		put(recordRef("a", reserve.RefOpen, 202), record(202)))
	b.wantCommitted(b.apply(groups...), yes(len(groups))...)

	var got []reserve.ID
	var after reserve.ID
	for len(got) <= records {
		page := b.records(tenant, reserve.RefOpen, after, 10)
		if len(page) == 0 {
			break
		}
		for _, e := range page {
			if e.Mod == 0 || e.Ref.Kind != reserve.RefOpen || e.Ref.Tenant != tenant || e.Value.(*reserve.Record).ID != e.Ref.ID {
				b.t.Errorf("a page of open records holds %+v", e)
			}
			got = append(got, e.Ref.ID)
		}
		after = page[len(page)-1].Ref.ID
	}
	if !slices.Equal(got, want) {
		b.t.Errorf("pages of 10: got %v, want %v", got, want)
	}
	if ended := b.records(tenant, reserve.RefEnded, reserve.ID{}, 10); len(ended) != 1 || ended[0].Ref.ID != recordID(200) {
		b.t.Errorf("ended records: got %+v, want the one", ended)
	}
	if none := b.records("nobody", reserve.RefOpen, reserve.ID{}, 10); len(none) != 0 {
		b.t.Errorf("records of a tenant that has none: got %+v", none)
	}
}

func (b *bench) records(tenant string, kind reserve.RefKind, after reserve.ID, most int) []reserve.Entry {
	b.t.Helper()
	page, err := b.Lister.Records(b.t.Context(), tenant, kind, after, most)
	if err != nil || len(page) > most {
		b.t.Fatalf("Records(%s, %d, after %v, %d): got %d, %v", tenant, kind, after, most, len(page), err)
	}
	return page
}

// usagePages does not say which order is ascending: escaping may change it. Whatever it is,
// pages bring each subject once.
func usagePages(b *bench) {
	var want []string
	var groups []reserve.Group
	usage := func(tenant, scope, limit string) reserve.Group {
		ref := reserve.Ref{Tenant: tenant, Kind: reserve.RefUsage, Scope: scope, Limit: limit}
		return put(ref, reserve.Counts{{Limit: "calls", Generation: int64(len(groups))}})
	}
	for _, id := range []string{"a", "a/b", "a b", "%2F", "_", "ab", "Z", "é", "u_42", "😀"} {
		for _, kind := range []string{"org", "user", "user2"} {
			scope := limits.Subject{Kind: kind, ID: id}.Scope()
			want = append(want, scope)
			groups = append(groups, usage(tenant, scope, ""))
		}
	}
	groups = append(groups, usage(tenant, limits.AllScope, "gpu"), usage(tenant, limits.AllScope, "calls"),
		usage("default-2", "user/a", ""), usage("a", "user/a", ""))
	b.wantCommitted(b.apply(groups...), yes(len(groups))...)

	slices.Sort(want)
	for _, most := range []int{7, 1000} {
		if got := b.scopesInPages(len(want), most); !slices.Equal(got, want) {
			b.t.Errorf("pages of %d: got %q, want %q", most, got, want)
		}
	}
}

// scopesInPages are the scopes of all pages of counts, sorted; it stops above expected.
func (b *bench) scopesInPages(expected, most int) []string {
	b.t.Helper()
	var got []string
	after := ""
	for len(got) <= expected {
		page, err := b.Lister.Usage(b.t.Context(), tenant, after, most)
		if err != nil || len(page) > most {
			b.t.Fatalf("Usage(after %q, %d): got %d, %v", after, most, len(page), err)
		}
		if len(page) == 0 {
			break
		}
		for _, e := range page {
			if _, ok := e.Value.(reserve.Counts); !ok || e.Ref.Tenant != tenant || e.Mod == 0 {
				b.t.Errorf("a page of counts holds %+v", e)
			}
			got = append(got, e.Ref.Scope)
		}
		after = got[len(got)-1]
	}
	slices.Sort(got)
	return got
}

func trailPages(b *bench) {
	note := func(tenant string, rank int64) reserve.Group {
		return put(reserve.Ref{Tenant: tenant, Kind: reserve.RefTrail, N: rank}, &reserve.Note{At: slot("").Since, Actor: "user:ops"})
	}
	ranks := []int64{1<<62 + 5, 3, 20, 100, 1 << 40}
	groups := []reserve.Group{note("default-2", 4), note("a", 4)}
	for _, n := range ranks {
		groups = append(groups, note(tenant, n))
	}
	b.wantCommitted(b.apply(groups...), yes(len(groups))...)
	slices.Sort(ranks)
	var got []int64
	for after := int64(0); len(got) <= len(ranks); after = got[len(got)-1] {
		page, err := b.Lister.Trail(b.t.Context(), tenant, after, 2)
		if err != nil || len(page) > 2 {
			b.t.Fatalf("Trail(after %d): got %d, %v", after, len(page), err)
		}
		if len(page) == 0 {
			break
		}
		for _, e := range page {
			if n, ok := e.Value.(*reserve.Note); !ok || n.Actor != "user:ops" || e.Ref.Tenant != tenant {
				b.t.Errorf("a page of the trail holds %+v", e)
			}
			got = append(got, e.Ref.N)
		}
	}
	if !slices.Equal(got, ranks) {
		b.t.Errorf("pages of 2: got %v, want %v", got, ranks)
	}
}

func hours(b *bench) {
	ref := func(kind reserve.RefKind, limit string, hour int64) reserve.Ref {
		return reserve.Ref{Tenant: tenant, Kind: kind, Limit: limit, N: hour}
	}
	groups := []reserve.Group{
		put(ref(reserve.RefRollup, "calls-2", 10), &reserve.Rollup{Started: 99}),
		put(ref(reserve.RefTally, "calls", 10), &reserve.Tally{More: true}),
	}
	for _, hour := range []int64{12, 9, 10, 501_000, 0} {
		groups = append(groups, put(ref(reserve.RefRollup, "calls", hour), &reserve.Rollup{Started: hour}))
	}
	b.wantCommitted(b.apply(groups...), yes(len(groups))...)
	for _, c := range []struct {
		from, to int64
		most     int
		want     []int64
	}{
		{0, 1 << 60, 100, []int64{0, 9, 10, 12, 501_000}},
		{9, 12, 100, []int64{9, 10}},
		{-5, 501_000, 3, []int64{0, 9, 10}},
		{13, 500_000, 100, nil},
		{12, 12, 100, nil},
		{12, 9, 100, nil},
		{0, 100, 0, nil},
	} {
		page, err := b.Lister.Hours(b.t.Context(), tenant, reserve.RefRollup, "calls", c.from, c.to, c.most)
		var got []int64
		for _, e := range page {
			if r, ok := e.Value.(*reserve.Rollup); !ok || r.Started != e.Ref.N {
				b.t.Errorf("hours hold %+v", e)
			}
			got = append(got, e.Ref.N)
		}
		if err != nil || !slices.Equal(got, c.want) {
			b.t.Errorf("hours %d to %d, at most %d: got %v, %v; want %v", c.from, c.to, c.most, got, err, c.want)
		}
	}
	if page, err := b.Lister.Hours(b.t.Context(), tenant, reserve.RefTally, "calls", 0, 100, 9); err != nil || len(page) != 1 {
		b.t.Errorf("tallies: got %+v, %v; want the one", page, err)
	}
}

func tenants(b *bench) {
	b.wantTenants()
	one := slotRef("exports", 0)
	two := reserve.Ref{Tenant: "acme-2", Kind: reserve.RefCatalog}
	three := recordRef("acme", reserve.RefEnded, 1)
	replica := reserve.Ref{Kind: reserve.RefReplica, Scope: "r1"}
	b.apply(put(one, slot("x")), put(two, reserve.Seq(1)), put(three, record(1)), put(replica, &reserve.Replica{ID: "r1"}))
	b.wantTenants("acme", "acme-2", tenant)
	b.apply(put(two, nil))
	b.wantTenants("acme", tenant)
}

func (b *bench) wantTenants(want ...string) {
	b.t.Helper()
	got, err := b.Lister.Tenants(b.t.Context())
	slices.Sort(got)
	if err != nil || !slices.Equal(got, want) {
		b.t.Errorf("Tenants: got %q, %v; want %q", got, err, want)
	}
}
