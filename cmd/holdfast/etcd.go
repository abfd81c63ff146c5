package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/features"
	"go.uber.org/zap"

	"github.com/holdfast-dev/holdfast/store"
)

// The settings of the embedded etcd (DESIGN.md section 9). Sizes are bytes.
const (
	etcdQuota       = 8 << 30 // what etcd itself advises as the most
	etcdMaxRequest  = 4 << 20 // a batch of the desk is a quarter of it at most
	etcdElectionMs  = 1000    // the least TTL of a lease, 2 s, follows from it
	etcdHeartbeatMs = 100
	etcdCompactAt   = 5000 // revisions dropped between two breaths of a compaction
	etcdSlowApply   = 10 * time.Second
	etcdStartWithin = 10 * time.Second
	etcdStartPerGiB = 10 * time.Second // more for a store that is large already: its index is read at start
	etcdStopWithin  = 8 * time.Second
	etcdJoinWithin  = 5 * time.Minute // one of several members serves only once a majority runs
	etcdCatchUp     = 5_000           // entries that a member which was away still finds with the others

	etcdAlone = "holdfast" // the name of a member that has no others; etcd warns of its own default
)

// etcdOptions is what differs between one embedded etcd and another.
type etcdOptions struct {
	dir          string
	listenClient string // address for etcdctl; "": no client listener at all
	forgetful    bool   // dev --memory: no fsync
	log          *slog.Logger

	// One of several members; all empty for one alone.
	name       string
	members    []string // NAME=URL
	listenPeer string   // address

	secure transport.TLSInfo // of peers and of the client listener; empty without certificates
}

// embedded is one etcd member inside this process. Its client belongs to that server object:
// it is dead once the server has stopped.
type embedded struct {
	etcd   *embed.Etcd
	client *clientv3.Client
	log    *etcdLog
	killed bool
}

// startEtcd starts a single member and returns when it serves, or says what is wrong with the
// data. Nothing is ever deleted. Errors: *failure.
func startEtcd(ctx context.Context, o etcdOptions) (*embedded, error) {
	if err := os.MkdirAll(o.dir, 0o700); err != nil {
		return nil, fail(exitFailed, "etcd's folder cannot be made: %w", err)
	}
	size, err := readable(filepath.Join(o.dir, "member", "snap", "db"))
	if err != nil {
		return nil, damaged(o.dir, err)
	}
	e := &embedded{log: newEtcdLog(o.log)}
	within := etcdStartWithin
	if len(o.members) > 1 {
		within = etcdJoinWithin
	}
	ctx, cancel := context.WithTimeout(ctx, within+time.Duration(size>>30)*etcdStartPerGiB)
	defer cancel()
	if err := e.boot(ctx, o); err != nil {
		e.stop()
		return nil, err
	}
	e.log.running.Store(true)
	e.client = v3client.New(e.etcd.Server)
	return e, nil
}

// boot starts etcd in a goroutine of its own: what etcd cannot live with ends that goroutine
// instead of the process.
func (e *embedded) boot(ctx context.Context, o etcdOptions) error {
	type outcome struct {
		etcd *embed.Etcd
		err  error
	}
	started := make(chan outcome, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				started <- outcome{nil, fmt.Errorf("%v", p)}
			}
		}()
		etcd, err := embed.StartEtcd(etcdConfig(o, e.log.logger()))
		started <- outcome{etcd, err}
	}()
	select {
	case out := <-started:
		if out.err != nil {
			return damaged(o.dir, out.err)
		}
		e.etcd = out.etcd
	case err := <-e.log.died:
		e.killed = true
		return damaged(o.dir, err)
	case <-ctx.Done():
		e.killed = true
		return slowStart(ctx, o.dir)
	}
	select {
	case <-e.etcd.Server.ReadyNotify():
		return nil
	case err := <-e.etcd.Err():
		return damaged(o.dir, err)
	case err := <-e.log.died:
		e.killed = true
		return damaged(o.dir, err)
	case <-ctx.Done():
		return slowStart(ctx, o.dir)
	}
}

// etcdConfig is every setting that is not etcd's default, each with its reason.
func etcdConfig(o etcdOptions, log *zap.Logger) *embed.Config {
	c := embed.NewConfig()
	c.Dir = o.dir
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(log)

	placeEtcd(c, o)
	c.EnableGRPCGateway = false // a second protocol that nobody speaks

	c.QuotaBackendBytes = etcdQuota
	c.MaxTxnOps = store.EmbeddedMaxOps // a batch is nested transactions; 128 would cut it at 40 holds
	c.SnapshotCount = 1_000            // an entry is a whole batch: 5,000 to 15,000 of them were the largest thing in memory,
	c.SnapshotCatchUpEntries = 100     // and a start after a kill applied them all again; one member catches nobody up
	if len(o.members) > 1 {
		c.SnapshotCatchUpEntries = etcdCatchUp
	}
	c.MaxRequestBytes = etcdMaxRequest
	c.WarningApplyDuration = etcdSlowApply // above it etcd writes the whole transaction into its log: a tenth of the work of a large one, and ids of subjects
	c.CompactionBatchLimit = etcdCompactAt // the default 1,000 pauses too often to keep up with us
	c.AutoCompactionRetention = "0"        // off: its shortest mode keeps 5 minutes or more; see compactor
	c.ElectionMs = etcdElectionMs          // raises the least TTL when it grows
	c.TickMs = etcdHeartbeatMs
	c.UnsafeNoFsync = o.forgetful // never but for dev --memory: a hold that was promised must stand

	// Long leases keep what has run out of them over a restart and a new leader. It helps TTLs
	// above five minutes; no promise is built on it.
	gate, ok := c.ServerFeatureGate.(interface{ Set(string) error })
	if ok {
		_ = gate.Set(string(features.LeaseCheckpoint) + "=true") // errors are of a name or a locked gate: neither is so
	}
	return c
}

// placeEtcd is where a member listens and whom it knows.
func placeEtcd(c *embed.Config, o etcdOptions) {
	scheme := "http"
	if o.secure.CertFile != "" {
		scheme = "https"
		c.PeerTLSInfo, c.ClientTLSInfo = o.secure, o.secure
	}
	// One member has no peers, but etcd wants an address: a port that the kernel picks, on
	// loopback. Clients are this process alone, by function call: no port is open for them.
	c.Name = etcdAlone
	peer := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	c.InitialCluster = c.Name + "=" + peer.String()
	if len(o.members) > 0 {
		c.Name, c.InitialCluster = o.name, strings.Join(o.members, ",")
		c.ListenPeerUrls = []url.URL{{Scheme: scheme, Host: o.listenPeer}}
		for _, member := range o.members {
			if raw, mine := strings.CutPrefix(member, o.name+"="); mine {
				if u, err := url.Parse(raw); err == nil { // it was judged with the settings
					c.AdvertisePeerUrls = []url.URL{*u}
				}
			}
		}
	}
	c.ListenClientUrls, c.AdvertiseClientUrls = nil, nil
	if o.listenClient != "" {
		client := url.URL{Scheme: scheme, Host: o.listenClient}
		c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	}
}

// stop ends the server after its client, within etcdStopWithin. It is called once, after
// everything that uses the client has ended.
func (e *embedded) stop() {
	e.log.ending.Store(true)
	if e.client != nil {
		_ = e.client.Close() // "context canceled": an in-process client has no connection
	}
	if e.etcd != nil && !e.killed {
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			e.etcd.Close()
		}()
		select {
		case <-closed:
		case <-time.After(etcdStopWithin):
			return // the log may still be written to
		}
	}
	if !e.killed {
		e.log.close()
	}
}

// died tells why etcd cannot go on, if ever. After that it must not be stopped: parts of it
// are held.
func (e *embedded) died() <-chan error { return e.log.died }

// readable looks whether bbolt can open a database file, before etcd does so in a goroutine
// whose panic would end the process without a word. It gives the file's size in bytes.
func readable(path string) (size int64, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: %v", path, p)
		}
	}()
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, Timeout: time.Second, PreLoadFreelist: true})
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return info.Size(), db.Close()
}

// damaged says that etcd's data cannot be used, and what can be done.
func damaged(dir string, err error) error {
	return fail(exitUnavailable, "the state in %s cannot be opened: %w", dir, err).
		next("nothing was deleted", "make a copy of the folder before anything else").
		next("if it matters", "put back the folder from your last backup").
		next("if it does not", "move the folder away and start again")
}

func slowStart(ctx context.Context, dir string) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fail(exitFailed, "stopped while etcd was starting")
	}
	return fail(exitUnavailable, "etcd did not start in time from %s", dir).
		next("it may be", "a slow or full disk; look at the log above").
		next("try", "once more, or with another --data-dir")
}
