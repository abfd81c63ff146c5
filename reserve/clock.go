package reserve

import "time"

// Bounds of a clock that can be trusted with windows (GUARANTEES.md promise 8).
const (
	mostStep   = 2 * time.Second // wall clock moved apart from the monotonic one, or from the median of the replicas
	calmAfter  = time.Minute     // a clock that stepped is judged again when it stood still for so long
	leastQuiet = 3               // replicas needed for a median that says something
)

// stepwatch finds steps of the wall clock by its distance from the monotonic clock. A single
// node can find only steps; several compare themselves with the median of all.
type stepwatch struct {
	first   time.Time
	apart   time.Duration // wall less monotonic, at the last look
	bad     time.Time     // when it last stepped; zero: never
	offBy   time.Duration // from the median of the replicas
	offSeen time.Time
}

// stepped reports whether windows cannot be judged at now.
func (s *stepwatch) stepped(now time.Time) bool {
	if s.first.IsZero() {
		s.first = now
		return false
	}
	apart := now.Round(0).Sub(s.first.Round(0)) - now.Sub(s.first)
	if moved := (apart - s.apart).Abs(); moved > mostStep {
		s.bad = now
		s.apart = apart
	}
	if !s.bad.IsZero() && now.Sub(s.bad) < calmAfter {
		return true
	}
	return s.offBy.Abs() > mostStep && now.Sub(s.offSeen) < calmAfter
}

// compare takes in how far this clock is from the median of the replicas' clocks; offsets are
// theirs less ours, ours (0) among them.
func (s *stepwatch) compare(offsets []time.Duration, now time.Time) {
	if len(offsets) < leastQuiet {
		s.offBy = 0 // nobody is left to be off from
		return
	}
	s.offBy, s.offSeen = offsets[len(offsets)/2], now
}

// Skewed says that this replica's clock cannot be trusted with windows, untils and schedules:
// it stepped lately, or is apart from the others'.
func (s *Service) Skewed() bool {
	s.desk.mu.Lock()
	defer s.desk.mu.Unlock()
	return s.desk.clock.stepped(s.desk.now())
}
