package integration

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-dev/holdfast/catalogue"
	"github.com/holdfast-dev/holdfast/integration/etcdtest"
	"github.com/holdfast-dev/holdfast/lease"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/windows"
)

// counted is one replica whose calls are counted.
type counted struct {
	*reserve.Service
	client *clientv3.Client
	calls  splitKV // of the store
	leases *etcdtest.CountingLease
	still  *sync.RWMutex // whoever locks it has the marker wait, and no call of it under way
	marks  int64         // limits told as exceeded by now
}

// markerKV and markerLease are what the wheel calls: what is the marker's waits at the gate.
type markerKV struct {
	clientv3.KV
	gate *sync.RWMutex
}

// Txn implements clientv3.KV.
func (m markerKV) Txn(ctx context.Context) clientv3.Txn { return markerTxn{m.KV.Txn(ctx), m.gate} }

type markerTxn struct {
	clientv3.Txn
	gate *sync.RWMutex
}

func (m markerTxn) If(cs ...clientv3.Cmp) clientv3.Txn   { m.Txn = m.Txn.If(cs...); return m }
func (m markerTxn) Then(ops ...clientv3.Op) clientv3.Txn { m.Txn = m.Txn.Then(ops...); return m }
func (m markerTxn) Else(ops ...clientv3.Op) clientv3.Txn { m.Txn = m.Txn.Else(ops...); return m }

func (m markerTxn) Commit() (*clientv3.TxnResponse, error) {
	m.gate.RLock()
	defer m.gate.RUnlock()
	return m.Txn.Commit()
}

type markerLease struct {
	clientv3.Lease
	gate *sync.RWMutex
}

// Grant implements clientv3.Lease.
func (m markerLease) Grant(ctx context.Context, ttl int64) (*clientv3.LeaseGrantResponse, error) {
	if isMarkers(ttl) {
		m.gate.RLock()
		defer m.gate.RUnlock()
	}
	return m.Lease.Grant(ctx, ttl)
}

// isMarkers tells the marker's leases from those of holds by their TTL in seconds.
func isMarkers(ttl int64) bool { return ttl == int64(lease.MarkerTTL/time.Second) }

// splitKV counts calls that can write apart from those that only read.
type splitKV struct {
	clientv3.KV // reads; counted too
	reads       *etcdtest.CountingKV
	writes      *etcdtest.CountingKV
}

func newSplitKV(kv clientv3.KV) splitKV {
	reads := etcdtest.NewCountingKV(kv)
	return splitKV{KV: reads, reads: reads, writes: etcdtest.NewCountingKV(kv)}
}

// Txn implements clientv3.KV: which of the two it is shows when all its parts are known.
func (s splitKV) Txn(ctx context.Context) clientv3.Txn { return &splitTxn{ctx: ctx, kv: s} }

type splitTxn struct {
	ctx  context.Context // a transaction is bound to it when it is made
	kv   splitKV
	cmps []clientv3.Cmp
	ops  [2][]clientv3.Op
}

func (t *splitTxn) If(cs ...clientv3.Cmp) clientv3.Txn   { t.cmps = cs; return t }
func (t *splitTxn) Then(ops ...clientv3.Op) clientv3.Txn { t.ops[0] = ops; return t }
func (t *splitTxn) Else(ops ...clientv3.Op) clientv3.Txn { t.ops[1] = ops; return t }

func (t *splitTxn) Commit() (*clientv3.TxnResponse, error) {
	kv := t.kv.reads
	if writes(t.ops[0]) || writes(t.ops[1]) {
		kv = t.kv.writes
	}
	return kv.Txn(t.ctx).If(t.cmps...).Then(t.ops[0]...).Else(t.ops[1]...).Commit()
}

func writes(ops []clientv3.Op) bool {
	return slices.ContainsFunc(ops, func(o clientv3.Op) bool {
		if o.IsTxn() {
			_, then, or := o.Txn()
			return writes(then) || writes(or)
		}
		return o.IsPut() || o.IsDelete()
	})
}

// wheel is the wheel as the desk wants it.
type wheel struct{ *lease.Wheel }

func (w wheel) Lease(ctx context.Context, keep, grain time.Duration, have reserve.LeaseID) (reserve.LeaseID, error) {
	id, err := w.Wheel.Lease(ctx, keep, grain, int64(have))
	return reserve.LeaseID(id), err
}

func (w wheel) Gone(id reserve.LeaseID) { w.Wheel.Gone(int64(id)) }

func newCounted(t *testing.T, defined ...limits.Limit) *counted {
	t.Helper()
	s := etcdtest.Start(t)
	c := &counted{
		client: s.Client(), calls: newSplitKV(s.Client()),
		leases: etcdtest.NewCountingLease(s.Client()), still: &sync.RWMutex{},
	}
	st, err := store.New(c.calls, s.Client(), store.Config{Replica: "one", MaxOps: store.EmbeddedMaxOps})
	if err != nil {
		t.Fatal(err)
	}
	w, err := lease.NewWheel(lease.Config{
		Lease: markerLease{c.leases, c.still}, KV: markerKV{s.Client(), c.still}, MarkerKey: st.ReplicaKey("one"), Now: time.Now,
		MarkerValue: func(now time.Time) []byte { return store.EncodeReplica(reserve.Replica{ID: "one", Clock: now}) },
	})
	if err != nil {
		t.Fatal(err)
	}
	c.Service, err = reserve.New(reserve.Config{Store: st, Lister: st, Leases: wheel{w}, Packer: store.Packer{}, Now: time.Now, Replica: "one", MaxOps: store.EmbeddedMaxOps})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var loops sync.WaitGroup
	loops.Go(func() { _ = w.Run(ctx) })
	loops.Go(func() { _ = c.Run(ctx) })
	t.Cleanup(func() { cancel(); loops.Wait() })
	c.define(t, st, wheel{w}, defined)
	return c
}

// define waits until the replica can decide, and makes the limits.
func (c *counted) define(t *testing.T, st *store.Store, w wheel, defined []limits.Limit) {
	t.Helper()
	for limit := time.Now().Add(generous); c.Ready(t.Context()) != nil; {
		if time.Now().After(limit) {
			t.Fatal("the replica did not become ready")
		}
		until(t, time.Now().Add(10*time.Millisecond))
	}
	editor, err := catalogue.New(catalogue.Config{Store: st, Leases: w, Now: time.Now, Catalog: c.Catalog})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range defined {
		l.Enabled = true
		_, rev, err := editor.Create(t.Context(), "default", l, "test")
		if err == nil {
			err = c.Reached(t.Context(), rev)
		}
		if err != nil {
			t.Fatalf("limit %s: %v", l.ID, err)
		}
	}
}

func countedLimits(slots int64) []limits.Limit {
	one := func(id string, amount int64, kind windows.Kind, share limits.Share) limits.Limit {
		return limits.Limit{
			ID: id, Name: id, SubjectKind: "user", Action: "act", Amount: amount, Window: windows.Window{Kind: kind},
			Share: share, TTL: time.Minute, MaxTTL: time.Hour,
		}
	}
	return []limits.Limit{
		one("slots", slots, windows.Concurrent, limits.Each),
		one("units", 1_000_000, windows.Day, limits.Each),
		one("total", 1_000_000, windows.Total, limits.Each),
	}
}

func request(n int) reserve.Request {
	id := "u" + strconv.Itoa(n)
	return reserve.Request{
		Tenant: "default", Subject: limits.Subject{Kind: "user", ID: id}, Action: "act", Cost: 3, TTL: time.Minute,
		Principal: "p/" + id, Route: "test",
	}
}

func (c *counted) grant(ctx context.Context, n int, ttl time.Duration) (reserve.HoldRef, error) {
	r := request(n)
	r.TTL = ttl
	res, d, err := c.Reserve(ctx, r)
	if err == nil && !d.Allowed {
		err = fmt.Errorf("refused: %+v", d)
	}
	return reserve.HoldRef{ID: res.ID, By: reserve.Caller{Tenant: "default", Principal: r.Principal}}, err
}
