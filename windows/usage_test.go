package windows_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	. "github.com/holdfast-dev/holdfast/windows"
)

// drawUsage is a usage as a life of charges and refunds leaves it, with the instant reached.
func drawUsage(t *rapid.T, w Window) (Usage, time.Time) {
	u, now := Usage{}, drawInstant(t)
	for range rapid.IntRange(0, 12).Draw(t, "charges") {
		next, s, err := w.Charge(u, now, rapid.Int64Range(0, 1000).Draw(t, "cost"))
		if err != nil {
			t.Fatal(err)
		}
		u = next
		if rapid.Bool().Draw(t, "back") {
			u, _ = w.Refund(u, s, now, rapid.Int64Range(0, 1200).Draw(t, "refund"))
		}
		now = now.Add(drawGap(t, w))
	}
	return u, now
}

// drawGap is a pause of a length that matters to w, up to a little over a window.
func drawGap(t *rapid.T, w Window) time.Duration {
	unit := time.Duration(w.Seconds(time.Unix(0, 0))) * time.Second
	if unit == 0 {
		unit = time.Minute
	}
	return time.Duration(rapid.Int64Range(0, int64(unit+unit/30)).Draw(t, "gap"))
}

// A charge taken back in the same instant leaves what was there; nothing given is changed.
func TestRefund_UndoesCharge(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := rapid.SampledFrom(countingWindows).Draw(t, "window")
		u, now := drawUsage(t, w)
		cost := rapid.Int64Range(0, 1_000_000_000).Draw(t, "cost")
		before := slices.Clone(u.Counts)
		charged, s, err := w.Charge(u, now, cost)
		if err != nil || w.Used(charged, now) != w.Used(u, now)+cost {
			t.Fatalf("%+v.Charge(%+v, %v, %d) = %+v, %v: used %d", w, u, now, cost, charged, err, w.Used(charged, now))
		}
		kept := slices.Clone(charged.Counts)
		back, refunded := w.Refund(charged, s, now, cost)
		if !slices.Equal(u.Counts, before) || !slices.Equal(charged.Counts, kept) {
			t.Fatalf("%+v: the Counts given were changed", w)
		}
		want := w.Trim(u, now)
		if refunded != cost || !slices.Equal(back.Counts, want.Counts) || w.Used(back, now) != w.Used(u, now) {
			t.Fatalf("%+v: %+v charged and refunded %d at %v is %+v, refunded %d", w, u, cost, now, back, refunded)
		}
		if again, more := w.Refund(back, s+1, now, 5); w.Kind != Bucket && (more != 0 || w.Used(again, now) != w.Used(u, now)) {
			t.Fatalf("%+v: refunded %d of a slice never charged", w, more)
		}
	})
}

// Trim never changes what is used, now or later, and what is read after it is the same.
func TestTrim_NeverChangesUsed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := rapid.SampledFrom(countingWindows).Draw(t, "window")
		u, now := drawUsage(t, w)
		trimmed := w.Trim(u, now)
		for range 4 {
			if got, want := w.Used(trimmed, now), w.Used(u, now); got != want {
				t.Fatalf("%+v at %v: Used(Trim) = %d, want %d of %+v", w, now, got, want, u)
			}
			if got, want := w.Empty(trimmed, now), w.Empty(u, now); got != want {
				t.Fatalf("%+v at %v: Empty(Trim) = %t, want %t of %+v", w, now, got, want, u)
			}
			if w.Empty(u, now) && w.Used(u, now) != 0 {
				t.Fatalf("%+v at %v: Empty with %d used", w, now, w.Used(u, now))
			}
			checkReset(t, w, u, now)
			now = now.Add(drawGap(t, w))
		}
		if n := len(trimmed.Counts); n > 61 || !w.Rolling && n > 2 {
			t.Fatalf("%+v: %d counts kept", w, n)
		}
		if !slices.IsSortedFunc(trimmed.Counts, func(a, b Count) int { return int(a.Slice - b.Slice) }) {
			t.Fatalf("%+v: counts not ascending: %+v", w, trimmed.Counts)
		}
	})
}

// FAULTS rows 21 and 50: a clock jumping to and fro among n slices admits no more than a clock
// that passes through them once could: the amount for each whole life of a slice.
func TestClock_GoingBackNeverAdmitsMore(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := rapid.SampledFrom(countingWindows[:len(countingWindows)-1]).Draw(t, "window")
		amount, begin := rapid.Int64Range(1, 20).Draw(t, "amount"), drawInstant(t)
		u, admitted, high := Usage{}, int64(0), begin
		oldest, newest := w.SliceAt(begin), w.SliceAt(begin)
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			now := begin.Add(drawGap(t, w))
			cost := rapid.Int64Range(1, amount).Draw(t, "cost")
			if room, ok := w.RoomAt(u, now, amount, cost); ok {
				checkFirst(t, w, u, now, room, amount, cost)
			}
			if !w.Fits(u, now, amount, cost) {
				continue
			}
			if now.After(high) {
				high = now
			}
			next, s, err := w.Charge(u, now, cost)
			if err != nil || s != w.SliceAt(high) && w.Kind != Total || s < u.High {
				t.Fatalf("%+v at %v: charged to %d, want the greatest slice judged, %d", w, now, s, w.SliceAt(high))
			}
			u, admitted = next, admitted+cost
			newest = max(newest, s)
		}
		lives := int64(newest-oldest) + 1 // calendar: periods touched
		if w.Rolling {
			lives = (lives + 60) / 61 // a slice lives through 61
		}
		if admitted > amount*lives {
			t.Fatalf("%+v: admitted %d in slices %d to %d, want at most %d", w, admitted, oldest, newest, amount*lives)
		}
	})
}

// Reading the tables: a slice lives through itself and the 60 after it.
func TestRolling_TheOldestSliceCountsWhole(t *testing.T) {
	t.Parallel()
	w := Window{Kind: Hour, Rolling: true}
	u, _ := charge(t, w, Usage{}, at(t, "2026-09-03T10:00:59.999Z"), 4)
	u, _ = charge(t, w, u, at(t, "2026-09-03T10:01:00Z"), 5)
	for _, tt := range []struct {
		now  string
		want int64
	}{
		{"2026-09-03T09:00:00Z", 9}, // a clock that went back stands at the newest slice
		{"2026-09-03T10:01:00Z", 9},
		{"2026-09-03T11:00:59.999999999Z", 9},
		{"2026-09-03T11:01:00Z", 5},
		{"2026-09-03T11:01:59.999999999Z", 5},
		{"2026-09-03T11:02:00Z", 0},
	} {
		if got := w.Used(u, at(t, tt.now)); got != tt.want {
			t.Errorf("Used at %s = %d, want %d", tt.now, got, tt.want)
		}
	}
	for _, tt := range []struct {
		now, want string
		cost      int64
	}{
		{"2026-09-03T10:30:00Z", "2026-09-03T10:30:00Z", 1},
		{"2026-09-03T10:30:00Z", "2026-09-03T11:01:00Z", 5},
		{"2026-09-03T10:30:00Z", "2026-09-03T11:02:00Z", 6},
		{"2026-09-03T01:00:00Z", "2026-09-03T11:02:00Z", 10},
	} {
		room, ok := w.RoomAt(u, at(t, tt.now), 10, tt.cost)
		if !ok || !room.Equal(at(t, tt.want)) {
			t.Errorf("RoomAt(%s, cost %d) = %v, %t, want %s", tt.now, tt.cost, room, ok, tt.want)
		}
	}
}

// What may be forgotten: nothing whose absence could let a clock in again.
func TestEmpty_OnlyWhenNothingIsLeftToRemember(t *testing.T) {
	t.Parallel()
	start := at(t, "2026-09-03T10:00:00Z")
	for _, tt := range []struct {
		name  string
		w     Window
		after time.Duration
		want  bool
	}{
		{"calendar minute, present period", Window{Kind: Minute}, 59 * time.Second, false},
		{"calendar minute, period before", Window{Kind: Minute}, 60 * time.Second, false},
		{"calendar minute, two later", Window{Kind: Minute}, 120 * time.Second, true},
		{"rolling minute, last instant", Window{Kind: Minute, Rolling: true}, 61*time.Second - 1, false},
		{"rolling minute, left", Window{Kind: Minute, Rolling: true}, 61 * time.Second, true},
		{"bucket, a nano-unit short", Window{Kind: Bucket, Refill: NanoUnit}, 3*time.Second - 1, false},
		{"bucket, full again", Window{Kind: Bucket, Refill: NanoUnit}, 3 * time.Second, true},
		{"total", Window{Kind: Total}, 1000 * time.Hour, false},
	} {
		u, s := charge(t, tt.w, Usage{}, start, 3)
		if got := tt.w.Empty(u, start.Add(tt.after)); got != tt.want {
			t.Errorf("%s: Empty = %t, want %t", tt.name, got, tt.want)
		}
		u, _ = tt.w.Refund(u, s, start, 3)
		if !tt.w.Empty(u, start) {
			t.Errorf("%s: all refunded, yet %+v is not empty", tt.name, u)
		}
		if tt.w.Kind != Total && tt.w.Empty(u, start.Add(-time.Minute)) {
			t.Errorf("%s: High ahead of the clock must be remembered", tt.name)
		}
	}
	if !(Window{Kind: Day}).Empty(Usage{}, start) {
		t.Error("the zero Usage is not empty")
	}
}

// A cost of 0 adds no count, yet the slice it was judged in is remembered.
func TestCharge_CostZeroOnlyRaisesHigh(t *testing.T) {
	t.Parallel()
	start := at(t, "2026-09-03T10:00:00Z")
	for _, w := range countingWindows {
		u, _ := charge(t, w, Usage{}, start, 0)
		if len(u.Counts) != 0 || u.Level != 0 || u.High != w.SliceAt(start) {
			t.Errorf("%+v: cost 0 gives %+v, want only High = %d", w, u, w.SliceAt(start))
		}
		next, refunded := w.Refund(u, u.High, start, 0)
		if refunded != 0 || next.High != u.High {
			t.Errorf("%+v: refund of 0 gives %+v, %d", w, next, refunded)
		}
	}
}

// High alone holds the clock, also when everything was refunded and no count tells the slice.
func TestClock_StandsAtHighWithoutCounts(t *testing.T) {
	t.Parallel()
	start := at(t, "2026-09-03T10:00:00Z")
	for _, w := range countingWindows {
		if w.Kind == Total {
			continue // has no clock
		}
		high, back := w.SliceAt(start), start.AddDate(0, -2, 0)
		u, s := charge(t, w, Usage{High: high}, back, 3)
		if s != high || u.High != high {
			t.Errorf("%+v: charged to %d, High %d, want both %d", w, s, u.High, high)
		}
		if room, ok := w.RoomAt(u, back, 3, 1); !ok || !room.After(start) {
			t.Errorf("%+v: RoomAt = %v, %t, want an instant after High", w, room, ok)
		}
	}
}

// Charge forbids such counts, yet a store may hand them over: their sum must not wrap to room.
func TestUsed_SaturatesRatherThanWraps(t *testing.T) {
	t.Parallel()
	w, now := Window{Kind: Minute, Rolling: true}, at(t, "2026-09-03T10:00:00Z")
	s := w.SliceAt(now)
	u := Usage{High: s, Counts: []Count{{s - 2, 5}, {s - 1, math.MaxInt64}, {s, math.MaxInt64}}}
	if got := w.Used(u, now); got != math.MaxInt64 {
		t.Errorf("Used(%+v) = %d, want %d", u, got, int64(math.MaxInt64))
	}
	if room, ok := w.RoomAt(u, now, 10, 6); !ok || !room.Equal(w.Start(s+61)) {
		t.Errorf("RoomAt = %v, %t, want when the newest slice leaves, %v", room, ok, w.Start(s+61))
	}
}

// A trim that drops something also raises High: no slice dropped may be lived again.
func TestTrim_RaisesHighWhenItDrops(t *testing.T) {
	t.Parallel()
	w, start := Window{Kind: Minute, Rolling: true}, at(t, "2026-09-03T10:00:00Z")
	u, s := charge(t, w, Usage{}, start, 3)
	if got := w.Trim(u, start.Add(60*time.Second)); got.High != s || len(got.Counts) != 1 {
		t.Errorf("nothing to drop: %+v, want it unchanged", got)
	}
	if got := w.Trim(u, start.Add(61*time.Second)); got.High != s+61 || len(got.Counts) != 0 {
		t.Errorf("all dropped: %+v, want High %d", got, s+61)
	}
}

// fullRing is a rolling hour with a count in each of its 61 slices, at its last instant.
func fullRing(tb testing.TB) (Window, Usage, time.Time) {
	tb.Helper()
	w, u, now := Window{Kind: Hour, Rolling: true}, Usage{}, at(tb, "2026-09-03T10:00:00Z")
	for range 61 {
		u, _ = charge(tb, w, u, now, 1)
		now = now.Add(time.Minute)
	}
	return w, u, now.Add(-time.Minute)
}

// The path asks these for every limit of every request. Not parallel: others would be counted.
func TestAllocations(t *testing.T) {
	w, ring, now := fullRing(t)
	bucket, level := Window{Kind: Bucket, Refill: 333_333_333}, Usage{}
	level, _ = charge(t, bucket, level, now, 5)
	month, count := Window{Kind: Month}, Usage{}
	count, _ = charge(t, month, count, now, 5)
	for _, tt := range []struct {
		name string
		want float64
		f    func()
	}{
		{"read, full ring", 0, func() { w.Used(ring, now); w.Fits(ring, now, 61, 1); w.Trim(ring, now); w.Empty(ring, now) }},
		{"wait, full ring", 0, func() { w.RoomAt(ring, now, 61, 60); w.ResetAt(ring, now) }},
		{"wait, month", 0, func() { month.RoomAt(count, now, 5, 5); month.ResetAt(count, now) }},
		{"wait, bucket", 0, func() { bucket.RoomAt(level, now, 5, 5); bucket.ResetAt(level, now) }},
		{"charge, full ring", 1, func() { _, _, _ = w.Charge(ring, now, 1) }},
		{"refund, full ring", 1, func() { w.Refund(ring, ring.Counts[30].Slice, now, 1) }},
		{"charge, bucket", 0, func() { _, _, _ = bucket.Charge(level, now, 1) }},
	} {
		if got := testing.AllocsPerRun(100, tt.f); got != tt.want {
			t.Errorf("%s: %v allocations, want %v", tt.name, got, tt.want)
		}
	}
}

func BenchmarkFits(b *testing.B) {
	w, u, now := fullRing(b)
	b.ReportAllocs()
	for b.Loop() {
		w.Fits(u, now, 100, 1)
	}
}

func BenchmarkUsed(b *testing.B) {
	w, u, now := fullRing(b)
	b.ReportAllocs()
	for b.Loop() {
		w.Used(u, now)
	}
}

func BenchmarkCharge(b *testing.B) {
	w, u, now := fullRing(b)
	b.ReportAllocs()
	for b.Loop() {
		_, _, _ = w.Charge(u, now, 1)
	}
}
