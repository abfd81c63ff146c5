package reserve

import (
	"time"

	"github.com/holdfast-dev/holdfast/limits"
)

// Why says what kept a verdict from being yes.
type Why uint8

// The reasons of a refusal.
const (
	Fits      Why = iota
	NoSlot        // every usable slot of a concurrent limit is taken
	UsedUp        // a counting limit has no room for the cost now
	Paused        // the limit is paused
	NeverFits     // waiting would not help
)

// Verdict is one limit's part of a decision. Used and Remaining are after the decision when it
// was granted, and as they stand when it was refused or is a preview.
type Verdict struct {
	Rule      limits.Rule
	Scope     string // whose count it is
	Why       Why    // Fits: this limit has nothing against it
	Shadow    bool   // the limit is not enforced: whatever Why says, it refuses nothing
	Used      int64
	Remaining int64     // never below 0
	Excess    int64     // held above a lowered amount
	Waiting   int       // how many others stand in its line, when the decision is a refusal
	RetryAt   time.Time // when the cost would fit; zero: nothing to wait for, or nobody knows
	ResetsAt  time.Time // when present use has left the window; zero: none, or never
}

// refuses reports whether the verdict keeps the request from being granted.
func (v *Verdict) refuses() bool { return v.Why != Fits && !v.Shadow }

// Holder is one live hold as a refusal or a list shows it.
type Holder struct {
	ID                   ID
	Limit, Scope         string
	Slot                 int64 // -1 for a hold without a slot
	Fence                int64
	Name, Host           string
	Subject              limits.Subject // zero when this replica has not met the record
	Principal            string         // likewise
	Owner                Owner          // likewise
	Since, Beat, Expires time.Time      // wall clock of this replica
	Beats                int64
	TTL                  time.Duration
}

// Decision is the answer over all limits that match. A refusal is a value, not an error.
type Decision struct {
	At       time.Time // the one reading of the clock it rests on (windows' clock)
	Allowed  bool
	Verdicts []Verdict     // by limit id
	Binding  int           // index of the strictest refusing verdict; -1 when allowed or blocked
	Block    *limits.Block // set when the subject is blocked
	Waiting  int           // how many stand in the line of the binding limit
	Holders  []Holder      // who holds the slots of the binding limit, at most MaxHoldersShown
}

// MaxHoldersShown bounds the holders a refusal names.
const MaxHoldersShown = 20

// RetryAt is the first instant at which the whole request could be granted if nobody else
// came: the longest wait among the refusing limits. ok is false when waiting would not help
// or nobody can tell.
func (d Decision) RetryAt() (at time.Time, ok bool) {
	if d.Block != nil {
		return d.Block.Until, !d.Block.Until.IsZero()
	}
	for _, v := range d.Verdicts {
		switch {
		case !v.refuses():
		case v.RetryAt.IsZero():
			return time.Time{}, false
		case v.RetryAt.After(at):
			at, ok = v.RetryAt, true
		}
	}
	return at, ok
}

// binding picks the strictest refusing verdict: never-fits first, then a wait without a known
// end, then the longest wait, then the id. -1 when none refuses.
func binding(vs []Verdict) int {
	best := -1
	for i := range vs {
		if !vs[i].refuses() {
			continue
		}
		if best < 0 || stricter(vs[i], vs[best]) {
			best = i
		}
	}
	return best
}

// stricter orders refusing verdicts; ties keep the lower id, since verdicts come by id.
func stricter(a, b Verdict) bool {
	if (a.Why == NeverFits) != (b.Why == NeverFits) {
		return a.Why == NeverFits
	}
	if a.RetryAt.IsZero() != b.RetryAt.IsZero() {
		return a.RetryAt.IsZero()
	}
	return a.RetryAt.After(b.RetryAt)
}
