package reserve

import (
	"slices"
	"sync/atomic"
	"time"
)

// job is one request on its way through the desk.
type job struct {
	tenant  string
	start   time.Time // real clock, read once when it came in: holds are counted from here
	at      time.Time // windows' clock, read at the same moment
	until   time.Time // when it is answered with why, unless it was decided before
	why     error     // the trouble it is in: ErrContended, ErrUnavailable
	fresh   int64     // a read begun after it came in saw this revision; 0: none has yet
	tries   int
	asked   bool         // by a caller, not by the desk itself
	apart   bool         // its batch met a dead lease: short TTLs are sent apart from the rest
	full    bool         // the store has no space: what only deletes may still be done
	waited  bool         // it has waited once for a hold that had run out
	after   *live        // that hold
	sent    bool         // an attempt may have been committed: what stands under its id is its own
	sure    bool         // it lost to something: nothing is guessed for it any more
	flown   atomic.Int32 // pending, flown or abandoned: whether its caller may say that nothing happened
	touches []Ref        // keys no other batch may work on meanwhile

	step   func(f *fold, j *job) move
	finish func(rev int64) result  // after the commit at rev; set by step
	mark   func() (Write, []Guard) // settles an unknown outcome: put where a guard of the attempt looked, under what shows that it did nothing
	stands func() bool             // after a lost answer: the picture shows that the attempt was committed; nil: cannot tell
	blind  bool                    // an unknown outcome of it cannot be settled: a consume without a key
	reply  func(result)            // called once
}

// The stages of a job as its caller sees it. One that was abandoned is never sent; of one that
// has flown nobody knows yet what became.
const (
	stagePending int32 = iota
	stageFlown
	stageAbandoned
)

// fly marks that the job is about to be sent; false: its caller has gone and was told that
// nothing happened.
func (j *job) fly() bool {
	return j.flown.CompareAndSwap(stagePending, stageFlown) || j.flown.Load() == stageFlown
}

// abandon says that nobody waits any more; true: it has not been sent and never will be.
func (j *job) abandon() bool { return j.flown.CompareAndSwap(stagePending, stageAbandoned) }

// result is a job's answer.
type result struct {
	res    Reservation
	dec    Decision
	queued bool // not granted yet: its ticket stands in a line
	replay bool
	err    error
}

// moveKind is what a job wants next.
type moveKind uint8

const (
	answered moveKind = iota + 1 // done, nothing to write: the answer rests on a fresh state
	changes                      // joins the batch; answered after its commit
	loads                        // needs keys the picture has not met
	confirms                     // would answer no: needs a read begun after it came in
	parks                        // a key of its is in flight
	awaits                       // until the watch has reached job.fresh
	outlasts                     // until job.after, which has run out, is settled
)

// move is what a step returns.
type move struct {
	kind  moveKind
	res   result
	draft *draft
	need  []Ref // loads, confirms
	on    Ref   // parks
}

func answer(r result) move    { return move{kind: answered, res: r} }
func fail(err error) move     { return move{kind: answered, res: result{err: err}} }
func load(refs ...Ref) move   { return move{kind: loads, need: refs} }
func park(on Ref) move        { return move{kind: parks, on: on} }
func change(d *draft) move    { return move{kind: changes, draft: d} }
func confirm(need []Ref) move { return move{kind: confirms, need: need} }

// refuse answers no (or not found, or gone) when a read begun after the request came in has
// been seen and nothing of this batch was part of the decision; else it asks for that read.
// Promise 4 of GUARANTEES.md.
func (j *job) refuse(f *fold, r result, rests []Ref) move {
	if j.fresh == 0 || f.p.rev < j.fresh {
		return confirm(append(slices.Clip(rests), Ref{Tenant: j.tenant, Kind: RefCatalog}))
	}
	for _, ref := range rests {
		if !f.untouched(ref) {
			return confirm(rests)
		}
		if rev := f.p.mixed(ref); rev > 0 {
			j.fresh = rev
			return move{kind: awaits}
		}
	}
	return answer(r)
}

// mixed is the revision the watch must reach before a set of slots is one that ever stood:
// a slot taken by us may be known before one that another replica gave back earlier. 0: it is.
func (p *picture) mixed(r Ref) int64 {
	if !r.isSet() {
		return 0
	}
	if s := p.sets[p.names.key(r)]; s != nil && s.learnt > p.rev {
		return s.learnt
	}
	return 0
}

// blocked is the first of refs that a batch in flight works on.
func (f *fold) blocked(refs []Ref) (Ref, bool) {
	for _, r := range refs {
		if f.busy(r) {
			return r, true
		}
	}
	return Ref{}, false
}
