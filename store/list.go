package store

import (
	"context"
	"maps"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-dev/holdfast/reserve"
)

// A page of a listing, in keys. etcd counts all keys from a page's beginning to the end of the
// range, so that pages of a fixed size cost the square of the whole; pages of an eighth of what
// is left cost eight times the whole. The most is what a page may take of memory, about 10 MB.
const (
	leastPage = 1_000
	mostPage  = 50_000
	pagePart  = 8
)

func nextPage(left int64) int64 { return min(max(left/pagePart, leastPage), mostPage) }

// get is one read with its own deadline; linearizable, also at an earlier revision, which a
// member that lags might not have reached.
func (s *Store) get(ctx context.Context, from string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	ctx, cancel := s.call(ctx)
	defer cancel()
	resp, err := s.kv.Get(ctx, from, opts...)
	s.metrics.count("list", err)
	return resp, err
}

// walk visits every key that begins with prefix, in order, as of revision rev.
func (s *Store) walk(ctx context.Context, prefix string, rev int64, visit func(*mvccpb.KeyValue)) error {
	from, page := prefix, int64(leastPage)
	for {
		resp, err := s.get(ctx, from, clientv3.WithRange(end(prefix)), clientv3.WithRev(rev), clientv3.WithLimit(page))
		if err != nil {
			return err
		}
		for _, kv := range resp.Kvs {
			visit(kv)
		}
		if !resp.More || len(resp.Kvs) == 0 {
			return nil
		}
		from = after(resp.Kvs[len(resp.Kvs)-1].Key)
		page = nextPage(resp.Count - int64(len(resp.Kvs)))
	}
}

// picture is everything that a Reset tells, at one revision.
type picture struct {
	rev     int64
	entries []reserve.Entry
	tenants map[string]struct{}
}

func (s *Store) picture(ctx context.Context) (*picture, error) {
	now, err := s.get(ctx, s.keys.root)
	if err != nil {
		return nil, err
	}
	p := &picture{rev: now.Header.GetRevision(), tenants: map[string]struct{}{}}
	visit := func(kv *mvccpb.KeyValue) {
		if r, ok := s.keys.parse(kv.Key); ok {
			p.entries = append(p.entries, s.entry(r, kv))
		}
	}
	tenants, err := s.scanTenants(ctx, p.rev)
	if err != nil {
		return nil, err
	}
	for _, t := range tenants {
		p.tenants[t] = struct{}{}
		if err := s.walkTenant(ctx, t, p.rev, visit); err != nil {
			return nil, err
		}
	}
	return p, s.walk(ctx, s.keys.replicas(), p.rev, visit)
}

func (s *Store) walkTenant(ctx context.Context, tenant string, rev int64, visit func(*mvccpb.KeyValue)) error {
	for _, kind := range []reserve.RefKind{reserve.RefCatalog, reserve.RefFile} {
		resp, err := s.get(ctx, string(s.keys.key(reserve.Ref{Tenant: tenant, Kind: kind})), clientv3.WithRev(rev))
		if err != nil {
			return err
		}
		for _, kv := range resp.Kvs {
			visit(kv)
		}
	}
	for _, kind := range []reserve.RefKind{
		reserve.RefLimit, reserve.RefOverride, reserve.RefPlan, reserve.RefBlock, reserve.RefSlot, reserve.RefHold, reserve.RefTicket,
		reserve.RefWebhook, reserve.RefDelivery,
	} {
		if err := s.walk(ctx, s.keys.family(tenant, kind), rev, visit); err != nil {
			return err
		}
	}
	return nil
}

// Tenants is reserve.Lister's, ascending.
//
// While a Follow is under way it answers from what that was told, at no cost; a tenant whose
// last key has gone is then still named, until the watch begins anew. Otherwise it reads keys
// in pages and skips from the end of a page to the next tenant.
// Errors: reserve.ErrUnavailable.
func (s *Store) Tenants(ctx context.Context) ([]string, error) {
	if names, ok := s.knownTenants(); ok {
		return names, nil
	}
	names, err := s.scanTenants(ctx, 0)
	if err != nil {
		return nil, readError("tenants", err)
	}
	return names, nil
}

func (s *Store) knownTenants() (names []string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for f := range s.followers {
		f.mu.Lock()
		defer f.mu.Unlock()
		return slices.Sorted(maps.Keys(f.tenants)), true
	}
	return nil, false
}

// scanTenants finds the tenants at rev (0: now) by their keys.
func (s *Store) scanTenants(ctx context.Context, rev int64) (names []string, err error) {
	prefix, page := s.keys.tenants(), int64(leastPage)
	for from := prefix; ; {
		resp, err := s.get(ctx, from, clientv3.WithRange(end(prefix)), clientv3.WithRev(rev),
			clientv3.WithKeysOnly(), clientv3.WithLimit(page))
		if err != nil {
			return nil, err
		}
		for _, kv := range resp.Kvs {
			if string(kv.Key) < from {
				continue // of a tenant that is known by now
			}
			tenant, name, ok := s.keys.tenantOf(kv.Key)
			if ok {
				names = append(names, name)
			}
			if from = after(kv.Key); tenant != "" {
				from = end(tenant)
			}
		}
		if !resp.More || len(resp.Kvs) == 0 {
			slices.Sort(names) // by name; until here they are by spelling
			return names, nil
		}
		page = nextPage(resp.Count - int64(len(resp.Kvs)))
	}
}
