package reserve

import (
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/windows"
)

// find is the count of limit within cs; ok is false when it has none.
func (cs Counts) find(limit string) (LimitCount, bool) {
	if i, ok := slices.BinarySearchFunc(cs, limit, byLimit); ok {
		return cs[i], true
	}
	return LimitCount{}, false
}

func byLimit(c LimitCount, limit string) int { return strings.Compare(c.Limit, limit) }

// with is cs with c in place of what its limit had; cs itself is left as it was.
func (cs Counts) with(c LimitCount) Counts {
	i, ok := slices.BinarySearchFunc(cs, c.Limit, byLimit)
	next := make(Counts, 0, len(cs)+1)
	next = append(append(next, cs[:i]...), c)
	if ok {
		i++
	}
	return append(next, cs[i:]...)
}

// standingOf reads from cs what r has counted: nothing when the stored generation is older
// than the limit's. A greater one was set by a reset of this subject alone and counts.
func (cs Counts) standingOf(r limits.Rule) (use windows.Usage, generation int64) {
	c, ok := cs.find(r.ID)
	if !ok || c.Generation < r.Generation {
		return windows.Usage{}, r.Generation
	}
	return c.Use, c.Generation
}

// charge adds cost to r's count in cs.
func (cs Counts) charge(r limits.Rule, scope string, cost int64, now time.Time) (Counts, Charge, error) {
	use, generation := cs.standingOf(r)
	next, at, err := r.Window.Charge(use, now, cost)
	if err != nil {
		return cs, Charge{}, err
	}
	return cs.with(LimitCount{Limit: r.ID, Generation: generation, Use: next}),
		Charge{Limit: r.ID, Scope: scope, Generation: generation, Slice: at, Cost: cost}, nil
}

// refund takes cost of c back out of the very slice it was charged to; nothing when the
// limit is gone or counts under another generation now.
func (cs Counts) refund(l *limits.Limit, c Charge, cost int64, now time.Time) (Counts, int64) {
	have, ok := cs.find(c.Limit)
	if !ok || l == nil || have.Generation != c.Generation {
		return cs, 0
	}
	use, refunded := l.Window.Refund(have.Use, c.Slice, now, cost)
	if refunded == 0 {
		return cs, 0
	}
	have.Use = use
	return cs.with(have), refunded
}

// tidy drops what has nothing left to remember, and says how long the rest must be kept:
// the longest of its windows, 0 for ever. It is called on what is about to be written.
//
// A generation above the limit's is the memory of a reset of this subject alone; it stays,
// or an old charge could be refunded from new counts.
func (cs Counts) tidy(c *limits.Catalog, now time.Time) (kept Counts, keep time.Duration) {
	kept, keep = make(Counts, 0, len(cs)), leastUsageKeep
	forEver := false
	for _, lc := range cs {
		l, ok := c.Limit(lc.Limit)
		if !ok || lc.Generation < l.Generation || !l.Window.Counting() {
			continue
		}
		if l.Window.Empty(lc.Use, now) && lc.Generation == l.Generation {
			continue
		}
		kept = append(kept, lc)
		switch l.Window.Kind {
		case windows.Total:
			forEver = true
		case windows.Bucket:
			keep = max(keep, l.Window.FullRefill(max(l.Amount, lc.Use.Level/windows.NanoUnit+1)))
		default:
			keep = max(keep, l.Window.Keep(now))
		}
		if lc.Generation > l.Generation {
			keep = max(keep, resetMemory)
		}
	}
	if forEver {
		keep = 0
	}
	return kept, keep
}

// How long usage keys live beyond their last change, at least.
const (
	leastUsageKeep = time.Minute
	resetMemory    = 25 * time.Hour // of a reset of one subject, while open charges may still be refunded
)

// outcome of a settlement, beside the counts it leaves.
type settlement struct {
	charged, refunded int64
}

// settle computes what ending rec as to does to the counts of each scope it charged.
// counts and set read and replace the value of one scope; actual is the cost of a commit
// (< 0: the estimate). Pure but for set. Rule: API.md section 5, DESIGN.md section 4.
//
// A release refunds all; an expiry as the limit's onExpiry says; a force as an expiry's
// refund; a commit refunds what was not used to the very slice charged, and charges what was
// used beyond the estimate to the present one, unless a limit rejects that: *OverageError.
func settle(rec *Record, to State, actual int64, cat *limits.Catalog, now time.Time,
	counts func(Charge) Counts, set func(Charge, Counts),
) (settlement, error) {
	if actual < 0 || to != Committed {
		actual = rec.Cost
	}
	if to == Committed && actual > rec.Cost {
		if err := roomForMore(rec, actual, cat, now, counts); err != nil {
			return settlement{}, err
		}
	}
	end := settlement{refunded: rec.Cost} // a release and a force give all back
	if to == Committed {
		end = settlement{charged: actual, refunded: max(0, rec.Cost-actual)}
	}
	for _, c := range rec.Charges {
		l, _ := cat.Limit(c.Limit)
		back := giveBack(l, c, to, actual)
		if to == Expired && back == 0 && c.Cost > 0 {
			end = settlement{charged: rec.Cost}
		}
		switch {
		case back > 0:
			if next, refunded := counts(c).refund(l, c, back, now); refunded > 0 {
				set(c, next)
			}
		case to == Committed && actual > c.Cost && l != nil:
			rule := limits.Rule{Limit: l, Amount: l.Amount}
			next, _, err := counts(c).charge(rule, c.Scope, actual-c.Cost, now)
			if err != nil {
				return settlement{}, &OverageError{Limit: c.Limit, Asked: actual}
			}
			set(c, next)
		}
	}
	return end, nil
}

// giveBack is how much of one charge goes back.
func giveBack(l *limits.Limit, c Charge, to State, actual int64) int64 {
	switch {
	case to == Committed:
		return max(0, c.Cost-actual)
	case to == Expired && l != nil && l.OnExpiry == limits.ChargeOnExpiry:
		return 0
	}
	return c.Cost
}

// roomForMore asks the limits that reject an overage whether the difference fits.
func roomForMore(rec *Record, actual int64, cat *limits.Catalog, now time.Time, counts func(Charge) Counts) error {
	for _, c := range rec.Charges {
		l, ok := cat.Limit(c.Limit)
		if !ok || l.Overage != limits.RejectOverage || l.Shadow {
			continue
		}
		rule := cat.Rule(l, rec.Subject)
		use, _ := counts(c).standingOf(rule)
		if !l.Window.Fits(use, now, rule.Amount, actual-c.Cost) {
			return &OverageError{Limit: l.ID, Asked: actual, Remaining: l.Window.Remaining(use, now, rule.Amount)}
		}
	}
	return nil
}
