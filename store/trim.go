package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/holdfast-dev/holdfast/reserve"
)

const (
	trimPart  = 2_048 // records a part should hold
	trimParts = 8     // looked at in one call
	// trimBatch bounds the deletions of one transaction, so that others get their turn.
	trimBatch = 256
)

// trimCursors says, for each tenant, where its next Trim goes on.
type trimCursors struct {
	mu sync.Mutex
	at map[string]trimCursor
}

type trimCursor struct {
	at  uint64 // first 8 bytes of the ids of the next part
	cut int
}

func (t *trimCursors) load(tenant string) trimCursor {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.at[tenant]
}

func (t *trimCursors) store(tenant string, c trimCursor) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.at == nil {
		t.at = map[string]trimCursor{}
	}
	t.at[tenant] = c
}

// Trim deletes at most most ended records of a tenant while there are more than keep, oldest
// first, and never one that was made under an Idempotency-Key. trimmed equal to most means that
// there may be more to do at once.
//
// Up to a few thousand records that is exact. With more of them it goes on from call to call
// through equal parts of the ids, which are spread evenly: of each part the oldest go, above
// the part's share of keep, so keep is met within a few percent once all parts had their turn.
//
// Errors: reserve.ErrUnavailable, reserve.ErrUnknownOutcome; either way the next call finds
// what was left. Safe on several replicas at once. Cost: at most 8 reads of some 4,000 records,
// and a transaction for each 256 deleted.
func (s *Store) Trim(ctx context.Context, tenant string, keep, most int) (trimmed int, err error) {
	c := s.trims.load(tenant)
	for range trimParts {
		if trimmed >= most {
			break
		}
		n, done, err := s.trimPart(ctx, tenant, &c, max(keep, 0), most-trimmed)
		s.trims.store(tenant, c)
		trimmed += n
		if err != nil {
			return trimmed, fmt.Errorf("store: trim: %w", err)
		}
		if done {
			break
		}
	}
	return trimmed, nil
}

// trimPart trims one part and moves c on. done says that it was the last.
func (s *Store) trimPart(ctx context.Context, tenant string, c *trimCursor, keep, most int) (trimmed int, done bool, err error) {
	r := s.recordsFrom(tenant, reserve.RefEnded, c.at)
	kvs, count, err := r.next(ctx, c.cut, 2*trimPart)
	if err != nil {
		return 0, false, readError("records", err)
	}
	if count > int64(len(kvs)) { // too many to look at
		c.cut = adjust(c.cut, count, trimPart/partAims)
		return 0, false, nil
	}
	excess := int(count) - share(keep, c.cut)
	if excess > 0 {
		if trimmed, err = s.deleteOldest(ctx, s.appendEntries(nil, kvs), min(excess, most)); err != nil {
			return trimmed, false, err
		}
	}
	if trimmed == most && trimmed < excess {
		return trimmed, false, nil // the same part again
	}
	c.at = r.at
	if r.done {
		c.at = 0
	}
	if count < trimPart/partAims && c.cut > 0 {
		c.cut--
	}
	return trimmed, r.done, nil
}

// share is a 2^cut-th of keep, rounded up.
func share(keep, cut int) int { return (keep + 1<<cut - 1) >> cut }

// deleteOldest deletes at most most of the records that may go; each only if it is still the
// one that was seen.
func (s *Store) deleteOldest(ctx context.Context, records []reserve.Entry, most int) (deleted int, err error) {
	records = slices.DeleteFunc(records, func(e reserve.Entry) bool {
		r, ok := e.Value.(*reserve.Record)
		return !ok || r.Keyed
	})
	slices.SortFunc(records, func(a, b reserve.Entry) int {
		x, y := a.Value.(*reserve.Record), b.Value.(*reserve.Record)
		return cmp.Or(x.EndedAt.Compare(y.EndedAt), slices.Compare(x.ID[:], y.ID[:]))
	})
	records = records[:min(len(records), most)]
	for batch := range slices.Chunk(records, max(1, min(trimBatch, s.MaxOps()-1))) {
		var b reserve.Batch
		for _, e := range batch {
			b.Groups = append(b.Groups, reserve.Group{
				Tenant: e.Ref.Tenant, Catalog: reserve.AnyCatalog,
				Guards: []reserve.Guard{{Ref: e.Ref, Cond: reserve.ModIs, Rev: e.Mod}},
				Writes: []reserve.Write{{Ref: e.Ref}},
			})
		}
		res, err := s.Apply(ctx, b)
		if err != nil {
			return deleted, err
		}
		for _, o := range res.Outcomes {
			if o.Committed {
				deleted++
			}
		}
	}
	return deleted, nil
}
