package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-dev/holdfast/store"
)

// snapshotFile is a snapshot of a running member.
func snapshotFile(t *testing.T, client *clientv3.Client) string {
	t.Helper()
	from, err := client.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = from.Close() }()
	path := filepath.Join(t.TempDir(), "a.backup")
	if _, err := writeBackup(path, from); err != nil {
		t.Fatal(err)
	}
	return path
}

// The quarantine is written into etcd's own database: etcd must take it for its own.
func TestRestore_EtcdTakesItForItsOwn(t *testing.T) {
	t.Parallel()
	e := openEtcd(t, filepath.Join(t.TempDir(), "old"))
	grant, err := e.client.Grant(t.Context(), 3600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.client.Put(t.Context(), "k", "v", clientv3.WithLease(grant.ID)); err != nil {
		t.Fatal(err)
	}
	file := snapshotFile(t, e.client)
	last, err := e.client.Put(t.Context(), "later", "v")
	if err != nil {
		t.Fatal(err)
	}
	const quarantine = 3 * time.Second
	into := filepath.Join(t.TempDir(), "new")
	rev, err := restoreEtcd(snapshotOf{file: file, into: into, name: etcdAlone, peer: "http://127.0.0.1:0", cluster: etcdAlone + "=http://127.0.0.1:0"}, quarantine)
	if err != nil {
		t.Fatal(err)
	}
	if rev < last.Header.Revision+revisionBump/2 {
		t.Errorf("revision %d after the restore, %d before: want it far above", rev, last.Header.Revision)
	}
	again := openEtcd(t, into)
	kept, err := again.client.Get(t.Context(), "k")
	if err != nil || len(kept.Kvs) != 1 || kept.Kvs[0].Lease != int64(grant.ID) {
		t.Fatalf("what was there: got %+v, %v, want k on its lease", kept, err)
	}
	s, err := store.New(again.client, again.client, store.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if on, err := s.Quarantined(t.Context()); err != nil || !on {
		t.Fatalf("got %v, %v, want it in quarantine", on, err)
	}
	put, err := again.client.Put(t.Context(), "fresh", "v")
	if err != nil || put.Header.Revision <= rev {
		t.Errorf("got revision %d, %v, want above %d", put.Header.Revision, err, rev)
	}
	// It ends by its lease, and etcd tells.
	ctx, cancel := context.WithTimeout(t.Context(), generous)
	defer cancel()
	for change := range again.client.Watch(ctx, store.QuarantineKey(""), clientv3.WithRev(put.Header.Revision)) {
		if len(change.Events) > 0 {
			break
		}
	}
	if on, err := s.Quarantined(t.Context()); err != nil || on {
		t.Errorf("after its time: got %v, %v, want it over", on, err)
	}
}

// Members that restore the same file must hold the same data, to the bit: etcd compares them.
func TestRestore_MembersAreAlike(t *testing.T) {
	t.Parallel()
	e := openEtcd(t, filepath.Join(t.TempDir(), "old"))
	if _, err := e.client.Put(t.Context(), "k", "v"); err != nil {
		t.Fatal(err)
	}
	file := snapshotFile(t, e.client)
	var hashes []uint32
	for _, name := range []string{"a", "b"} {
		into := filepath.Join(t.TempDir(), name)
		peer := "http://127.0.0.1:0"
		if _, err := restoreEtcd(snapshotOf{file: file, into: into, name: name, peer: peer, cluster: name + "=" + peer}, time.Hour); err != nil {
			t.Fatal(err)
		}
		m := openEtcd(t, into)
		got, err := m.client.HashKV(t.Context(), "", 0)
		if err != nil {
			t.Fatal(err)
		}
		hashes = append(hashes, got.Hash)
	}
	if hashes[0] != hashes[1] {
		t.Errorf("the members' data differ: %x", hashes)
	}
}

func TestRestore_RefusesWhatIsNoWholeBackup(t *testing.T) {
	t.Parallel()
	e := openEtcd(t, filepath.Join(t.TempDir(), "old"))
	whole, err := os.ReadFile(snapshotFile(t, e.client))
	if err != nil {
		t.Fatal(err)
	}
	spoilt := append([]byte{}, whole...)
	spoilt[len(spoilt)/2] ^= 1
	for name, data := range map[string][]byte{"cut short": whole[:len(whole)-1], "a bit flipped": spoilt, "empty": nil, "something else": []byte("x")} {
		path := filepath.Join(t.TempDir(), "bad")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := checkBackup(path); err == nil {
			t.Errorf("%s: taken for a whole backup", name)
		}
	}
}
