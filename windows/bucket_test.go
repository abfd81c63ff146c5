package windows_test

import (
	"math"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	. "github.com/holdfast-dev/holdfast/windows"
)

// ratBucket is a bucket in exact rational nano-units, moved to each instant it is asked at.
type ratBucket struct {
	rate  *big.Rat // nano-units a nanosecond
	level *big.Rat
	now   time.Time
}

func newRatBucket(refill int64, now time.Time) *ratBucket {
	return &ratBucket{rate: big.NewRat(refill, NanoUnit), level: new(big.Rat), now: now}
}

func nanoUnits(units int64) *big.Rat {
	return new(big.Rat).SetInt(new(big.Int).Mul(big.NewInt(units), big.NewInt(NanoUnit)))
}

func (b *ratBucket) refilled(d time.Duration) *big.Rat {
	return new(big.Rat).Mul(b.rate, new(big.Rat).SetInt64(int64(d)))
}

func (b *ratBucket) move(now time.Time) {
	b.level.Sub(b.level, b.refilled(now.Sub(b.now)))
	if b.now = now; b.level.Sign() < 0 {
		b.level.SetInt64(0)
	}
}

// used is the level in whole units, rounded up.
func (b *ratBucket) used() int64 { return ceil(new(big.Rat).Quo(b.level, nanoUnits(1))) }

func (b *ratBucket) fits(amount, cost int64) bool {
	return new(big.Rat).Add(b.level, nanoUnits(cost)).Cmp(nanoUnits(amount)) <= 0
}

// refund gives back what has not refilled since at, in whole nano-units, down to empty.
func (b *ratBucket) refund(at time.Time, cost int64) {
	back := new(big.Rat).Sub(nanoUnits(cost), new(big.Rat).SetInt64(ceil(b.refilled(b.now.Sub(at)))))
	if back.Sign() <= 0 {
		return
	}
	if b.level.Sub(b.level, back); b.level.Sign() < 0 {
		b.level.SetInt64(0)
	}
}

func ceil(r *big.Rat) int64 {
	q, m := new(big.Int).DivMod(r.Num(), r.Denom(), new(big.Int))
	if m.Sign() != 0 {
		q.Add(q, big.NewInt(1))
	}
	return q.Int64()
}

// checkSpan asserts that no span up to the last charge holds more than burst and refill.
func checkSpan(t *testing.T, b *ratBucket, amount int64, all []spent) {
	t.Helper()
	sum, last := int64(0), all[len(all)-1]
	for i := len(all) - 1; i >= 0; i-- {
		sum += all[i].cost
		limit := nanoUnits(amount)
		limit.Add(limit, b.refilled(last.t.Sub(all[i].t)))
		if nanoUnits(sum).Cmp(limit) > 0 {
			t.Fatalf("%d units within %v: above burst %d and refill", sum, last.t.Sub(all[i].t), amount)
		}
	}
}

// walkBucket plays a tape on a bucket beside a rational one: use, room and every decision
// are the same to the last nano-unit, however often it is written.
func walkBucket(t *testing.T, refill, amount int64, p *tape) {
	t.Helper()
	w, now := Window{Kind: Bucket, Refill: refill}, at(t, "2026-09-03T10:00:00.123456789Z")
	u, oracle, all := Usage{}, newRatBucket(refill, now), []spent(nil)
	var lastAt Slice
	for step := 0; step < 200 && !p.done(); step++ {
		now = now.Add(drawBucketPause(p, w, amount))
		oracle.move(now)
		if got, want := w.Used(u, now), oracle.used(); got != want {
			t.Fatalf("step %d, refill %d: used %d, want %d (%+v)", step, refill, got, want, u)
		}
		cost := 1 + p.next(amount+amount/4+1)
		fits := w.Fits(u, now, amount, cost)
		if want := oracle.fits(amount, cost); fits != want {
			t.Fatalf("step %d, refill %d: Fits(%d of %d) = %t, want %t", step, refill, cost, amount, fits, want)
		}
		if room, ok := w.RoomAt(u, now, amount, cost); ok != (cost <= amount) {
			t.Fatalf("step %d: RoomAt ok = %t for cost %d of %d", step, ok, cost, amount)
		} else if ok && room.Year() < 2262 {
			checkFirst(t, w, u, now, room, amount, cost)
		}
		if n := len(all); n > 0 && p.next(4) == 0 {
			u, _ = w.Refund(u, lastAt, now, all[n-1].cost)
			oracle.refund(all[n-1].t, all[n-1].cost)
			all = nil // spans that a refund lies in may hold more
		} else if fits {
			u, lastAt = charge(t, w, u, now, cost)
			oracle.level.Add(oracle.level, nanoUnits(cost))
			all = append(all, spent{now, cost})
			checkSpan(t, oracle, amount, all)
		}
	}
}

// drawBucketPause is nothing, some nanoseconds, up to a second, or about what a refill takes.
func drawBucketPause(p *tape, w Window, amount int64) time.Duration {
	full := min(w.FullRefill(amount), 1000*time.Hour)
	switch p.next(6) {
	case 0:
		return 0
	case 1, 2:
		return time.Duration(p.next(50))
	case 3:
		return time.Duration(p.next(int64(time.Second)))
	default:
		return full / 64 * time.Duration(p.next(20))
	}
}

func FuzzBucket(f *testing.F) {
	f.Add(int64(500_000_000), uint32(10), []byte("half a unit a second, called now and then, and then again ..."))
	f.Add(int64(1), uint32(1_000_000_000), []byte("\x05\x00\x00\x00\x01\x00\x00\x00\xff\xff\xff\x7f\x05\x00\x00\x00"))
	f.Add(int64(1_000_000_000_000_000_000), uint32(1_000_000_000), []byte("as fast as can be, and as large as can be, and twice over ....."))
	f.Add(int64(1_999_999_999), uint32(3), []byte("\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, refill int64, amount uint32, b []byte) {
		refill = 1 + int64(uint64(refill-1)%1_000_000_000_000_000_000)
		walkBucket(t, refill, 1+int64(amount%1_000_000_000), &tape{b})
	})
}

func TestBucket_IsExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		digits := rapid.Int64Range(1, 18).Draw(rt, "digits")
		refill := rapid.Int64Range(1, int64(math.Pow10(int(digits)))).Draw(rt, "refill")
		amount := rapid.OneOf(rapid.Int64Range(1, 20), rapid.Int64Range(1, 1_000_000_000)).Draw(rt, "amount")
		walkBucket(t, refill, amount, &tape{rapid.SliceOfN(rapid.Byte(), 100, 800).Draw(rt, "tape")})
	})
}

// Written a hundred thousand times within a second, a bucket has still refilled to the nano-unit.
func TestBucket_CalledOftenLosesNothing(t *testing.T) {
	t.Parallel()
	for _, refill := range []int64{7001, 333_333_333, NanoUnit - 1, NanoUnit + 1, 1_999_999_999} {
		w, start := Window{Kind: Bucket, Refill: refill}, at(t, "2026-09-03T10:00:00Z")
		u, _ := charge(t, w, Usage{}, start, 100)
		for i := range time.Duration(100_000) {
			u, _ = charge(t, w, u, start.Add(i*10_007), 0)
		}
		once, _ := charge(t, w, Usage{}, start, 100)
		for _, after := range []time.Duration{1_000_700_000, 1_000_700_001, 7 * time.Second, 49 * time.Second} {
			often, seldom := w.Used(u, start.Add(after)), w.Used(once, start.Add(after))
			reset, _ := w.ResetAt(u, start)
			want, _ := w.ResetAt(once, start)
			if often != seldom || !reset.Equal(want) {
				t.Errorf("refill %d, after %v: used %d, reset %v, want %d, %v", refill, after, often, reset, seldom, want)
			}
		}
	}
}

// Half a unit a second, burst 5, at named instants; API section 3 and rule 4.
func TestBucket_Tables(t *testing.T) {
	t.Parallel()
	w, start := Window{Kind: Bucket, Refill: NanoUnit / 2}, at(t, "2026-09-03T10:00:00Z")
	u, _ := charge(t, w, Usage{}, start, 5)
	for _, tt := range []struct {
		now, room string
		used      int64
	}{
		{"2026-09-03T09:00:00Z", "2026-09-03T10:00:02Z", 5}, // went back: stands at High
		{"2026-09-03T10:00:00Z", "2026-09-03T10:00:02Z", 5},
		{"2026-09-03T10:00:00.000000001Z", "2026-09-03T10:00:02Z", 5}, // half a nano-unit is none
		{"2026-09-03T10:00:01.999999999Z", "2026-09-03T10:00:02Z", 5},
		{"2026-09-03T10:00:02Z", "2026-09-03T10:00:02Z", 4},
		{"2026-09-03T10:00:09.999999999Z", "2026-09-03T10:00:09.999999999Z", 1},
		{"2026-09-03T10:00:10Z", "2026-09-03T10:00:10Z", 0},
		{"2261-12-31T00:00:00Z", "2261-12-31T00:00:00Z", 0},
	} {
		now := at(t, tt.now)
		if got := w.Used(u, now); got != tt.used {
			t.Errorf("Used at %s = %d, want %d", tt.now, got, tt.used)
		}
		if got, ok := w.RoomAt(u, now, 5, 1); !ok || !got.Equal(at(t, tt.room)) {
			t.Errorf("RoomAt %s = %v, %t, want %s", tt.now, got, ok, tt.room)
		}
		if got, ok := w.ResetAt(u, now); ok != (tt.used > 0) || ok && !got.Equal(start.Add(10*time.Second)) {
			t.Errorf("ResetAt %s = %v, %t, want %v", tt.now, got, ok, start.Add(10*time.Second))
		}
	}
}

// DESIGN section 3: a bucket takes back only what has not refilled since the charge.
func TestBucket_RefundsOnlyWhatHasNotRefilled(t *testing.T) {
	t.Parallel()
	w, start := Window{Kind: Bucket, Refill: NanoUnit}, at(t, "2026-09-03T10:00:00Z")
	for _, tt := range []struct {
		name           string
		before, cost   int64
		after          time.Duration
		refunded, used int64
	}{
		{"at once", 0, 4, 0, 4, 0},
		{"at once, on top of others", 3, 4, 0, 4, 3},
		{"after a second", 0, 4, time.Second, 3, 0},
		{"after a second, on top of others", 3, 4, time.Second, 3, 3},
		{"after half a second, whole units told", 3, 4, 500 * time.Millisecond, 3, 3},
		{"after a nanosecond", 0, 1, 1, 0, 0},
		{"all refilled", 3, 4, 4 * time.Second, 0, 3},
		{"long ago", 3, 4, time.Hour, 0, 0},
		{"the clock went back", 3, 4, -time.Hour, 4, 3},
	} {
		u, _ := charge(t, w, Usage{}, start, tt.before)
		u, s := charge(t, w, u, start, tt.cost)
		now := start.Add(tt.after)
		next, refunded := w.Refund(u, s, now, tt.cost)
		if used := w.Used(next, now); refunded != tt.refunded || used != tt.used {
			t.Errorf("%s: refunded %d, used %d, want %d, %d", tt.name, refunded, used, tt.refunded, tt.used)
		}
	}
	u, s := charge(t, w, Usage{}, start, 3)
	if next, refunded := w.Refund(u, s, start, 50); refunded != 3 || w.Used(next, start) != 0 {
		t.Errorf("more than the level: refunded %d, left %+v, want 3 and nothing", refunded, next)
	}
	third, half := Window{Kind: Bucket, Refill: NanoUnit / 3}, start.Add(500*time.Millisecond)
	if next, refunded := third.Refund(u, s, half, 50); refunded != 2 || third.Used(next, half) != 0 {
		t.Errorf("more than is in use, 2.83 of 3: refunded %d, left %+v, want 2 and nothing", refunded, next)
	}
}

// A bucket whose clock went back refills no sooner and admits no more.
func TestBucket_ClockGoingBackNeverAdmitsMore(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := Window{Kind: Bucket, Refill: rapid.Int64Range(1, 100*NanoUnit).Draw(t, "refill")}
		amount, begin := rapid.Int64Range(1, 20).Draw(t, "amount"), drawInstant(t)
		u, admitted, high := Usage{}, int64(0), time.Duration(0)
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			since := time.Duration(rapid.Int64Range(0, int64(3*time.Second)).Draw(t, "since"))
			cost := rapid.Int64Range(1, amount).Draw(t, "cost")
			if !w.Fits(u, begin.Add(since), amount, cost) {
				continue
			}
			next, _, err := w.Charge(u, begin.Add(since), cost)
			if err != nil {
				t.Fatal(err)
			}
			u, admitted, high = next, admitted+cost, max(high, since)
			most := nanoUnits(amount)
			most.Add(most, newRatBucket(w.Refill, begin).refilled(high))
			if nanoUnits(admitted).Cmp(most) > 0 {
				t.Fatalf("refill %d: admitted %d within %v, burst %d", w.Refill, admitted, high, amount)
			}
		}
	})
}

func TestFullRefill_RoundsUpAndSaturates(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		refill, amount int64
		want           time.Duration
	}{
		{NanoUnit, 0, 0},
		{NanoUnit, -1, 0},
		{NanoUnit, 10, 10 * time.Second},
		{NanoUnit / 2, 10, 20 * time.Second},
		{3 * NanoUnit, 10, 3_333_333_334},
		{1_000_000_000_000_000_000, 1, 1},
		{1_000_000_000_000_000_000, 1_000_000_000, time.Second},
		{7, 1_000_000_000, math.MaxInt64},
		{1, math.MaxInt64, math.MaxInt64},
		{999_999_999_999_999_999, math.MaxInt64 - 9, math.MaxInt64}, // 2^63-1 and a fraction
		{0, 1, math.MaxInt64},
		{-5, 1, math.MaxInt64},
	} {
		if got := (Window{Kind: Bucket, Refill: tt.refill}).FullRefill(tt.amount); got != tt.want {
			t.Errorf("refill %d: FullRefill(%d) = %d ns, want %d", tt.refill, tt.amount, got, tt.want)
		}
	}
}

// An unlimited override asks with an amount far past what nano-units can hold.
func TestBucket_AmountsPastItsRange(t *testing.T) {
	t.Parallel()
	w, now := Window{Kind: Bucket, Refill: NanoUnit}, at(t, "2026-09-03T10:00:00Z")
	const unlimited = int64(1) << 53
	u, _ := charge(t, w, Usage{}, now, 9_000_000_000)
	if got := w.Remaining(u, now, unlimited); got != unlimited-9_000_000_000 {
		t.Errorf("Remaining = %d, want %d", got, unlimited-9_000_000_000)
	}
	for amount, cost := range map[int64]int64{unlimited: 1_000_000_000, math.MaxInt64: 1, 9_000_000_001: 1} {
		if room, ok := w.RoomAt(u, now, amount, cost); !ok || !room.Equal(now) {
			t.Errorf("RoomAt(amount %d, cost %d) = %v, %t, want now", amount, cost, room, ok)
		}
	}
	room, ok := w.RoomAt(u, now, unlimited, unlimited)
	if want := now.Add(9_000_000_000 * time.Second); !ok || !room.Equal(want) {
		t.Errorf("RoomAt(all of %d) = %v, %t, want %v", unlimited, room, ok, want)
	}
}

// A refill too slow to wait for, or faulty, is told as 292 years, not as the past.
func TestBucket_WaitsSaturate(t *testing.T) {
	t.Parallel()
	start := at(t, "2026-09-03T10:00:00Z")
	for _, refill := range []int64{1, 0, -5, math.MinInt64} {
		w := Window{Kind: Bucket, Refill: refill}
		u, _ := charge(t, w, Usage{}, start, 1_000_000_000)
		want := start.Add(math.MaxInt64)
		room, ok := w.RoomAt(u, start, 1_000_000_000, 1_000_000_000)
		reset, resets := w.ResetAt(u, start)
		if !ok || !resets || !room.Equal(want) || !reset.Equal(want) {
			t.Errorf("refill %d: room %v, reset %v, want %v", refill, room, reset, want)
		}
		if later := start.Add(time.Hour); w.Used(u, later) > 1_000_000_000 || w.Fits(u, later, 1_000_000_000, 1) {
			t.Errorf("refill %d: used %d an hour later", refill, w.Used(u, later))
		}
		if u, _ = charge(t, w, u, start.Add(time.Second), 1); w.Used(u, start.Add(time.Second)) != 1_000_000_001 {
			t.Errorf("refill %d: used %d, want a unit more", refill, w.Used(u, start.Add(time.Second)))
		}
	}
}
