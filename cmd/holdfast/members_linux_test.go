package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

// loopbackNet is three addresses of this machine that nobody else is likely to use: members
// must know each other's ports before any of them listens.
func loopbackNet() (hosts [3]string) {
	a, b := 1+rand.IntN(254), rand.IntN(256)
	for i := range hosts {
		hosts[i] = fmt.Sprintf("127.%d.%d.%d", a, b, i+1)
	}
	return hosts
}

// FAULTS threat 28, issue 7: three servers that are the members of one etcd, with certificates
// between them. One stops; the others go on, and what was answered is kept.
func TestServe_MembersOfOneEtcd(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts three servers")
	}
	t.Parallel()
	dir, hosts := t.TempDir(), loopbackNet()
	certs := filepath.Join(dir, "certs")
	if code := run(t.Context(), []string{"keys", "certificates", "--out", certs, "--host", strings.Join(hosts[:], ",")}, nil, strings.NewReader(""), io.Discard, t.Output()); code != exitDone {
		t.Fatalf("keys certificates: exit %d, want 0", code)
	}
	flags, token := trusting(t, dir)
	var cluster []string
	for i, host := range hosts {
		cluster = append(cluster, fmt.Sprintf("m%d=https://%s:2380", i, host))
	}
	var servers [3]*devServer
	var failed [3]error
	var all sync.WaitGroup
	for i, host := range hosts { // each is ready once two run
		mine := append([]string{
			"--etcd-name", fmt.Sprintf("m%d", i), "--etcd-listen-peer", host + ":2380", "--etcd-initial-cluster", strings.Join(cluster, ","),
			"--etcd-cacert", filepath.Join(certs, caName), "--etcd-cert", filepath.Join(certs, certName), "--etcd-key", filepath.Join(certs, certKeyName),
		}, flags...)
		all.Go(func() {
			servers[i], failed[i] = startServe([]string{"HOME=" + dir}, filepath.Join(dir, fmt.Sprint(i)), mine...)
		})
	}
	all.Wait()
	for _, s := range servers {
		if s != nil {
			defer s.stop()
		}
	}
	if err := errors.Join(failed[:]...); err != nil {
		t.Fatal(err)
	}
	calls := make([]*caller, 3)
	for i, s := range servers {
		calls[i] = clientOf(t, s, token)
	}
	limit := map[string]any{"id": "exports", "name": "Exports", "subjectKind": "user", "action": "export", "amount": 2, "window": "concurrent"}
	if _, err := calls[0].do(t.Context(), act{method: http.MethodPost, path: "/v1/limits", body: limit}); err != nil {
		t.Fatal(err)
	}
	first, err := reserveFor(t.Context(), calls[0], "export", "u")
	if err != nil {
		t.Fatal(err)
	}
	// The first one may be the leader or not; the others must go on without it.
	if code := servers[0].stop(); code != exitDone {
		t.Errorf("member 0: exit %d, want 0", code)
	}
	second, err := persistently(t, func() (api.Reservation, error) { return reserveFor(t.Context(), calls[1], "export", "u") })
	if err != nil {
		t.Fatalf("after one of three stopped: %v", err)
	}
	if second.Slots[0].Slot == first.Slots[0].Slot {
		t.Errorf("slot %v was given twice", second.Slots)
	}
	_, err = persistently(t, func() (api.Reservation, error) { return reserveFor(t.Context(), calls[2], "export", "u") })
	if p, ok := errors.AsType[*api.Problem](err); !ok || p.Code != api.NoFreeSlot {
		t.Errorf("a third at once: got %v, want %s", err, api.NoFreeSlot)
	}
}

// persistently tries again while the store has no leader.
func persistently[T any](t *testing.T, try func() (T, error)) (got T, err error) {
	t.Helper()
	for began := time.Now(); time.Since(began) < generous; {
		got, err = try()
		p, told := errors.AsType[*api.Problem](err)
		if !told || p.Status != http.StatusServiceUnavailable {
			return got, err
		}
		if !sleep(t.Context(), 100*time.Millisecond) {
			return got, t.Context().Err()
		}
	}
	return got, err
}
