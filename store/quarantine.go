package store

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// quarantineWord is the key that `holdfast restore` leaves in a restored store, on a lease of its
// own. While it stands no hold may be begun: one that was granted after the backup may still be
// at work, and its slot looks free.
const quarantineWord = "quarantine"

// QuarantineKey is that key under the root, which is "" for DefaultRoot.
func QuarantineKey(root string) string {
	if root == "" {
		root = DefaultRoot
	}
	return root + quarantineWord
}

// Quarantined reports whether the store is in quarantine, by a linearizable read.
// Errors: reserve.ErrUnavailable. Cost: one read.
func (s *Store) Quarantined(ctx context.Context) (bool, error) {
	ctx, cancel := s.call(ctx)
	defer cancel()
	resp, err := s.kv.Get(ctx, QuarantineKey(s.cfg.Root), clientv3.WithCountOnly())
	s.metrics.count("quarantine", err)
	if err != nil {
		return false, readError("quarantine", err)
	}
	return resp.Count > 0, nil
}
