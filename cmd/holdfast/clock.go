package main

import (
	"errors"
	"sync"
	"time"
)

// maxAhead is how far a test clock may be moved in all; more is a mistake.
const maxAhead = 100 * 366 * 24 * time.Hour

// testClock is the clock of windows, schedules and untils under dev --test-clock. It runs as
// the real one does and can be moved forward, never back.
type testClock struct {
	now func() time.Time

	mu    sync.Mutex
	ahead time.Duration
}

func (c *testClock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now().Add(c.ahead)
}

var errAhead = errors.New("the test clock is a hundred years ahead already")

// advance moves the clock forward by d and tells what it reads then.
func (c *testClock) advance(d time.Duration) (time.Time, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d < 0 || c.ahead > maxAhead-d {
		return time.Time{}, errAhead
	}
	c.ahead += d
	return c.now().Add(c.ahead), nil
}
