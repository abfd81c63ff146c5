// Package storetest is the conformance suite of reserve.Store, Lister, Historian and Leaser: one set of
// cases that the in-memory model and the store on etcd must pass alike, and the generators of
// values it is written with.
//
// It knows what package reserve promises of the keyspace and nothing of how it is kept.
package storetest

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/reserve"
)

// Kinds of faults that Bench.Fault is asked for.
const (
	FaultBefore  = "before"  // the next n Applies fail with ErrUnavailable; nothing happens
	FaultAfter   = "after"   // the next n are applied, then ErrUnknownOutcome
	FaultLate    = "late"    // the next n are ErrUnknownOutcome and are kept back
	FaultRelease = "release" // what was kept back is applied now, in order; n is ignored
)

// Bench is one empty keyspace of its own and what the suite may do to it. Revisions may be
// shared with other keyspaces; nothing else may.
type Bench struct {
	Store   reserve.Store
	Lister  reserve.Lister
	History reserve.Historian
	Leases  reserve.Leaser // of Replica
	Replica string
	Session reserve.Sessions // of Replica

	// Advance lets leases run for d, by a clock of the test's or by waiting.
	Advance func(d time.Duration)

	// Fault arranges a fault of one of the kinds above; nil when it cannot.
	Fault func(kind string, n int)

	// Compact forgets history in such a way that a follower that is under way starts over;
	// nil when it cannot.
	Compact func()
}

// Exercise runs the suite. open is called once a case, by tests that run in parallel; it
// registers its own cleanup. On a store whose leases run in real time the suite takes about
// twenty seconds, most of it waiting for the shortest leases there are.
func Exercise(t *testing.T, open func(t *testing.T) Bench) {
	t.Helper()
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(&bench{Bench: open(t), t: t})
		})
	}
}

// testCase is one sentence about the store.
type testCase struct {
	name string
	run  func(b *bench)
}

func cases() []testCase {
	var all []testCase
	for _, some := range [][]testCase{
		guardCases(), groupCases(), writeCases(), leaseCases(), loadCases(),
		listCases(), followCases(), historyCases(), faultCases(), valueCases(), lineCases(),
	} {
		all = append(all, some...)
	}
	return all
}
