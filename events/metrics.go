package events

import "github.com/prometheus/client_golang/prometheus"

// metrics has one label, from a closed set: the types of events.
type metrics struct {
	events  *prometheus.CounterVec
	readers prometheus.Gauge
	dropped prometheus.Counter
	gaps    prometheus.Counter
}

// newMetrics registers them; nil: none.
func newMetrics(to prometheus.Registerer) (*metrics, error) {
	of := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "holdfast", Subsystem: "events", Name: name, Help: help}
	}
	m := &metrics{
		events:  prometheus.NewCounterVec(prometheus.CounterOpts(of("heard_total", "Events heard from the store, and refusals told here.")), []string{"type"}),
		readers: prometheus.NewGauge(prometheus.GaugeOpts(of("readers", "Readers of the event stream."))),
		dropped: prometheus.NewCounter(prometheus.CounterOpts(of("dropped_total", "Readers dropped because they were too slow."))),
		gaps:    prometheus.NewCounter(prometheus.CounterOpts(of("gaps_total", "Readers told that events before are not known any more."))),
	}
	if to == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.events, m.readers, m.dropped, m.gaps} {
		if err := to.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}
