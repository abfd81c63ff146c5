package windows_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	. "github.com/holdfast-dev/holdfast/windows"
)

// at reads an instant; the fractional second is optional.
func at(tb testing.TB, s string) time.Time {
	tb.Helper()
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// charge is Charge where an overflow would be a fault of the test.
func charge(tb testing.TB, w Window, u Usage, now time.Time, cost int64) (Usage, Slice) {
	tb.Helper()
	next, s, err := w.Charge(u, now, cost)
	if err != nil {
		tb.Fatalf("Charge(%+v, %+v, %v, %d): %v", w, u, now, cost, err)
	}
	return next, s
}

// take charges cost if it fits, as a consume does.
func take(tb testing.TB, w Window, u Usage, now time.Time, amount, cost int64) (Usage, bool) {
	tb.Helper()
	if !w.Fits(u, now, amount, cost) {
		return u, false
	}
	next, _ := charge(tb, w, u, now, cost)
	return next, true
}

var kindWords = []struct {
	word  string
	kind  Kind
	rolls bool
}{
	{"second", Second, false},
	{"minute", Minute, true},
	{"hour", Hour, true},
	{"day", Day, true},
	{"week", Week, false},
	{"month", Month, false},
	{"total", Total, false},
	{"concurrent", Concurrent, false},
	{"bucket", Bucket, false},
}

// API section 3: nine windows; rolling only for minute, hour and day.
func TestParse_KnowsTheWordsOfTheAPI(t *testing.T) {
	t.Parallel()
	for _, tt := range kindWords {
		got, err := Parse(tt.word, false)
		if want := (Window{Kind: tt.kind}); err != nil || got != want {
			t.Errorf("Parse(%q, false) = %+v, %v, want %+v", tt.word, got, err, want)
		}
		got, err = Parse(tt.word, true)
		if tt.rolls {
			if want := (Window{Kind: tt.kind, Rolling: true}); err != nil || got != want {
				t.Errorf("Parse(%q, true) = %+v, %v, want %+v", tt.word, got, err, want)
			}
		} else if err == nil || !strings.Contains(err.Error(), tt.word) || got != (Window{}) {
			t.Errorf("Parse(%q, true) = %+v, %v, want an error that names it", tt.word, got, err)
		}
		if got := tt.kind.String(); got != tt.word {
			t.Errorf("Kind(%d).String() = %q, want %q", tt.kind, got, tt.word)
		}
		text, err := tt.kind.MarshalText()
		if err != nil || string(text) != tt.word {
			t.Errorf("Kind(%d).MarshalText() = %q, %v, want %q", tt.kind, text, err, tt.word)
		}
		if got, want := (Window{Kind: tt.kind}).Counting(), tt.kind != Concurrent; got != want {
			t.Errorf("%s: Counting() = %t, want %t", tt.word, got, want)
		}
	}
}

func TestParse_RefusesOtherWords(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"", "Minute", "minutes", "year", " day", "kind(0)"} {
		if w, err := Parse(word, false); err == nil || w != (Window{}) {
			t.Errorf("Parse(%q, false) = %+v, %v, want an error", word, w, err)
		}
	}
	for kind, want := range map[Kind]string{0: "kind(0)", Bucket + 1: "kind(10)", 255: "kind(255)"} {
		if got := kind.String(); got != want {
			t.Errorf("Kind(%d).String() = %q, want %q", uint8(kind), got, want)
		}
		if text, err := kind.MarshalText(); err == nil {
			t.Errorf("Kind(%d).MarshalText() = %q, want an error", uint8(kind), text)
		}
	}
}

func TestSeconds_IsTheLengthOfTheWindow(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		w    Window
		now  string
		want int64
	}{
		{Window{Kind: Second}, "2026-09-03T16:00:01Z", 1},
		{Window{Kind: Minute}, "2026-09-03T16:00:01Z", 60},
		{Window{Kind: Minute, Rolling: true}, "2026-09-03T16:00:01Z", 60},
		{Window{Kind: Hour, Rolling: true}, "2026-09-03T16:00:01Z", 3600},
		{Window{Kind: Day, Rolling: true}, "2026-09-03T16:00:01Z", 86400},
		{Window{Kind: Week}, "2026-09-03T16:00:01Z", 604800},
		{Window{Kind: Month}, "2026-09-03T16:00:01Z", 30 * 86400},
		{Window{Kind: Month}, "2024-02-29T23:59:59.999Z", 29 * 86400},
		{Window{Kind: Month}, "2100-02-01T00:00:00Z", 28 * 86400},
		{Window{Kind: Month}, "2026-02-01T00:00:00+08:00", 31 * 86400}, // still January in UTC
		{Window{Kind: Total}, "2026-09-03T16:00:01Z", 0},
		{Window{Kind: Concurrent}, "2026-09-03T16:00:01Z", 0},
		{Window{Kind: Bucket, Refill: NanoUnit}, "2026-09-03T16:00:01Z", 0},
	} {
		if got := tt.w.Seconds(at(t, tt.now)); got != tt.want {
			t.Errorf("%+v.Seconds(%s) = %d, want %d", tt.w, tt.now, got, tt.want)
		}
	}
}

func TestKeep_OutlastsWhatIsChargedNow(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		w    Window
		now  string
		want time.Duration
	}{
		{Window{Kind: Second}, "2026-09-03T16:00:01.25Z", 1750 * time.Millisecond},
		{Window{Kind: Minute}, "2026-09-03T16:00:59.999Z", time.Second + time.Millisecond},
		{Window{Kind: Minute}, "2026-09-03T16:01:00Z", 61 * time.Second},
		{Window{Kind: Minute, Rolling: true}, "2026-09-03T16:01:00Z", 61 * time.Second},
		{Window{Kind: Hour, Rolling: true}, "2026-09-03T16:01:00Z", 61 * time.Minute},
		{Window{Kind: Day, Rolling: true}, "2026-09-03T16:01:00Z", 24*time.Hour + 24*time.Minute},
		{Window{Kind: Week}, "2026-09-06T23:00:00Z", time.Hour + time.Second},
		{Window{Kind: Month}, "2024-02-29T12:00:00Z", 12*time.Hour + time.Second},
		{Window{Kind: Total}, "2024-02-29T12:00:00Z", 0},
		{Window{Kind: Bucket, Refill: 1}, "2024-02-29T12:00:00Z", 0},
		{Window{Kind: Concurrent}, "2024-02-29T12:00:00Z", 0},
	} {
		now := at(t, tt.now)
		if got := tt.w.Keep(now); got != tt.want {
			t.Errorf("%+v.Keep(%s) = %v, want %v", tt.w, tt.now, got, tt.want)
		}
		if tt.want == 0 {
			continue
		}
		u, _ := charge(t, tt.w, Usage{}, now, 1)
		if reset, _ := tt.w.ResetAt(u, now); reset.After(now.Add(tt.want)) {
			t.Errorf("%+v charged at %s leaves at %v, after Keep = %v", tt.w, tt.now, reset, tt.want)
		}
	}
}

// Concurrent counts nothing here, whatever is asked of it.
func TestConcurrent_CountsNothing(t *testing.T) {
	t.Parallel()
	w, now := Window{Kind: Concurrent}, at(t, "2026-09-03T16:00:01Z")
	u, s := charge(t, w, Usage{}, now, 7)
	if got := w.Used(u, now); got != 0 || len(u.Counts) != 0 || s != 0 {
		t.Errorf("after Charge: Used %d, usage %+v at %d, want nothing", got, u, s)
	}
	if at, ok := w.ResetAt(u, now); ok {
		t.Errorf("ResetAt = %v, want none", at)
	}
	if _, refunded := w.Refund(u, s, now, 7); refunded != 0 || !w.Empty(u, now) {
		t.Errorf("refunded %d, empty %t, want 0, true", refunded, w.Empty(u, now))
	}
}

// A total never forgets, whatever the year (API section 3), and neither does a kind unknown.
func TestTotal_CountsForEver(t *testing.T) {
	t.Parallel()
	for _, w := range []Window{{Kind: Total}, {}} {
		first, last := at(t, "1970-01-01T00:00:00Z"), at(t, "2399-12-31T23:59:59Z")
		u, s := charge(t, w, Usage{}, first, 4)
		u, _ = charge(t, w, u, last, 5)
		if got := w.Used(w.Trim(u, last), last); got != 9 {
			t.Errorf("%+v: used %d after four centuries, want 9", w, got)
		}
		if w.Fits(u, last, 10, 2) || !w.Fits(u, last, 10, 1) {
			t.Errorf("%+v: with 9 of 10 used, 1 must fit and 2 must not", w)
		}
		if room, ok := w.RoomAt(u, last, 10, 2); ok {
			t.Errorf("%+v: RoomAt = %v, want none: a full total stays full", w, room)
		}
		if room, ok := w.RoomAt(u, last, 10, 1); !ok || !room.Equal(last) {
			t.Errorf("%+v: RoomAt = %v, %t, want now", w, room, ok)
		}
		if reset, ok := w.ResetAt(u, last); ok {
			t.Errorf("%+v: ResetAt = %v, want none", w, reset)
		}
		u, refunded := w.Refund(u, s, last, 100)
		if refunded != 9 || !w.Empty(u, last) {
			t.Errorf("%+v: refunded %d, left %+v, want 9 and nothing", w, refunded, u)
		}
	}
}

// FAULTS row 43, CASES K16: costs and sums at the ends of their range.
func TestCharge_OverflowChangesNothing(t *testing.T) {
	t.Parallel()
	now := at(t, "2026-09-03T16:00:01Z")
	for _, w := range countingWindows {
		top := int64(math.MaxInt64)
		if w.Kind == Bucket {
			top /= NanoUnit
		}
		full, _ := charge(t, w, Usage{}, now, top-1)
		for _, cost := range []int64{2, top, math.MaxInt64, -1, math.MinInt64} {
			next, _, err := w.Charge(full, now, cost)
			if !errors.Is(err, ErrOverflow) || w.Used(next, now) != top-1 {
				t.Errorf("%+v: Charge(%d on %d) = %+v, %v, want ErrOverflow and no change", w, cost, top-1, next, err)
			}
		}
		full, _ = charge(t, w, full, now, 1)
		if got := w.Used(full, now); got != top {
			t.Errorf("%+v: used %d, want %d", w, got, top)
		}
		if !w.Fits(full, now, 10, 0) || w.Fits(full, now, 10, 1) || w.Fits(full, now, math.MaxInt64, math.MaxInt64) {
			t.Errorf("%+v: with %d used, only cost 0 fits", w, top)
		}
		if got := w.Remaining(full, now, 10); got != 0 {
			t.Errorf("%+v: Remaining = %d, want 0, never less", w, got)
		}
		if next, refunded := w.Refund(full, w.SliceAt(now), now, math.MaxInt64); refunded != top || w.Used(next, now) != 0 {
			t.Errorf("%+v: refunded %d, used %d, want %d and 0", w, refunded, w.Used(next, now), top)
		}
	}
}

// API rule 4a and amount 0: a cost of 0 fits everything, amount 0 fits nothing else.
func TestFits_ClosedAndFree(t *testing.T) {
	t.Parallel()
	now := at(t, "2026-09-03T16:00:01Z")
	for _, w := range countingWindows {
		full, _ := charge(t, w, Usage{}, now, 5)
		for _, tt := range []struct {
			u            Usage
			amount, cost int64
			fits, ever   bool
		}{
			{Usage{}, 0, 0, true, true},
			{Usage{}, 0, 1, false, false},
			{Usage{}, 5, 5, true, true},
			{Usage{}, 5, 6, false, false}, // CASES O14: never fits
			{Usage{}, 5, -1, false, false},
			{Usage{}, -1, 0, true, true},
			{full, 5, 0, true, true},
			{full, 2, 0, true, true}, // amount lowered below use
			{full, 2, 1, false, w.Kind != Total},
			{full, 5, 1, false, w.Kind != Total},
			{full, 6, 1, true, true},
		} {
			if got := w.Fits(tt.u, now, tt.amount, tt.cost); got != tt.fits {
				t.Errorf("%+v.Fits(%+v, amount %d, cost %d) = %t, want %t", w, tt.u, tt.amount, tt.cost, got, tt.fits)
			}
			room, ok := w.RoomAt(tt.u, now, tt.amount, tt.cost)
			if ok != tt.ever || ok && tt.fits != room.Equal(now) || ok && room.Before(now) {
				t.Errorf("%+v.RoomAt(%+v, amount %d, cost %d) = %v, %t, want ever %t", w, tt.u, tt.amount, tt.cost, room, ok, tt.ever)
			}
		}
	}
}

// countingWindows is one of each kind that counts.
var countingWindows = []Window{
	{Kind: Second},
	{Kind: Minute},
	{Kind: Minute, Rolling: true},
	{Kind: Hour},
	{Kind: Hour, Rolling: true},
	{Kind: Day},
	{Kind: Day, Rolling: true},
	{Kind: Week},
	{Kind: Month},
	{Kind: Total},
	{Kind: Bucket, Refill: NanoUnit / 2},
}
