package lease

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"pgregory.net/rapid"
)

func TestStep_TakesTheLongerAndNeverRunsBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                  string
		monotonic, wall, want time.Duration
	}{
		{"both run", time.Second, time.Second, time.Second},
		{"suspended: only the wall clock ran", 0, time.Hour, time.Hour},
		{"the wall clock was set back", time.Second, -time.Hour, time.Second},
		{"both went back", -time.Second, -time.Hour, 0},
	} {
		if got := step(c.monotonic, c.wall); got != c.want {
			t.Errorf("%s: step(%v, %v): got %v, want %v", c.name, c.monotonic, c.wall, got, c.want)
		}
	}
}

// A wall clock set forward and right again must not leave the wheel's clock ahead or still.
func TestClock_GoesOnAfterTheWallClockWasSetRight(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_000_000, 0)
	c := newClock(func() time.Time { return at })
	for _, move := range []time.Duration{time.Hour, -time.Hour, time.Second, time.Second} {
		at = at.Add(move)
		c.read()
	}
	if got, want := c.read(), time.Hour+2*time.Second; got != want {
		t.Errorf("passed after +1h, -1h, +1s, +1s: got %v, want %v", got, want)
	}
}

func TestClockIsBehind_ToleratesWhatEtcdRoundsAway(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		believed, left time.Duration
		want           bool
	}{
		{100 * time.Second, 100 * time.Second, false},
		{100999 * time.Millisecond, 100 * time.Second, false},
		{101500 * time.Millisecond, 100 * time.Second, false},
		{101501 * time.Millisecond, 100 * time.Second, true},
		{100 * time.Second, 600 * time.Second, false}, // its TTL began anew
		{time.Second, -time.Second, true},             // it has ended
		{0, -time.Second, false},
	} {
		if got := clockIsBehind(c.believed, c.left); got != c.want {
			t.Errorf("clockIsBehind(%v believed, %v left): got %v, want %v", c.believed, c.left, got, c.want)
		}
	}
}

func TestSettle_RoundUpNeverFallsShort(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		keep, grain := settle(
			time.Duration(rapid.Int64Range(-1, int64(MaxKeep)).Draw(t, "keep")),
			time.Duration(rapid.Int64Range(-1, int64(2*MaxKeep)).Draw(t, "grain")))
		need := time.Duration(rapid.Int64Range(0, int64(10*MaxKeep)).Draw(t, "now")) + keep + Surplus
		got := roundUp(need, grain)
		if got < need || got-need >= grain || got%grain != 0 {
			t.Fatalf("roundUp(%v, %v): got %v", need, grain, got)
		}
		if grain < MinGrain || grain > MaxKeep || keep < MinKeep {
			t.Fatalf("settle: got keep %v, grain %v", keep, grain)
		}
	})
}

// Whatever is asked in whatever order: never a lease that ends early or more than a grain late,
// never more than KeysPerLease keys on one.
func TestBook_TakesOnlyWhatSuits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b, now, nextID := newBook(), time.Duration(0), int64(0)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			now += time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond
			b.forget(now)
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				b.drop(rapid.Int64Range(1, nextID+1).Draw(t, "dead"))
			default:
				keep, grain := settle(time.Duration(rapid.IntRange(1, 60).Draw(t, "keep"))*time.Second, 0)
				need := now + keep + Surplus
				e, isNew := b.take(need, roundUp(need, grain))
				if e.deadline < need || e.deadline >= need+grain {
					t.Fatalf("at %v, need %v, grain %v: got a lease until %v", now, need, grain, e.deadline)
				}
				if isNew && rapid.Bool().Draw(t, "granted") {
					nextID++
					b.granted(e, nextID, e.deadline)
				} else if isNew {
					b.failed(e, ErrUnavailable)
				}
			}
			checkBook(t, b, now)
		}
	})
}

func checkBook(t *rapid.T, b *book, now time.Duration) {
	if len(b.all) != len(b.known) {
		t.Fatalf("at %v: %d in order, %d by id", now, len(b.all), len(b.known))
	}
	for i, e := range b.all {
		if e.deadline <= now {
			t.Fatalf("at %v: a lease until %v is remembered", now, e.deadline)
		}
		if i > 0 && b.all[i-1].deadline > e.deadline {
			t.Fatalf("at %v: not in order", now)
		}
	}
	for _, e := range b.open {
		if e.keys >= KeysPerLease || b.known[e.id] != e {
			t.Fatalf("at %v: lease %d with %d keys is open", now, e.id, e.keys)
		}
	}
}

func TestBook_RemembersABoundedNumber(t *testing.T) {
	t.Parallel()
	b := newBook()
	for i := range int64(maxRemembered + 10) {
		d := time.Duration(i+1) * time.Hour
		e, _ := b.take(d, d)
		b.granted(e, i+1, d)
	}
	b.forget(0)
	if len(b.known) != maxRemembered || len(b.all) != maxRemembered || len(b.open) != maxRemembered {
		t.Errorf("remembered: got %d, %d, %d, want %d", len(b.known), len(b.all), len(b.open), maxRemembered)
	}
	if b.lasts(1, 0) || !b.lasts(maxRemembered+10, 0) {
		t.Error("forgotten: want those that end first")
	}
}

func TestTranslate_SaysWhatTheCallerCanActOn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		full bool
		text string
	}{
		{rpctypes.ErrNoSpace, true, "lease: grant: etcd is unavailable: etcd has no space left"},
		{context.DeadlineExceeded, false, "lease: grant: etcd is unavailable: no answer in time"},
		{rpctypes.ErrNoLeader, false, "lease: grant: etcd is unavailable: it has no leader"},
		{rpctypes.ErrTooManyRequests, false, "lease: grant: etcd is unavailable: it is overloaded"},
		{context.Canceled, false, "lease: grant: etcd is unavailable: context canceled"},
		{errors.New("odd"), false, "lease: grant: etcd is unavailable: odd"},
	} {
		got := translate("grant", c.err)
		if !errors.Is(got, ErrUnavailable) || errors.Is(got, ErrFull) != c.full || got.Error() != c.text {
			t.Errorf("translate(%v): got %q, full %v; want %q, full %v", c.err, got, errors.Is(got, ErrFull), c.text, c.full)
		}
	}
}
