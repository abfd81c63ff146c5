package memory

import (
	"context"
	"fmt"

	"github.com/holdfast-dev/holdfast/reserve"
)

// History is reserve.Historian's. Kept are the last maxHistory revisions that were made while
// somebody followed.
func (v *View) History(ctx context.Context, tenant string, after, upTo int64, tell func(reserve.Update) bool) error {
	for rev := after + 1; rev <= upTo; rev++ {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%w: %w", reserve.ErrUnavailable, err)
		}
		u, err := v.past(tenant, rev)
		if err != nil {
			return err
		}
		if len(u.Entries)+len(u.Deleted) > 0 && !tell(u) {
			return nil
		}
	}
	return nil
}

// past is what revision rev did to a tenant.
func (v *View) past(tenant string, rev int64) (u reserve.Update, err error) {
	if down, _ := v.hindrance(); down {
		return u, reserve.ErrUnavailable
	}
	v.keys.mu.Lock()
	defer v.keys.mu.Unlock()
	f := &v.keys.feed
	if rev <= f.compacted || len(f.log) == 0 && rev <= v.keys.rev {
		return u, &reserve.CompactedError{Rev: max(f.compacted, min(rev, v.keys.rev))}
	}
	if len(f.log) == 0 || rev >= f.first+int64(len(f.log)) {
		return u, nil
	}
	all := f.log[rev-f.first].update
	u.Rev = rev
	for _, e := range all.Entries {
		if e.Ref.Tenant == tenant {
			u.Entries = append(u.Entries, e)
		}
	}
	for _, d := range all.Deleted {
		if d.Ref.Tenant == tenant {
			u.Deleted = append(u.Deleted, d)
		}
	}
	return u, nil
}
