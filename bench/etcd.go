package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/pkg/v3/featuregate"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/features"
	"go.uber.org/zap"

	"github.com/holdfast-dev/holdfast/load"
)

// How plain etcd is used: 100-byte values on 100,000 keys, 8 connections over gRPC.
const (
	putBytes       = 100
	putConnections = 8
	putPrefix      = "/bench/" // Holdfast watches another one
)

// embedEtcd starts one member with the settings of an embedded Holdfast node (DESIGN.md section
// 9), fsync on; with a client listener when listen says so.
func embedEtcd(ctx context.Context, dir string, listen bool, maxTxnOps uint) (*embed.Etcd, error) {
	log := zap.NewNop()
	c := embed.NewConfig()
	c.Name, c.Dir = "bench", dir
	any := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{any}, []url.URL{any}
	c.InitialCluster = c.Name + "=" + any.String()
	c.ListenClientUrls, c.AdvertiseClientUrls = nil, nil
	if listen {
		c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{any}, []url.URL{any}
	}
	c.EnableGRPCGateway = false
	c.QuotaBackendBytes = 8 << 30
	c.MaxTxnOps, c.MaxRequestBytes = maxTxnOps, 4<<20
	c.CompactionBatchLimit = 5000
	c.SnapshotCount, c.SnapshotCatchUpEntries = 1000, 100
	c.WarningApplyDuration = 10 * time.Second
	c.TickMs, c.ElectionMs = 100, 1000
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(log)
	gate := features.NewDefaultServerFeatureGate(c.Name, log)
	if err := gate.(featuregate.MutableFeatureGate).Set(string(features.LeaseCheckpoint) + "=true"); err != nil {
		return nil, err
	}
	c.ServerFeatureGate = gate
	e, err := embed.StartEtcd(c)
	if err != nil {
		return nil, err
	}
	select {
	case <-e.Server.ReadyNotify():
		return e, nil
	case err := <-e.Err():
		return nil, err
	case <-ctx.Done():
		e.Close()
		return nil, ctx.Err()
	}
}

// plainEtcd is the etcd of others, as a process: `bench etcd DIR`.
func plainEtcd(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: etcd DIR")
	}
	ctx, cancel := untilEOF(ctx)
	defer cancel()
	e, err := embedEtcd(ctx, args[0], true, 128) // etcd's own default of operations
	if err != nil {
		return err
	}
	defer e.Close()
	fmt.Fprintf(os.Stdout, "http://%s\n", e.Clients[0].Addr())
	<-ctx.Done()
	return nil
}

// dial makes the connections of a plain client.
func dial(endpoint string, connections int) (clients []*clientv3.Client, close func(), err error) {
	close = func() {
		for _, c := range clients {
			_ = c.Close()
		}
	}
	for range connections {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
		if err != nil {
			close()
			return nil, nil, err
		}
		clients = append(clients, c)
	}
	return clients, close, nil
}

// puts is an arm of plain Puts; worker w uses client w modulo their number.
func puts(name string, workers int, clients []*clientv3.Client) arm {
	value := string(make([]byte, putBytes))
	return arm{name: name, workers: workers, begin: func(context.Context) (func(int) (load.Step, error), func(context.Context) error, error) {
		return func(worker int) (load.Step, error) {
			c, pick := clients[worker%len(clients)], load.Keys{Subjects: spreadSubjects}.Picker(uint64(worker))
			return func(ctx context.Context) (load.Outcome, error) {
				_, err := c.Put(ctx, putPrefix+strconv.Itoa(pick()), value)
				return load.Granted, err
			}, nil
		}, nil, nil
	}}
}

// naive is an arm of the lease-per-hold client: grant a lease, read who holds, create the lowest
// free slot under the lease unless somebody was faster; on release revoke the lease.
func naive(name string, workers int, clients []*clientv3.Client) arm {
	var next atomic.Int64
	return arm{name: name, workers: workers, begin: func(context.Context) (func(int) (load.Step, error), func(context.Context) error, error) {
		return func(worker int) (load.Step, error) {
			c, pick := clients[worker%len(clients)], load.Keys{Subjects: spreadSubjects}.Picker(uint64(worker))
			return func(ctx context.Context) (load.Outcome, error) {
				return hold(ctx, c, fmt.Sprintf("%snaive/%d/", putPrefix, pick()), strconv.FormatInt(next.Add(1), 10))
			}, nil
		}, nil, nil
	}}
}

func hold(ctx context.Context, c *clientv3.Client, prefix, owner string) (load.Outcome, error) {
	lease, err := c.Grant(ctx, int64(ttl/time.Second))
	if err != nil {
		return 0, err
	}
	defer func() { _, _ = c.Revoke(ctx, lease.ID) }() // what is left runs out by itself
	for {
		held, err := c.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
		if err != nil {
			return 0, err
		}
		if len(held.Kvs) >= semaphore {
			return load.Refused, nil
		}
		taken := map[string]bool{}
		for _, kv := range held.Kvs {
			taken[string(kv.Key)] = true
		}
		slot := 0
		for taken[prefix+strconv.Itoa(slot)] {
			slot++
		}
		key := prefix + strconv.Itoa(slot)
		resp, err := c.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
			Then(clientv3.OpPut(key, owner, clientv3.WithLease(lease.ID))).Commit()
		if err != nil {
			return 0, err
		}
		if resp.Succeeded {
			return load.Granted, nil
		}
	}
}
