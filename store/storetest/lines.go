package storetest

import (
	"math"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

func lineCases() []testCase {
	return []testCase{
		{"a range of ranks in which nobody stands is empty, its end left out", emptyRange},
		{"only tickets of that very line are in its range", ownLine},
		{"a ticket that is put or deleted in the same batch stands as before for every guard", rangeBeforePuts},
		{"a group that wants no line is not made while anybody stands in one of its tenant's", noLine},
		{"the session lease is one, and tickets hang on it", sessionLease},
		{"a session lease that has ended is found out, and another is had", sessionEnds},
	}
}

// ticketRef names a place in the line of one limit for one subject.
func ticketRef(rank int64) reserve.Ref {
	return reserve.Ref{Tenant: tenant, Kind: reserve.RefTicket, Limit: "exports", Scope: "user/u_42", N: rank}
}

// ticket is a value that differs from others by its owner's name.
func ticket(name string) *reserve.Ticket {
	since := time.UnixMilli(1_800_000_000_123).UTC()
	return &reserve.Ticket{
		Replica: "r1", Subject: limits.Subject{Kind: "user", ID: "u_42"}, Action: "export", Cost: 1,
		Owner: reserve.Owner{Name: name}, Since: since, Until: since.Add(time.Minute),
	}
}

// none is the guard that nobody stands from rank from up to below the rank to.
func none(from, to int64) reserve.Guard {
	return reserve.Guard{Ref: ticketRef(to), Cond: reserve.NoneFrom, Rev: from}
}

// holds checks whether a write under guards is made.
func (b *bench) holds(want bool, guards ...reserve.Guard) {
	b.t.Helper()
	g := put(slotRef("exports", 9), slot("x"))
	g.Guards = guards
	if got := b.apply(g).Outcomes[0].Committed; got != want {
		b.t.Errorf("guards %+v stand: %v, want %v", guards, got, want)
	}
}

func emptyRange(b *bench) {
	b.holds(true, none(0, math.MaxInt64))
	for _, rank := range []int64{5, 10, 1_800_000_000_000_000} {
		b.set(ticketRef(rank), ticket("x"))
	}
	b.holds(true, none(0, 5))
	b.holds(false, none(0, 6))
	b.holds(false, none(5, 10))
	b.holds(true, none(6, 10))
	b.holds(true, none(0, 5), none(6, 10))
	b.holds(false, none(0, 5), none(6, 11))
	b.holds(false, none(11, math.MaxInt64))
	b.apply(put(ticketRef(1_800_000_000_000_000), nil))
	b.holds(true, none(11, math.MaxInt64))
}

func noLine(b *bench) {
	made := func(want bool, catalog int64) {
		b.t.Helper()
		g, other := put(slotRef("exports", 9), slot("x")), put(slotRef("exports", 8), slot("y"))
		g.NoLine, g.Catalog, g.Reads = true, catalog, []reserve.Ref{slotRef("exports", 9)}
		other.Catalog = catalog
		res := b.apply(g, other)
		b.wantCommitted(res, want, true)
		if res.Outcomes[0].Moved == want {
			b.t.Errorf("under %d: got %+v, want Moved %v", catalog, res.Outcomes[0], !want)
		}
	}
	catalog := b.set(catalogRef, reserve.Seq(1)).Mod
	theirs := ticketRef(7)
	theirs.Tenant = "other"
	b.set(theirs, ticket("x"))
	for _, under := range []int64{catalog, reserve.AnyCatalog} {
		made(true, under)
		far := ticketRef(1)
		far.Limit, far.Scope = "zzz", limits.AllScope
		b.set(far, ticket("x"))
		made(false, under)
		b.apply(put(far, nil))
		made(true, under)
	}
	b.set(ticketRef(7), ticket("x"))
	made(false, catalog)
}

func ownLine(b *bench) {
	for _, other := range []reserve.Ref{
		{Tenant: tenant, Kind: reserve.RefTicket, Limit: "exports", Scope: limits.AllScope, N: 1},
		{Tenant: tenant, Kind: reserve.RefTicket, Limit: "exports", Scope: "user/u_4", N: 1},
		{Tenant: tenant, Kind: reserve.RefTicket, Limit: "exports", Scope: "user/u_42/0", N: 1},
		{Tenant: tenant, Kind: reserve.RefTicket, Limit: "exports.", Scope: "user/u_42", N: 1},
		{Tenant: "other", Kind: reserve.RefTicket, Limit: "exports", Scope: "user/u_42", N: 1},
	} {
		b.set(other, ticket("x"))
	}
	b.holds(true, none(0, math.MaxInt64))
	b.set(ticketRef(1), ticket("x"))
	b.holds(false, none(0, math.MaxInt64))
}

func rangeBeforePuts(b *bench) {
	first := b.set(ticketRef(1), ticket("first"))
	leave := when(put(first.Ref, nil), modIs(first.Ref, first.Mod))
	follow := put(slotRef("exports", 0), slot("second"))
	follow.Guards = []reserve.Guard{none(0, 2)}
	b.wantCommitted(b.apply(leave, follow), true, false)
	join := when(put(first.Ref, ticket("again")), modIs(first.Ref, 0))
	b.wantCommitted(b.apply(join, follow), true, true)
}

// session asks for the session lease.
func (b *bench) session() reserve.LeaseID {
	b.t.Helper()
	id, err := b.Session.Session(b.t.Context())
	if err != nil || id == 0 {
		b.t.Fatalf("Session: got %x, %v", id, err)
	}
	return id
}

func sessionLease(b *bench) {
	id := b.session()
	if again := b.session(); again != id {
		b.t.Errorf("Session: got %x, then %x; want the same", id, again)
	}
	if e := b.hang(ticketRef(1), ticket("x"), id); e.Lease != id {
		b.t.Errorf("the ticket hangs on %x, want %x", e.Lease, id)
	}
	if stands, err := b.Session.Stands(b.t.Context(), id); !stands || err != nil {
		b.t.Errorf("Stands(%x): got %v, %v, want true", id, stands, err)
	}
	if stands, err := b.Session.Stands(b.t.Context(), noLease); stands || err != nil {
		b.t.Errorf("Stands of a lease that never was: got %v, %v", stands, err)
	}
}

// sessionEnds lets the lease run out: nobody keeps it alive here.
func sessionEnds(b *bench) {
	l := b.follow()
	id := b.session()
	ref := ticketRef(1)
	b.hang(ref, ticket("x"), id)
	if told := b.runOut(l, ref); len(told) != 1 {
		b.t.Fatalf("told of deletions %+v, want the ticket's", told)
	}
	if stands, err := b.Session.Stands(b.t.Context(), id); stands || err != nil {
		b.t.Errorf("Stands(%x) after its end: got %v, %v", id, stands, err)
	}
	b.Session.Ended(id)
	if next := b.session(); next == id {
		b.t.Errorf("Session after its end: got %x again", next)
	}
}
