package etcdtest

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/pkg/v3/featuregate"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/features"
	"go.uber.org/zap"
)

// The settings of every server started here; those of an embedded Holdfast node.
const (
	DefaultMaxTxnOps  = 4096
	MaxRequestBytes   = 4 << 20
	ReadyWithin       = 10 * time.Second
	loopbackAnyPort   = "127.0.0.1:0"
	singleMemberLabel = "one"
)

// options is what the Options add up to.
type options struct {
	dir       string
	listen    bool
	noFsync   bool
	logToTest bool
	quota     int64
	maxTxnOps uint
}

// Option changes one setting of a server. The default is: a directory of t.TempDir, no client
// listener, fsync on, silent, etcd's own quota (2 GiB), 4,096 operations a transaction.
type Option func(*options)

// Dir keeps the data in path, which outlives the server.
func Dir(path string) Option { return func(o *options) { o.dir = path } }

// Listen opens a client listener on a free loopback port; GRPC and Endpoint need it.
func Listen() Option { return func(o *options) { o.listen = true } }

// NoFsync trades safety after a crash for speed. Data still survives Stop and Restart.
func NoFsync() Option { return func(o *options) { o.noFsync = true } }

// LogToTest sends etcd's log to t.Log instead of nowhere.
func LogToTest() Option { return func(o *options) { o.logToTest = true } }

// Quota sets the size of the store, in bytes, above which etcd raises the NOSPACE alarm.
func Quota(bytes int64) Option { return func(o *options) { o.quota = bytes } }

// MaxTxnOps sets how many operations a transaction may have; an etcd run by others allows 128.
func MaxTxnOps(n uint) Option { return func(o *options) { o.maxTxnOps = n } }

// Server is one embedded etcd member. Its methods may be called from several goroutines,
// except that a client taken before Stop is dead after it.
type Server struct {
	cfg func() *embed.Config // a fresh one for each start: etcd keeps a pointer to what it was given

	mu     sync.Mutex
	etcd   *embed.Etcd
	client *clientv3.Client
}

// Start starts a single member and returns when it serves, within ReadyWithin. The test's
// cleanup stops it. It ends the test when etcd cannot be started.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	o := gather(t, opts)
	log := logger(t, o.logToTest)
	s := &Server{cfg: func() *embed.Config {
		peer := mustURL("http://" + loopbackAnyPort)
		return config(o, log, singleMemberLabel, peer, peer, singleMemberLabel+"="+peer.String())
	}}
	s.start(t)
	t.Cleanup(s.Stop)
	return s
}

// Client is the in-process client of the running server. It belongs to that server object: it
// is closed by Stop, and after Restart another one must be taken. Nil while stopped.
func (s *Server) Client() *clientv3.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client
}

// Endpoint is the address of the client listener, "127.0.0.1:port"; "" without one.
func (s *Server) Endpoint() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.etcd == nil || len(s.etcd.Clients) == 0 {
		return ""
	}
	return s.etcd.Clients[0].Addr().String()
}

// GRPC dials the client listener; the test's cleanup closes the client. It ends the test when
// the server was started without Listen.
func (s *Server) GRPC(t testing.TB) *clientv3.Client {
	t.Helper()
	endpoint := s.Endpoint()
	if endpoint == "" {
		t.Fatal("etcdtest: GRPC needs a running server started with Listen()")
	}
	return dial(t, endpoint)
}

// Revision is the revision of the store as of now, by a linearizable read.
func (s *Server) Revision(t testing.TB) int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), ReadyWithin)
	defer cancel()
	resp, err := s.Client().Get(ctx, "etcdtest-revision", clientv3.WithCountOnly())
	if err != nil {
		t.Fatalf("etcdtest: revision: %v", err)
	}
	return resp.Header.Revision
}

// Stop closes the in-process client and then the server, and returns when both have ended.
// Stopping a stopped server does nothing.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.etcd == nil {
		return
	}
	// The error is always "context canceled": this client has no connection to close.
	_ = s.client.Close()
	s.etcd.Close()
	s.etcd, s.client = nil, nil
}

// Restart stops the server if it runs and starts it again on the same directory.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Stop()
	s.start(t)
}

// start launches the member and waits until it serves.
func (s *Server) start(t testing.TB) {
	t.Helper()
	if err := s.launch(); err != nil {
		t.Fatalf("etcdtest: start: %v", err)
	}
	if err := s.ready(); err != nil {
		s.Stop()
		t.Fatalf("etcdtest: %v", err)
	}
}

// launch starts the member without waiting: a member of a cluster is ready only with another.
func (s *Server) launch() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.etcd != nil {
		return fmt.Errorf("the member already runs")
	}
	e, err := embed.StartEtcd(s.cfg())
	if err != nil {
		return err
	}
	s.etcd, s.client = e, v3client.New(e.Server)
	return nil
}

// ready waits until the launched member has joined and can serve.
func (s *Server) ready() error {
	s.mu.Lock()
	e := s.etcd
	s.mu.Unlock()
	timeout := time.NewTimer(ReadyWithin)
	defer timeout.Stop()
	select {
	case <-e.Server.ReadyNotify():
		return nil
	case err := <-e.Err():
		return fmt.Errorf("etcd ended while starting: %w", err)
	case <-timeout.C:
		return fmt.Errorf("etcd was not ready within %v", ReadyWithin)
	}
}

func gather(t testing.TB, opts []Option) options {
	t.Helper()
	o := options{maxTxnOps: DefaultMaxTxnOps}
	for _, opt := range opts {
		opt(&o)
	}
	if o.dir == "" {
		o.dir = t.TempDir()
	}
	return o
}

// config is the embedded configuration of DESIGN.md section 9. A member listens for peers on
// listen and tells the others to call it on advertise.
func config(o options, log *zap.Logger, name string, listen, advertise url.URL, cluster string) *embed.Config {
	c := embed.NewConfig()
	c.Name, c.Dir = name, o.dir
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{listen}, []url.URL{advertise}
	c.ListenClientUrls, c.AdvertiseClientUrls = nil, nil
	if o.listen {
		u := mustURL("http://" + loopbackAnyPort)
		c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{u}, []url.URL{u}
	}
	c.InitialCluster = cluster
	c.QuotaBackendBytes = o.quota
	c.MaxTxnOps, c.MaxRequestBytes = o.maxTxnOps, MaxRequestBytes
	c.CompactionBatchLimit = 5000
	c.TickMs, c.ElectionMs = 100, 1000
	c.UnsafeNoFsync = o.noFsync
	c.EnableGRPCGateway = false
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(log)
	gate := features.NewDefaultServerFeatureGate(name, log)
	if err := gate.(featuregate.MutableFeatureGate).Set(string(features.LeaseCheckpoint) + "=true"); err != nil {
		panic(err) // the gate's name comes from etcd itself
	}
	c.ServerFeatureGate = gate
	return c
}

func dial(t testing.TB, endpoints ...string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{
		Endpoints:            endpoints,
		DialTimeout:          2 * time.Second,
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 3 * time.Second,
		Logger:               zap.NewNop(),
	})
	if err != nil {
		t.Fatalf("etcdtest: dial %v: %v", endpoints, err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func mustURL(s string) url.URL {
	u, err := url.Parse(s)
	if err != nil {
		panic(err) // only constants and listener addresses come here
	}
	return *u
}
