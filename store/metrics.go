package store

import (
	"errors"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-dev/holdfast/reserve"
)

// metrics counts what only this package sees.
type metrics struct {
	faults *prometheus.CounterVec // kind, fault
	calls  *prometheus.CounterVec // call, outcome
	resets prometheus.Counter
	told   prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		faults: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_store_faulty_values_total",
			Help: "Values read that are corrupt or of a newer version, by kind of key. Each reading counts.",
		}, []string{"kind", "fault"}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_store_calls_total",
			Help: "Calls to etcd, by what was asked and how it was answered.",
		}, []string{"call", "outcome"}),
		resets: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "holdfast_store_watch_resets_total",
			Help: "Times the watch began with reading everything, the first included.",
		}),
		told: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "holdfast_store_told_revision",
			Help: "Revision up to which the watch has told everything.",
		}),
	}
	if r == nil {
		return m, nil
	}
	return m, errors.Join(r.Register(m.faults), r.Register(m.calls), r.Register(m.resets), r.Register(m.told))
}

// outcomes are the labels of the classes.
var outcomes = [...]string{
	unknown: "unknown", refused: "refused", leaseGone: "lease gone", wrong: "wrong", tooMany: "too many operations",
	tooLarge: "too large", noSpace: "no space", compacted: "compacted",
}

func (m *metrics) count(call string, err error) {
	outcome := "ok"
	if err != nil {
		outcome = outcomes[classify(err)]
	}
	m.calls.WithLabelValues(call, outcome).Inc()
}

// loggedFaults bounds the keys that are remembered as logged; once full no more are logged.
const loggedFaults = 1024

// faultLog logs each faulty value once. It names the revision, by which the key is found, and
// never a scope, which is a subject's id.
type faultLog struct {
	log  *slog.Logger
	mu   sync.Mutex
	seen map[reserve.Ref]struct{}
}

func (f *faultLog) tell(e *reserve.Entry) {
	f.mu.Lock()
	_, known := f.seen[e.Ref]
	full := len(f.seen) >= loggedFaults
	if !known && !full {
		if f.seen == nil {
			f.seen = map[reserve.Ref]struct{}{}
		}
		f.seen[e.Ref] = struct{}{}
	}
	f.mu.Unlock()
	if known || full {
		return
	}
	f.log.Error("a stored value cannot be read; its key is left alone, its slot counts as taken",
		"tenant", e.Ref.Tenant, "kind", kindName(e.Ref.Kind), "limit", e.Ref.Limit,
		"modRevision", e.Mod, "fault", e.Fault)
}

func kindName(k reserve.RefKind) string {
	switch k {
	case reserve.RefCatalog:
		return catalogWord
	case reserve.RefReplica:
		return "replicas"
	case reserve.RefSecret:
		return "secrets"
	case reserve.RefDuty:
		return "duties"
	}
	return families[k]
}

func (m *metrics) fault(e *reserve.Entry) {
	fault := "corrupt"
	if errors.Is(e.Fault, reserve.ErrNewer) {
		fault = "newer"
	}
	m.faults.WithLabelValues(kindName(e.Ref.Kind), fault).Inc()
}
