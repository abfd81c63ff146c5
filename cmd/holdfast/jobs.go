package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-dev/holdfast/janitor"
	"github.com/holdfast-dev/holdfast/reserve"
)

// maxEnded is how many ended reservations a tenant keeps, however young.
const maxEnded = 1_000_000

// catalogueEvery is how soon the end of a pause or an override, or a schedule's turn, is applied.
const catalogueEvery = 250 * time.Millisecond

// jobs are the sweeps of this release (DESIGN.md section 8).
func (s *site) jobs() []janitor.Job {
	return []janitor.Job{
		{Name: "expire", Spec: "@every 15s", Sweep: s.service.Sweep},
		{Name: "trim", Spec: "@every 1m", Sweep: s.trim},
		{Name: "rollup", Spec: "@every 10s", Sweep: s.service.RollUp},
		{Name: "verify", Spec: "17 * * * *", Batch: 1, Budget: verifyBudget, Timeout: verifyBudget, Sweep: s.verify},
	}
}

// trim bounds the ended reservations of every tenant by count, and its audit trail by count
// and age. The trail is told by the real clock.
func (s *site) trim(ctx context.Context, most int) (trimmed int, err error) {
	before := s.app.now().Add(-reserve.TrailKept)
	tenants, err := s.store.Tenants(ctx)
	for _, tenant := range tenants {
		if trimmed >= most || err != nil {
			break
		}
		var ended, notes int
		ended, err = s.store.Trim(ctx, tenant, maxEnded, most-trimmed)
		if trimmed += ended; err == nil && trimmed < most {
			notes, err = s.store.TrimTrail(ctx, tenant, reserve.MaxTrail, before, most-trimmed)
		}
		trimmed += notes
	}
	return trimmed, err
}

// verifyBudget is what the recount of every tenant may take.
const verifyBudget = 5 * time.Minute

// verify recounts, says in the log what does not add up, and how much in a metric. It sweeps
// nothing. A recount that fails leaves the metric as it was.
func (s *site) verify(ctx context.Context, _ int) (int, error) {
	tenants, err := s.store.Tenants(ctx)
	if err != nil {
		return 0, err
	}
	found := map[string]int{}
	for _, tenant := range tenants {
		findings, _, driftErr := s.service.Drift(ctx, tenant)
		err = errors.Join(err, driftErr)
		for _, f := range findings {
			found[f.Kind]++
			s.log.Error("verify", "tenant", tenant, "kind", f.Kind, "where", f.Where, "detail", f.Detail)
		}
	}
	if err == nil {
		s.drift.set(found)
		sum := 0
		for _, n := range found {
			sum += n
		}
		s.drift.last.Store(&recount{sum, s.app.now()})
	}
	return 0, err
}

// driftMetric is what the last recount by this replica found, by kind.
type driftMetric struct {
	found *prometheus.GaugeVec
	last  *atomic.Pointer[recount]
}

// recount is how many findings there were, and when.
type recount struct {
	found int
	at    time.Time
}

// told is the last recount, for the page; a zero at: there was none.
func (m driftMetric) told() (found int, at time.Time) {
	if last := m.last.Load(); last != nil {
		return last.found, last.at
	}
	return 0, time.Time{}
}

func newDriftMetric(to prometheus.Registerer) (driftMetric, error) {
	m := driftMetric{last: &atomic.Pointer[recount]{}, found: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "holdfast_verify_drift", Help: "What the last recount by this replica found that does not add up; must be 0.",
	}, []string{"kind"})}
	m.set(nil)
	return m, to.Register(m.found)
}

func (m driftMetric) set(found map[string]int) {
	for _, kind := range []string{reserve.SlotsMissing, reserve.RecordMissing, reserve.CountLow, reserve.Unreadable} {
		m.found.WithLabelValues(kind).Set(float64(found[kind]))
	}
}

// endPast applies the ends of pauses and overrides when they have passed (DESIGN.md section 3,
// "Amounts"): until then the old amount holds, on every replica. All replicas may do so at
// once; whoever is first has done it.
func (s *site) endPast(ctx context.Context) error {
	return every(ctx, catalogueEvery, func() {
		if err := s.endPastOnce(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("the end of a pause or an override could not be applied yet", "error", err)
		}
	})
}

func (s *site) endPastOnce(ctx context.Context) error {
	tenants, err := s.store.Tenants(ctx)
	if err != nil {
		return err
	}
	if s.service.Skewed() {
		return nil // what has passed by a clock that is wrong may not have: until it is right, nothing ends
	}
	for _, tenant := range tenants {
		if _, _, err := s.editor.EndPast(ctx, tenant, s.service.Catalog(tenant), s.windowNow()); err != nil {
			return err
		}
	}
	return nil
}

// windowNow is the clock of windows and ends.
func (s *site) windowNow() time.Time {
	if s.clock != nil {
		return s.clock.read()
	}
	return s.app.now()
}
