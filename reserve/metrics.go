package reserve

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// meter counts what the desk does. Labels come from closed sets, never from a subject or id.
type meter struct {
	batches prometheus.Histogram
	retries *prometheus.CounterVec
	ended   *prometheus.CounterVec
	decided *prometheus.CounterVec
	shadow  prometheus.Counter

	checks    [len(modeWords)][len(answerWords)]prometheus.Counter // of decided
	waits     *prometheus.HistogramVec
	overtakes prometheus.Counter
}

func newMeter(r prometheus.Registerer, live func() float64, line lineGauges) (*meter, error) {
	m := &meter{
		batches: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "holdfast_desk_batch_requests", Help: "Requests that shared one transaction.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 11),
		}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_desk_retries_total", Help: "Requests decided again, by trouble.",
		}, []string{"trouble"}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_reservations_ended_total", Help: "Reservations ended by this replica, by how.",
		}, []string{"state"}),
		decided: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_checks_total", Help: "Checks decided, by mode and answer.",
		}, []string{"mode", "answer"}),
		shadow: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "holdfast_shadow_refusals_total", Help: "Granted checks that a limit in shadow would have refused.",
		}),
		waits:     newWaits(),
		overtakes: newOvertakes(),
	}
	for k, mode := range modeWords {
		for i, answer := range answerWords {
			m.checks[k][i] = m.decided.WithLabelValues(mode, answer)
		}
	}
	if r == nil {
		return m, nil
	}
	holds := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "holdfast_holds", Help: "Live holds as this replica's picture shows them.",
	}, live)
	return m, errors.Join(r.Register(m.batches), r.Register(m.retries), r.Register(m.ended),
		r.Register(m.decided), r.Register(m.shadow), r.Register(holds), m.registerLines(r, line))
}

func (m *meter) batch(n int) { m.batches.Observe(float64(n)) }

func (m *meter) retry(why error) {
	trouble := "unavailable"
	if errors.Is(why, ErrContended) {
		trouble = "contended"
	}
	m.retries.WithLabelValues(trouble).Inc()
}

var (
	modeWords   = [...]string{consume: "consume", preview: "preview", take: "reserve"}
	answerWords = [...]string{"granted", "refused", "error"}
)

func (m *meter) decision(k mode, d *Decision, err error) {
	answer := 1
	switch {
	case err != nil:
		answer = 2
	case d.Allowed:
		answer = 0
		for i := range d.Verdicts {
			if v := &d.Verdicts[i]; v.Shadow && v.Why != Fits {
				m.shadow.Inc()
				break
			}
		}
	}
	m.checks[k][answer].Inc()
}
