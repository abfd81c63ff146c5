//go:build unix

package main

import "time"

// instant is a moment on both clocks. The steady one stands still while a machine sleeps, the
// wall one may be set: whoever must not be late looks at both.
type instant struct{ steady, wall time.Time }

func (a *app) clocks() instant {
	now := a.now()
	return instant{steady: now, wall: now.Round(0)}
}

// since is how much time has passed from an earlier instant: the larger of the two clocks'
// figures (FAULTS rows 6 and 7).
func (i instant) since(earlier instant) time.Duration {
	return max(i.steady.Sub(earlier.steady), i.wall.Sub(earlier.wall))
}

// terms are the lengths of time that a command runs by (CLI.md section 3).
type terms struct {
	ttl       time.Duration // T: what each act of ours asks of the server
	killAfter time.Duration // K: from TERM to KILL
	margin    time.Duration // M: from KILL to the moment the slot may be given on
}

// fit reports whether there is time for one failed extend before the command must stop.
func (t terms) fit() bool { return t.ttl > 2*(t.killAfter+t.margin) }

// termAt and killAt are counted from the first sending of the last act that took effect.
func (t terms) termAt() time.Duration { return t.ttl - t.killAfter - t.margin }
func (t terms) killAt() time.Duration { return t.ttl - t.margin }

// Between two looks at the clocks: often enough for the margin, seldom enough for hundreds of
// commands on a machine.
const (
	leastTick   = 20 * time.Millisecond
	longestTick = 250 * time.Millisecond
)

func (t terms) tick() time.Duration { return min(max(t.ttl/40, leastTick), longestTick) }

// extendAfter is when the next extend is due: a third of the TTL, and up to a tenth of that
// earlier, so that commands that began together do not stay together. It is never later.
func (t terms) extendAfter() time.Duration {
	third := t.ttl / 3
	return third - (jitter(third)-third)*2/5
}
