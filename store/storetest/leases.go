package storetest

import (
	"errors"
	"time"

	"github.com/holdfast-dev/holdfast/reserve"
)

func leaseCases() []testCase {
	return []testCase{
		{"a put on a dead lease fails the whole batch", deadLease},
		{"a dead lease in a group that loses harms nobody", deadLeaseOfLoser},
		{"the end of a lease deletes all its keys at once, and not before", leaseEnds},
		{"putting again moves a key to another lease, or to none", leaseMoves},
		{"a lease that suits is kept, one that does not is not", leaseKept},
	}
}

// noLease is a lease that nobody was ever granted.
const noLease = reserve.LeaseID(0x1234567890abcd)

// endsWithin is how much longer than asked for a short lease may last: the wheel's surplus, its
// grain, whole seconds and a scan (DESIGN.md section 6), and as much again for a busy machine.
const endsWithin = 30 * time.Second

// briefly is what cases ask for that wait for the end.
const briefly = 2 * time.Second

// lease asks for a lease; the marker comes first, as it does for everybody.
func (b *bench) lease(keep time.Duration, have reserve.LeaseID) (id reserve.LeaseID, marker int64) {
	b.t.Helper()
	marker, err := b.Leases.Marker(b.t.Context())
	if err != nil {
		b.t.Fatalf("Marker: %v", err)
	}
	if id, err = b.Leases.Lease(b.t.Context(), keep, 0, have); err != nil || id == 0 {
		b.t.Fatalf("Lease(%v, have %x): got %x, %v", keep, have, id, err)
	}
	return id, marker
}

// hang puts value under ref on a lease; 0 is none.
func (b *bench) hang(ref reserve.Ref, value any, id reserve.LeaseID) reserve.Entry {
	b.t.Helper()
	g := put(ref, value)
	g.Writes[0].Lease = id
	b.wantCommitted(b.apply(g), true)
	return b.get(ref)
}

// runOut lets leases run until the follower has been told that all refs were deleted, and
// returns their deletions.
func (b *bench) runOut(l *listener, refs ...reserve.Ref) []reserve.Deleted {
	b.t.Helper()
	for range int(endsWithin / time.Second) {
		b.Advance(time.Second)
		if told := l.deletedSoon(refs); len(told) >= len(refs) {
			return told
		}
	}
	b.t.Fatalf("%v after a lease of %v was to end its keys are not deleted; told of %+v", endsWithin, briefly, l.gone)
	return nil
}

func deadLease(b *bench) {
	one, two, three := slotRef("exports", 0), slotRef("exports", 1), slotRef("exports", 2)
	before := b.set(one, slot("before"))
	dead := put(two, slot("x"))
	dead.Writes[0].Lease = noLease
	_, err := b.Store.Apply(b.t.Context(), reserve.Batch{
		Groups: []reserve.Group{put(one, slot("after")), dead, put(three, slot("y"))},
	})
	lost, ok := errors.AsType[*reserve.LeaseError](err)
	if !ok || lost.ID != 0 && lost.ID != noLease {
		b.t.Fatalf("a put on lease %x: got error %v, want *LeaseError", noLease, err)
	}
	b.wantValue(one, slot("before"))
	if got := b.get(one); got.Mod != before.Mod {
		b.t.Errorf("mod revision went from %d to %d, want nothing written", before.Mod, got.Mod)
	}
	b.wantValue(two, nil)
	b.wantValue(three, nil)
}

func deadLeaseOfLoser(b *bench) {
	taken, free := slotRef("exports", 0), slotRef("exports", 1)
	b.set(taken, slot("holder"))
	loser := when(put(taken, slot("x")), modIs(taken, 0))
	loser.Writes[0].Lease = noLease
	b.wantCommitted(b.apply(loser, put(free, slot("y"))), false, true)
	b.wantValue(free, slot("y"))
}

func leaseEnds(b *bench) {
	refs := []reserve.Ref{slotRef("exports", 0), slotRef("exports", 1), slotRef("gpu", 0)}
	lasting := slotRef("exports", 2)
	b.set(lasting, slot("on no lease"))
	l := b.follow()
	id, marker := b.lease(briefly, 0)
	var groups []reserve.Group
	for _, ref := range refs {
		g := put(ref, slot("x"))
		g.Writes[0].Lease = id
		groups = append(groups, g)
	}
	b.wantCommitted(b.send(reserve.Batch{Marker: marker, Groups: groups}), yes(len(groups))...)
	for _, e := range b.load(refs...) {
		if e.Lease != id {
			b.t.Errorf("%+v hangs on lease %x, want %x", e.Ref, e.Lease, id)
		}
	}
	b.Advance(briefly)
	for _, e := range b.load(refs...) {
		if e.Mod == 0 {
			b.t.Fatalf("%+v is gone %v after a lease of %v was asked for", e.Ref, briefly, briefly)
		}
	}
	told := b.runOut(l, refs...)
	for _, d := range told {
		if d.Rev != told[0].Rev {
			b.t.Errorf("the keys of one lease were deleted at revisions %+v, want one", told)
		}
	}
	for _, ref := range refs {
		b.wantValue(ref, nil)
	}
	b.wantValue(lasting, slot("on no lease"))
	dead := put(refs[0], slot("too late"))
	dead.Writes[0].Lease = id
	if _, err := b.Store.Apply(b.t.Context(), reserve.Batch{Groups: []reserve.Group{dead}}); !isLeaseError(err) {
		b.t.Errorf("a put on the lease that has ended: got error %v, want *LeaseError", err)
	}
}

func isLeaseError(err error) bool {
	_, ok := errors.AsType[*reserve.LeaseError](err)
	return ok
}

// leaseMoves is how a hold is extended.
func leaseMoves(b *bench) {
	extended, freed, left := slotRef("exports", 0), slotRef("exports", 1), slotRef("exports", 2)
	l := b.follow()
	short, _ := b.lease(briefly, 0)
	long, _ := b.lease(10*time.Minute, 0)
	if short == long {
		b.t.Fatalf("leases for %v and for 10 minutes are both %x", briefly, short)
	}
	first := b.hang(extended, slot("x"), short)
	b.hang(freed, slot("x"), short)
	b.hang(left, slot("x"), short)
	if got := b.hang(extended, slot("y"), long); got.Lease != long || got.Create != first.Create {
		b.t.Errorf("after putting again: got %+v, want lease %x and create revision %d", got, long, first.Create)
	}
	if got := b.hang(freed, slot("y"), 0); got.Lease != 0 {
		b.t.Errorf("after putting on no lease: got %+v", got)
	}
	b.Advance(briefly)
	b.runOut(l, left)
	b.wantValue(extended, slot("y"))
	b.wantValue(freed, slot("y"))
	b.wantValue(left, nil)
}

func leaseKept(b *bench) {
	have, marker := b.lease(time.Minute, 0)
	if got, _ := b.lease(30*time.Second, have); got != have {
		b.t.Errorf("30 s with a lease of a minute: got %x, want it kept (%x)", got, have)
	}
	longer, again := b.lease(5*time.Minute, have)
	if longer == have {
		b.t.Errorf("5 minutes with a lease of a minute: it was kept")
	}
	if again != marker {
		b.t.Errorf("the marker went from %d to %d for no reason", marker, again)
	}
	b.Leases.Gone(have)
	if got, _ := b.lease(30*time.Second, have); got == have {
		b.t.Errorf("a lease said to be gone was given out again: %x", got)
	}
}
