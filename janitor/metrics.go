package janitor

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// counters are the janitor's metrics. Their one label is the job's name: at most MaxJobs.
type counters struct {
	success                                 *prometheus.GaugeVec
	swept, failed, skipped, panics, rescued *prometheus.CounterVec
}

func newCounters() *counters {
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "holdfast", Subsystem: "janitor", Name: name, Help: help,
		}, []string{"sweep"}) // not "job": Prometheus has a label of that name itself
	}
	return &counters{
		success: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "holdfast", Subsystem: "janitor", Name: "last_success_timestamp_seconds",
			Help: "Unix time of the last run that ended without an error.",
		}, []string{"sweep"}),
		swept:   counter("swept_total", "Records handled by sweeps."),
		failed:  counter("failed_total", "Runs that ended with an error."),
		skipped: counter("skipped_total", "Runs left out because the one before was still running."),
		panics:  counter("panics_total", "Runs that panicked."),
		rescued: counter("rescued_total", "Runs started by the watchdog because cron did not."),
	}
}

// open makes the series of one job, so that a scrape shows 0 rather than nothing.
func (c *counters) open(job string) {
	for _, v := range []*prometheus.CounterVec{c.swept, c.failed, c.skipped, c.panics, c.rescued} {
		v.WithLabelValues(job)
	}
}

func (c *counters) register(to prometheus.Registerer) error {
	if to == nil {
		return nil
	}
	for _, v := range []prometheus.Collector{c.success, c.swept, c.failed, c.skipped, c.panics, c.rescued} {
		if err := to.Register(v); err != nil {
			return err
		}
	}
	return nil
}

// ended counts one run.
func (c *counters) ended(r Report, err error, at time.Time) {
	c.swept.WithLabelValues(r.Job).Add(float64(r.Swept))
	if err != nil {
		c.failed.WithLabelValues(r.Job).Inc()
		return
	}
	c.success.WithLabelValues(r.Job).Set(float64(at.UnixMilli()) / 1000)
}
