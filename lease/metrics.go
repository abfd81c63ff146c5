package lease

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// What a lease is granted for: the values of the label "use".
const (
	useKeys   = "keys"
	useMarker = "marker"
	useAnchor = "anchor"
)

type metrics struct {
	grants       *prometheus.CounterVec
	markerLosses prometheus.Counter
	clockLosses  prometheus.Counter
}

// newMetrics registers with r, or with nobody when r is nil. remembered is asked at each scrape.
func newMetrics(r prometheus.Registerer, remembered func() float64) (*metrics, error) {
	m := &metrics{
		grants: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_lease_grants_total",
			Help: "Leases granted by etcd, by what they are used for.",
		}, []string{"use"}),
		markerLosses: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "holdfast_lease_marker_losses_total",
			Help: "Times the freshness marker was gone, so that all leases were forgotten.",
		}),
		clockLosses: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "holdfast_lease_clock_losses_total",
			Help: "Times this clock had fallen behind etcd's, so that all leases were forgotten.",
		}),
	}
	for _, use := range []string{useKeys, useMarker, useAnchor} {
		m.grants.WithLabelValues(use)
	}
	if r == nil {
		return m, nil
	}
	gauge := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "holdfast_lease_remembered",
		Help: "Leases that may still be handed out or kept.",
	}, remembered)
	return m, errors.Join(r.Register(m.grants), r.Register(m.markerLosses), r.Register(m.clockLosses), r.Register(gauge))
}
