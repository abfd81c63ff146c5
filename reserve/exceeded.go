package reserve

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
)

// Bounds of what is told of limits that were exceeded (ADR 31).
const (
	ExceededEvery = time.Hour // a limit and scope is told of at most once in it, by all replicas together

	exceededGrain  = 10 * time.Minute // of their leases: a few hold them all
	mostExceeded   = 16_384           // remembered as told, in the younger of two halves
	exceededQueued = 1_024            // to be told; of one past it a later refusal tells
	exceededBatch  = 32               // of a transaction
	exceededRest   = 250 * time.Millisecond
	exceededTries  = 8 // of one, while the store is away
	lastExceeded   = 2 * time.Second
)

// Exceeded is the value of a mark: a check was refused because a limit was used up, for the
// first time within the hour. The key is made by a compare, so whoever is first among the
// replicas tells; it hangs on a lease and goes by itself.
type Exceeded struct {
	At           time.Time // by the clock of windows
	Amount, Used int64
	Action       limits.Action // of the check
}

// exceeding finds out which refusals are to be told, and tells them away from their path. A
// refusal of what was told within the hour costs a look at memory. Safe for concurrent use.
type exceeding struct {
	mu     sync.Mutex
	young  map[Ref]time.Time // when it was told
	old    map[Ref]time.Time
	queue  []*overrun
	queued map[Ref]struct{}
	wake   chan struct{}
}

// overrun is one that is to be told.
type overrun struct {
	ref   Ref
	mark  *Exceeded
	had   int64 // revision of the mark it replaces
	lease LeaseID
	tries int
}

func newExceeding() *exceeding {
	return &exceeding{young: map[Ref]time.Time{}, queued: map[Ref]struct{}{}, wake: make(chan struct{}, 1)}
}

// note queues what d says was exceeded and was not told within the hour before at.
func (e *exceeding) note(r *Request, d *Decision, at time.Time) {
	for i := range d.Verdicts {
		v := &d.Verdicts[i]
		if v.Shadow || v.Why != NoSlot && v.Why != UsedUp {
			continue
		}
		ref := Ref{Tenant: r.Tenant, Kind: RefExceeded, Limit: v.Rule.ID, Scope: v.Scope}
		e.add(&overrun{ref: ref, mark: &Exceeded{At: at.UTC().Truncate(time.Millisecond), Amount: v.Rule.Amount, Used: v.Used, Action: r.Action}})
	}
}

func (e *exceeding) add(o *overrun) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, queued := e.queued[o.ref]; queued || len(e.queue) >= exceededQueued || e.knows(o.ref, o.mark.At) {
		return
	}
	e.queue, e.queued[o.ref] = append(e.queue, o), struct{}{}
	e.stir()
}

func (e *exceeding) stir() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

func (e *exceeding) left() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.queue)
}

func (e *exceeding) knows(r Ref, at time.Time) bool {
	told, ok := e.young[r]
	if !ok {
		told, ok = e.old[r]
	}
	return ok && at.Sub(told) < ExceededEvery
}

// told remembers that r was told of at.
func (e *exceeding) told(r Ref, at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.young) >= mostExceeded {
		e.young, e.old = map[Ref]time.Time{}, e.young
	}
	e.young[r] = at
	delete(e.queued, r)
}

// take takes out what is to be told next. Each is then either told, given up, or put back.
func (e *exceeding) take(most int) []*overrun {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := min(len(e.queue), most)
	some := e.queue[:n:n]
	e.queue = e.queue[n:]
	return some
}

// again puts back what could not be told; what was tried too often is left to a later refusal.
func (e *exceeding) again(some []*overrun) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, o := range some {
		if o.tries++; o.tries >= exceededTries {
			delete(e.queued, o.ref)
			continue
		}
		e.queue = append(e.queue, o)
	}
}

// tellExceeded tells until ctx ends, and then what is left.
func (s *Service) tellExceeded(ctx context.Context) {
	rest := time.NewTimer(0)
	defer rest.Stop()
	for {
		select {
		case <-ctx.Done():
			s.tellLastExceeded()
			return
		case <-rest.C:
		}
		select {
		case <-ctx.Done():
			s.tellLastExceeded()
			return
		case <-s.exceeding.wake:
		}
		if s.putExceeded(); s.exceeding.left() > 0 {
			s.exceeding.stir()
		}
		rest.Reset(exceededRest)
	}
}

// tellLastExceeded is for a replica that ends: nobody else knows what it refused.
func (s *Service) tellLastExceeded() {
	until := s.cfg.Now().Add(lastExceeded)
	for range exceededQueued / exceededBatch {
		if s.putExceeded() == 0 || s.cfg.Now().After(until) {
			return
		}
	}
}

// putExceeded puts some marks in one transaction, and says how many it looked at. A mark that
// stands already and is older than the hour, by the clock of windows, is replaced.
func (s *Service) putExceeded() int {
	e := s.exceeding
	some := e.take(min(exceededBatch, max(s.cfg.MaxOps/4, 1)))
	if len(some) == 0 {
		return 0
	}
	groups := make([]Group, len(some))
	for i, o := range some {
		groups[i] = Group{
			Tenant: o.ref.Tenant, Catalog: AnyCatalog,
			Guards: []Guard{{Ref: o.ref, Cond: ModIs, Rev: o.had}},
			Writes: []Write{{Ref: o.ref, Value: o.mark, Keep: ExceededEvery, Grain: exceededGrain, Have: o.lease}},
			Reads:  []Ref{o.ref},
		}
	}
	res, err := s.desk.send(groups)
	if dead := (*LeaseError)(nil); errors.As(err, &dead) {
		s.cfg.Leases.Gone(dead.ID)
	}
	if err == nil && res.MarkerGone {
		s.cfg.Leases.Gone(0)
		err = ErrUnavailable
	}
	if err != nil {
		e.again(some)
		return len(some)
	}
	for i, o := range some {
		out := &res.Outcomes[i]
		if out.Committed {
			e.told(o.ref, o.mark.At)
			continue
		}
		o.had, o.lease = 0, 0
		if len(out.Seen) > 0 && out.Seen[0].Mod != 0 {
			stands := &out.Seen[0]
			o.had, o.lease = stands.Mod, stands.Lease
			switch mark, ok := stands.Value.(*Exceeded); {
			case !ok: // it cannot be read: whoever can has told
				e.told(o.ref, o.mark.At)
				continue
			case o.mark.At.Sub(mark.At) < ExceededEvery:
				e.told(o.ref, mark.At)
				continue
			}
		}
		e.again([]*overrun{o})
	}
	return len(some)
}
