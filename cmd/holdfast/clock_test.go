package main

import (
	"testing"
	"time"
)

// CLI.md section 2, --test-clock: forward only, and within reason.
func TestTestClock(t *testing.T) {
	t.Parallel()
	real := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	c := &testClock{now: func() time.Time { return real }}
	if got := c.read(); !got.Equal(real) {
		t.Errorf("before it was moved: got %v, want %v", got, real)
	}
	got, err := c.advance(36 * time.Hour)
	if want := real.Add(36 * time.Hour); err != nil || !got.Equal(want) || !c.read().Equal(want) {
		t.Errorf("after 36 h: got %v, %v, want %v", got, err, want)
	}
	real = real.Add(time.Second)
	if want := real.Add(36 * time.Hour); !c.read().Equal(want) {
		t.Errorf("a second later: got %v, want %v", c.read(), want)
	}
	for _, d := range []time.Duration{-1, maxAhead} {
		if at, err := c.advance(d); err == nil {
			t.Errorf("advance(%v): got %v, want an error", d, at)
		}
	}
}
