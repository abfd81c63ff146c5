package reserve

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// lineGauges are asked at each scrape.
type lineGauges struct{ waiters, longest, oldest func() float64 }

// The ends of a wait: the values of the label "end".
const (
	endGranted   = "granted"
	endRefused   = "refused"
	endCancelled = "cancelled"
	endHungUp    = "hung up"
	endFailed    = "failed"
)

func newWaits() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "holdfast_line_wait_seconds", Help: "How long callers waited that were ready to, by how it ended.",
		Buckets: []float64{.001, .005, .02, .1, .5, 1, 2, 5, 10, 20, 40, 60},
	}, []string{"end"})
}

func newOvertakes() prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{
		Name: "holdfast_line_overtakes_total", Help: "Grants that went before somebody who stood in line; must be 0.",
	})
}

func (m *meter) registerLines(r prometheus.Registerer, g lineGauges) error {
	gauge := func(name, help string, f func() float64) error {
		return r.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f))
	}
	return errors.Join(r.Register(m.waits), r.Register(m.overtakes),
		gauge("holdfast_line_waiters", "Callers that wait in line at this replica.", g.waiters),
		gauge("holdfast_line_longest", "Callers in the longest line there is.", g.longest),
		gauge("holdfast_line_longest_wait_seconds", "Since when the caller has waited that has waited longest at this replica.", g.oldest))
}

// waited notes the end of a wait.
func (m *meter) waited(w *waiter, r result, now time.Time) {
	end := endGranted
	switch {
	case errors.Is(r.err, context.Canceled):
		end = endHungUp
	case errors.Is(r.err, ErrWaitCancelled):
		end = endCancelled
	case r.err != nil:
		end = endFailed
	case !r.dec.Allowed:
		end = endRefused
	}
	m.waits.WithLabelValues(end).Observe(now.Sub(w.came).Seconds())
}

func (s *Service) waitersHere() float64 {
	s.desk.mu.Lock()
	defer s.desk.mu.Unlock()
	return float64(len(s.desk.waiters))
}

func (s *Service) longestLine() float64 {
	s.desk.mu.Lock()
	defer s.desk.mu.Unlock()
	longest := 0
	for _, byLimit := range s.desk.p.lines.byScope {
		for _, l := range byLimit {
			longest = max(longest, len(l.tickets))
		}
	}
	return float64(longest)
}

func (s *Service) longestWait() float64 {
	s.desk.mu.Lock()
	defer s.desk.mu.Unlock()
	var longest time.Duration
	now := s.desk.now()
	for _, w := range s.desk.waiters {
		longest = max(longest, now.Sub(w.came))
	}
	return longest.Seconds()
}
