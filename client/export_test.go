package client

import (
	"sync/atomic"
	"time"
)

// WallClock lets a test run c's wall clock ahead of its monotonic one: a machine that slept.
// Call it before c has holds.
func WallClock(c *Client) (ahead *atomic.Int64) {
	ahead = new(atomic.Int64)
	real := c.now
	c.now = func() instant {
		i := real()
		i.wall = i.wall.Add(time.Duration(ahead.Load()))
		return i
	}
	return ahead
}

// ParseRetryAfter is parseRetryAfter.
var ParseRetryAfter = parseRetryAfter
