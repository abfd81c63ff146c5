package lease_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/holdfast-dev/holdfast/integration/etcdtest"
	"github.com/holdfast-dev/holdfast/lease"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const markerKey = "/holdfast/v1/replicas/one/marker"

// clock is a clock of a test: it stands still until it is told to run.
type clock struct {
	mu      sync.Mutex
	at      time.Time
	running bool
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running {
		return time.Now()
	}
	return c.at
}

// run makes it the real clock.
func (c *clock) run() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = true
}

// advance moves a clock that stands.
func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// bundle is one wheel over one etcd of its own. Its clock stands still at first.
type bundle struct {
	server  *etcdtest.Server
	clock   *clock
	kv      *etcdtest.CountingKV
	leases  *etcdtest.CountingLease
	metrics *prometheus.Registry
	wheel   *lease.Wheel
}

func setup(t *testing.T, change ...func(*lease.Config)) *bundle {
	t.Helper()
	b := &bundle{server: etcdtest.Start(t, etcdtest.NoFsync()), clock: &clock{at: time.Now()}, metrics: prometheus.NewRegistry()}
	b.kv = etcdtest.NewCountingKV(b.server.Client())
	b.leases = etcdtest.NewCountingLease(b.server.Client())
	cfg := lease.Config{Lease: b.leases, KV: b.kv, MarkerKey: markerKey, Now: b.clock.Now, Metrics: b.metrics}
	for _, c := range change {
		c(&cfg)
	}
	w, err := lease.NewWheel(cfg)
	if err != nil {
		t.Fatalf("NewWheel: %v", err)
	}
	b.wheel = w
	// HF-checklist 12: no lease is renewed or revoked, whatever the test did.
	t.Cleanup(func() {
		c := b.leases.Calls()
		if c.Revoke+c.KeepAlive+c.KeepAliveOnce+c.Leases != 0 {
			t.Errorf("calls of the wheel: got %+v, want only Grant and TimeToLive", c)
		}
	})
	return b
}

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func (b *bundle) lease(t *testing.T, keep, grain time.Duration, have lease.ID) lease.ID {
	t.Helper()
	id, err := b.wheel.Lease(bounded(t), keep, grain, have)
	if err != nil {
		t.Fatalf("Lease(%v, %v, %x): %v", keep, grain, have, err)
	}
	if id == 0 {
		t.Fatalf("Lease(%v, %v, %x): got 0, want a lease", keep, grain, have)
	}
	return id
}

func (b *bundle) marker(t *testing.T) int64 {
	t.Helper()
	rev, err := b.wheel.Marker(bounded(t))
	if err != nil || rev <= 0 {
		t.Fatalf("Marker: got %d, %v, want a revision", rev, err)
	}
	return rev
}

// keyTTLs lists the TTLs, in seconds, of the leases granted for keys.
func (b *bundle) keyTTLs() []int64 {
	var ttls []int64
	for _, ttl := range b.leases.TTLs() {
		if ttl != int64(lease.MarkerTTL/time.Second) && ttl != 600 {
			ttls = append(ttls, ttl)
		}
	}
	return ttls
}

// metric is the sum of the samples of a metric family.
func (b *bundle) metric(t *testing.T, name string) float64 {
	t.Helper()
	families, err := b.metrics.Gather()
	if err != nil {
		t.Fatalf("gather: %v", err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		sum := 0.0
		for _, m := range f.GetMetric() {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
		return sum
	}
	t.Fatalf("metric %s: not registered", name)
	return 0
}

// commit puts key on lease id if the marker stands at rev, as every batch does.
func (b *bundle) commit(t *testing.T, key string, id lease.ID, rev int64) (bool, error) {
	t.Helper()
	resp, err := b.server.Client().Txn(bounded(t)).
		If(clientv3.Compare(clientv3.CreateRevision(markerKey), "=", rev)).
		Then(clientv3.OpPut(key, "", clientv3.WithLease(clientv3.LeaseID(id)))).
		Commit()
	if err != nil {
		return false, err
	}
	return resp.Succeeded, nil
}

// awaitDelete returns when key has been deleted.
func (b *bundle) awaitDelete(t *testing.T, key string) {
	t.Helper()
	ctx, cancel := context.WithCancel(bounded(t))
	defer cancel()
	resp, err := b.server.Client().Get(ctx, key)
	if err != nil {
		t.Fatalf("get %s: %v", key, err)
	}
	if len(resp.Kvs) == 0 {
		return
	}
	for w := range b.server.Client().Watch(ctx, key, clientv3.WithRev(resp.Header.Revision+1)) {
		for _, e := range w.Events {
			if e.Type == clientv3.EventTypeDelete {
				return
			}
		}
	}
	t.Fatalf("%s was not deleted in time", key)
}

// run starts the clock and Run, and makes the test's cleanup await it.
func (b *bundle) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	b.clock.run()
	go func() { ended <- b.wheel.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: got %v, want nil when its context ends", err)
		}
	})
}

// eventually returns when is holds; the deadline is for liveness only.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.NewTimer(40 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not within 40 s: %s", what)
		}
	}
}

func TestNewWheel_NamesAllThatIsMissing(t *testing.T) {
	t.Parallel()
	_, err := lease.NewWheel(lease.Config{})
	if err == nil {
		t.Fatal("NewWheel of an empty Config: got no error")
	}
	for _, field := range []string{"Lease", "KV", "MarkerKey", "Now"} {
		if !strings.Contains(err.Error(), "Config."+field) {
			t.Errorf("NewWheel of an empty Config: %q does not name %s", err, field)
		}
	}
}

// STYLE.md checklist 12: at most one grant for 1,000 holds.
func TestLease_ThousandCallersShareOneGrant(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.marker(t)
	ids := make(chan lease.ID, lease.KeysPerLease)
	var all sync.WaitGroup
	for range lease.KeysPerLease {
		all.Go(func() {
			id, err := b.wheel.Lease(bounded(t), 30*time.Second, 0, 0)
			if err != nil {
				t.Errorf("Lease(30s): %v", err)
			}
			ids <- id
		})
	}
	all.Wait()
	close(ids)
	first := <-ids
	for id := range ids {
		if id != first {
			t.Fatalf("1,000 callers: got leases %x and %x, want one", first, id)
		}
	}
	if got := b.keyTTLs(); len(got) != 1 {
		t.Fatalf("grants for 1,000 callers: got TTLs %v, want one grant", got)
	}
	if id := b.lease(t, 30*time.Second, 0, 0); id == first {
		t.Errorf("caller 1,001: got lease %x of the first 1,000, want another", id)
	}
	if got := b.keyTTLs(); len(got) != 2 || got[0] != got[1] {
		t.Errorf("grants for 1,001 callers: got TTLs %v, want two of one length", got)
	}
	if got := b.metric(t, "holdfast_lease_remembered"); got != 2 {
		t.Errorf("leases remembered: got %v, want 2", got)
	}
}

// DESIGN.md section 6: T + 8 s, rounded up to a multiple of the grain, in whole seconds.
func TestLease_TTLReachesTheRoundedDeadline(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, c := range []struct {
		keep, grain time.Duration
		ttl         int64
	}{
		{500 * time.Millisecond, 0, 10},             // raised to 1 s: 9 s, grain 2 s
		{2 * time.Second, time.Second, 12},          // grain raised to 2 s; 10 s is one before
		{60 * time.Second, 0, 72},                   // 68 s, grain 3.75 s: 71.25 s
		{time.Hour, 0, 3825},                        // 3,608 s, grain 225 s
		{30 * time.Second, time.Minute, 60},         // 38 s, a coarse grain
		{lease.MaxKeep, 0, 3672000},                 // 3,456,008 s, grain 216,000 s
		{time.Minute, 100 * lease.MaxKeep, 3456000}, // grain lowered to 40 days
	} {
		b.wheel.Gone(0) // so that no lease of an earlier row suits
		if c.ttl == 12 {
			b.clock.advance(time.Nanosecond)
		}
		b.lease(t, c.keep, c.grain, 0)
		ttls := b.keyTTLs()
		if got := ttls[len(ttls)-1]; got != c.ttl {
			t.Errorf("Lease(%v, grain %v): granted %d s, want %d s", c.keep, c.grain, got, c.ttl)
		}
	}
	if _, err := b.wheel.Lease(bounded(t), lease.MaxKeep+1, 0, 0); !errors.Is(err, lease.ErrTooLong) {
		t.Errorf("Lease(40 days and 1 ns): got %v, want %v", err, lease.ErrTooLong)
	}
}

func TestLease_LengthsThatEndTogetherShare(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.lease(t, 11*time.Second, 0, 0) // granted for 20 s
	for _, keep := range []time.Duration{10500 * time.Millisecond, 11999 * time.Millisecond, 12 * time.Second} {
		if got := b.lease(t, keep, 0, 0); got != id {
			t.Errorf("Lease(%v): got %x, want %x, which lasts 20 s", keep, got, id)
		}
	}
	if got := b.lease(t, 10*time.Second, 0, 0); got == id {
		t.Errorf("Lease(10s): got %x, which ends 2 s past its grain", got)
	}
	b.clock.advance(2 * time.Second)
	if got := b.lease(t, 10*time.Second, 0, 0); got != id {
		t.Errorf("Lease(10s) two seconds later: got %x, want %x", got, id)
	}
	if got := b.keyTTLs(); len(got) != 2 {
		t.Errorf("grants: got TTLs %v, want two", got)
	}
}

func TestLease_HaveIsKeptWhileItServes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	have := b.lease(t, 60*time.Second, 10*time.Second, 0) // 70 s
	for range 2 * lease.KeysPerLease {
		if got := b.lease(t, 60*time.Second, 0, have); got != have {
			t.Fatalf("Lease(60s, have %x): got %x, want it kept and not counted", have, got)
		}
	}
	if got := b.lease(t, 63*time.Second, 0, have); got == have {
		t.Errorf("Lease(63s, have %x of 70 s): it was kept without the surplus", have)
	}
	if got := b.lease(t, time.Second, 0, 12345); got == 12345 {
		t.Error("Lease(1s, have 12345): got a lease this wheel did not grant")
	}
	b.clock.advance(3 * time.Second)
	if got := b.lease(t, 60*time.Second, 0, have); got == have {
		t.Errorf("Lease(60s, have %x) 3 s later: it was kept though too little is left", have)
	}
	if got := b.lease(t, 50*time.Second, 0, have); got != have {
		t.Errorf("Lease(50s, have %x) 3 s later: got %x, want it kept", have, got)
	}
	b.clock.advance(time.Hour)
	if got := b.metric(t, "holdfast_lease_remembered"); got != 0 {
		t.Errorf("leases remembered an hour later: got %v, want 0", got)
	}
}

// FAULTS 1.1: a suspended machine's resume is seen by the wall clock.
func TestLease_WallClockAheadAgesLeases(t *testing.T) {
	t.Parallel()
	b := setup(t)
	have := b.lease(t, 60*time.Second, 0, 0)
	b.clock.mu.Lock()
	b.clock.at = b.clock.at.Round(0).Add(5 * time.Minute) // no monotonic reading: only the wall moved
	b.clock.mu.Unlock()
	if got := b.lease(t, time.Second, 0, have); got == have {
		t.Errorf("after 5 min by the wall clock: got lease %x of 72 s again", got)
	}
}

func TestGone_DeadLeaseIsNotHandedOutAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	rev, dead := b.marker(t), b.lease(t, 30*time.Second, 0, 0)
	if _, err := b.server.Client().Revoke(bounded(t), clientv3.LeaseID(dead)); err != nil {
		t.Fatalf("revoke: %v", err)
	}
	if _, err := b.commit(t, "k", dead, rev); err == nil {
		t.Fatalf("put on the dead lease %x: got no error", dead)
	}
	b.wheel.Gone(dead)
	next := b.lease(t, 30*time.Second, 0, dead)
	if next == dead {
		t.Fatalf("after Gone(%x): it was handed out again", dead)
	}
	if ok, err := b.commit(t, "k", next, rev); !ok || err != nil {
		t.Errorf("put on lease %x: got %v, %v, want it applied", next, ok, err)
	}
	b.wheel.Gone(98765) // unknown: nothing to forget
	if got := b.lease(t, 30*time.Second, 0, 0); got != next {
		t.Errorf("after Gone of an unknown lease: got %x, want %x", got, next)
	}
}

// GUARANTEES 2: never early. FAULTS 1.1: nothing is kept alive, so the lease also ends.
func TestLease_KeysEndNoEarlierThanKeep(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits 12 s for leases to end")
	}
	b := setup(t)
	b.run(t)
	const keep = 2 * time.Second
	var all sync.WaitGroup
	for _, key := range []string{"a", "b", "c"} {
		asked := time.Now()
		rev := b.marker(t)
		id := b.lease(t, keep, 0, 0)
		if ok, err := b.commit(t, key, id, rev); !ok || err != nil {
			t.Fatalf("put %s on %x: got %v, %v", key, id, ok, err)
		}
		all.Go(func() {
			b.awaitDelete(t, key)
			if lived := time.Since(asked); lived < keep+lease.Surplus {
				t.Errorf("%s on a lease for %v: ended after %v, before keep + surplus", key, keep, lived)
			}
		})
	}
	all.Wait()
}
