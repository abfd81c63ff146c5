package catalogue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-dev/holdfast/reserve"
)

// Bounds of one edit.
const (
	maxTries   = 20
	editWithin = 5 * time.Second
	leastPause = 2 * time.Millisecond
	mostPause  = 250 * time.Millisecond
)

// standing is what an edit is decided on: one fresh read.
type standing struct {
	rev     int64 // of the catalogue key, 0 when there is none yet
	seq     int64
	entries []reserve.Entry // of the refs asked for, in order
	note    reserve.Entry   // of the attempt in doubt, if it has one
}

// planner decides what to write, in refs that were read, and whether anything needs to be done
// at all: an edit without writes still raises the counter. It may be called several times and
// must not remember anything from one call to the next.
type planner func(at standing) (writes []reserve.Write, needed bool, err error)

// done is what became of an edit. changed is false when there was nothing to write.
type done struct {
	rev, seq int64 // of the catalogue after it
	changed  bool
}

// run reads refs, plans and writes until that succeeds.
func (e *Editor) run(ctx context.Context, tenant string, refs []reserve.Ref, plan planner) (done, error) {
	if err := ctx.Err(); err != nil {
		return done{}, fmt.Errorf("%w: %w", reserve.ErrUnavailable, err)
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	var doubt *attempt
	for try := range maxTries {
		if !pause(ctx, try) {
			break
		}
		d, next, err := e.try(ctx, tenant, refs, plan, doubt)
		if !errors.Is(err, errAgain) {
			return d, err
		}
		doubt = next
	}
	if doubt != nil {
		return done{}, doubt.cause
	}
	return done{}, reserve.ErrContended
}

// errAgain says that an edit is to be tried once more.
var errAgain = errors.New("catalogue: try again")

// try is one round of run. With errAgain comes the attempt that is still in doubt, if any.
func (e *Editor) try(
	ctx context.Context, tenant string, refs []reserve.Ref, plan planner, doubt *attempt,
) (done, *attempt, error) {
	at, err := e.read(ctx, tenant, refs, doubt.noteRef())
	if err != nil {
		if doubt != nil {
			return done{}, doubt, errAgain
		}
		return done{}, nil, err
	}
	var writes []reserve.Write
	needed := true
	switch d, err := doubt.settle(at); {
	case err == nil || errors.Is(err, reserve.ErrUnknownOutcome):
		return d, nil, err
	case errors.Is(err, errOpen):
		// It may still come. The same once more excludes it: both compare one revision.
		writes = doubt.writes
	default:
		doubt = nil
		if writes, needed, err = plan(at); err != nil || !needed {
			return done{rev: at.rev, seq: at.seq}, nil, err
		}
		writes = e.noted(tenant, at, writes)
	}
	rev, err := e.send(ctx, tenant, at, writes)
	switch {
	case err == nil:
		return done{rev: rev, seq: at.seq + 1, changed: true}, nil, nil
	case errors.Is(err, reserve.ErrUnknownOutcome):
		return done{}, &attempt{at: at, writes: writes, cause: err}, errAgain
	case doubt != nil || errors.Is(err, errAgain):
		return done{}, doubt, errAgain
	}
	return done{}, nil, err
}

// read loads the catalogue's counter, refs, and the note of an attempt in doubt (nil: there is
// none) at one revision.
func (e *Editor) read(ctx context.Context, tenant string, refs []reserve.Ref, note *reserve.Ref) (standing, error) {
	all := append([]reserve.Ref{{Tenant: tenant, Kind: reserve.RefCatalog}}, refs...)
	if note != nil {
		all = append(all, *note)
	}
	loaded, err := e.cfg.Store.Load(ctx, all, true)
	if err != nil {
		return standing{}, err
	}
	first := loaded.Entries[0]
	if first.Fault != nil {
		return standing{}, fmt.Errorf("catalogue: the counter of %s: %w", tenant, first.Fault)
	}
	seq, _ := first.Value.(reserve.Seq)
	at := standing{rev: first.Mod, seq: int64(seq), entries: loaded.Entries[1 : 1+len(refs)]}
	if note != nil {
		at.note = loaded.Entries[1+len(refs)]
	}
	return at, nil
}

// send applies writes under the catalogue of at, and raises its counter. It returns the new
// revision. Errors: errAgain when the catalogue has moved or a lease was lost; the store's.
func (e *Editor) send(ctx context.Context, tenant string, at standing, writes []reserve.Write) (int64, error) {
	all := append([]reserve.Write{{
		Ref: reserve.Ref{Tenant: tenant, Kind: reserve.RefCatalog}, Value: reserve.Seq(at.seq + 1),
	}}, writes...)
	var guards []reserve.Guard
	for _, w := range writes {
		if w.Ref.Kind == reserve.RefTrail {
			guards = append(guards, reserve.Guard{Ref: w.Ref, Cond: reserve.ModIs}) // its rank is its own
		}
	}
	marker, err := e.fillLeases(ctx, all)
	if err != nil {
		return 0, err
	}
	res, err := e.cfg.Store.Apply(ctx, reserve.Batch{
		Marker: marker,
		Groups: []reserve.Group{{Tenant: tenant, Catalog: at.rev, Guards: guards, Writes: all}},
	})
	if lost, ok := errors.AsType[*reserve.LeaseError](err); ok {
		e.cfg.Leases.Gone(lost.ID)
		return 0, errAgain
	}
	switch {
	case err != nil:
		return 0, err
	case res.MarkerGone:
		e.cfg.Leases.Gone(0)
		return 0, errAgain
	case !res.Outcomes[0].Committed:
		return 0, errAgain
	}
	return res.Rev, nil
}

// fillLeases gives a lease to each write that asks for one. The marker is taken first: one
// made later would not vouch for the lease.
func (e *Editor) fillLeases(ctx context.Context, writes []reserve.Write) (marker int64, err error) {
	for i := range writes {
		w := &writes[i]
		if w.Keep <= 0 {
			continue
		}
		if marker == 0 {
			if marker, err = e.cfg.Leases.Marker(ctx); err != nil {
				return 0, err
			}
		}
		if w.Lease, err = e.cfg.Leases.Lease(ctx, w.Keep, w.Grain, w.Have); err != nil {
			return 0, err
		}
	}
	return marker, nil
}

// detached is ctx without its cancellation: an edit is brought to its end. Its deadline holds,
// but none later than editWithin.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	inner, cancel := context.WithTimeout(context.WithoutCancel(ctx), editWithin)
	deadline, ok := ctx.Deadline()
	if !ok {
		return inner, cancel
	}
	sooner, cancelSooner := context.WithDeadline(inner, deadline)
	return sooner, func() { cancelSooner(); cancel() }
}

// pause waits before a further try: at random, longer each time. It reports whether there is
// time for one.
func pause(ctx context.Context, try int) bool {
	if try == 0 {
		return ctx.Err() == nil
	}
	most := min(leastPause<<min(try, 10), mostPause)
	timer := time.NewTimer(leastPause + rand.N(most))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
