package main

import (
	"context"
	"errors"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	etcderrors "go.etcd.io/etcd/server/v3/etcdserver/errors"
	"go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/storage"
)

// direct is a store.Sender that hands transactions to the server in this process, past the check
// of what strangers send: that looks whether two operations of one transaction overlap, which
// costs a seventh of a batch, and the desk's groups never name one key twice.
type direct struct {
	server  *etcdserver.EtcdServer
	checked pb.KVServer
	quota   storage.Quota
}

func newDirect(server *etcdserver.EtcdServer) *direct {
	return &direct{
		server: server, checked: v3rpc.NewQuotaKVServer(server),
		quota: storage.NewBackendQuota(server.Logger(), server.Cfg.QuotaBackendBytes, server.Backend(), "holdfast"),
	}
}

// Txn is store.Sender's. When there is no space left the checked way is gone: it raises etcd's
// alarm.
func (d *direct) Txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	if !d.quota.Available(r) {
		return d.checked.Txn(ctx, r)
	}
	resp, err := d.server.Txn(ctx, r)
	for server, client := range clientErrors {
		if err != nil && errors.Is(err, server) {
			return nil, client
		}
	}
	return resp, err
}

// clientErrors are the server's errors that tell what became of a write, as a client sees them.
// Of all others nobody can say.
var clientErrors = map[error]error{
	etcderrors.ErrTooManyRequests: rpctypes.ErrTooManyRequests,
	etcderrors.ErrRequestTooLarge: rpctypes.ErrRequestTooLarge,
	etcderrors.ErrNoSpace:         rpctypes.ErrNoSpace,
	lease.ErrLeaseNotFound:        rpctypes.ErrLeaseNotFound,
}
