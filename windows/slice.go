package windows

import (
	"math"
	"time"
)

// Slice is the ordinal of a slice (rolling) or of a period (calendar) since the Unix epoch, UTC;
// 0 for Total; for Bucket it is an instant in nanoseconds since the Unix epoch.
type Slice int64

// slicesPerWindow is the grain of a rolling window. The slice before the oldest whole one is
// live too, so slicesPerWindow+1 slices count at any instant.
const slicesPerWindow = 60

// SliceAt is the slice or period that t lies in, whatever the zone of t.
//
// Calendar: the ordinal of the UTC period; weeks begin on Monday, week 0 holds the epoch;
// months are (year-1970)*12 + month-1. Rolling: t over 1/60 of the window, rounded down.
// Total and Concurrent: 0. Bucket: nanoseconds, standing still past 2262-04-11.
func (w Window) SliceAt(t time.Time) Slice {
	switch w.Kind {
	case Second, Minute, Hour, Day:
		return Slice(floorDiv(t.Unix(), w.grain()))
	case Week:
		return weekAt(t)
	case Month:
		return monthAt(t)
	case Bucket:
		return Slice(unixNano(t))
	case Total, Concurrent:
	}
	return 0
}

// Start is the first instant of slice or period s, in UTC: the inverse of SliceAt.
// For Total and Concurrent, which have no periods, it is the Unix epoch.
func (w Window) Start(s Slice) time.Time {
	switch w.Kind {
	case Second, Minute, Hour, Day:
		return time.Unix(int64(s)*w.grain(), 0).UTC()
	case Week:
		return weekStart(s)
	case Month:
		return monthStart(s)
	case Bucket:
		return time.Unix(0, int64(s)).UTC()
	case Total, Concurrent:
	}
	return time.Unix(0, 0).UTC()
}

// effective is the slice that now is judged in: a clock behind what a write has judged is
// taken to stand there. Counts are looked at too, so that they stay ascending even if High
// was lost.
func (w Window) effective(u Usage, now time.Time) Slice {
	e := max(w.SliceAt(now), u.High)
	if n := len(u.Counts); n > 0 {
		e = max(e, u.Counts[n-1].Slice)
	}
	return e
}

// oldestLive is the oldest slice whose cost still counts when e is the effective one.
func (w Window) oldestLive(e Slice) Slice {
	switch {
	case w.rolls():
		return e - slicesPerWindow
	case w.calendar():
		return e
	}
	return math.MinInt64
}

// oldestKept is the oldest slice that is remembered when e is the effective one. A calendar
// limit keeps the period before, so that a refund that arrives late finds its own period.
func (w Window) oldestKept(e Slice) Slice {
	if w.calendar() {
		return e - 1
	}
	return w.oldestLive(e)
}

// grain is the length of a slice or period in seconds; 0 for kinds without a fixed one.
func (w Window) grain() int64 {
	if w.rolls() {
		return w.length() / slicesPerWindow
	}
	return w.length()
}

// floorDiv rounds towards the past, also before 1970.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// unixNano is t.UnixNano held at the ends of its range, where UnixNano itself is undefined.
func unixNano(t time.Time) int64 {
	const reach = math.MaxInt64 / int64(time.Second) // whole seconds that fit either way
	switch sec := t.Unix(); {
	case sec >= reach:
		return math.MaxInt64
	case sec < -reach:
		return math.MinInt64
	}
	return t.UnixNano()
}
