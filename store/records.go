package store

import (
	"context"
	"encoding/binary"
	"errors"
	"math/bits"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-dev/holdfast/reserve"
)

// Ids are spread evenly over 2^128, so records are read in parts of equal width: etcd counts
// every key from a page's beginning to the end of its range, a million at the worst, and holds
// up writes meanwhile. A part is a 2^cut-th of all ids.
const (
	mostCut  = 40 // far more parts than there can be records
	partAims = 4  // a part should hold so many pages
)

// errNoRecords is a fault of the program: only RefOpen and RefEnded are records.
var errNoRecords = errors.New("store: keys of this kind hold no records")

// Records is reserve.Lister's. How narrow a part may be is learned from one call to the next,
// the first looks at everything. Entries of one call may be of several revisions.
// Errors: reserve.ErrUnavailable; another when kind is neither RefOpen nor RefEnded.
// Cost: mostly one call to etcd, which looks at a few times max keys.
func (s *Store) Records(
	ctx context.Context, tenant string, kind reserve.RefKind, after reserve.ID, max int,
) ([]reserve.Entry, error) {
	if kind != reserve.RefOpen && kind != reserve.RefEnded {
		return nil, errNoRecords
	}
	var found []reserve.Entry
	learned := &s.cuts[kind-reserve.RefOpen]
	r := s.recordsAbove(tenant, kind, after)
	for len(found) < max && !r.done {
		left := max - len(found)
		cut := int(learned.Load())
		kvs, count, err := r.next(ctx, cut, left)
		if err != nil {
			return nil, readError("records", err)
		}
		found = s.appendEntries(found, kvs)
		learned.Store(int32(adjust(cut, count, max)))
	}
	return found, nil
}

// adjust is how finely to cut after a part cut so held count records, of which want were asked.
func adjust(cut int, count int64, want int) int {
	aim := int64(want) * partAims
	switch {
	case count > 2*aim:
		cut += bits.Len64(uint64(count/aim)) - 1
	case count < int64(want):
		cut -= 2
	}
	return min(max(cut, 0), mostCut)
}

// cuts are what Records has learned of open and of ended records.
type cuts [2]atomic.Int32

// recordReader goes through the records of one kind of a tenant by ascending id.
type recordReader struct {
	store  *Store
	prefix string
	from   string // first key not read yet
	at     uint64 // the id it belongs to, its first 8 bytes
	done   bool
}

// recordsAbove reads what is above id.
func (s *Store) recordsAbove(tenant string, kind reserve.RefKind, id reserve.ID) *recordReader {
	key := s.keys.key(reserve.Ref{Tenant: tenant, Kind: kind, ID: id})
	return &recordReader{
		store: s, prefix: s.keys.family(tenant, kind), from: after(key), at: binary.BigEndian.Uint64(id[:8]),
	}
}

// recordsFrom reads what has ids whose first 8 bytes are at least at.
func (s *Store) recordsFrom(tenant string, kind reserve.RefKind, at uint64) *recordReader {
	prefix := s.keys.family(tenant, kind)
	return &recordReader{store: s, prefix: prefix, from: idsFrom(prefix, at), at: at}
}

// next reads at most limit records of the next part, and says how many it holds.
func (r *recordReader) next(ctx context.Context, cut, limit int) (kvs []*mvccpb.KeyValue, count int64, err error) {
	to, at, last := r.part(cut)
	resp, err := r.store.get(ctx, r.from, clientv3.WithRange(to), clientv3.WithLimit(int64(limit)))
	if err != nil {
		return nil, 0, err
	}
	if resp.More && len(resp.Kvs) > 0 {
		r.from = after(resp.Kvs[len(resp.Kvs)-1].Key)
		r.at = r.idAt(resp.Kvs[len(resp.Kvs)-1].Key, r.at)
	} else {
		r.from, r.at, r.done = to, at, last
	}
	return resp.Kvs, resp.Count, nil
}

// part is where the part that begins at r.at ends.
func (r *recordReader) part(cut int) (to string, at uint64, last bool) {
	if cut == 0 {
		return end(r.prefix), 0, true
	}
	at, over := bits.Add64(r.at, 1<<(64-cut), 0)
	if over != 0 {
		return end(r.prefix), 0, true
	}
	return idsFrom(r.prefix, at), at, false
}

// idAt is the first 8 bytes of the id in key; otherwise, when it is no key of ours, at.
func (r *recordReader) idAt(key []byte, at uint64) uint64 {
	if ref, ok := r.store.keys.parse(key); ok {
		return binary.BigEndian.Uint64(ref.ID[:8])
	}
	return at
}

func (s *Store) appendEntries(to []reserve.Entry, kvs []*mvccpb.KeyValue) []reserve.Entry {
	for _, kv := range kvs {
		if r, ok := s.keys.parse(kv.Key); ok {
			to = append(to, s.entry(r, kv))
		}
	}
	return to
}

// Usage is reserve.Lister's. Ascending is the order of keys, in which what is escaped in a
// scope sorts as "%": it is fit for paging, not for showing.
// Errors: reserve.ErrUnavailable. Cost: one call, two where the page meets the counts shared
// by all; etcd counts all usage keys after the page's beginning, so pages should be large.
func (s *Store) Usage(ctx context.Context, tenant, above string, max int) ([]reserve.Entry, error) {
	prefix := s.keys.family(tenant, reserve.RefUsage)
	from, shared := prefix, s.keys.sharedUsage(tenant)
	if above != "" {
		from = after(s.keys.key(reserve.Ref{Tenant: tenant, Kind: reserve.RefUsage, Scope: above}))
	}
	var found []reserve.Entry
	for len(found) < max {
		to := end(prefix)
		if from < shared {
			to = shared
		} else if from < end(shared) {
			from = end(shared)
		}
		resp, err := s.get(ctx, from, clientv3.WithRange(to), clientv3.WithLimit(int64(max-len(found))))
		if err != nil {
			return nil, readError("usage", err)
		}
		found = s.appendEntries(found, resp.Kvs)
		switch {
		case resp.More && len(resp.Kvs) > 0:
			from = after(resp.Kvs[len(resp.Kvs)-1].Key)
		case to == shared:
			from = end(shared)
		default:
			return found, nil
		}
	}
	return found, nil
}
