package lease_test

import (
	"context"
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-dev/holdfast/integration/etcdtest"
	"github.com/holdfast-dev/holdfast/lease"
)

// markerState is the marker as etcd has it.
func (b *bundle) markerState(t *testing.T) (createRev, version, leaseID int64, value string) {
	t.Helper()
	resp, err := b.server.Client().Get(bounded(t), markerKey)
	if err != nil {
		t.Fatalf("get marker: %v", err)
	}
	if len(resp.Kvs) == 0 {
		return 0, 0, 0, ""
	}
	kv := resp.Kvs[0]
	return kv.CreateRevision, kv.Version, kv.Lease, string(kv.Value)
}

func TestMarker_IsMadeOnceOnALease(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *lease.Config) {
		c.MarkerValue = func(now time.Time) []byte { return []byte(now.UTC().Format("2006")) }
	})
	rev := b.marker(t)
	for range 10 {
		if got := b.marker(t); got != rev {
			t.Fatalf("Marker again: got %d, want %d", got, rev)
		}
	}
	created, version, id, value := b.markerState(t)
	if created != rev || version != 1 || id == 0 {
		t.Errorf("marker: got create revision %d, version %d, lease %x; want %d, 1, some", created, version, id, rev)
	}
	if want := b.clock.Now().UTC().Format("2006"); value != want {
		t.Errorf("marker value: got %q, want %q", value, want)
	}
	if got, want := b.leases.Calls(), (etcdtest.LeaseCalls{Grant: 1}); got != want {
		t.Errorf("lease calls: got %+v, want %+v", got, want)
	}
	if got := b.kv.Calls(); got.All() != 1 {
		t.Errorf("KV calls: got %+v, want one transaction", got)
	}
}

// An earlier process of the same name may only be asleep: its marker must not be kept alive.
func TestMarker_AnotherProcessesMarkerIsReplaced(t *testing.T) {
	t.Parallel()
	b := setup(t)
	put, err := b.server.Client().Put(bounded(t), markerKey, "asleep")
	if err != nil {
		t.Fatalf("put: %v", err)
	}
	old := put.Header.Revision
	rev := b.marker(t)
	if rev <= old {
		t.Fatalf("Marker over one of revision %d: got %d, want a later one", old, rev)
	}
	if ok, err := b.commit(t, "k", 0, old); ok || err != nil {
		t.Errorf("batch of the sleeper: got %v, %v, want its compare to fail", ok, err)
	}
	if got := len(b.leases.TTLs()); got != 1 {
		t.Errorf("grants: got %d, want 1", got)
	}
}

// Several batches that lost the same marker tell so one after the other.
func TestGone_MarkerThatStandsIsKeptButLeasesAreNot(t *testing.T) {
	t.Parallel()
	b := setup(t)
	rev, id := b.marker(t), b.lease(t, time.Minute, 0, 0)
	b.wheel.Gone(0)
	if got := b.marker(t); got != rev {
		t.Errorf("Marker after a false Gone(0): got %d, want %d", got, rev)
	}
	if got := b.lease(t, time.Minute, 0, id); got == id {
		t.Errorf("Lease after Gone(0): got %x again", id)
	}
	if _, err := b.server.Client().Delete(bounded(t), markerKey); err != nil {
		t.Fatalf("delete: %v", err)
	}
	b.wheel.Gone(0)
	next := b.marker(t)
	if next <= rev {
		t.Errorf("Marker after it was gone: got %d, want above %d", next, rev)
	}
	b.wheel.Gone(0)
	if got := b.marker(t); got != next {
		t.Errorf("Marker after a second batch's Gone(0): got %d, want %d", got, next)
	}
	if got := b.metric(t, "holdfast_lease_marker_losses_total"); got != 1 {
		t.Errorf("marker losses: got %v, want 1", got)
	}
	// At most one grant for markers in MarkerEvery: the clock stands, so both were on one lease.
	if got, want := len(b.leases.TTLs())-len(b.keyTTLs()), 1; got != want {
		t.Errorf("grants for markers: got %d, want %d", got, want)
	}
}

// DESIGN.md section 6: a replica whose clock stood still believes an old lease longer than it
// is; the marker's compare catches it.
func TestMarker_LapsesWhileTheClockStandsStill(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits 6 s for the marker to lapse")
	}
	b := setup(t)
	rev, old := b.marker(t), b.lease(t, 2*time.Second, 0, 0)
	b.awaitDelete(t, markerKey)
	if got := b.lease(t, 2*time.Second, 0, old); got != old {
		t.Fatalf("Lease by a clock that stands: got %x, want %x, or the case is too tame", got, old)
	}
	if ok, err := b.commit(t, "k", old, rev); ok || err != nil {
		t.Fatalf("batch after the lapse: got %v, %v, want its compare to fail", ok, err)
	}
	b.wheel.Gone(0)
	next, fresh := b.marker(t), b.lease(t, 2*time.Second, 0, old)
	if next <= rev || fresh == old {
		t.Errorf("after the lapse: got marker %d and lease %x, want others than %d and %x", next, fresh, rev, old)
	}
	left, err := b.server.Client().TimeToLive(bounded(t), clientv3.LeaseID(fresh))
	if err != nil || left.TTL < 2 {
		t.Errorf("the new lease: %+v, %v, want at least 2 s left", left, err)
	}
	if ok, err := b.commit(t, "k", fresh, next); !ok || err != nil {
		t.Errorf("batch decided again: got %v, %v, want it applied", ok, err)
	}
}

func TestRun_KeepsTheMarkerAndNoticesItsLoss(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs 8 s")
	}
	b := setup(t)
	began := time.Now()
	b.run(t)
	rev, id := b.marker(t), b.lease(t, time.Minute, 0, 0)
	var created, version int64
	eventually(t, "the marker was put four times", func() bool {
		created, version, _, _ = b.markerState(t)
		return created != rev || version >= 4 // the last put is past MarkerTTL
	})
	ran := time.Since(began)
	if created != rev || ran < lease.MarkerTTL {
		t.Fatalf("marker after %v: got create revision %d, want %d", ran, created, rev)
	}
	grants := len(b.leases.TTLs()) - len(b.keyTTLs()) - 1 // without the anchor
	if most := int(ran/lease.MarkerEvery) + 1; grants > most {
		t.Errorf("grants for markers in %v: got %d, want at most %d", ran, grants, most)
	}
	if got := b.metric(t, "holdfast_lease_clock_losses_total"); got != 0 {
		t.Errorf("losses of a good clock in %v: got %v, want 0", ran, got)
	}
	have := b.lease(t, 50*time.Second, 0, id)
	if have != id {
		t.Errorf("Lease(50s, have %x of 72 s) after %v: got %x, want it kept", id, ran, have)
	}
	if _, err := b.server.Client().Delete(bounded(t), markerKey); err != nil {
		t.Fatalf("delete: %v", err)
	}
	eventually(t, "the loss is noticed", func() bool {
		return b.metric(t, "holdfast_lease_marker_losses_total") == 1
	})
	if got := b.marker(t); got <= rev {
		t.Errorf("Marker after its loss: got %d, want above %d", got, rev)
	}
	if got := b.lease(t, time.Second, 0, have); got == have {
		t.Errorf("Lease after the marker's loss: got %x again", have)
	}
}

// Many stops, each too short for the marker to lapse, must not add up.
func TestRun_SlowClockIsFoundByTheAnchor(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs 10 s")
	}
	start := time.Now()
	b := setup(t, func(c *lease.Config) {
		c.Now = func() time.Time { return start.Add(time.Since(start) / 2) }
	})
	b.run(t)
	have := b.lease(t, time.Hour, 0, 0)
	eventually(t, "the clock's loss is noticed", func() bool {
		return b.metric(t, "holdfast_lease_clock_losses_total") > 0
	})
	if got := b.lease(t, time.Minute, 0, have); got == have {
		t.Errorf("Lease after the clock fell behind: got %x again", have)
	}
}

// FAULTS 1.2: answers that are lost, and calls that are committed late.
func TestMarker_SurvivesFaultyCalls(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]etcdtest.Fault{
		"not sent": etcdtest.Before, "answer lost": etcdtest.After, "committed late": etcdtest.Late,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var faulty *etcdtest.FaultKV
			b := setup(t, func(c *lease.Config) {
				faulty = etcdtest.NewFaultKV(c.KV, func(n int, _ string) etcdtest.Fault {
					if n == 1 {
						return fault
					}
					return etcdtest.None
				})
				c.KV = faulty
			})
			if _, err := b.wheel.Lease(bounded(t), time.Minute, 0, 0); !errors.Is(err, lease.ErrUnavailable) {
				t.Fatalf("Lease without a marker: got %v, want %v", err, lease.ErrUnavailable)
			}
			if got := b.keyTTLs(); len(got) != 0 {
				t.Errorf("leases granted without a marker: got TTLs %v, want none", got)
			}
			rev, id := b.marker(t), b.lease(t, time.Minute, 0, 0)
			if err := faulty.ReleaseLate(); err != nil {
				t.Fatalf("release: %v", err)
			}
			if ok, err := b.commit(t, "k", id, rev); !ok || err != nil {
				t.Errorf("batch under marker %d: got %v, %v, want it applied", rev, ok, err)
			}
		})
	}
}

// FAULTS 1.2: NOSPACE refuses new leases.
func TestLease_FullStoreIsTold(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t, etcdtest.NoFsync(), etcdtest.Quota(1<<20))
	big := string(make([]byte, 256<<10))
	eventually(t, "the store is full", func() bool {
		_, err := s.Client().Put(bounded(t), "big", big)
		return err != nil
	})
	w, err := lease.NewWheel(lease.Config{Lease: s.Client(), KV: s.Client(), MarkerKey: markerKey, Now: time.Now})
	if err != nil {
		t.Fatalf("NewWheel: %v", err)
	}
	_, err = w.Lease(bounded(t), time.Minute, 0, 0)
	if !errors.Is(err, lease.ErrFull) || !errors.Is(err, lease.ErrUnavailable) {
		t.Errorf("Lease on a full store: got %v, want %v and %v", err, lease.ErrFull, lease.ErrUnavailable)
	}
}

// stuck is an etcd whose grants are answered only when the test says so.
type stuck struct {
	clientv3.Lease
	asked, answer chan struct{}
}

func (s stuck) Grant(ctx context.Context, ttl int64) (*clientv3.LeaseGrantResponse, error) {
	s.asked <- struct{}{}
	<-s.answer
	return s.Lease.Grant(context.WithoutCancel(ctx), ttl)
}

// A slow disk: no caller waits for as long as a grant takes. Broken off with each, none would ever
// come to its end, and every try would leave a lease behind.
func TestLease_GrantOutlastsItsCallers(t *testing.T) {
	t.Parallel()
	slow := stuck{asked: make(chan struct{}), answer: make(chan struct{})}
	b := setup(t, func(c *lease.Config) {
		slow.Lease = c.Lease
		c.Lease = slow
	})
	ctx, leave := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		_, err := b.wheel.Lease(ctx, time.Minute, 0, 0)
		first <- err
	}()
	<-slow.asked // the marker's lease
	slow.answer <- struct{}{}
	<-slow.asked // the key's
	leave()
	if err := <-first; !errors.Is(err, context.Canceled) || !errors.Is(err, lease.ErrUnavailable) {
		t.Errorf("caller that left: got %v, want %v and %v", err, context.Canceled, lease.ErrUnavailable)
	}
	if _, err := b.wheel.Lease(ctx, time.Minute, 0, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("the next, that left too: got %v, want %v", err, context.Canceled)
	}
	slow.answer <- struct{}{}
	// A grant anew would hang here for ever: nobody answers it.
	if b.lease(t, time.Minute, 0, 0) == 0 {
		t.Error("the caller that stayed got no lease")
	}
	if got := b.metric(t, "holdfast_lease_grants_total"); got != 2 {
		t.Errorf("%v leases were granted, want 2: the marker's and the keys'", got)
	}
}
