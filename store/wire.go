package store

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-dev/holdfast/reserve"
)

// Sender sends a transaction in the form it has on the wire, once. Errors: etcd's, as a client
// sees them. A server in this process is a Sender without a client between.
type Sender interface {
	Txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error)
}

// wire makes the messages of one transaction, many at a time: a batch has thousands, of which
// clientv3 would allocate each twice, and copy comparisons by reflection.
type wire struct {
	compares slab[pb.Compare]
	mods     slab[pb.Compare_ModRevision]
	creates  slab[pb.Compare_CreateRevision]
	ops      slab[pb.RequestOp]
	opPuts   slab[pb.RequestOp_RequestPut]
	puts     slab[pb.PutRequest]
	txns     slab[nestedOp]
}

// nestedOp is what one nested transaction needs.
type nestedOp struct {
	op  pb.RequestOp_RequestTxn
	txn pb.TxnRequest
}

// slab hands out zero values out of arrays that grow.
type slab[T any] struct {
	free []T
	last int // length of the last array
}

const mostInSlab = 256

func (s *slab[T]) take() *T {
	if len(s.free) == 0 {
		s.last = min(max(4, 2*s.last), mostInSlab)
		s.free = make([]T, s.last)
	}
	t := &s.free[0]
	s.free = s.free[1:]
	return t
}

func (w *wire) compare(key []byte, cond reserve.Cond, rev int64) *pb.Compare {
	c := w.compares.take()
	c.Key, c.Result = key, pb.Compare_EQUAL
	if cond == reserve.ModIs {
		u := w.mods.take()
		u.ModRevision = rev
		c.Target, c.TargetUnion = pb.Compare_MOD, u
		return c
	}
	if cond == reserve.CreateIsNot {
		c.Result = pb.Compare_NOT_EQUAL
	}
	u := w.creates.take()
	u.CreateRevision = rev
	c.Target, c.TargetUnion = pb.Compare_CREATE, u
	return c
}

func (w *wire) put(key, value []byte, lease int64) *pb.RequestOp {
	m, u, op := w.puts.take(), w.opPuts.take(), w.ops.take()
	m.Key, m.Value, m.Lease = key, value, lease
	u.RequestPut = m
	op.Request = u
	return op
}

func (w *wire) txn(cmps []*pb.Compare, then, or []*pb.RequestOp) *pb.RequestOp {
	n, op := w.txns.take(), w.ops.take()
	n.txn.Compare, n.txn.Success, n.txn.Failure = cmps, then, or
	n.op.RequestTxn = &n.txn
	op.Request = &n.op
	return op
}

func (w *wire) drop(key []byte) *pb.RequestOp {
	op := w.ops.take()
	op.Request = &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: key}}
	return op
}

func (w *wire) get(key []byte) *pb.RequestOp {
	op := w.ops.take()
	op.Request = &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: key}}
	return op
}

// viaClient sends by a client of etcd.
type viaClient struct{ kv clientv3.KV }

func (v viaClient) Txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	resp, err := v.kv.Txn(ctx).If(clientCompares(r.Compare)...).Then(clientOps(r.Success)...).Else(clientOps(r.Failure)...).Commit()
	return (*pb.TxnResponse)(resp), err
}

func clientCompares(cs []*pb.Compare) []clientv3.Cmp {
	out := make([]clientv3.Cmp, len(cs))
	for i, c := range cs {
		m := out[i].GetCompare() // clientv3.FromCompare would copy it by reflection
		m.Key, m.RangeEnd, m.Result, m.Target, m.TargetUnion = c.Key, c.RangeEnd, c.Result, c.Target, c.TargetUnion
	}
	return out
}

func clientOps(rs []*pb.RequestOp) []clientv3.Op {
	out := make([]clientv3.Op, len(rs))
	for i, r := range rs {
		switch r := r.Request.(type) {
		case *pb.RequestOp_RequestRange:
			out[i] = get(r.RequestRange.Key)
		case *pb.RequestOp_RequestDeleteRange:
			op := clientv3.OpDelete("")
			op.WithKeyBytes(r.RequestDeleteRange.Key)
			out[i] = op
		case *pb.RequestOp_RequestPut:
			var opts []clientv3.OpOption
			if lease := r.RequestPut.Lease; lease != 0 {
				opts = append(opts, clientv3.WithLease(clientv3.LeaseID(lease)))
			}
			op := clientv3.OpPut("", "", opts...)
			op.WithKeyBytes(r.RequestPut.Key)
			op.WithValueBytes(r.RequestPut.Value)
			out[i] = op
		case *pb.RequestOp_RequestTxn:
			t := r.RequestTxn
			out[i] = clientv3.OpTxn(clientCompares(t.Compare), clientOps(t.Success), clientOps(t.Failure))
		}
	}
	return out
}
