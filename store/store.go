package store

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-dev/holdfast/reserve"
)

// Defaults and bounds of Config.
const (
	DefaultRoot    = "/holdfast/v1/"
	DefaultMaxOps  = 128             // etcd's own max-txn-ops
	EmbeddedMaxOps = 4096            // where we start the server ourselves
	DefaultTimeout = 2 * time.Second // of one call to etcd

	// leastMaxOps is as far down as "too many operations" makes us go. Below it not even one
	// group with 24 limits could be sent.
	leastMaxOps = 32
	// DefaultMaxBytes bounds keys and values of one transaction. etcd refuses requests above
	// 1.5 MiB by default, and its client cannot send more than 2 MiB; what it adds to keys and
	// values stays under a third. EmbeddedMaxBytes is for a server that we start ourselves, which
	// takes 4 MiB, in process: a limits file of limits.MaxLimits goes into one transaction.
	DefaultMaxBytes  = 1 << 20
	EmbeddedMaxBytes = 3 << 20
)

// Config is what a Store needs beside its connection. The zero value works.
type Config struct {
	// Root begins every key and ends in "/". "": DefaultRoot.
	Root string
	// Replica is this replica's id, the one its freshness marker is kept under. "": no batch
	// may name a marker.
	Replica string
	// MaxOps is the server's max-txn-ops, in operations. 0: DefaultMaxOps.
	MaxOps int
	// MaxBytes is how many bytes of keys and values a transaction may have. 0: DefaultMaxBytes.
	MaxBytes int
	// Timeout bounds each call to etcd. 0: DefaultTimeout.
	Timeout time.Duration
	// Maintenance and Endpoints are what Status asks; nil: it cannot. An in-process client has
	// no endpoints.
	Maintenance clientv3.Maintenance
	Endpoints   []string
	// Sender sends what Apply writes. nil: the kv that New is given.
	Sender Sender

	Log     *slog.Logger          // nil: none
	Metrics prometheus.Registerer // nil: none
}

// Store is one cell's keyspace. Its methods may be called from several goroutines.
type Store struct {
	kv      clientv3.KV
	sender  Sender
	watcher clientv3.Watcher
	cfg     Config
	keys    keyspace
	marker  []byte // key of this replica's freshness marker; nil without one

	maxOps  atomic.Int64
	metrics *metrics
	faults  faultLog
	cuts    cuts
	trims   trimCursors

	mu        sync.Mutex
	followers map[*follower]struct{}
	read      int64 // the latest revision of a fresh read
}

var (
	_ reserve.Store  = (*Store)(nil)
	_ reserve.Lister = (*Store)(nil)
)

// New makes a Store over kv and watcher, which for a *clientv3.Client are both the client. It
// makes no call.
//
// The client must not send a write twice. Over gRPC clientv3 does so in one case, when the
// server itself answers Canceled or DeadlineExceeded while the caller still waits (etcd
// #18424): set MaxUnaryRetries to 1. An in-process client never does.
//
// Errors: a Root that does not end in "/", negative bounds, and what Metrics refuses; all
// faults at once.
func New(kv clientv3.KV, watcher clientv3.Watcher, cfg Config) (*Store, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{
		kv: kv, watcher: watcher, cfg: cfg, keys: newKeyspace(cfg.Root),
		followers: map[*follower]struct{}{},
	}
	if s.sender = cfg.Sender; s.sender == nil {
		s.sender = viaClient{kv}
	}
	if cfg.Replica != "" {
		s.marker = s.keys.key(reserve.Ref{Kind: reserve.RefReplica, Scope: cfg.Replica})
	}
	s.maxOps.Store(int64(cfg.MaxOps))
	s.faults.log = cfg.Log
	s.metrics, err = newMetrics(cfg.Metrics)
	return s, err
}

func (c Config) withDefaults() (Config, error) {
	var errs []error
	if c.Root == "" {
		c.Root = DefaultRoot
	}
	if !strings.HasSuffix(c.Root, "/") {
		errs = append(errs, errors.New(`store: Root must end in "/"`))
	}
	if c.MaxOps < 0 || c.MaxBytes < 0 || c.Timeout < 0 {
		errs = append(errs, errors.New("store: MaxOps, MaxBytes and Timeout must not be negative"))
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = DefaultMaxBytes
	}
	if c.MaxOps == 0 {
		c.MaxOps = DefaultMaxOps
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c, errors.Join(errs...)
}

// MaxOps is how many operations Apply and Load take in one transaction now: what Config said,
// halved each time the server found it too many, and never under 32.
func (s *Store) MaxOps() int { return int(s.maxOps.Load()) }

// tooManyOps learns from a refusal of a transaction that was counted as used operations.
func (s *Store) tooManyOps(used int) {
	for {
		now := s.maxOps.Load()
		next := max(min(now, int64(used))/2, leastMaxOps)
		if next >= now || s.maxOps.CompareAndSwap(now, next) {
			return
		}
	}
}

// ReplicaKey is the key of a replica's freshness marker, for the wheel, which keeps it.
func (s *Store) ReplicaKey(id string) string {
	return string(s.keys.key(reserve.Ref{Kind: reserve.RefReplica, Scope: id}))
}

// EncodeReplica is the value of the freshness marker, for the wheel. Its clock is kept to the
// millisecond.
func EncodeReplica(r reserve.Replica) []byte {
	return appendReplica(nil, &r)
}

// call gives one call to etcd its own deadline.
func (s *Store) call(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.cfg.Timeout)
}
