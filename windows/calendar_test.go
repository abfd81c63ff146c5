package windows_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	. "github.com/holdfast-dev/holdfast/windows"
)

var calendarKinds = []Kind{Second, Minute, Hour, Day, Week, Month}

// naivePeriod is [start, end) of the period t lies in, asked of time.Date alone.
func naivePeriod(k Kind, t time.Time) (start, end time.Time) {
	t = t.UTC()
	date := func(y int, m time.Month, d, h, min, s int) time.Time {
		return time.Date(y, m, d, h, min, s, 0, time.UTC)
	}
	y, m, d := t.Date()
	switch k {
	case Second:
		start = date(y, m, d, t.Hour(), t.Minute(), t.Second())
		return start, date(y, m, d, t.Hour(), t.Minute(), t.Second()+1)
	case Minute:
		start = date(y, m, d, t.Hour(), t.Minute(), 0)
		return start, date(y, m, d, t.Hour(), t.Minute()+1, 0)
	case Hour:
		start = date(y, m, d, t.Hour(), 0, 0)
		return start, date(y, m, d, t.Hour()+1, 0, 0)
	case Day:
		return date(y, m, d, 0, 0, 0), date(y, m, d+1, 0, 0, 0)
	case Week:
		for t.Weekday() != time.Monday {
			t = t.AddDate(0, 0, -1)
		}
		y, m, d = t.Date()
		return date(y, m, d, 0, 0, 0), date(y, m, d+7, 0, 0, 0)
	case Month:
		return date(y, m, 1, 0, 0, 0), date(y, m+1, 1, 0, 0, 0)
	case Total, Concurrent, Bucket:
	}
	panic("no calendar kind: " + k.String())
}

// checkPeriod compares the whole calendar arithmetic at one instant with the naive one.
func checkPeriod(t interface{ Fatalf(string, ...any) }, k Kind, now time.Time) {
	w := Window{Kind: k}
	start, end := naivePeriod(k, now)
	s := w.SliceAt(now)
	if got := w.Start(s); !got.Equal(start) || got.Location() != time.UTC {
		t.Fatalf("%v at %v: Start = %v, want %v", k, now, got, start)
	}
	if got := w.Start(s + 1); !got.Equal(end) {
		t.Fatalf("%v at %v: next Start = %v, want %v", k, now, got, end)
	}
	if got := w.SliceAt(end); got != s+1 {
		t.Fatalf("%v at %v: SliceAt(end) = %d, want %d", k, now, got, s+1)
	}
	if got := w.SliceAt(end.Add(-1)); got != s {
		t.Fatalf("%v at %v: SliceAt(end - 1ns) = %d, want %d", k, now, got, s)
	}
	if got, want := w.Seconds(now), int64(end.Sub(start)/time.Second); got != want {
		t.Fatalf("%v at %v: Seconds = %d, want %d", k, now, got, want)
	}
	if got, want := w.Keep(now), end.Sub(now)+time.Second; got != want {
		t.Fatalf("%v at %v: Keep = %v, want %v", k, now, got, want)
	}
	u, _, err := w.Charge(Usage{}, now, 3)
	if room, ok := w.RoomAt(u, now, 3, 1); err != nil || !ok || !room.Equal(end) {
		t.Fatalf("%v at %v: RoomAt = %v, %t, want %v", k, now, room, ok, end)
	}
	if reset, ok := w.ResetAt(u, now); !ok || !reset.Equal(end) || !reset.After(now) {
		t.Fatalf("%v at %v: ResetAt = %v, %t, want %v", k, now, reset, ok, end)
	}
	if got := w.Used(u, end); got != 0 {
		t.Fatalf("%v at %v: used %d in the next period, want 0", k, now, got)
	}
}

// Each month end, year end and leap day of the years 1970 to 2400, on its last and first
// nanosecond (CASES K17, FAULTS rows 46 and 47).
func TestCalendar_EveryMonthEndTo2400(t *testing.T) {
	t.Parallel()
	for year := 1970; year <= 2400; year++ {
		for month := time.January; month <= time.December; month++ {
			first := time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
			for _, k := range calendarKinds {
				checkPeriod(t, k, first)
				checkPeriod(t, k, first.AddDate(0, 1, 0).Add(-1))
			}
		}
	}
}

func TestSliceAt_IsTheSameInEveryZone(t *testing.T) {
	t.Parallel()
	east, west := time.FixedZone("east", 14*3600), time.FixedZone("west", -11*3600-1800)
	rapid.Check(t, func(t *rapid.T) {
		now := drawInstant(t)
		for _, w := range countingWindows {
			s := w.SliceAt(now)
			if e, we := w.SliceAt(now.In(east)), w.SliceAt(now.In(west)); e != s || we != s {
				t.Fatalf("%+v.SliceAt(%v) = %d, east %d, west %d", w, now, s, e, we)
			}
		}
	})
}

// drawInstant is any nanosecond of the years 1970 to 2261: a bucket ends in 2262, and the table
// above has the other kinds up to 2400.
func drawInstant(t *rapid.T) time.Time {
	sec := rapid.Int64Range(0, 9_214_646_400).Draw(t, "second")
	return time.Unix(sec, rapid.Int64Range(0, 999_999_999).Draw(t, "nanosecond")).UTC()
}

func TestSliceAt_Tables(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		w    Window
		now  string
		want Slice
	}{
		{Window{Kind: Second}, "1970-01-01T00:00:00.999999999Z", 0},
		{Window{Kind: Second}, "1969-12-31T23:59:59.999Z", -1},
		{Window{Kind: Day}, "1970-01-02T00:00:00Z", 1},
		{Window{Kind: Week}, "1970-01-04T23:59:59.999999999Z", 0}, // a Sunday
		{Window{Kind: Week}, "1970-01-05T00:00:00Z", 1},
		{Window{Kind: Week}, "1969-12-28T23:59:59Z", -1},
		{Window{Kind: Month}, "1970-01-31T23:59:59Z", 0},
		{Window{Kind: Month}, "2024-02-29T23:59:59.999Z", 54*12 + 1},
		{Window{Kind: Month}, "2024-03-01T00:00:00Z", 54*12 + 2},
		{Window{Kind: Month}, "2399-12-31T23:59:59Z", 430*12 - 1},
		{Window{Kind: Month}, "1969-12-31T23:59:59Z", -1},
		{Window{Kind: Minute, Rolling: true}, "1970-01-01T00:01:01.5Z", 61},
		{Window{Kind: Hour, Rolling: true}, "1970-01-01T01:00:59.9Z", 60},
		{Window{Kind: Day, Rolling: true}, "1970-01-01T00:23:59.9Z", 0},
		{Window{Kind: Day, Rolling: true}, "1970-01-01T00:24:00Z", 1},
		{Window{Kind: Week, Rolling: true}, "1970-01-05T00:00:00Z", 1}, // Rolling without effect
		{Window{Kind: Total}, "2026-09-03T16:00:01Z", 0},
		{Window{Kind: Concurrent}, "2026-09-03T16:00:01Z", 0},
		{Window{Kind: Bucket}, "1970-01-01T00:00:01.000000002Z", 1_000_000_002},
		{Window{Kind: Bucket}, "2400-01-01T00:00:00Z", 1<<63 - 1}, // stands still past 2262
		{Window{Kind: Bucket}, "1600-01-01T00:00:00Z", -1 << 63},
	} {
		if got := tt.w.SliceAt(at(t, tt.now)); got != tt.want {
			t.Errorf("%+v.SliceAt(%s) = %d, want %d", tt.w, tt.now, got, tt.want)
		}
	}
	for _, k := range []Kind{Total, Concurrent} {
		if got := (Window{Kind: k}).Start(0); got.Unix() != 0 {
			t.Errorf("%v: Start(0) = %v, want the epoch", k, got)
		}
	}
	if got, want := (Window{Kind: Bucket}).Start(1_000_000_002), at(t, "1970-01-01T00:00:01.000000002Z"); got != want {
		t.Errorf("bucket: Start = %v, want %v", got, want)
	}
}

// CASES O16: one midnight, that of UTC, wherever the server stands.
func TestDay_TurnsAtMidnightUTC(t *testing.T) {
	t.Parallel()
	shanghai := time.FixedZone("+08", 8*3600)
	w, u := Window{Kind: Day}, Usage{}
	for _, tt := range []struct {
		now   string
		taken int
		reset string
	}{
		{"2026-09-03T16:00:01Z", 5, "2026-09-04T00:00:00Z"}, // local midnight
		{"2026-09-03T23:59:00Z", 0, "2026-09-04T00:00:00Z"},
		{"2026-09-04T00:00:01Z", 5, "2026-09-05T00:00:00Z"},
	} {
		now, taken := at(t, tt.now).In(shanghai), 0
		for range 6 {
			next, ok := take(t, w, u, now, 5, 1)
			if u = next; ok {
				taken++
			}
		}
		reset, ok := w.ResetAt(u, now)
		if taken != tt.taken || !ok || !reset.Equal(at(t, tt.reset)) {
			t.Errorf("at %s: took %d, resets at %v, want %d, %s", tt.now, taken, reset, tt.taken, tt.reset)
		}
	}
}

// CASES K30: a refund goes to the period charged and leaves the present one alone.
func TestRefund_LateGoesToItsOwnPeriod(t *testing.T) {
	t.Parallel()
	w := Window{Kind: Minute}
	u, first := charge(t, w, Usage{}, at(t, "2026-09-03T23:59:59.999Z"), 4)
	now := at(t, "2026-09-04T00:00:00Z")
	u, second := charge(t, w, u, now, 7)
	u, refunded := w.Refund(u, first, now, 3)
	if refunded != 3 || w.Used(u, now) != 7 || len(u.Counts) != 2 || u.Counts[0] != (Count{first, 1}) {
		t.Fatalf("refunded %d, usage %+v, want 3 out of the period before", refunded, u)
	}
	if u, refunded = w.Refund(u, first, now, 3); refunded != 1 || len(u.Counts) != 1 {
		t.Fatalf("refunded %d, usage %+v, want the 1 that was left", refunded, u)
	}
	later := now.Add(2 * time.Minute)
	if u, refunded = w.Refund(u, second, later, 7); refunded != 0 || len(u.Counts) != 0 || w.Used(u, later) != 0 {
		t.Fatalf("refunded %d, usage %+v two periods later, want nothing", refunded, u)
	}
}

func FuzzCalendar(f *testing.F) {
	f.Add(int64(0), uint32(0), uint8(5))
	f.Add(int64(951_782_399), uint32(999_999_999), uint8(5))    // 2000-02-28, last nanosecond
	f.Add(int64(4_107_542_399), uint32(1), uint8(4))            // 2100-02-28
	f.Add(int64(13_569_465_600), uint32(0), uint8(5))           // 2400-01-01
	f.Add(int64(13_574_649_599), uint32(999_999_999), uint8(3)) // 2400-02-29, last nanosecond
	f.Fuzz(func(t *testing.T, sec int64, nano uint32, kind uint8) {
		const end2400 = 13_601_087_999
		sec = int64(uint64(sec) % (end2400 + 1))
		now := time.Unix(sec, int64(nano%1_000_000_000))
		checkPeriod(t, calendarKinds[int(kind)%len(calendarKinds)], now)
	})
}
