package main

import (
	"fmt"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.etcd.io/etcd/server/v3/lease/leasepb"
	storage "go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-dev/holdfast/store"
)

// revisionBump is how far a restored store is ahead of its backup: more revisions than anybody
// makes between two backups (at 10,000 writes a second it is more than a day), so that every
// fence, which is a revision, is greater than every one the old store gave.
const revisionBump = 1_000_000_000

// quarantineLease is the id of the lease that ends a quarantine. etcd's own ids begin with a
// member's and are far greater.
const quarantineLease = 0x686f6c64

// snapshotOf is a snapshot, the folder that etcd's data is made in, and whose it will be.
type snapshotOf struct {
	file, into          string
	name, peer, cluster string
}

// restoreEtcd makes etcd's data of a snapshot, its revision raised and everything before marked
// as compacted, so that a watch from before starts over. The quarantine is a key on a lease,
// written as etcd would have: two members that restore the same file hold the same bytes. It
// lasts from the first start, and a start or a new leader may begin it anew, never cut it short.
//
// It gives the revision that all later ones are above.
func restoreEtcd(s snapshotOf, quarantined time.Duration) (rev int64, err error) {
	defer func() {
		if p := recover(); p != nil { // etcd's way of telling of a database that it cannot read
			err = fmt.Errorf("%v", p)
		}
	}()
	err = snapshot.NewV3(zap.NewNop()).Restore(snapshot.RestoreConfig{
		SnapshotPath: s.file, OutputDataDir: s.into,
		Name: s.name, PeerURLs: []string{s.peer}, InitialCluster: s.cluster, InitialClusterToken: "holdfast",
		RevisionBump: revisionBump, MarkCompacted: true,
	})
	if err != nil {
		return 0, err
	}
	back := storage.NewDefaultBackend(zap.NewNop(), filepath.Join(s.into, "member", "snap", "db"))
	defer func() { _ = back.Close() }() // it commits
	tx := back.BatchTx()
	tx.LockOutsideApply()
	defer tx.Unlock()
	if rev, err = latestRevision(tx); err != nil || quarantined == 0 {
		return rev, err
	}
	rev++
	value, err := proto.Marshal(&mvccpb.KeyValue{
		Key: []byte(store.QuarantineKey("")), Value: []byte("restored"),
		CreateRevision: rev, ModRevision: rev, Version: 1, Lease: quarantineLease,
	})
	if err != nil {
		return rev, err
	}
	schema.MustUnsafePutLease(tx, &leasepb.Lease{ID: quarantineLease, TTL: int64(quarantined / time.Second)})
	tx.UnsafePut(schema.Key, mvcc.RevToBytes(mvcc.Revision{Main: rev}, mvcc.NewRevBytes()), value)
	return rev, nil
}

// latestRevision is the last revision of a database.
func latestRevision(tx storage.UnsafeReader) (rev int64, err error) {
	err = tx.UnsafeForEach(schema.Key, func(k, _ []byte) error {
		rev = max(rev, mvcc.BytesToRev(k).Main)
		return nil
	})
	return rev, err
}
