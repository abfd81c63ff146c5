package catalogue

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

// Delete deletes a limit and its overrides; its holds stay. ifRevision is the revision the
// caller has seen, 0 for any. A limit that cannot be read (reserve.ErrCorrupt) can be deleted.
//
// More overrides than one transaction takes are deleted after the limit, by further ones; they
// do nothing without it. When that fails the limit is deleted all the same, and what is left of
// its overrides would be in force again if a limit of that id were created.
// It waits until Config.Catalog has caught up with the revision it deletes at, which names the
// overrides. Errors: ErrNotFound, *ChangedError.
func (e *Editor) Delete(ctx context.Context, tenant, id string, ifRevision int64, _ string) (int64, error) {
	return e.DeleteIf(ctx, tenant, id, func(revision int64) bool { return ifRevision == 0 || ifRevision == revision })
}

// DeleteIf is Delete of a limit whose revision, as the edit itself finds it, wanted allows.
func (e *Editor) DeleteIf(ctx context.Context, tenant, id string, wanted func(revision int64) bool) (int64, error) {
	ref := limitRef(tenant, id)
	most := manyWrites
	for {
		var rest []limits.Override
		d, err := e.run(ctx, tenant, []reserve.Ref{ref}, func(at standing) ([]reserve.Write, bool, error) {
			if err := found(at.entries[0], 0); err != nil {
				return nil, false, err
			}
			if at := at.entries[0].Mod; !wanted(at) {
				return nil, false, &ChangedError{Revision: at}
			}
			if fault := at.entries[0].Fault; errors.Is(fault, reserve.ErrNewer) {
				return nil, false, fmt.Errorf("catalogue: limit %s: %w", id, fault)
			}
			overrides, err := e.overridesOf(tenant, id, at.rev)
			if err != nil {
				return nil, false, err
			}
			n := min(len(overrides), most-1)
			rest = overrides[n:]
			return append([]reserve.Write{{Ref: ref}}, deletions(tenant, overrides[:n])...), true, nil
		})
		if errors.Is(err, reserve.ErrTooBig) && most > 1 {
			most /= 2
			continue
		}
		if err != nil || len(rest) == 0 {
			return d.rev, err
		}
		return e.deleteOverrides(ctx, tenant, rest, most)
	}
}

// manyWrites is how many writes an edit has at most; where the store takes fewer it says so.
const manyWrites = 4000

// overridesOf are the overrides of a limit at revision rev of the catalogue. They are known
// only to this replica's picture. Errors: errAgain while it is behind.
func (e *Editor) overridesOf(tenant, id string, rev int64) ([]limits.Override, error) {
	c := e.cfg.Catalog(tenant)
	if c == nil {
		return nil, nil
	}
	if c.Revision() != rev {
		return nil, errAgain
	}
	return c.Overrides(id), nil
}

func deletions(tenant string, overrides []limits.Override) []reserve.Write {
	writes := make([]reserve.Write, len(overrides))
	for i, o := range overrides {
		writes[i].Ref = overrideRef(tenant, o.Limit, o.Subject)
	}
	return writes
}

// deleteOverrides deletes the overrides of a limit that is deleted already, most at a time;
// what has been put under their keys since then stays.
func (e *Editor) deleteOverrides(ctx context.Context, tenant string, all []limits.Override, most int) (rev int64, err error) {
	for len(all) > 0 && err == nil {
		some := all[:min(len(all), most)]
		refs := make([]reserve.Ref, len(some))
		for i, w := range deletions(tenant, some) {
			refs[i] = w.Ref
		}
		var d done
		d, err = e.run(ctx, tenant, refs, func(at standing) ([]reserve.Write, bool, error) {
			var writes []reserve.Write
			for i, entry := range at.entries {
				if sameValue(entry.Value, &some[i]) {
					writes = append(writes, reserve.Write{Ref: entry.Ref})
				}
			}
			return writes, len(writes) > 0, nil
		})
		if errors.Is(err, reserve.ErrTooBig) && most > 1 {
			most, err = most/2, nil
			continue
		}
		rev, all = d.rev, all[len(some):]
	}
	return rev, err
}
