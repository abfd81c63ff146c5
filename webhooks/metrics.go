package webhooks

import "github.com/prometheus/client_golang/prometheus"

// metrics have labels from closed sets, never a webhook or a tenant.
type metrics struct {
	deliveries *prometheus.CounterVec
	dropped    *prometheus.CounterVec
	gaps       prometheus.Counter
	delay      prometheus.Histogram
}

func newMetrics(to prometheus.Registerer, waiting, full, duty func() float64) (*metrics, error) {
	of := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Name: name, Help: help}
	}
	m := &metrics{
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts(of("holdfast_webhooks_attempts_total", "Deliveries tried, by what became of it.")), []string{"outcome"}),
		dropped:    prometheus.NewCounterVec(prometheus.CounterOpts(of("holdfast_webhooks_dropped_total", "Events given up, by what became of them.")), []string{"outcome"}),
		gaps:       prometheus.NewCounter(prometheus.CounterOpts(of("holdfast_webhooks_gaps_total", "Times events before were not known any more when they were to be queued."))),
		delay: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "holdfast_webhooks_delivery_seconds", Help: "Time from queueing an event to its acceptance.",
			Buckets: []float64{0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 1000, 10_000},
		}),
	}
	for _, t := range troubles {
		m.deliveries.WithLabelValues(t)
	}
	for _, why := range []string{"tries", "too large"} {
		m.dropped.WithLabelValues(why)
	}
	if to == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{
		m.deliveries, m.dropped, m.gaps, m.delay,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts(of("holdfast_webhooks_queued", "Events that wait for their delivery by this replica.")), waiting),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts(of("holdfast_webhooks_full", "Webhooks whose outbox is full, so that no more is queued for them.")), full),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts(of("holdfast_webhooks_duty", "1 while this replica sends.")), duty),
	} {
		if err := to.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}
