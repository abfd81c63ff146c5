package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-dev/holdfast/store"
)

// How an etcd cluster of others is talked to (DESIGN.md section 9).
const (
	etcdPingEvery  = 10 * time.Second // the server allows one each 5 s
	etcdPingWithin = 3 * time.Second  // else the connection is dead and another endpoint is used
	etcdAskWithin  = 2 * time.Second  // of each look at start
	etcdAttempts   = 1                // the client itself must never send a write twice (etcd #18424)
)

// etcdFloors are the least releases that are safe to stand on, by minor version: older ones
// revoke live leases, read stale, or let a role out of its prefix (FAULTS 1.1 to 1.3).
var etcdFloors = map[string]string{"3.5": "3.5.33", "3.6": "3.6.14", "3.7": "3.7.1"}

// dialEtcd connects to an etcd cluster and looks at every member's version before anything is
// served. Errors: *failure.
func dialEtcd(ctx context.Context, c *serverConfig, log *slog.Logger) (*clientv3.Client, *etcdLog, error) {
	secure, err := etcdTLS(c)
	if err != nil {
		return nil, nil, err
	}
	lines := newEtcdLog(log)
	lines.running.Store(true)
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            c.EtcdEndpoints,
		DialTimeout:          etcdAskWithin,
		DialKeepAliveTime:    etcdPingEvery,
		DialKeepAliveTimeout: etcdPingWithin,
		PermitWithoutStream:  true,
		MaxUnaryRetries:      etcdAttempts,
		TLS:                  secure,
		Logger:               lines.logger(),
	})
	if err != nil {
		lines.close()
		return nil, nil, fail(exitUnavailable, "etcd cannot be used: %w", err).next("look at", "--etcd-endpoints")
	}
	if err := checkFloors(ctx, client, c.EtcdEndpoints); err != nil {
		_ = client.Close()
		lines.close()
		return nil, nil, err
	}
	return client, lines, nil
}

// opsSteps are how many operations a transaction may have, as settings of etcd's --max-txn-ops
// go. Below the last, one reservation under many limits could not be written.
var opsSteps = []int{store.EmbeddedMaxOps, 2048, 1024, 512, 256, store.DefaultMaxOps, 64, 32}

// takesOps finds out how many operations etcd takes in one transaction: no call of it tells. It
// sends so many reads of a key that is not there, which one member answers by itself; a member
// refuses too many before it looks at any. Members that are set otherwise are met when they
// refuse: the store then takes fewer. Without an answer, etcd's own default is taken for true.
// Errors: *failure, when no transaction of any use fits.
func takesOps(ctx context.Context, client *clientv3.Client, log *slog.Logger) (int, error) {
	look := clientv3.OpGet(probeKey, clientv3.WithSerializable(), clientv3.WithCountOnly())
	for _, n := range opsSteps {
		within, cancel := context.WithTimeout(ctx, etcdAskWithin)
		_, err := client.Txn(within).Then(slices.Repeat([]clientv3.Op{look}, n)...).Commit()
		cancel()
		if errors.Is(err, rpctypes.ErrTooManyOps) {
			continue
		}
		if err != nil {
			log.Warn("etcd did not say how many operations it takes in a transaction", "taken", store.DefaultMaxOps, "error", err)
			return store.DefaultMaxOps, nil
		}
		if n < store.DefaultMaxOps {
			log.Warn("etcd takes few operations in a transaction, so fewer requests share a write", "operations", n, "default", store.DefaultMaxOps)
		}
		return n, nil
	}
	return 0, fail(exitFailed, "etcd takes fewer than %d operations in a transaction", opsSteps[len(opsSteps)-1]).
		next("start etcd with", "--max-txn-ops 128, which is its default, or more")
}

// probeKey is no key of ours: every root ends in a slash, and more follows.
const probeKey = store.DefaultRoot

// etcdTLS is how etcd and we prove who we are; nil without TLS.
func etcdTLS(c *serverConfig) (*tls.Config, error) {
	if c.EtcdCACert == "" && c.EtcdCert == "" {
		return nil, nil
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.EtcdCACert != "" {
		pem, err := os.ReadFile(c.EtcdCACert)
		if err != nil {
			return nil, usage("--etcd-cacert cannot be read: %w", err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, usage("--etcd-cacert %s holds no certificate", c.EtcdCACert)
		}
	}
	if c.EtcdCert != "" {
		pair, err := tls.LoadX509KeyPair(c.EtcdCert, c.EtcdKey)
		if err != nil {
			return nil, usage("--etcd-cert and --etcd-key cannot be used: %w", err)
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}

// checkFloors asks every endpoint for its version. One that is away is no reason not to start
// as long as another answers; an old one is.
func checkFloors(ctx context.Context, client *clientv3.Client, endpoints []string) error {
	answered, last := 0, error(nil)
	for _, endpoint := range endpoints {
		ctx, cancel := context.WithTimeout(ctx, etcdAskWithin)
		status, err := client.Status(ctx, endpoint)
		cancel()
		if err != nil {
			last = fmt.Errorf("%s: %w", endpoint, err)
			continue
		}
		answered++
		if err := aboveFloor(status.Version); err != nil {
			return fail(exitFailed, "%s runs etcd %s: %w", endpoint, status.Version, err).next("upgrade it", "or use the embedded one (leave out --etcd-endpoints)")
		}
	}
	if answered == 0 {
		return fail(exitUnavailable, "no etcd endpoint answers: %w", last).next("look at", "--etcd-endpoints, --etcd-cacert, --etcd-cert and --etcd-key")
	}
	return nil
}

// aboveFloor judges a version such as 3.6.14.
func aboveFloor(version string) error {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) != 3 {
		return fmt.Errorf("%q is no version that is known", version)
	}
	minor := parts[0] + "." + parts[1]
	floor, known := etcdFloors[minor]
	if !known {
		if newer(parts[0]+"."+parts[1]+".0", "3.7.0") {
			return nil
		}
		return fmt.Errorf("older than every release that is safe to stand on (3.5.33, 3.6.14, 3.7.1)")
	}
	if !newer(version, floor) {
		return fmt.Errorf("the least that is safe to stand on is %s", floor)
	}
	return nil
}

// newer reports whether a is b or later. What follows a dash (a pre-release) is not looked at.
func newer(a, b string) bool {
	numbers := func(v string) (out [3]int) {
		for i, part := range strings.SplitN(v, ".", 3) {
			digits, _, _ := strings.Cut(part, "-")
			out[i], _ = strconv.Atoi(digits)
		}
		return out
	}
	x, y := numbers(a), numbers(b)
	for i := range x {
		if x[i] != y[i] {
			return x[i] > y[i]
		}
	}
	return true
}
