package main

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/catalogue"
	"github.com/holdfast-dev/holdfast/events"
	"github.com/holdfast-dev/holdfast/httpapi"
	"github.com/holdfast-dev/holdfast/janitor"
	"github.com/holdfast-dev/holdfast/lease"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/webhooks"
)

// cursorSecret names the secret that all replicas sign cursors with.
const cursorSecret = "cursors"

// readyWithin bounds the time from a running store to a server that can decide.
const readyWithin = 10 * time.Second

// site is a server put together, from the doors down to the store. Its parts are made by
// newSite, run by open, and ended in the other order by close.
type site struct {
	app     *app
	cfg     *serverConfig
	log     *slog.Logger
	metrics *prometheus.Registry

	dir      *dataDir
	doors    *listeners
	back     *backend
	store    *store.Store
	wheel    *lease.Wheel
	session  *lease.Session
	service  *reserve.Service
	editor   *catalogue.Editor
	sessions *session.Keeper
	events   *events.Hub
	webhooks *webhooks.Dispatcher
	verifier *auth.Verifier
	janitor  *janitor.Janitor
	after    *quarantine // of a restore
	drift    driftMetric
	clock    *testClock // nil without dev --test-clock

	api, admin http.Handler
	crew       *crew
	draining   atomic.Bool
	undo       []func() // what was opened, to be closed in the other order
}

// newSite opens everything and starts nothing that outlives an error.
func (a *app) newSite(ctx context.Context, c *serverConfig, dir *dataDir, doors *listeners, t trust, shown []api.Setting) (*site, error) {
	s := &site{app: a, cfg: c, log: a.logger(c), metrics: prometheus.NewRegistry(), dir: dir, doors: doors, crew: newCrew()}
	s.metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if err := s.build(ctx, t, shown); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *site) build(ctx context.Context, t trust, shown []api.Setting) (err error) {
	if s.verifier, err = t.verifier(s.app.now, s.log, s.metrics); err != nil {
		return err
	}
	s.undo = append(s.undo, s.verifier.Close)
	if s.back, err = openBackend(ctx, s.cfg, s.dir, s.log, s.metrics); err != nil {
		return err
	}
	s.undo = append(s.undo, s.closeBackend)
	if err := s.buildCore(); err != nil {
		return fail(exitFailed, "the server cannot be put together: %w", err)
	}
	if s.drift, err = newDriftMetric(s.metrics); err != nil {
		return fail(exitFailed, "the server cannot be put together: %w", err)
	}
	if s.janitor, err = janitor.New(janitor.Config{Now: s.app.now, Log: s.log, Metrics: s.metrics}, s.jobs()...); err != nil {
		return fail(exitFailed, "the server cannot be put together: %w", err)
	}
	return s.buildDoors(ctx, t, shown)
}

// buildCore makes the parts that decide and remember.
func (s *site) buildCore() (err error) {
	replica := reserve.Replica{ID: rand.Text(), Version: version, Address: s.doors.api.Addr().String()}
	s.store, err = store.New(s.back.client, s.back.client, store.Config{
		Replica: replica.ID, MaxOps: s.back.maxOps, MaxBytes: s.back.maxBytes, Maintenance: s.back.client, Endpoints: s.back.endpoints,
		Sender: s.back.sender, Log: s.log, Metrics: s.metrics,
	})
	if err != nil {
		return err
	}
	if s.wheel, err = s.back.wheel(s.store, replica, s.app.now, s.log, s.metrics); err != nil {
		return err
	}
	s.after = &quarantine{ask: s.store.Quarantined, log: s.log}
	s.session = lease.NewSession(s.back.client, s.log)
	if s.cfg.TestClock {
		s.clock = &testClock{now: s.app.now}
	}
	s.events, err = events.New(events.Config{Store: s.store, History: s.store, Now: s.app.now, Log: s.log, Metrics: s.metrics})
	if err != nil {
		return err
	}
	if err := s.buildWebhooks(replica.ID); err != nil {
		return err
	}
	s.service, err = reserve.New(reserve.Config{
		Store: s.store, Lister: s.store, Leases: leaser{s.wheel}, Sessions: sessions{s.session},
		Packer: store.Packer{}, Now: s.app.now, WindowNow: s.windowNow,
		Replica: replica.ID, Retain: s.cfg.RetainEnded, AllowUnmatched: s.cfg.Unmatched == "allow",
		MaxOps: s.back.maxOps, NoSpace: s.back.noSpace, Quarantined: s.after.on.Load, Told: s.told, Refused: s.events.Refused, Log: s.log, Metrics: s.metrics,
	})
	if err != nil {
		return err
	}
	s.editor, err = catalogue.New(catalogue.Config{Store: s.store, Leases: leaser{s.wheel}, Now: s.windowNow, Catalog: s.service.Catalog})
	return err
}

// buildDoors makes what answers HTTP.
func (s *site) buildDoors(ctx context.Context, t trust, shown []api.Setting) error {
	secret, err := s.store.Secret(ctx, cursorSecret)
	if err == nil {
		err = s.after.look(ctx) // before the first request is answered
	}
	if err != nil {
		return fail(exitUnavailable, "the store does not answer: %w", err).next("look at", "the log above")
	}
	cfg := httpapi.Config{
		Service: s.service, Editor: s.editor, Verifier: s.verifier, Now: s.app.now, WindowNow: s.windowNow, Version: buildVersion(),
		JWKS: t.jwks, CursorKey: secret, FloodRate: s.cfg.FloodRate, Log: s.log, Metrics: s.metrics, Gatherer: s.metrics,
		Events: s.events, Webhooks: s.webhooks, Janitor: s.janitor, Cluster: s.cluster, Backup: s.back.client.Snapshot, ConfigShown: shown, Draining: s.draining.Load,
	}
	if s.clock != nil {
		cfg.AdvanceClock = func(d time.Duration) (time.Time, error) {
			now, err := s.clock.advance(d)
			s.service.ClockMoved()
			return now, err
		}
	}
	if s.cfg.MetricsTokenFile != "" {
		token, err := secretFile("--metrics-token-file", s.cfg.MetricsTokenFile)
		if err != nil {
			return err
		}
		cfg.MetricsToken = string(token)
	}
	if err := s.buildPages(ctx, &cfg); err != nil {
		return err
	}
	if s.api, err = httpapi.New(cfg); err == nil {
		s.admin, err = httpapi.NewAdmin(cfg)
	}
	if err != nil {
		return fail(exitFailed, "the server cannot be put together: %w", err)
	}
	return nil
}

// start runs the loops and waits until decisions can be made.
func (s *site) start(ctx context.Context) error {
	s.undo = append(s.undo, s.crew.stop, s.rollUpLast)
	s.crew.run("garbage", keepGarbage)
	s.crew.run("wheel", s.wheel.Run)
	s.crew.run("session", s.session.Run)
	s.crew.run("desk", s.service.Run)
	s.crew.run("janitor", s.janitor.Run)
	s.crew.run("catalogue", s.endPast)
	s.crew.run("quarantine", s.after.run)
	s.crew.run("webhooks", s.webhooks.Run)
	if s.back.space != nil {
		s.crew.run("space", s.back.space.run)
	}
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	ticker := time.NewTicker(readyEvery)
	defer ticker.Stop()
	for {
		err := s.service.Ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case err := <-s.crew.failed:
			return fail(exitFailed, "the server cannot run: %w", err)
		case err := <-s.back.died:
			return s.etcdDied(err)
		case <-ctx.Done():
			return fail(exitUnavailable, "the server did not become ready: %w", err).next("look at", "the log above")
		}
	}
}

// lastRollup bounds how long a replica that ends tries to put its counts into the store.
const lastRollup = 3 * time.Second

// rollUpLast puts what was counted since the last `rollup` into the store, while the loops
// that it needs still run.
func (s *site) rollUpLast() {
	ctx, cancel := context.WithTimeout(context.Background(), lastRollup)
	defer cancel()
	if _, err := s.service.RollUp(ctx, maxLastRollup); err != nil {
		s.log.Warn("the last counts for usage are lost", "error", err)
	}
}

// maxLastRollup is more than a replica ever counts: of that many limits and hours.
const maxLastRollup = 100_000

const readyEvery = 10 * time.Millisecond

// serve answers until ctx ends, then drains. Readiness is gone before the doors are shut.
func (s *site) serve(ctx context.Context) error {
	doors := make(chan error, 2)
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	door := func(l net.Listener, h http.Handler) {
		// Serving changes the settings of TLS it is given: each door has its own.
		doors <- httpapi.Serve(inner, l, h, httpapi.ServeOptions{TLS: s.doors.secure.Clone(), Log: s.log})
	}
	go door(s.doors.api, s.api)
	go door(s.doors.admin, s.admin)
	stopping := s.notified()
	var failed error
	waiting := 2
	select {
	case <-ctx.Done():
	case err := <-doors:
		waiting--
		failed = fail(exitFailed, "a listener failed: %w", err)
	case err := <-s.crew.failed:
		failed = fail(exitFailed, "the server cannot go on: %w", err)
	case err := <-s.back.died:
		return s.etcdDied(err) // nothing can be drained without a store
	}
	s.draining.Store(true)
	stopping()
	s.events.Drain()
	s.service.Drain()
	s.app.say("draining, at most %s; the same signal again stops at once", httpapi.DefaultDrain)
	stop()
	for ; waiting > 0; waiting-- {
		if err := <-doors; err != nil {
			s.log.Warn("requests were cut when draining took too long", "error", err)
		}
	}
	return failed
}

// etcdDied is the failure of an embedded etcd that cannot go on. What was acknowledged stands.
// Nothing is closed any more: parts of etcd are held for ever, whoever waits for the store
// waits in vain, and the supervisor is to start the process again soon (FAULTS row 16).
func (s *site) etcdDied(err error) error {
	s.undo = nil
	return fail(exitUnavailable, "etcd cannot go on: %w", err).
		next("is the disk full?", "df "+s.dir.path).
		next("then", "start again: what was answered is kept")
}

// close ends what was opened, last first: the loops, then the store, etcd last.
func (s *site) close() {
	for i := len(s.undo) - 1; i >= 0; i-- {
		s.undo[i]()
	}
	s.undo = nil
}

func (s *site) closeBackend() { s.back.close() }

// cluster is what GET /admin/v1/cluster tells of the store.
func (s *site) cluster(ctx context.Context) (api.ClusterAnswer, error) {
	status, err := s.store.Status(ctx)
	if err != nil {
		return api.ClusterAnswer{}, err
	}
	answer := api.ClusterAnswer{Mode: s.back.mode, Revision: status.Revision, QuotaBytes: status.Quota, UsedBytes: status.InUse, FileBytes: status.Size}
	if leases, err := s.back.client.Leases(ctx); err == nil {
		n := int64(len(leases.Leases))
		answer.LeasesAlive = &n
	}
	answer.Members = s.back.members(ctx)
	if status.NoSpace {
		answer.Alarms = []string{"NOSPACE"}
	}
	return answer, nil
}
