package httpapi

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics has labels from closed sets alone: route patterns, methods, statuses, problem codes.
type metrics struct {
	requests *prometheus.CounterVec
	problems *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	inFlight prometheus.Gauge
	panics   prometheus.Counter
}

// newMetrics registers them; the constant label listener tells the two listeners apart.
func newMetrics(to prometheus.Registerer, listener string) (*metrics, error) {
	of := func(name, help string) prometheus.Opts {
		return prometheus.Opts{
			Namespace: "holdfast", Subsystem: "http", Name: name, Help: help,
			ConstLabels: prometheus.Labels{"listener": listener},
		}
	}
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts(of("requests_total", "Requests answered.")),
			[]string{"route", "method", "code"}),
		problems: prometheus.NewCounterVec(prometheus.CounterOpts(of("problems_total", "Problem documents sent, by code.")),
			[]string{"code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "holdfast", Subsystem: "http",
			Name: "request_seconds", Help: "Time to answer.", ConstLabels: prometheus.Labels{"listener": listener},
			Buckets: []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 60},
		}, []string{"route"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts(of("in_flight", "Requests being served."))),
		panics:   prometheus.NewCounter(prometheus.CounterOpts(of("panics_total", "Requests that panicked."))),
	}
	if to == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.requests, m.problems, m.seconds, m.inFlight, m.panics} {
		if err := to.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) served(x *exchange, method string, took time.Duration) {
	route := x.route
	if route == "" {
		route = "none"
	}
	m.requests.WithLabelValues(route, knownMethod(method), statusText(x.status)).Inc()
	m.seconds.WithLabelValues(route).Observe(took.Seconds())
	if x.code != "" {
		m.problems.WithLabelValues(string(x.code)).Inc()
	}
}
