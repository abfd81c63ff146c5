package etcdtest

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Fault is what happens to one call.
type Fault uint8

// The faults. After a Before nothing happened; after an After or a Late the caller cannot know.
const (
	None   Fault = iota // passed on
	Before              // not sent; answered with the error "too many requests"
	After               // sent and committed; the answer is lost: context.DeadlineExceeded
	Late                // answered context.DeadlineExceeded at once, sent by ReleaseLate
)

// ErrBefore is the answer of a call that was not sent. It is one of the codes of etcd that
// say for certain that nothing happened (DESIGN.md section 4, unknown outcome).
var ErrBefore = rpctypes.ErrTooManyRequests

// lateWithin bounds each call that ReleaseLate sends.
const lateWithin = 5 * time.Second

// FaultKV passes calls on to a KV and lets a hook spoil each of Get, Put, Delete, Do and Txn.
// Compact passes unspoilt. It may be used from several goroutines.
type FaultKV struct {
	clientv3.KV
	hook func(n int, op string) Fault

	mu   sync.Mutex
	n    int
	late []func(ctx context.Context) error
}

// NewFaultKV wraps kv. hook is asked once a call, with the number of the call, from 1, and its
// method: "get", "put", "delete", "do" or "txn". Calls of hook are serialised, so that it may
// keep state. A nil hook spoils nothing.
func NewFaultKV(kv clientv3.KV, hook func(n int, op string) Fault) *FaultKV {
	if hook == nil {
		hook = func(int, string) Fault { return None }
	}
	return &FaultKV{KV: kv, hook: hook}
}

// ReleaseLate sends the calls that are held back, in the order they were made, and returns
// when all are answered. A late call may rightly be refused, so its error is for information.
func (f *FaultKV) ReleaseLate() error {
	f.mu.Lock()
	late := f.late
	f.late = nil
	f.mu.Unlock()
	errs := make([]error, 0, len(late))
	for _, send := range late {
		ctx, cancel := context.WithTimeout(context.Background(), lateWithin)
		errs = append(errs, send(ctx))
		cancel()
	}
	return errors.Join(errs...)
}

// Held is the number of calls ReleaseLate would send.
func (f *FaultKV) Held() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.late)
}

// Get implements clientv3.KV.
func (f *FaultKV) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	return spoil(ctx, f, "get", func(ctx context.Context) (*clientv3.GetResponse, error) {
		return f.KV.Get(ctx, key, opts...)
	})
}

// Put implements clientv3.KV.
func (f *FaultKV) Put(ctx context.Context, key, val string, opts ...clientv3.OpOption) (*clientv3.PutResponse, error) {
	return spoil(ctx, f, "put", func(ctx context.Context) (*clientv3.PutResponse, error) {
		return f.KV.Put(ctx, key, val, opts...)
	})
}

// Delete implements clientv3.KV.
func (f *FaultKV) Delete(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.DeleteResponse, error) {
	return spoil(ctx, f, "delete", func(ctx context.Context) (*clientv3.DeleteResponse, error) {
		return f.KV.Delete(ctx, key, opts...)
	})
}

// Do implements clientv3.KV.
func (f *FaultKV) Do(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	return spoil(ctx, f, "do", func(ctx context.Context) (clientv3.OpResponse, error) {
		return f.KV.Do(ctx, op)
	})
}

// Txn implements clientv3.KV; the hook is asked when the transaction is committed.
func (f *FaultKV) Txn(ctx context.Context) clientv3.Txn {
	return &recordedTxn{commit: func(parts txnParts) (*clientv3.TxnResponse, error) {
		return spoil(ctx, f, "txn", func(ctx context.Context) (*clientv3.TxnResponse, error) {
			return parts.on(f.KV.Txn(ctx)).Commit()
		})
	}}
}

// spoil makes one call under the fault the hook chose for it.
func spoil[R any](ctx context.Context, f *FaultKV, op string, send func(context.Context) (R, error)) (R, error) {
	var none R
	f.mu.Lock()
	f.n++
	fault := f.hook(f.n, op)
	if fault == Late {
		f.late = append(f.late, func(ctx context.Context) error { _, err := send(ctx); return err })
	}
	f.mu.Unlock()
	switch fault {
	case Before:
		return none, ErrBefore
	case After:
		// The caller's deadline must not decide whether it is committed: that is the fault's part.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lateWithin)
		defer cancel()
		_, _ = send(ctx)
		return none, context.DeadlineExceeded
	case Late:
		return none, context.DeadlineExceeded
	default:
		return send(ctx)
	}
}
