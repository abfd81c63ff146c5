package store_test

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/holdfast-dev/holdfast/integration/etcdtest"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// roots gives each test a keyspace of its own in a server they share.
var roots atomic.Int64

func newRoot() string { return fmt.Sprintf("/test-%d/v1/", roots.Add(1)) }

// patience is the deadline of a call where a test does not say: a machine may be slow.
const patience = 20 * time.Second

// newStore is a store over kv and watcher in a keyspace of its own.
func newStore(t testing.TB, kv clientv3.KV, w clientv3.Watcher, cfg store.Config) *store.Store {
	t.Helper()
	if cfg.Root == "" {
		cfg.Root = newRoot()
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = patience
	}
	s, err := store.New(kv, w, cfg)
	if err != nil {
		t.Fatalf("New(%+v): %v", cfg, err)
	}
	return s
}

// TestConformance runs the suite on an etcd as we embed it, in process and with room for every
// transaction, and on one as others run it, over gRPC and with 128 operations.
func TestConformance(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ops    uint
		client func(t *testing.T, s *etcdtest.Server) *clientv3.Client
	}{
		"embedded": {store.EmbeddedMaxOps, func(_ *testing.T, s *etcdtest.Server) *clientv3.Client { return s.Client() }},
		"external": {store.DefaultMaxOps, func(t *testing.T, s *etcdtest.Server) *clientv3.Client { return s.GRPC(t) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := etcdtest.Start(t, etcdtest.MaxTxnOps(c.ops), etcdtest.NoFsync(), etcdtest.Listen())
			client := c.client(t, server)
			t.Run("suite", func(t *testing.T) { // ends before the server and the client do
				storetest.Exercise(t, func(t *testing.T) storetest.Bench {
					return newBench(t, client, int(c.ops))
				})
			})
		})
	}
}

func newBench(t *testing.T, client *clientv3.Client, ops int) storetest.Bench {
	const replica = "r1"
	faults := &faultQueue{}
	kv := etcdtest.NewFaultKV(client, faults.next)
	faults.kv = kv
	watcher := &cutWatcher{Watcher: client}
	s := newStore(t, kv, watcher, store.Config{Replica: replica, MaxOps: ops})
	return storetest.Bench{
		Store: s, Lister: s, History: s, Replica: replica, Session: &plainSession{client: client},
		Leases:  &plainLeaser{client: client, key: s.ReplicaKey(replica), ends: map[reserve.LeaseID]time.Time{}},
		Advance: func(d time.Duration) { wait(t, d) },
		Fault:   faults.arrange,
		Compact: watcher.cut,
	}
}

// wait lets real leases run.
func wait(t *testing.T, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}

// faultQueue spoils the next transactions.
type faultQueue struct {
	kv   *etcdtest.FaultKV
	mu   sync.Mutex
	kind etcdtest.Fault
	left int
}

func (q *faultQueue) arrange(kind string, n int) {
	if kind == storetest.FaultRelease {
		_ = q.kv.ReleaseLate() // what it is refused for is told by the keys
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.left = n
	q.kind = map[string]etcdtest.Fault{
		storetest.FaultBefore: etcdtest.Before, storetest.FaultAfter: etcdtest.After, storetest.FaultLate: etcdtest.Late,
	}[kind]
}

func (q *faultQueue) next(_ int, op string) etcdtest.Fault {
	q.mu.Lock()
	defer q.mu.Unlock()
	if op != "txn" || q.left == 0 {
		return etcdtest.None
	}
	q.left--
	return q.kind
}

// cutWatcher ends watches as etcd does when it has compacted what they have not seen.
type cutWatcher struct {
	clientv3.Watcher
	mu   sync.Mutex
	cuts []chan<- struct{}
	next bool // there was no watch to cut: the next one it is
}

func (w *cutWatcher) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next = len(w.cuts) == 0
	for _, c := range w.cuts {
		close(c)
	}
	w.cuts = nil
}

// cuttable is closed when the watch that is about to begin is to be cut.
func (w *cutWatcher) cuttable() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := make(chan struct{})
	if w.next {
		close(c)
		w.next = false
	} else {
		w.cuts = append(w.cuts, c)
	}
	return c
}

func (w *cutWatcher) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	ctx, cancel := context.WithCancel(ctx)
	cut, out := w.cuttable(), make(chan clientv3.WatchResponse)
	in := w.Watcher.Watch(ctx, key, opts...)
	go func() {
		defer close(out)
		defer cancel()
		for {
			select {
			case a, ok := <-in:
				if !ok {
					return
				}
				select {
				case out <- a:
				case <-ctx.Done():
					return
				}
			case <-cut:
				select {
				case out <- clientv3.WatchResponse{CompactRevision: math.MaxInt64, Canceled: true}:
				case <-ctx.Done():
				}
				return
			}
		}
	}()
	return out
}

// plainLeaser grants a lease for each question that an earlier one does not answer. The wheel
// is package lease's; here only the store is tested.
type plainLeaser struct {
	client *clientv3.Client
	key    string

	mu     sync.Mutex
	ends   map[reserve.LeaseID]time.Time
	marker int64
}

// surplus is how much longer a lease is than was asked for.
const surplus = 2 * time.Second

func (l *plainLeaser) Lease(ctx context.Context, keep, _ time.Duration, have reserve.LeaseID) (reserve.LeaseID, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.ends[have].After(now.Add(keep)) {
		return have, nil
	}
	granted, err := l.client.Grant(ctx, int64((keep+surplus)/time.Second))
	if err != nil {
		return 0, err
	}
	id := reserve.LeaseID(granted.ID)
	l.ends[id] = now.Add(keep + surplus)
	return id, nil
}

func (l *plainLeaser) Marker(ctx context.Context) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.marker == 0 {
		put, err := l.client.Put(ctx, l.key, string(store.EncodeReplica(reserve.Replica{ID: "r1"})))
		if err != nil {
			return 0, err
		}
		l.marker = put.Header.Revision
	}
	return l.marker, nil
}

func (l *plainLeaser) Gone(id reserve.LeaseID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.ends, id)
}

// plainSession is a lease that nobody keeps alive.
type plainSession struct {
	client *clientv3.Client

	mu sync.Mutex
	id reserve.LeaseID
}

func (s *plainSession) Session(ctx context.Context) (reserve.LeaseID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id == 0 {
		granted, err := s.client.Grant(ctx, int64(surplus/time.Second))
		if err != nil {
			return 0, err
		}
		s.id = reserve.LeaseID(granted.ID)
	}
	return s.id, nil
}

func (s *plainSession) Stands(ctx context.Context, id reserve.LeaseID) (bool, error) {
	left, err := s.client.TimeToLive(ctx, clientv3.LeaseID(id))
	return err == nil && left.TTL > 0, err
}

func (s *plainSession) Ended(reserve.LeaseID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id = 0
}
