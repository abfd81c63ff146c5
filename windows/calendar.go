package windows

import "time"

// Lengths of the fixed periods in seconds. Unix days have 86,400 seconds: a leap second
// repeats one.
const (
	minuteSeconds = 60
	hourSeconds   = 60 * minuteSeconds
	daySeconds    = 24 * hourSeconds
	weekSeconds   = 7 * daySeconds
)

// mondayOffset is how far into its week the epoch lies: 1970-01-01 was a Thursday.
const mondayOffset = 3 * daySeconds

const monthsPerYear = 12

// length is the length of the window in seconds; 0 for kinds without a fixed one.
func (w Window) length() int64 {
	switch w.Kind {
	case Second:
		return 1
	case Minute:
		return minuteSeconds
	case Hour:
		return hourSeconds
	case Day:
		return daySeconds
	case Week:
		return weekSeconds
	case Month, Total, Concurrent, Bucket:
	}
	return 0
}

func weekAt(t time.Time) Slice {
	return Slice(floorDiv(t.Unix()+mondayOffset, weekSeconds))
}

func weekStart(s Slice) time.Time {
	return time.Unix(int64(s)*weekSeconds-mondayOffset, 0).UTC()
}

// monthAt asks the calendar, never a count of days: months differ in length.
func monthAt(t time.Time) Slice {
	year, month, _ := t.UTC().Date()
	return Slice((year-1970)*monthsPerYear + int(month) - 1)
}

func monthStart(s Slice) time.Time {
	// time.Date carries months past 12, and before 1, into the year.
	return time.Date(1970, time.January+time.Month(s), 1, 0, 0, 0, 0, time.UTC)
}

func monthSeconds(s Slice) int64 {
	return monthStart(s+1).Unix() - monthStart(s).Unix()
}
