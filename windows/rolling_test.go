package windows_test

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	. "github.com/holdfast-dev/holdfast/windows"
)

var rollingKinds = []Kind{Minute, Hour, Day}

// CASES O17: ten in each of [0,5), [61,66) and [122,127).
func TestRolling_AskingKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	w, u, begin := Window{Kind: Minute, Rolling: true}, Usage{}, at(t, "2026-09-03T10:00:00Z")
	var got, want []time.Duration
	for _, from := range []time.Duration{0, 61, 122} {
		for i := range time.Duration(10) {
			want = append(want, from*time.Second+i*500*time.Millisecond)
		}
	}
	for since := time.Duration(0); since < 180*time.Second; since += 500 * time.Millisecond {
		next, ok := take(t, w, u, begin.Add(since), 10, 1)
		if u = next; ok {
			got = append(got, since)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("allowed at T+%v, want T+%v", got, want)
	}
}

// CASES O13: exactly the amount, for amounts 1, 2 and 6; 8,640 of 10,080 over a day.
func TestFits_ExactlyTheAmount(t *testing.T) {
	t.Parallel()
	begin := at(t, "2026-09-03T00:00:00Z")
	for _, w := range countingWindows {
		for _, amount := range []int64{1, 2, 6} {
			u, taken := Usage{}, int64(0)
			for i := range amount + 5 {
				next, ok := take(t, w, u, begin.Add(time.Duration(i)*time.Millisecond), amount, 1)
				if u = next; ok {
					taken++
				}
			}
			if taken != amount {
				t.Errorf("%+v: took %d of %d", w, taken, amount)
			}
		}
	}
	u, taken := Usage{}, 0
	for minute := range 24 * 60 {
		for call := range 7 {
			now := begin.Add(time.Duration(minute)*time.Minute + time.Duration(call)*8*time.Second)
			next, ok := take(t, Window{Kind: Minute}, u, now, 6, 1)
			if u = next; ok {
				taken++
			}
		}
	}
	if taken != 8640 {
		t.Errorf("a day of seven calls a minute under 6: took %d, want 8640", taken)
	}
}

// CASES O18 step 3: fill, be refused, wait exactly the whole seconds told, pass.
func TestRoomAt_TheWaitToldIsEnough(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := rapid.SampledFrom(countingWindows).Draw(t, "window")
		if w.Kind == Total {
			t.Skip("a full total never has room")
		}
		now, amount := drawInstant(t), rapid.Int64Range(1, 50).Draw(t, "amount")
		cost := rapid.Int64Range(1, amount).Draw(t, "cost")
		u := Usage{}
		for w.Fits(u, now, amount, cost) {
			u, _, _ = w.Charge(u, now, rapid.Int64Range(1, w.Remaining(u, now, amount)).Draw(t, "fill"))
			now = now.Add(time.Duration(rapid.Int64Range(0, 400_000_000).Draw(t, "pause")))
		}
		room, ok := w.RoomAt(u, now, amount, cost)
		if !ok || !room.After(now) {
			t.Fatalf("%+v at %v: refused %d, RoomAt = %v, %t, want a later instant", w, now, cost, room, ok)
		}
		checkFirst(t, w, u, now, room, amount, cost)
		wait := (room.Sub(now) + time.Second - 1) / time.Second // whole seconds, rounded up
		if wait < 1 || !w.Fits(u, now.Add(wait*time.Second), amount, cost) {
			t.Fatalf("%+v at %v: %d does not fit after the %d s told", w, now, cost, wait)
		}
	})
}

// checkFirst asserts that room is the first instant at which cost fits.
func checkFirst(t interface{ Fatalf(string, ...any) }, w Window, u Usage, now, room time.Time, amount, cost int64) {
	if !w.Fits(u, room, amount, cost) {
		t.Fatalf("%+v %+v at %v: cost %d of %d does not fit at RoomAt %v", w, u, now, cost, amount, room)
	}
	if early := room.Add(-1); !early.Before(now) && w.Fits(u, early, amount, cost) {
		t.Fatalf("%+v %+v at %v: cost %d of %d fits 1 ns before RoomAt %v", w, u, now, cost, amount, room)
	}
}

// checkReset asserts that ResetAt is the first instant with nothing in use.
func checkReset(t interface{ Fatalf(string, ...any) }, w Window, u Usage, now time.Time) {
	reset, ok := w.ResetAt(u, now)
	if used := w.Used(u, now); ok != (used > 0 && w.Kind != Total) {
		t.Fatalf("%+v %+v at %v: ResetAt = %v, %t with %d used", w, u, now, reset, ok, used)
	}
	if !ok {
		return
	}
	if !reset.After(now) || w.Used(u, reset) != 0 || w.Used(u, reset.Add(-1)) == 0 {
		t.Fatalf("%+v %+v at %v: ResetAt = %v: not the first instant of no use after now", w, u, now, reset)
	}
}

// tape feeds decisions from fuzz bytes; it reads as zeros past its end.
type tape struct{ b []byte }

func (p *tape) next(bound int64) int64 {
	var word [8]byte
	n := copy(word[:4], p.b)
	p.b = p.b[n:]
	return int64(binary.LittleEndian.Uint64(word[:]) % uint64(bound))
}

func (p *tape) done() bool { return len(p.b) == 0 }

// spent is one charge as an outsider saw it.
type spent struct {
	t    time.Time
	cost int64
}

// recount adds up what was spent in (now-d, now].
func recount(all []spent, now time.Time, d time.Duration) (sum int64) {
	for _, s := range all {
		if s.t.After(now.Add(-d)) && !s.t.After(now) {
			sum += s.cost
		}
	}
	return sum
}

// walkRolling plays a tape on one rolling window and recounts naively: never above the amount
// in any true window, never refused more than one slice early (GUARANTEES promise 8).
func walkRolling(t *testing.T, kind Kind, amount int64, p *tape) {
	t.Helper()
	w := Window{Kind: kind, Rolling: true}
	length := time.Duration(w.Seconds(time.Time{})) * time.Second
	slice := length / 60
	now, u, all := at(t, "2026-09-03T10:00:00Z"), Usage{}, []spent(nil)
	for step := 0; step < 300 && !p.done(); step++ {
		now = now.Add(drawPause(p, now, slice))
		cost := 1 + p.next(amount+amount/4+1)
		fits := w.Fits(u, now, amount, cost)
		room, ok := w.RoomAt(u, now, amount, cost)
		if ok != (cost <= amount) {
			t.Fatalf("step %d: RoomAt ok = %t for cost %d of %d", step, ok, cost, amount)
		}
		if ok {
			checkFirst(t, w, u, now, room, amount, cost)
		}
		if trimmed := w.Trim(u, now); w.Used(trimmed, now) != w.Used(u, now) || len(trimmed.Counts) > 61 {
			t.Fatalf("step %d: Trim(%+v) = %+v changes what is used", step, u, trimmed)
		}
		checkReset(t, w, u, now)
		if !fits {
			if soft := recount(all, now, length+slice); cost <= amount-soft {
				t.Fatalf("step %d at %v: refused %d with %d of %d in the window and a slice: too early", step, now, cost, soft, amount)
			}
			continue
		}
		u, _ = charge(t, w, u, now, cost)
		all = append(all, spent{now, cost})
		if sum := recount(all, now, length); sum > amount {
			t.Fatalf("step %d at %v: %d within a true window of amount %d", step, now, sum, amount)
		}
		if n := len(all); n > 1 && now.Sub(all[n-2].t) > 3*length {
			all = all[n-1:]
		}
	}
}

// drawPause is nothing, a little, a few slices, or to the very edge of a slice.
func drawPause(p *tape, now time.Time, slice time.Duration) time.Duration {
	switch p.next(8) {
	case 0:
		return 0
	case 1, 2:
		return time.Duration(p.next(int64(slice)))
	case 3, 4:
		return time.Duration(p.next(70)) * slice
	case 5:
		return now.Truncate(slice).Add(slice).Sub(now)
	case 6:
		return now.Truncate(slice).Add(slice - 1).Sub(now)
	default:
		return time.Duration(p.next(10)) * slice / 3
	}
}

func FuzzRolling(f *testing.F) {
	f.Add(uint8(0), uint16(10), []byte("a few calls in one slice, then some at its very edge ......"))
	f.Add(uint8(1), uint16(1), []byte{5, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 59, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0})
	f.Add(uint8(2), uint16(1000), []byte("\x06\x00\x00\x00\xff\xff\x00\x00\x03\x00\x00\x00\x3c\x00\x00\x00\x10\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, kind uint8, amount uint16, b []byte) {
		walkRolling(t, rollingKinds[int(kind)%len(rollingKinds)], 1+int64(amount), &tape{b})
	})
}

func TestRolling_NeverAboveAndAtMostASliceEarly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 200, 1500).Draw(rt, "tape")
		amount := rapid.Int64Range(1, 40).Draw(rt, "amount")
		walkRolling(t, rapid.SampledFrom(rollingKinds).Draw(rt, "kind"), amount, &tape{b})
	})
}
