package storetest

import (
	"errors"

	"github.com/holdfast-dev/holdfast/reserve"
)

func faultCases() []testCase {
	return []testCase{
		{"what fails before it is sent did not happen", failsBefore},
		{"what fails after it was sent may have happened", failsAfter},
		{"what comes late is judged when it comes", failsLate},
	}
}

// faulty skips the case where no faults can be arranged.
func (b *bench) faulty() {
	b.t.Helper()
	if b.Fault == nil {
		b.t.Skip("this store's bench arranges no faults")
	}
}

// fails applies g and returns when the error is want, and not also the other of the two that
// say what happened.
func (b *bench) fails(g reserve.Group, want error) {
	b.t.Helper()
	other := reserve.ErrUnavailable
	if errors.Is(want, reserve.ErrUnavailable) {
		other = reserve.ErrUnknownOutcome
	}
	res, err := b.Store.Apply(b.t.Context(), reserve.Batch{Groups: []reserve.Group{g}})
	if !errors.Is(err, want) || errors.Is(err, other) {
		b.t.Fatalf("Apply(%+v): got %+v, %v; want %v alone", g, res, err, want)
	}
}

func failsBefore(b *bench) {
	b.faulty()
	ref := slotRef("exports", 0)
	take := when(put(ref, slot("x")), modIs(ref, 0))
	b.Fault(FaultBefore, 2)
	b.fails(take, reserve.ErrUnavailable)
	b.fails(take, reserve.ErrUnavailable)
	b.wantValue(ref, nil)
	b.wantCommitted(b.apply(take), true)
}

func failsAfter(b *bench) {
	b.faulty()
	ref := slotRef("exports", 0)
	take := when(put(ref, slot("x")), modIs(ref, 0))
	b.Fault(FaultAfter, 1)
	b.fails(take, reserve.ErrUnknownOutcome)
	b.wantValue(ref, slot("x"))
	b.wantCommitted(b.apply(take), false)
	b.Fault(FaultAfter, 1)
	b.fails(take, reserve.ErrUnknownOutcome) // loses, and is not told even that
	b.wantValue(ref, slot("x"))
}

// failsLate is what an unknown outcome is settled against: DESIGN.md section 4.
func failsLate(b *bench) {
	b.faulty()
	free, marked := recordRef(tenant, reserve.RefOpen, 1), recordRef(tenant, reserve.RefOpen, 2)
	aborted := &reserve.Record{ID: recordID(2), State: reserve.Aborted}
	b.Fault(FaultLate, 2)
	b.fails(when(put(free, record(1)), modIs(free, 0)), reserve.ErrUnknownOutcome)
	b.fails(when(put(marked, record(2)), modIs(marked, 0)), reserve.ErrUnknownOutcome)
	b.wantValue(free, nil)
	b.wantCommitted(b.apply(when(put(marked, aborted), modIs(marked, 0))), true)
	b.Fault(FaultRelease, 0)
	b.wantValue(free, record(1))
	b.wantValue(marked, aborted)
}
