package memory_test

import (
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// handClock is a clock that stands until it is moved.
type handClock struct {
	mu sync.Mutex
	at time.Time
}

func newHandClock() *handClock { return &handClock{at: time.Unix(1_800_000_000, 0).UTC()} }

func (c *handClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *handClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Exercise(t, func(*testing.T) storetest.Bench {
		clock := newHandClock()
		s := memory.New(memory.Config{Now: clock.now, Replica: "r1", MaxOps: 4096, CheckValues: true})
		wheel := s.Leases("r1", clock.now)
		kinds := map[string]memory.Fault{
			storetest.FaultBefore: memory.Before, storetest.FaultAfter: memory.After, storetest.FaultLate: memory.Late,
		}
		return storetest.Bench{
			Store: s, Lister: s, History: s, Leases: wheel, Replica: "r1", Session: s.Session("r1"),
			Advance: func(d time.Duration) {
				for ; d > 0; d -= time.Second {
					clock.advance(min(d, time.Second))
					wheel.Tick()
					s.Tick()
				}
			},
			Fault: func(kind string, n int) {
				if kind == storetest.FaultRelease {
					s.ReleaseLate()
					return
				}
				s.FailNext(kinds[kind], n)
			},
			Compact: s.CompactNow,
		}
	})
}
