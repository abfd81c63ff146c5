package reserve

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/windows"
)

var noon = time.Date(2026, 9, 3, 12, 0, 0, 0, time.UTC)

func slotsOf(amount, held, free int64) standing {
	l := &limits.Limit{ID: "exports", Amount: amount, Window: windows.Window{Kind: windows.Concurrent}}
	return standing{
		rule: limits.Rule{Limit: l, Amount: amount}, held: held, free: free,
		ends: eachSecond{},
	}
}

// eachSecond is holds of which one ends each second.
type eachSecond struct{}

func (eachSecond) endOf(k int64) (time.Duration, bool) { return time.Duration(k) * time.Second, true }

func usedOf(id string, amount, used int64, kind windows.Kind) standing {
	l := &limits.Limit{ID: id, Amount: amount, Window: windows.Window{Kind: kind}}
	use := windows.Usage{}
	if used > 0 {
		use, _, _ = l.Window.Charge(use, noon, used)
	}
	return standing{rule: limits.Rule{Limit: l, Amount: amount}, use: use}
}

func paused(s standing, until time.Time) standing {
	l := *s.rule.Limit
	l.Paused, l.PausedUntil = true, until
	s.rule.Limit = &l
	return s
}

func shadowed(s standing) standing {
	l := *s.rule.Limit
	l.Shadow = true
	s.rule.Limit = &l
	return s
}

// A limit in shadow judges and counts, and refuses nothing (ADR 15).
func TestDecide_ShadowRefusesNothing(t *testing.T) {
	t.Parallel()
	refill := shadowed(usedOf("b", 10, 0, windows.Bucket))
	refill.rule.Window.Refill = windows.NanoUnit
	refill.use, _, _ = refill.rule.Window.Charge(windows.Usage{}, noon, 9)
	for _, c := range []struct {
		name   string
		s      standing
		cost   int64
		why    Why
		used   int64
		excess int64
	}{
		{"a free slot", shadowed(slotsOf(3, 2, 2)), 1, Fits, 3, 0},
		{"no slot left: one beyond", shadowed(slotsOf(3, 3, 3)), 1, NoSlot, 4, 1},
		{"closed", shadowed(slotsOf(0, 0, 0)), 1, NeverFits, 1, 1},
		{"used up: counted all the same", shadowed(usedOf("h", 10, 10, windows.Hour)), 3, UsedUp, 13, 3},
		{"never fits: counted all the same", shadowed(usedOf("h", 10, 0, windows.Hour)), 11, NeverFits, 11, 1},
		{"paused", shadowed(paused(slotsOf(3, 0, 0), time.Time{})), 1, Paused, 1, 0},
		{"a bucket without room is not charged", refill, 2, UsedUp, 9, 0},
	} {
		other := usedOf("other", 10, 1, windows.Hour)
		d := decide([]standing{c.s, other}, nil, c.cost, take, noon)
		v := d.Verdicts[0]
		if wants := c.cost <= 9; d.Allowed != wants || d.Binding >= 0 == wants {
			t.Errorf("%s: allowed %v by %d", c.name, d.Allowed, d.Binding)
			continue
		}
		if !v.Shadow || v.Why != c.why || d.Allowed && (v.Used != c.used || v.Excess != c.excess) {
			t.Errorf("%s: got %+v, want why %d, used %d, excess %d", c.name, v, c.why, c.used, c.excess)
		}
	}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		ss      []standing
		cost    int64
		mode    mode
		allowed bool
		why     []Why
		binding int
		retry   time.Duration // from noon; < 0: none
		used    []int64
	}{
		{"no limit is no obstacle", nil, 1, take, true, nil, -1, -1, nil},
		{"the last slot is taken", []standing{slotsOf(3, 2, 2)}, 1, take, true, []Why{Fits}, -1, -1, []int64{3}},
		{"a consume takes no slot", []standing{slotsOf(3, 2, 2)}, 1, consume, true, []Why{Fits}, -1, -1, []int64{2}},
		{"a preview changes nothing", []standing{usedOf("h", 10, 4, windows.Hour)}, 3, preview, true, []Why{Fits}, -1, -1, []int64{4}},
		{"the cost takes a slot once", []standing{slotsOf(3, 0, 0)}, 100, take, true, []Why{Fits}, -1, -1, []int64{1}},
		{"full waits for the first end", []standing{slotsOf(3, 3, -1)}, 1, take, false, []Why{NoSlot}, 0, time.Second, []int64{3}},
		{"lowered waits for as many as must", []standing{slotsOf(1, 3, -1)}, 1, take, false, []Why{NoSlot}, 0, 3 * time.Second, []int64{3}},
		{"an amount of 0 never fits a slot, whatever the cost", []standing{slotsOf(0, 0, -1)}, 0, take, false, []Why{NeverFits}, 0, -1, []int64{0}},
		{"an amount of 0 fits a cost of 0", []standing{usedOf("h", 0, 0, windows.Hour)}, 0, take, true, []Why{Fits}, -1, -1, []int64{0}},
		{"a cost above the amount never fits", []standing{usedOf("h", 10, 0, windows.Hour)}, 11, take, false, []Why{NeverFits}, 0, -1, []int64{0}},
		{"exactly the rest fits", []standing{usedOf("h", 10, 4, windows.Hour)}, 6, take, true, []Why{Fits}, -1, -1, []int64{10}},
		{"one more than the rest waits for the hour", []standing{usedOf("h", 10, 4, windows.Hour)}, 7, take, false, []Why{UsedUp}, 0, time.Hour, []int64{4}},
		{"a full total has nothing to wait for", []standing{usedOf("t", 10, 10, windows.Total)}, 1, take, false, []Why{UsedUp}, 0, -1, []int64{10}},
		{"paused waits for its end", []standing{paused(slotsOf(3, 0, 0), noon.Add(time.Minute))}, 1, take, false, []Why{Paused}, 0, time.Minute, []int64{0}},
		{"paused without end", []standing{paused(slotsOf(3, 0, 0), time.Time{})}, 1, take, false, []Why{Paused}, 0, -1, []int64{0}},
		{"one refuses, none is charged", []standing{usedOf("a", 10, 1, windows.Hour), slotsOf(3, 3, -1)}, 1, take, false, []Why{Fits, NoSlot}, 1, time.Second, []int64{1, 3}},
		{"the longest wait binds", []standing{usedOf("a", 1, 1, windows.Minute), usedOf("b", 1, 1, windows.Hour), slotsOf(1, 1, -1)}, 1, take, false, []Why{UsedUp, UsedUp, NoSlot}, 1, time.Hour, []int64{1, 1, 1}},
		{"never-fits binds before any wait", []standing{usedOf("a", 1, 1, windows.Day), usedOf("b", 1, 0, windows.Hour)}, 2, take, false, []Why{NeverFits, NeverFits}, 0, -1, []int64{1, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := decide(c.ss, nil, c.cost, c.mode, noon)
			if d.Allowed != c.allowed || d.Binding != c.binding {
				t.Errorf("decide(%+v, cost %d): allowed %v binding %d, want %v %d", c.ss, c.cost, d.Allowed, d.Binding, c.allowed, c.binding)
			}
			for i, v := range d.Verdicts {
				if v.Why != c.why[i] || v.Used != c.used[i] || v.Remaining != max(0, c.ss[i].rule.Amount-c.used[i]) {
					t.Errorf("verdict %d: why %d used %d remaining %d, want why %d used %d", i, v.Why, v.Used, v.Remaining, c.why[i], c.used[i])
				}
			}
			at, ok := d.RetryAt()
			if !c.allowed && (ok != (c.retry >= 0) || ok && at.Sub(noon) != c.retry) {
				t.Errorf("retry at %v (%v), want %v after noon", at, ok, c.retry)
			}
		})
	}
}

func TestDecide_BlockedSubjectIsRefusedWhateverTheLimits(t *testing.T) {
	t.Parallel()
	d := decide([]standing{slotsOf(3, 0, 0)}, &limits.Block{Until: noon.Add(time.Minute)}, 1, take, noon)
	if at, ok := d.RetryAt(); d.Allowed || !ok || at.Sub(noon) != time.Minute || d.Verdicts[0].Used != 0 {
		t.Errorf("decision %+v: want refused until the block ends, nothing charged", d)
	}
}

func TestSlotSet_FreeIsBelowTheUsableBound(t *testing.T) {
	t.Parallel()
	// Against the definition: a is the largest number ≤ amount with a + (taken ≥ a) ≤ amount.
	for taken := range 1 << 8 {
		set := &slotSet{}
		for n := range int64(8) {
			if taken&(1<<n) != 0 {
				set.mark(n)
			}
		}
		for amount := range int64(9) {
			a := int64(-1)
			for k := amount; k >= 0 && a < 0; k-- {
				above := int64(0)
				for n := k; n < 8; n++ {
					if set.has(n) {
						above++
					}
				}
				if k+above <= amount {
					a = k
				}
			}
			want := int64(-1)
			for n := int64(0); n < a && want < 0; n++ {
				if !set.has(n) {
					want = n
				}
			}
			if got := set.free(amount); got != want {
				t.Errorf("taken %08b, amount %d: free slot %d, want %d (a = %d)", taken, amount, got, want, a)
			}
		}
	}
}

func TestTTLOf(t *testing.T) {
	t.Parallel()
	with := func(ttl, most time.Duration) standing {
		return standing{rule: limits.Rule{Limit: &limits.Limit{TTL: ttl, MaxTTL: most}}}
	}
	for _, c := range []struct {
		name  string
		ss    []standing
		asked time.Duration
		want  time.Duration
		max   time.Duration
	}{
		{"nothing asked, nothing set", nil, 0, DefaultTTL, 0},
		{"the least default", []standing{with(time.Minute, time.Hour), with(30*time.Second, time.Hour)}, 0, 30 * time.Second, 0},
		{"a default above the least maximum", []standing{with(time.Minute, 40*time.Second)}, 0, 40 * time.Second, 0},
		{"asked within", []standing{with(time.Minute, time.Hour)}, 2 * time.Minute, 2 * time.Minute, 0},
		{"asked above", []standing{with(time.Minute, time.Hour), with(0, 90*time.Second)}, 2 * time.Minute, 0, 90 * time.Second},
	} {
		got, err := ttlOf(c.ss, c.asked)
		var tooLong *TTLError
		if errors.As(err, &tooLong) != (c.max > 0) || c.max > 0 && tooLong.Max != c.max || got != c.want {
			t.Errorf("%s: ttlOf(%v) = %v, %v; want %v (most %v)", c.name, c.asked, got, err, c.want, c.max)
		}
	}
}

func TestSettle(t *testing.T) {
	t.Parallel()
	hour := windows.Window{Kind: windows.Hour}
	lim := func(change func(*limits.Limit)) *limits.Catalog {
		l := limits.Limit{ID: "h", Amount: 10, Window: hour, Generation: 1}
		change(&l)
		return limits.NewCatalog(5, 1, []limits.Limit{l}, nil, nil)
	}
	plain := lim(func(*limits.Limit) {})
	cs, charge, err := Counts{}.charge(limits.Rule{Limit: func() *limits.Limit { l, _ := plain.Limit("h"); return l }(), Amount: 10}, "user/u", 6, noon)
	if err != nil {
		t.Fatal(err)
	}
	rec := &Record{Cost: 6, Charges: []Charge{charge}}
	for _, c := range []struct {
		name              string
		cat               *limits.Catalog
		to                State
		actual            int64
		later             time.Duration
		left              int64 // in the slice charged
		now               int64 // in the present one
		charged, refunded int64
		overage           bool
	}{
		{"a release gives all back", plain, Released, -1, 0, 0, 0, 0, 6, false},
		{"a force gives all back", plain, Forced, -1, 0, 0, 0, 0, 6, false},
		{"an expiry refunds by default", plain, Expired, -1, 0, 0, 0, 0, 6, false},
		{"an expiry charges where the limit says so", lim(func(l *limits.Limit) { l.OnExpiry = limits.ChargeOnExpiry }), Expired, -1, 0, 6, 6, 6, 0, false},
		{"a commit keeps the estimate", plain, Committed, -1, 0, 6, 6, 6, 0, false},
		{"a smaller commit refunds the difference", plain, Committed, 2, 0, 2, 2, 2, 4, false},
		{"into the period charged, an hour later", plain, Committed, 2, time.Hour, 2, 0, 2, 4, false},
		{"a larger commit charges the present period", plain, Committed, 8, time.Hour, 6, 2, 8, 0, false},
		{"past the amount where overage is recorded", plain, Committed, 30, 0, 30, 30, 30, 0, false},
		{"but not where it is rejected", lim(func(l *limits.Limit) { l.Overage = limits.RejectOverage }), Committed, 30, 0, 6, 6, 0, 0, true},
		{"another generation is never refunded", lim(func(l *limits.Limit) { l.Generation = 2 }), Released, -1, 0, 6, 6, 0, 6, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			at := noon.Add(c.later)
			mine := cs
			if l, _ := c.cat.Limit("h"); l.Generation == 2 {
				mine = cs.with(LimitCount{Limit: "h", Generation: 2, Use: cs[0].Use})
			}
			end, err := settle(rec, c.to, c.actual, c.cat, at,
				func(Charge) Counts { return mine }, func(_ Charge, next Counts) { mine = next })
			var over *OverageError
			if errors.As(err, &over) != c.overage {
				t.Fatalf("settle: %v, want overage %v", err, c.overage)
			}
			var left int64
			for _, n := range mine[0].Use.Counts {
				if n.Slice == charge.Slice {
					left = n.Cost
				}
			}
			if now := hour.Used(mine[0].Use, at); left != c.left || now != c.now {
				t.Errorf("left %d in the slice charged and %d in the present one, want %d and %d", left, now, c.left, c.now)
			}
			if !c.overage && (end.charged != c.charged || end.refunded != c.refunded) {
				t.Errorf("charged %d refunded %d, want %d and %d", end.charged, end.refunded, c.charged, c.refunded)
			}
		})
	}
}
