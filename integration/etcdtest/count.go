package etcdtest

import (
	"context"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Ops counts what transactions carry, those nested in them included, both branches together.
type Ops struct {
	Compares, Gets, Puts, Deletes, Nested int
}

// KVCalls counts calls by method, and what the transactions among them carried.
type KVCalls struct {
	Get, Put, Delete, Do, Txn, Compact int
	InTxn                              Ops
}

// All is the number of calls.
func (c KVCalls) All() int { return c.Get + c.Put + c.Delete + c.Do + c.Txn + c.Compact }

// CountingKV passes calls on to a KV and counts them, whether they succeed or not. It may be
// used from several goroutines.
type CountingKV struct {
	clientv3.KV

	mu    sync.Mutex
	calls KVCalls
}

// NewCountingKV wraps kv.
func NewCountingKV(kv clientv3.KV) *CountingKV { return &CountingKV{KV: kv} }

// Calls is what was counted since the last Reset.
func (c *CountingKV) Calls() KVCalls {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls
}

// Reset starts counting at zero and returns what was counted until now.
func (c *CountingKV) Reset() KVCalls {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.calls
	c.calls = KVCalls{}
	return was
}

// Get implements clientv3.KV.
func (c *CountingKV) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	c.count(func(k *KVCalls) { k.Get++ })
	return c.KV.Get(ctx, key, opts...)
}

// Put implements clientv3.KV.
func (c *CountingKV) Put(ctx context.Context, key, val string, opts ...clientv3.OpOption) (*clientv3.PutResponse, error) {
	c.count(func(k *KVCalls) { k.Put++ })
	return c.KV.Put(ctx, key, val, opts...)
}

// Delete implements clientv3.KV.
func (c *CountingKV) Delete(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.DeleteResponse, error) {
	c.count(func(k *KVCalls) { k.Delete++ })
	return c.KV.Delete(ctx, key, opts...)
}

// Compact implements clientv3.KV.
func (c *CountingKV) Compact(ctx context.Context, rev int64, opts ...clientv3.CompactOption) (*clientv3.CompactResponse, error) {
	c.count(func(k *KVCalls) { k.Compact++ })
	return c.KV.Compact(ctx, rev, opts...)
}

// Do implements clientv3.KV. A transaction given to it counts as one Do, and its parts in InTxn.
func (c *CountingKV) Do(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	c.count(func(k *KVCalls) {
		k.Do++
		if op.IsTxn() {
			cmps, then, or := op.Txn()
			k.InTxn.add(cmps, then, or)
		}
	})
	return c.KV.Do(ctx, op)
}

// Txn implements clientv3.KV; it is counted when it is committed.
func (c *CountingKV) Txn(ctx context.Context) clientv3.Txn {
	return &recordedTxn{commit: func(p txnParts) (*clientv3.TxnResponse, error) {
		c.count(func(k *KVCalls) {
			k.Txn++
			k.InTxn.add(p.cmps, p.then, p.or)
		})
		return p.on(c.KV.Txn(ctx)).Commit()
	}}
}

func (c *CountingKV) count(add func(*KVCalls)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	add(&c.calls)
}

func (o *Ops) add(cmps []clientv3.Cmp, branches ...[]clientv3.Op) {
	o.Compares += len(cmps)
	for _, ops := range branches {
		for _, op := range ops {
			switch {
			case op.IsGet():
				o.Gets++
			case op.IsPut():
				o.Puts++
			case op.IsDelete():
				o.Deletes++
			case op.IsTxn():
				o.Nested++
				cmps, then, or := op.Txn()
				o.add(cmps, then, or)
			}
		}
	}
}

// LeaseCalls counts calls by method.
type LeaseCalls struct {
	Grant, Revoke, TimeToLive, Leases, KeepAlive, KeepAliveOnce int
}

// CountingLease passes calls on to a Lease and counts them, whether they succeed or not. It may
// be used from several goroutines.
type CountingLease struct {
	clientv3.Lease

	mu    sync.Mutex
	calls LeaseCalls
	ttls  []int64
}

// NewCountingLease wraps l.
func NewCountingLease(l clientv3.Lease) *CountingLease { return &CountingLease{Lease: l} }

// Calls is what was counted so far.
func (c *CountingLease) Calls() LeaseCalls {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls
}

// TTLs lists what was asked of Grant, in seconds, in order.
func (c *CountingLease) TTLs() []int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]int64(nil), c.ttls...)
}

// Grant implements clientv3.Lease.
func (c *CountingLease) Grant(ctx context.Context, ttl int64) (*clientv3.LeaseGrantResponse, error) {
	c.count(func(l *LeaseCalls) { l.Grant++; c.ttls = append(c.ttls, ttl) })
	return c.Lease.Grant(ctx, ttl)
}

// Revoke implements clientv3.Lease.
func (c *CountingLease) Revoke(ctx context.Context, id clientv3.LeaseID) (*clientv3.LeaseRevokeResponse, error) {
	c.count(func(l *LeaseCalls) { l.Revoke++ })
	return c.Lease.Revoke(ctx, id)
}

// TimeToLive implements clientv3.Lease.
func (c *CountingLease) TimeToLive(ctx context.Context, id clientv3.LeaseID, opts ...clientv3.LeaseOption) (*clientv3.LeaseTimeToLiveResponse, error) {
	c.count(func(l *LeaseCalls) { l.TimeToLive++ })
	return c.Lease.TimeToLive(ctx, id, opts...)
}

// Leases implements clientv3.Lease.
func (c *CountingLease) Leases(ctx context.Context) (*clientv3.LeaseLeasesResponse, error) {
	c.count(func(l *LeaseCalls) { l.Leases++ })
	return c.Lease.Leases(ctx)
}

// KeepAlive implements clientv3.Lease.
func (c *CountingLease) KeepAlive(ctx context.Context, id clientv3.LeaseID) (<-chan *clientv3.LeaseKeepAliveResponse, error) {
	c.count(func(l *LeaseCalls) { l.KeepAlive++ })
	return c.Lease.KeepAlive(ctx, id)
}

// KeepAliveOnce implements clientv3.Lease.
func (c *CountingLease) KeepAliveOnce(ctx context.Context, id clientv3.LeaseID) (*clientv3.LeaseKeepAliveResponse, error) {
	c.count(func(l *LeaseCalls) { l.KeepAliveOnce++ })
	return c.Lease.KeepAliveOnce(ctx, id)
}

func (c *CountingLease) count(add func(*LeaseCalls)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	add(&c.calls)
}
