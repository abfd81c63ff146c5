package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-dev/holdfast/lease"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/store"
)

// backend is the etcd that a server stands on: its own, or one of others.
type backend struct {
	mode      string // embedded, memory or external
	client    *clientv3.Client
	sender    store.Sender // embedded; nil: the client
	endpoints []string     // external
	maxOps    int          // operations a transaction
	maxBytes  int          // of keys and values, a transaction
	space     *spaceKeeper // embedded
	died      <-chan error // embedded: it cannot go on, and must not be closed
	close     func()
}

// openBackend connects to etcd, or starts it in the data folder.
func openBackend(ctx context.Context, c *serverConfig, dir *dataDir, log *slog.Logger, metrics prometheus.Registerer) (*backend, error) {
	if len(c.EtcdEndpoints) > 0 {
		client, lines, err := dialEtcd(ctx, c, log)
		if err != nil {
			return nil, err
		}
		b := &backend{mode: "external", client: client, endpoints: c.EtcdEndpoints, maxBytes: store.DefaultMaxBytes, close: func() {
			_ = client.Close()
			lines.close()
		}}
		if b.maxOps, err = takesOps(ctx, client, log); err != nil {
			b.close()
			return nil, err
		}
		return b, nil
	}
	return ownEtcd(ctx, c, dir, log, metrics)
}

func ownEtcd(ctx context.Context, c *serverConfig, dir *dataDir, log *slog.Logger, metrics prometheus.Registerer) (*backend, error) {
	b := &backend{mode: "embedded", maxOps: store.EmbeddedMaxOps, maxBytes: store.EmbeddedMaxBytes}
	o := etcdOptions{
		dir: dir.file(etcdName), listenClient: c.EtcdListenClient, log: log,
		name: c.EtcdName, members: c.EtcdCluster, listenPeer: c.EtcdListenPeer,
	}
	if c.secured() {
		// The certificate proves who calls; from which address it does is no proof beside it, and
		// is another one behind every router that rewrites addresses.
		o.secure = transport.TLSInfo{
			CertFile: c.EtcdCert, KeyFile: c.EtcdKey, TrustedCAFile: c.EtcdCACert, ClientCertAuth: true, SkipClientSANVerify: true,
		}
	}
	forget := func() {}
	if c.Memory {
		temp, err := os.MkdirTemp("", "holdfast-memory-") // made 0700
		if err != nil {
			return nil, fail(exitFailed, "no temporary folder: %w", err)
		}
		b.mode, o.dir, o.forgetful = "memory", temp, true
		forget = func() { _ = os.RemoveAll(temp) }
	}
	e, err := startEtcd(ctx, o)
	if err != nil {
		forget()
		return nil, err
	}
	b.client, b.sender, b.died = e.client, newDirect(e.etcd.Server), e.died()
	b.close = func() { e.stop(); forget() }
	if b.space, err = newSpaceKeeper(e.client, log, metrics); err == nil {
		err = b.space.prepare(ctx)
	}
	if err != nil {
		b.close()
		return nil, fail(exitUnavailable, "etcd does not answer: %w", err)
	}
	return b, nil
}

// noSpace reports whether new holds must be refused; never for an etcd of others, whose
// alarm says so itself.
func (b *backend) noSpace() bool { return b.space != nil && b.space.full() }

// wheel keeps this replica's freshness marker and shares its leases.
func (b *backend) wheel(s *store.Store, replica reserve.Replica, now func() time.Time, log *slog.Logger, metrics prometheus.Registerer) (*lease.Wheel, error) {
	return lease.NewWheel(lease.Config{
		Lease:     b.client,
		KV:        b.client,
		MarkerKey: s.ReplicaKey(replica.ID),
		MarkerValue: func(now time.Time) []byte {
			replica.Clock = now
			return store.EncodeReplica(replica)
		},
		Now: now, Log: log, Metrics: metrics,
	})
}

// leaser is the wheel as the desk wants it: its own numbers, its own errors.
type leaser struct{ wheel *lease.Wheel }

func (l leaser) Lease(ctx context.Context, keep, grain time.Duration, have reserve.LeaseID) (reserve.LeaseID, error) {
	id, err := l.wheel.Lease(ctx, keep, grain, int64(have))
	return reserve.LeaseID(id), leaseError(err)
}

func (l leaser) Marker(ctx context.Context) (int64, error) {
	rev, err := l.wheel.Marker(ctx)
	return rev, leaseError(err)
}

func (l leaser) Gone(id reserve.LeaseID) { l.wheel.Gone(int64(id)) }

// sessions is the session lease as the desk wants it.
type sessions struct{ session *lease.Session }

func (s sessions) Session(ctx context.Context) (reserve.LeaseID, error) {
	id, err := s.session.Lease(ctx)
	return reserve.LeaseID(id), leaseError(err)
}

func (s sessions) Stands(ctx context.Context, id reserve.LeaseID) (bool, error) {
	stands, err := s.session.Stands(ctx, int64(id))
	return stands, leaseError(err)
}

func (s sessions) Ended(id reserve.LeaseID) { s.session.Ended(int64(id)) }

// leaseError translates: without a lease nothing has happened.
func leaseError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, lease.ErrFull):
		return fmt.Errorf("%w: %w", reserve.ErrFull, err)
	case errors.Is(err, lease.ErrUnavailable):
		return fmt.Errorf("%w: %w", reserve.ErrUnavailable, err)
	default:
		return err
	}
}
