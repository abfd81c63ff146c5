package windows

import (
	"math"
	"math/bits"
	"time"
)

// NanoUnit is the grain of a bucket's level: one unit of cost is 10^9 nano-units.
const NanoUnit = 1_000_000_000

// maxUnits is the greatest cost whose nano-units fit in 64 bits.
const maxUnits = math.MaxInt64 / NanoUnit

// A bucket's state is exact: at instant t the use is Level - (t-High)*Refill/10^9 nano-units,
// a rational number that is floored only to be read. High moves only by spans that refill
// whole nano-units, so no fraction is lost however often it is written, and jumps to now only
// when the bucket is full, where there is no fraction to lose. A charge made after High is
// therefore entered as if made at High, which is the same in the sum; High is at most one
// second behind the last write.

// FullRefill is the time a bucket of amount units takes from empty to full, rounded up to the
// nanosecond. It saturates at the longest Duration (292 years), also for a Refill below 1.
func (w Window) FullRefill(amount int64) time.Duration {
	if amount <= 0 {
		return 0
	}
	const nanosTimesNanoUnits = uint64(time.Second) * NanoUnit
	return time.Duration(mulDivUp(uint64(amount), nanosTimesNanoUnits, w.refill()))
}

// inUse is the use at e in nano-units; e is not before High.
func (w Window) inUse(u Usage, e Slice) int64 {
	back := w.refilled(span(u.High, e))
	if back >= u.Level {
		return 0
	}
	return u.Level - back
}

// fill charges cost units to a bucket at e.
func (w Window) fill(u Usage, e Slice, cost int64) (next Usage, at Slice, err error) {
	if cost > maxUnits {
		return u, e, ErrOverflow
	}
	next = w.refillTo(u, e)
	if cost*NanoUnit > math.MaxInt64-next.Level {
		return u, e, ErrOverflow
	}
	next.Level += cost * NanoUnit
	return next, e, nil
}

// unfill takes back what has not refilled since cost units were charged at instant at. What
// refilled is rounded up here, as flooring it would give back a part of a nano-unit twice.
func (w Window) unfill(u Usage, at, e Slice, cost int64) (next Usage, refunded int64) {
	next = w.refillTo(u, e)
	gone := mulDivUp(span(at, e), w.refill(), NanoUnit)
	back := min(min(cost, maxUnits)*NanoUnit-gone, w.inUse(next, e))
	if back <= 0 {
		return next, 0
	}
	next.Level -= back
	return next, back / NanoUnit
}

// refillTo is the same bucket written down as of the latest instant, not after e, at which
// its level is a whole number of nano-units for certain.
func (w Window) refillTo(u Usage, e Slice) Usage {
	if w.inUse(u, e) == 0 {
		return Usage{High: e}
	}
	whole := gcd(w.refill(), NanoUnit)
	step, gain := NanoUnit/whole, w.refill()/whole // every step ns refill exactly gain nano-units
	steps := span(u.High, e) / step
	u.High += Slice(steps * step)
	u.Level -= int64(steps * gain) // at most what refilled, which is below Level
	return u
}

// drainedTo is when no more than room units are in use. The caller has made sure that more
// than that is in use now, so Level is above room, whose nano-units then fit in 64 bits.
func (w Window) drainedTo(u Usage, room int64) time.Time {
	drain := u.Level - room*NanoUnit
	wait := mulDivUp(uint64(drain), uint64(time.Second), w.refill())
	return time.Unix(0, int64(u.High)).UTC().Add(time.Duration(wait))
}

// refilled is how many whole nano-units come back in d nanoseconds: floored, never early.
func (w Window) refilled(d uint64) int64 {
	n, _ := mulDiv(d, w.refill(), NanoUnit)
	return n
}

// refill is Refill as mulDiv wants it; a faulty one below 0 refills nothing.
func (w Window) refill() uint64 { return uint64(max(0, w.Refill)) }

// span is the time from one instant to another in nanoseconds; 0 if it runs backwards.
func span(from, to Slice) uint64 {
	if to <= from {
		return 0
	}
	return uint64(to) - uint64(from) // right also where the difference passes 2^63
}

// unitsUp is nano-units in whole units, rounded up.
func unitsUp(nano int64) int64 {
	if nano <= 0 {
		return 0
	}
	return (nano-1)/NanoUnit + 1
}

// mulDiv is a*b/c rounded down, computed in 128 bits, and whether that was exact. It
// saturates at 2^63-1 (then called exact, as there is nothing to round), also for c = 0.
func mulDiv(a, b, c uint64) (quotient int64, exact bool) {
	hi, lo := bits.Mul64(a, b)
	if hi >= c {
		return math.MaxInt64, true
	}
	q, rest := bits.Div64(hi, lo, c)
	if q >= math.MaxInt64 {
		return math.MaxInt64, true
	}
	return int64(q), rest == 0
}

// mulDivUp is a*b/c rounded up, else as mulDiv.
func mulDivUp(a, b, c uint64) int64 {
	q, exact := mulDiv(a, b, c)
	if !exact {
		q++
	}
	return q
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
