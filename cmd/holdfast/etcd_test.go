package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// openEtcd starts a member in dir; the test's cleanup stops it.
func openEtcd(t *testing.T, dir string) *embedded {
	t.Helper()
	e, err := startEtcd(t.Context(), etcdOptions{dir: dir, forgetful: true, log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.stop)
	return e
}

// FAULTS row 15 and threat 28: what was written stands after a restart, only the owner can
// read it, and no port is open for clients.
func TestEtcd_KeepsAndCloses(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "etcd")
	e, err := startEtcd(t.Context(), etcdOptions{dir: dir, log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(e.etcd.Clients); n != 0 {
		t.Errorf("got %d client listeners, want none", n)
	}
	put, err := e.client.Put(t.Context(), "k", "v")
	if err != nil {
		t.Fatal(err)
	}
	e.stop()
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder: got %v, %v, want mode 0700", info.Mode(), err)
	}
	again := openEtcd(t, dir)
	got, err := again.client.Get(t.Context(), "k")
	if err != nil || len(got.Kvs) != 1 || got.Kvs[0].ModRevision != put.Header.Revision {
		t.Fatalf("after a restart: got %v, %v, want k at revision %d", got, err, put.Header.Revision)
	}
}

// With --etcd-listen-client etcdctl is let in, from this machine alone.
func TestEtcd_ClientListenerOnLoopback(t *testing.T) {
	t.Parallel()
	e, err := startEtcd(t.Context(), etcdOptions{dir: t.TempDir(), listenClient: "127.0.0.1:0", forgetful: true, log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer e.stop()
	if len(e.etcd.Clients) != 1 || !loopback(e.etcd.Clients[0].Addr().String()) {
		t.Fatalf("got listeners %v, want one on loopback", e.etcd.Clients)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{e.etcd.Clients[0].Addr().String()}, Logger: e.log.logger()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), generous)
	defer cancel()
	if _, err := client.Put(ctx, "k", "v"); err != nil {
		t.Errorf("put through the listener: %v", err)
	}
}

// FAULTS 1.3: a damaged database gives a sentence about what to do; nothing is deleted and the
// process lives. A damaged log is in testdata/script/damaged.txtar: it leaves parts of etcd
// behind that only the end of a process takes away.
func TestEtcd_DamagedFolder(t *testing.T) {
	t.Parallel()
	made := t.TempDir()
	e, err := startEtcd(t.Context(), etcdOptions{dir: made, log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		if _, err := e.client.Put(t.Context(), "key", strings.Repeat("x", 1000)); err != nil {
			t.Fatal(err)
		}
	}
	e.stop()
	for _, c := range []struct {
		name, pattern string
		spoil         func([]byte) []byte
	}{
		{"the database is rubbish", "member/snap/db", func(b []byte) []byte { return spoilt(b, 0, len(b)) }},
		{"the database is cut short", "member/snap/db", func(b []byte) []byte { return b[:100] }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "etcd")
			if err := os.CopyFS(dir, os.DirFS(made)); err != nil {
				t.Fatal(err)
			}
			paths, err := filepath.Glob(filepath.Join(dir, c.pattern))
			if err != nil || len(paths) == 0 {
				t.Fatalf("%s: %v, %v", c.pattern, paths, err)
			}
			before, err := os.ReadFile(paths[0])
			if err != nil {
				t.Fatal(err)
			}
			bad := c.spoil(before)
			if err := os.WriteFile(paths[0], bad, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err = startEtcd(t.Context(), etcdOptions{dir: dir, log: slog.New(slog.DiscardHandler)})
			failed, ok := errors.AsType[*failure](err)
			if !ok || failed.exit != exitUnavailable || !strings.Contains(failed.what, "cannot be opened") || len(failed.hints) != 3 {
				t.Fatalf("got %v, want a failure that says what to do", err)
			}
			if after, err := os.ReadFile(paths[0]); err != nil || len(after) != len(bad) {
				t.Errorf("the spoilt file: got %d bytes, %v; want the %d it had", len(after), err, len(bad))
			}
		})
	}
}

func spoilt(b []byte, from, to int) []byte {
	out := append([]byte{}, b...)
	for i := from; i < min(to, len(out)); i++ {
		out[i] ^= 0x5a
	}
	return out
}

// DESIGN.md section 9: history of 60 s is kept, dropped every 30 s, and sooner when the bytes
// in use grew.
func TestSpace_DropsOldHistory(t *testing.T) {
	t.Parallel()
	e := openEtcd(t, t.TempDir())
	k, err := newSpaceKeeper(e.client, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	if err := k.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	var revs []int64
	for second := 0; second <= 95; second += 5 {
		put, err := e.client.Put(t.Context(), "k", "v")
		if err != nil {
			t.Fatal(err)
		}
		revs = append(revs, put.Header.Revision)
		if err := k.step(t.Context(), start.Add(time.Duration(second)*time.Second)); err != nil {
			t.Fatalf("second %d: %v", second, err)
		}
	}
	readable := func(rev int64) bool {
		_, err := e.client.Get(t.Context(), "k", clientv3.WithRev(rev))
		return err == nil
	}
	if readable(revs[0]) {
		t.Errorf("revision %d, 95 s old, is still kept", revs[0])
	}
	if at35 := revs[len(revs)-1-60/5]; !readable(at35 + 1) {
		t.Errorf("revision %d, younger than 60 s, is gone", at35+1)
	}
	if len(k.marks) > int(keepHistory/lookEvery)+compactSlack {
		t.Errorf("got %d marks, want no more than %d", len(k.marks), int(keepHistory/lookEvery)+compactSlack)
	}
	if k.full() || k.percent() != 0 {
		t.Errorf("an almost empty store: got %d %% used", k.percent())
	}
	k.used.Store(k.quota.Load() / 100 * 96)
	if !k.full() {
		t.Errorf("at %d %%: got not full, want full", k.percent())
	}
}

// compactSlack is the marks that gather between two compactions.
const compactSlack = int(compactEvery/lookEvery) + 1

// FAULTS row 19: a log that nobody reads stops nobody; what is dropped is counted.
func TestEtcdLog_NeverBlocks(t *testing.T) {
	t.Parallel()
	blocked := make(chan struct{})
	l := newEtcdLog(slog.New(blockedHandler{slog.DiscardHandler, blocked}))
	l.running.Store(true)
	log := l.logger()
	for range etcdLogRoom + 100 {
		log.Warn("again")
	}
	if n := l.dropped.Load(); n < 99 || n > 100 {
		t.Errorf("got %d dropped lines, want 99 or 100 (one may be in hand)", n)
	}
	close(blocked)
	l.close()
}

type blockedHandler struct {
	slog.Handler
	until chan struct{}
}

func (blockedHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h blockedHandler) Handle(context.Context, slog.Record) error {
	<-h.until
	return nil
}
