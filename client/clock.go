package client

import "time"

// instant is one reading of both clocks. The monotonic clock stands still while a machine is
// suspended, the wall clock may be set: neither alone tells how much time has passed for sure.
type instant struct {
	mono time.Duration // since the client was made
	wall time.Time     // without a monotonic reading
}

// since is how much time has passed from then to i at most: the larger of what both clocks say.
func (i instant) since(then instant) time.Duration {
	return max(i.mono-then.mono, i.wall.Sub(then.wall))
}

// apart is how far the wall clock has moved ahead of the monotonic one between then and i.
func (i instant) apart(then instant) time.Duration {
	return i.wall.Sub(then.wall) - (i.mono - then.mono)
}

// clock reads both clocks at once; monotonic time counts from now on.
func clock() func() instant {
	birth := time.Now()
	return func() instant {
		now := time.Now()
		return instant{mono: now.Sub(birth), wall: now.Round(0)}
	}
}
