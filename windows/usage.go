package windows

import (
	"errors"
	"math"
	"time"
)

// ErrOverflow says that a charge would pass what a count can hold (2^63-1 units, or nano-units
// for a bucket), or that the cost is negative. Nothing was charged.
var ErrOverflow = errors.New("windows: cost out of range")

// Count is the cost charged to one slice.
type Count struct {
	Slice Slice
	Cost  int64 // units, > 0
}

// Usage is what one limit has counted for one scope. It is a value: methods of Window return
// a new one and never change the Counts they were given. The zero Usage is "nothing yet".
type Usage struct {
	High   Slice   // greatest slice a write has judged; a clock behind it is taken to stand there. Bucket: the instant Level speaks of
	Counts []Count // ascending by Slice, costs > 0; empty for Bucket
	Level  int64   // Bucket only: nano-units in use at High
}

// Used is how many units count at now. The oldest live slice of a rolling window counts
// whole; what is in use of a bucket is rounded up to whole units. Concurrent: 0.
//
// Cost: at most 61 additions, no allocation.
func (w Window) Used(u Usage, now time.Time) int64 {
	e := w.effective(u, now)
	if w.Kind == Bucket {
		return unitsUp(w.inUse(u, e))
	}
	oldest := w.oldestLive(e)
	var sum int64
	for i := len(u.Counts) - 1; i >= 0 && u.Counts[i].Slice >= oldest; i-- {
		cost := u.Counts[i].Cost
		if cost > math.MaxInt64-sum {
			return math.MaxInt64
		}
		sum += cost
	}
	return sum
}

// Remaining is how many whole units of amount are left at now; never below 0, also when an
// amount was lowered below what is used.
func (w Window) Remaining(u Usage, now time.Time, amount int64) int64 {
	return max(0, max(0, amount)-w.Used(u, now))
}

// Fits reports whether cost more units fit under amount at now: cost <= amount - used. A cost
// of 0 always fits, a negative one never. For a bucket this is exact to the nano-unit: a
// whole cost fits into the exact room exactly when it fits into that room rounded down.
//
// Cost: that of Used, no allocation.
func (w Window) Fits(u Usage, now time.Time, amount, cost int64) bool {
	return cost == 0 || cost > 0 && cost <= w.Remaining(u, now, amount)
}

// RoomAt is the first instant, not before now, at which cost fits if nobody else comes: now
// itself when it fits, else strictly after now, in UTC. ok is false when waiting does not
// help: cost above amount, negative cost, and whatever does not fit a Total.
//
// Calendar: the start of the next period. Rolling: when enough slices have left. Bucket: when
// enough has refilled, rounded up to the nanosecond; a wait past 292 years is told as 292.
//
// Cost: that of Used twice, no allocation.
func (w Window) RoomAt(u Usage, now time.Time, amount, cost int64) (at time.Time, ok bool) {
	if w.Fits(u, now, amount, cost) {
		return now, true
	}
	if cost < 0 || cost > amount {
		return time.Time{}, false
	}
	switch room := amount - cost; {
	case w.rolls():
		return w.downTo(u, room), true
	case w.calendar():
		return w.Start(w.effective(u, now) + 1), true
	case w.Kind == Bucket:
		return w.drainedTo(u, room), true
	}
	return time.Time{}, false
}

// ResetAt is when the present use has left altogether, strictly after now, in UTC. ok is
// false when nothing is in use, and for Total and Concurrent.
//
// Calendar: the next boundary. Rolling: when the newest slice has left, up to a slice past
// the window. Bucket: when it is full again, told as 292 years if later than that.
func (w Window) ResetAt(u Usage, now time.Time) (at time.Time, ok bool) {
	if w.Used(u, now) == 0 {
		return time.Time{}, false
	}
	switch {
	case w.rolls():
		return w.downTo(u, 0), true
	case w.calendar():
		return w.Start(w.effective(u, now) + 1), true
	case w.Kind == Bucket:
		return w.drainedTo(u, 0), true
	}
	return time.Time{}, false
}

// downTo is when the use of a rolling window has sunk to room units. It adds up from the
// newest slice, so that no sum can overflow: the slice that passes room is the last that
// must leave. The caller has made sure that more than room is in use.
func (w Window) downTo(u Usage, room int64) time.Time {
	i := len(u.Counts) - 1
	for i > 0 && u.Counts[i].Cost <= room {
		room -= u.Counts[i].Cost
		i--
	}
	return w.Start(u.Counts[i].Slice + slicesPerWindow + 1)
}

// Charge adds cost to the effective slice, which it returns as at: the place that Refund is
// told. It drops what has left and raises High. It does not ask whether cost fits, as a
// commit may go past the amount; ask Fits first. A cost of 0 adds no count but raises High.
//
// Errors: ErrOverflow; u then comes back as it was.
//
// Cost: one allocation of at most 61 counts; none for a cost of 0 and for a bucket.
func (w Window) Charge(u Usage, now time.Time, cost int64) (next Usage, at Slice, err error) {
	e := w.effective(u, now)
	switch {
	case cost < 0:
		return u, e, ErrOverflow
	case w.Kind == Bucket:
		return w.fill(u, e, cost)
	case cost > math.MaxInt64-w.Used(u, now):
		return u, e, ErrOverflow
	}
	next = w.trimTo(u, e)
	next.High = e
	if cost > 0 && w.Counting() {
		next.Counts = plus(next.Counts, e, cost)
	}
	return next, e, nil
}

// Refund takes cost out of the very slice that was charged (at, as Charge returned it), and
// only what is still there; it never touches another slice and never goes below 0. It drops
// what has left, so a charge whose slice has left is refunded as 0. refunded is what was
// taken out, in units.
//
// Bucket: what has refilled since the charge (rounded up) is not given back again, and no
// more than is in use; the level takes the exact rest, refunded tells its whole units.
//
// Cost: one allocation of at most 61 counts; none for a bucket.
func (w Window) Refund(u Usage, at Slice, now time.Time, cost int64) (next Usage, refunded int64) {
	if cost <= 0 {
		return u, 0
	}
	e := w.effective(u, now)
	if w.Kind == Bucket {
		return w.unfill(u, at, e, cost)
	}
	next = w.trimTo(u, e)
	next.Counts, refunded = minus(next.Counts, at, cost)
	return next, refunded
}

// Trim drops the slices that have left; it never changes what Used says at now.
//
// Rolling: at most the 61 live slices remain. Calendar: the present period and the one before
// it, so that a refund that arrives late stays harmless. Total and Bucket: u as it is. When
// something was dropped High is raised to the effective slice: a clock that then goes back
// must not find the past empty.
//
// Cost: no allocation; the Counts returned share memory with those of u.
func (w Window) Trim(u Usage, now time.Time) Usage {
	return w.trimTo(u, w.effective(u, now))
}

func (w Window) trimTo(u Usage, e Slice) Usage {
	oldest, n := w.oldestKept(e), 0
	for n < len(u.Counts) && u.Counts[n].Slice < oldest {
		n++
	}
	if n > 0 {
		u.High = e
		u.Counts = u.Counts[n:]
	}
	return u
}

// Empty reports whether u may be forgotten at now, High included: nothing that Trim would
// keep is left, or the bucket is full, and High does not lie ahead of the clock.
func (w Window) Empty(u Usage, now time.Time) bool {
	if u.High > w.SliceAt(now) {
		return false
	}
	e := w.effective(u, now)
	if w.Kind == Bucket {
		return w.inUse(u, e) == 0
	}
	return len(w.trimTo(u, e).Counts) == 0
}

// plus is counts with cost more in slice s, the last or a later one; counts stay untouched.
func plus(counts []Count, s Slice, cost int64) []Count {
	n := len(counts)
	if n > 0 && counts[n-1].Slice == s {
		next := make([]Count, n)
		copy(next, counts)
		next[n-1].Cost += cost
		return next
	}
	next := make([]Count, n+1)
	copy(next, counts)
	next[n] = Count{Slice: s, Cost: cost}
	return next
}

// minus is counts with up to cost less in slice s; counts stay untouched. A slice that comes
// down to 0 is left out.
func minus(counts []Count, s Slice, cost int64) (next []Count, taken int64) {
	i := len(counts) - 1
	for i >= 0 && counts[i].Slice > s {
		i--
	}
	if i < 0 || counts[i].Slice != s {
		return counts, 0
	}
	taken = min(cost, counts[i].Cost)
	next = make([]Count, 0, len(counts))
	next = append(next, counts[:i]...)
	if left := counts[i].Cost - taken; left > 0 {
		next = append(next, Count{Slice: s, Cost: left})
	}
	return append(next, counts[i+1:]...), taken
}
