package auth

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics counts outcomes; no label is anything a caller can choose.
type metrics struct {
	cached, verified, refused, unavailable prometheus.Counter
	fetchedWell, fetchFailed               prometheus.Counter
}

// newMetrics registers the counters with reg, which may be nil.
func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	tokens := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "holdfast_auth_tokens_total",
		Help: "Tokens judged, by result: cached, verified, refused, or unavailable for want of keys.",
	}, []string{"result"})
	fetches := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "holdfast_auth_key_fetches_total",
		Help: "Fetches of the key set from its URL, by result: ok or failed.",
	}, []string{"result"})
	if reg != nil {
		if err := errors.Join(reg.Register(tokens), reg.Register(fetches)); err != nil {
			return nil, err
		}
	}
	return &metrics{
		cached:      tokens.WithLabelValues("cached"),
		verified:    tokens.WithLabelValues("verified"),
		refused:     tokens.WithLabelValues("refused"),
		unavailable: tokens.WithLabelValues("unavailable"),
		fetchedWell: fetches.WithLabelValues("ok"),
		fetchFailed: fetches.WithLabelValues("failed"),
	}, nil
}

func (m *metrics) count(err error) {
	switch {
	case err == nil:
		m.verified.Inc()
	case errors.Is(err, ErrKeysUnavailable):
		m.unavailable.Inc()
	default:
		m.refused.Inc()
	}
}

func (m *metrics) fetched(ok bool) {
	if ok {
		m.fetchedWell.Inc()
		return
	}
	m.fetchFailed.Inc()
}
