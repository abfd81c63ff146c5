package store

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-dev/holdfast/reserve"
)

// errNoHours is a fault of the program: only RefRollup and RefTally have hours.
var errNoHours = errors.New("store: keys of this kind have no hours")

// Trail is reserve.Lister's. Cost: one call to etcd, which counts what is left of the trail.
func (s *Store) Trail(ctx context.Context, tenant string, above int64, max int) ([]reserve.Entry, error) {
	from := after(s.keys.key(reserve.Ref{Tenant: tenant, Kind: reserve.RefTrail, N: above}))
	return s.ranks(ctx, "trail", from, end(s.keys.family(tenant, reserve.RefTrail)), max)
}

// Hours is reserve.Lister's. Cost: one call to etcd.
func (s *Store) Hours(
	ctx context.Context, tenant string, kind reserve.RefKind, limit string, from, to int64, max int,
) ([]reserve.Entry, error) {
	if kind != reserve.RefRollup && kind != reserve.RefTally {
		return nil, errNoHours
	}
	if from = clip(from); to <= from {
		return nil, nil
	}
	hour := func(n int64) string {
		return string(s.keys.key(reserve.Ref{Tenant: tenant, Kind: kind, Limit: limit, N: n}))
	}
	return s.ranks(ctx, "hours", hour(from), hour(to), max)
}

func clip(n int64) int64 { return max(n, 0) }

func (s *Store) ranks(ctx context.Context, what, from, to string, max int) ([]reserve.Entry, error) {
	if max < 1 {
		return nil, nil
	}
	resp, err := s.get(ctx, from, clientv3.WithRange(to), clientv3.WithLimit(int64(max)))
	if err != nil {
		return nil, readError(what, err)
	}
	return s.appendEntries(nil, resp.Kvs), nil
}

// TrimTrail deletes the notes of a tenant's audit trail past the latest keep of them, and
// those made before the given instant, at most most of them. Safe on several replicas at once.
// trimmed equal to most means that there may be more to do at once.
//
// Errors: reserve.ErrUnavailable; what was deleted by then stays so. Cost: two reads, without
// values, and a deletion.
func (s *Store) TrimTrail(ctx context.Context, tenant string, keep int, before time.Time, most int) (trimmed int, err error) {
	family := s.keys.family(tenant, reserve.RefTrail)
	last := end(family)
	old := string(s.keys.key(reserve.Ref{Tenant: tenant, Kind: reserve.RefTrail, N: reserve.TrailRank(before)}))
	for _, from := range []string{family, after([]byte(old))} {
		skip := 0
		if from == family {
			skip = max(keep, 0)
		}
		resp, err := s.get(ctx, from, clientv3.WithRange(last), clientv3.WithKeysOnly(), clientv3.WithLimit(int64(skip+most-trimmed)))
		if err != nil {
			return trimmed, readError("trail", err)
		}
		if len(resp.Kvs) <= skip {
			continue
		}
		first, past := string(resp.Kvs[skip].Key), after(resp.Kvs[len(resp.Kvs)-1].Key)
		ctx, cancel := s.call(ctx)
		gone, err := s.kv.Delete(ctx, first, clientv3.WithRange(past))
		cancel()
		s.metrics.count("trim", err)
		if err != nil {
			return trimmed, readError("trail", err)
		}
		if trimmed += int(gone.Deleted); trimmed >= most {
			break
		}
	}
	return trimmed, nil
}
