package memory

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/reserve"
)

// Fault says what becomes of one Apply.
type Fault uint8

// The faults an Apply can meet.
const (
	NoFault Fault = iota
	Before        // ErrUnavailable; nothing happened
	After         // applied, then ErrUnknownOutcome
	Late          // ErrUnknownOutcome now; applied when ReleaseLate is called
)

// View is the keyspace as one replica sees it: reserve.Store and reserve.Lister with faults
// and a lag of its own. Safe for concurrent use.
type View struct {
	keys    *keyspace
	replica string

	mu    sync.Mutex
	pick  func(reserve.Batch) Fault
	next  []Fault // what the next Applies meet, before pick is asked
	late  []reserve.Batch
	down  bool
	full  bool
	coin  *rand.Rand // whether what is refused for want of space was applied all the same
	lag   time.Duration
	delay time.Duration
}

// SetFaults has pick asked at every Apply; nil: no faults. It may be called from several
// goroutines at once if Apply is.
func (v *View) SetFaults(pick func(b reserve.Batch) Fault) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.pick = pick
}

// FailNext lets the next n Applies meet f; calls add up.
func (v *View) FailNext(f Fault, n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.next = append(v.next, slices.Repeat([]Fault{f}, n)...)
}

// ReleaseLate applies, in order, the batches that met Late, and returns how many they were.
// Their guards are evaluated now, so they may well lose.
func (v *View) ReleaseLate() int {
	v.mu.Lock()
	late := v.late
	v.late = nil
	v.mu.Unlock()
	for _, b := range late {
		v.keys.mu.Lock()
		_, _ = v.keys.apply(v.replica, b) // nobody is left to be told
		v.keys.mu.Unlock()
	}
	return len(late)
}

// SetDown cuts the replica off: every call is ErrUnavailable and followers are told nothing,
// until it is set to false; then they go on where they were.
func (v *View) SetDown(down bool) {
	v.mu.Lock()
	v.down = down
	v.mu.Unlock()
	v.wakeFollowers()
}

// SetFull is etcd's alarm of no space: a batch that would put anything fails with an error
// that is both ErrFull and ErrUnknownOutcome, and a coin thrown from seed says whether it was
// applied; one that only deletes passes. Leases are not granted.
func (v *View) SetFull(full bool, seed uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.full, v.coin = full, rand.New(rand.NewPCG(seed, 0))
}

// SetLag holds every update back for lag; below 0: until it is set to 0 or more.
func (v *View) SetLag(lag time.Duration) {
	v.mu.Lock()
	v.lag = lag
	v.mu.Unlock()
	v.wakeFollowers()
}

// SetDelay makes every Apply and Load take that long before the keyspace is asked, by real
// time or that of the synctest bubble. When the caller's context ends first nothing happens,
// but an Apply cannot know that: ErrUnknownOutcome.
func (v *View) SetDelay(delay time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.delay = delay
}

func (v *View) wakeFollowers() {
	v.keys.mu.Lock()
	defer v.keys.mu.Unlock()
	v.keys.feed.wakeAll()
}

// hindrance is what keeps followers from being told.
func (v *View) hindrance() (down bool, lag time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.down, v.lag
}

// Load is reserve.Store's. Every read is fresh.
// Errors: ErrUnavailable when the view is down or ctx has ended.
func (v *View) Load(ctx context.Context, refs []reserve.Ref, _ bool) (reserve.Loaded, error) {
	if err := v.reach(ctx); err != nil {
		return reserve.Loaded{}, fmt.Errorf("%w: %w", reserve.ErrUnavailable, err)
	}
	v.keys.mu.Lock()
	defer v.keys.mu.Unlock()
	v.keys.tick()
	return reserve.Loaded{Rev: v.keys.rev, Entries: v.keys.read(refs)}, nil
}

// Apply is reserve.Store's, with the view's faults.
func (v *View) Apply(ctx context.Context, b reserve.Batch) (reserve.Result, error) {
	switch err := v.reach(ctx); {
	case errors.Is(err, errCut):
		return reserve.Result{}, fmt.Errorf("%w: %w", reserve.ErrUnknownOutcome, ctx.Err())
	case err != nil:
		return reserve.Result{}, fmt.Errorf("%w: %w", reserve.ErrUnavailable, err)
	}
	fault := v.fault(b)
	if fault == Before {
		return reserve.Result{}, fmt.Errorf("%w: refused before it was sent", reserve.ErrUnavailable)
	}
	if fault == Late {
		return reserve.Result{}, v.keepForLater(b)
	}
	full, applied := v.noSpaceFor(b)
	if full && !applied {
		return reserve.Result{}, errNoSpace
	}
	v.keys.mu.Lock()
	res, err := v.keys.apply(v.replica, b)
	v.keys.mu.Unlock()
	switch {
	case full:
		return reserve.Result{}, errNoSpace
	case fault == After:
		return reserve.Result{}, fmt.Errorf("%w: the answer was lost", reserve.ErrUnknownOutcome)
	}
	return res, err
}

var (
	errDown    = errors.New("memory: this replica is cut off")
	errCut     = errors.New("memory: the caller went while it was under way")
	errNoSpace = fmt.Errorf("%w: %w", reserve.ErrFull, reserve.ErrUnknownOutcome)
)

// reach takes the view's delay. Errors: that of ctx and errDown before anything was sent,
// errCut when ctx ended on the way.
func (v *View) reach(ctx context.Context) error {
	v.mu.Lock()
	down, delay := v.down, v.delay
	v.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if down {
		return errDown
	}
	if delay <= 0 {
		return nil
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return errCut
	case <-timer.C:
		return nil
	}
}

// fault is what this Apply meets.
func (v *View) fault(b reserve.Batch) Fault {
	v.mu.Lock()
	pick := v.pick
	if len(v.next) > 0 {
		f := v.next[0]
		v.next = v.next[1:]
		v.mu.Unlock()
		return f
	}
	v.mu.Unlock()
	if pick == nil {
		return NoFault
	}
	return pick(b)
}

// keepForLater keeps a copy: the caller may use its slices again, as it may with a real store.
func (v *View) keepForLater(b reserve.Batch) error {
	b.Groups = slices.Clone(b.Groups)
	for i := range b.Groups {
		g := &b.Groups[i]
		g.Guards, g.Writes, g.Reads = slices.Clone(g.Guards), slices.Clone(g.Writes), slices.Clone(g.Reads)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.late = append(v.late, b)
	return fmt.Errorf("%w: no answer in time", reserve.ErrUnknownOutcome)
}

// noSpaceFor reports whether b is refused for want of space, and whether it is applied all the
// same. The server looks at what a transaction may put, not at what it would.
func (v *View) noSpaceFor(b reserve.Batch) (full, applied bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.full || !putsAnything(b) {
		return false, false
	}
	return true, v.coin.IntN(2) == 0
}

func putsAnything(b reserve.Batch) bool {
	for i := range b.Groups {
		for j := range b.Groups[i].Writes {
			if b.Groups[i].Writes[j].Value != nil {
				return true
			}
		}
	}
	return false
}

// leasable reports why no lease can be granted to this replica now.
func (v *View) leasable() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.down:
		return fmt.Errorf("%w: %w", reserve.ErrUnavailable, errDown)
	case v.full:
		return reserve.ErrFull
	}
	return nil
}
