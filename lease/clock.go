package lease

import "time"

// clock adds up how much time has passed since it was made. The wheel's lock guards it.
//
// Between two readings it takes the larger of what the monotonic and the wall clock say. The
// monotonic clock stands still while a machine is suspended, the wall clock may be set back;
// erring on the long side only makes leases look shorter than they are. Adding up the steps,
// rather than comparing with the start, keeps it from running back or standing still after a
// wall clock that was set forward is set right again.
type clock struct {
	now    func() time.Time
	last   time.Time
	passed time.Duration
}

func newClock(now func() time.Time) *clock { return &clock{now: now, last: now()} }

// read is the time passed until now.
func (c *clock) read() time.Duration {
	t := c.now()
	// Round strips the monotonic reading, so the second difference is that of the wall clock.
	c.passed += step(t.Sub(c.last), t.Round(0).Sub(c.last.Round(0)))
	c.last = t
	return c.passed
}

// step is the time between two readings, given what each clock says.
func step(monotonic, wall time.Duration) time.Duration { return max(monotonic, wall, 0) }
