package reserve

import (
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/windows"
)

// mode is what a check does when it is granted.
type mode uint8

const (
	consume mode = iota // charges; needs a free slot of each concurrent limit, takes none
	preview             // changes nothing
	take                // charges, and takes a slot of each concurrent limit
)

// standing is what one limit looks like to one request.
type standing struct {
	rule  limits.Rule
	scope string
	use   windows.Usage // counting limits; the zero Usage when the stored generation is another
	gen   int64         // generation a charge is made under
	ahead bool          // others stand in its line before this request
	held  int64         // concurrent limits: slots held within the scope
	free  int64         // the slot to take, -1 when none is usable
	ends  ending
}

// lineMoves is when to come back while nothing but a line stands in the way: who is before is
// about to go.
const lineMoves = time.Second

// ending tells when holds of one set of slots end.
type ending interface {
	// endOf is when the k-th of them ends (k from 1), as a time from now; ok is false when
	// nobody knows.
	endOf(k int64) (in time.Duration, ok bool)
}

// decide says yes or no to cost under every limit at once. It is pure: what it needs of the
// world is in ss, and now is the one reading of the clock of the request.
//
// All or nothing: when one refuses, none is charged. A cost of 0 fits every counting limit;
// a concurrent limit wants its free slot whatever the cost. Rule: API.md section 4.
func decide(ss []standing, block *limits.Block, cost int64, m mode, now time.Time) Decision {
	d := Decision{At: now, Block: block, Verdicts: make([]Verdict, len(ss)), Binding: -1}
	for i := range ss {
		d.Verdicts[i] = judge(&ss[i], cost, now)
	}
	d.Binding = binding(d.Verdicts)
	d.Allowed = block == nil && d.Binding < 0
	if d.Allowed && m != preview {
		for i := range ss {
			spend(&ss[i], &d.Verdicts[i], cost, m, now)
		}
	}
	return d
}

// judge is one limit's part, as things stand before the request.
func judge(s *standing, cost int64, now time.Time) Verdict {
	v := Verdict{Rule: s.rule, Scope: s.scope, Shadow: s.rule.Shadow}
	concurrent := s.rule.Window.Kind == windows.Concurrent
	if concurrent {
		v.Used = s.held
		v.Remaining = max(0, s.rule.Amount-s.held)
		v.Excess = max(0, s.held-s.rule.Amount)
	} else {
		v.Used = s.rule.Window.Used(s.use, now)
		v.Remaining = s.rule.Window.Remaining(s.use, now, s.rule.Amount)
		v.Excess = max(0, v.Used-s.rule.Amount)
		v.ResetsAt, _ = s.rule.Window.ResetAt(s.use, now)
	}
	switch {
	case s.rule.Paused:
		v.Why, v.RetryAt = Paused, s.rule.PausedUntil
	case concurrent && s.rule.Amount == 0, !concurrent && cost > s.rule.Amount:
		v.Why = NeverFits
	case concurrent && (s.free < 0 || s.ahead || s.rule.Shadow && s.held >= s.rule.Amount):
		v.Why = NoSlot
		if s.ends != nil {
			// As many must end as are too many, and one.
			if in, ok := s.ends.endOf(max(1, s.held-s.rule.Amount+1)); ok {
				v.RetryAt = now.Add(in)
			}
		}
		if s.free >= 0 {
			v.RetryAt = now.Add(lineMoves)
		}
	case !concurrent && s.ahead && cost > 0:
		v.Why = UsedUp
		if v.RetryAt, _ = s.rule.Window.RoomAt(s.use, now, s.rule.Amount, cost); s.rule.Window.Fits(s.use, now, s.rule.Amount, cost) {
			v.RetryAt = now.Add(lineMoves)
		}
	case !concurrent && !s.rule.Window.Fits(s.use, now, s.rule.Amount, cost):
		v.Why = UsedUp
		v.RetryAt, _ = s.rule.Window.RoomAt(s.use, now, s.rule.Amount, cost)
	}
	return v
}

// spend shows in v what a grant leaves: used and remaining are after the decision.
func spend(s *standing, v *Verdict, cost int64, m mode, now time.Time) {
	if s.rule.Window.Kind == windows.Concurrent {
		if m == take {
			v.Used++
			v.Remaining = max(0, v.Remaining-1)
			v.Excess = max(0, v.Used-s.rule.Amount)
		}
		return
	}
	if cost == 0 || !s.counts(cost, now) {
		return
	}
	next, _, err := s.rule.Window.Charge(s.use, now, cost)
	if err != nil {
		return // unreachable: a cost that fits under an amount ≤ 10^9 cannot overflow
	}
	v.Used = s.rule.Window.Used(next, now)
	v.Remaining = s.rule.Window.Remaining(next, now, s.rule.Amount)
	v.Excess = max(0, v.Used-s.rule.Amount)
	v.ResetsAt, _ = s.rule.Window.ResetAt(next, now)
}

// counts reports whether a granted cost is charged. All is, past the amount too where the limit
// only shadows; but not to a bucket in shadow that has no room: it would sink below empty, and
// from then on refuse what an enforced one would have had room for.
func (s *standing) counts(cost int64, now time.Time) bool {
	return !s.rule.Shadow || s.rule.Window.Kind != windows.Bucket || s.rule.Window.Fits(s.use, now, s.rule.Amount, cost)
}

// ttlOf is the TTL of a new hold: what was asked for, else the least default of the enforced
// limits that match; at most the least maximum of them.
func ttlOf(ss []standing, asked time.Duration) (time.Duration, error) {
	ttl, most, first := DefaultTTL, MaxTTL, true
	for i := range ss {
		r := ss[i].rule
		if r.Shadow {
			continue
		}
		if r.TTL > 0 && (first || r.TTL < ttl) {
			ttl = r.TTL
		}
		if r.MaxTTL > 0 {
			most = min(most, r.MaxTTL)
		}
		first = false
	}
	switch {
	case asked == 0:
		return min(ttl, most), nil
	case asked > most:
		return 0, &TTLError{Max: most}
	}
	return asked, nil
}
