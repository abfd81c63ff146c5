package memory

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

// Records is reserve.Lister's. Cost: a look at every record of that kind of the tenant.
func (v *View) Records(
	ctx context.Context, tenant string, kind reserve.RefKind, after reserve.ID, most int,
) ([]reserve.Entry, error) {
	if err := v.reach(ctx); err != nil {
		return nil, fmt.Errorf("%w: %w", reserve.ErrUnavailable, err)
	}
	v.keys.mu.Lock()
	defer v.keys.mu.Unlock()
	v.keys.tick()
	var page []reserve.Entry
	for id, it := range v.keys.records[family{tenant, kind}] {
		if slices.Compare(id[:], after[:]) > 0 {
			page = append(page, it.Entry)
		}
	}
	slices.SortFunc(page, func(a, b reserve.Entry) int { return compareRefs(a.Ref, b.Ref) })
	return page[:min(len(page), max(most, 0))], nil
}

// Usage is reserve.Lister's, ascending by the bytes of the scope. Cost: a look at every key.
func (v *View) Usage(ctx context.Context, tenant, after string, most int) ([]reserve.Entry, error) {
	return v.scan(ctx, most, func(r reserve.Ref) bool {
		return r.Tenant == tenant && r.Kind == reserve.RefUsage && r.Scope != limits.AllScope && r.Scope > after
	})
}

// Trail is reserve.Lister's. Cost: a look at every key.
func (v *View) Trail(ctx context.Context, tenant string, after int64, most int) ([]reserve.Entry, error) {
	return v.scan(ctx, most, func(r reserve.Ref) bool {
		return r.Tenant == tenant && r.Kind == reserve.RefTrail && r.N > after
	})
}

// Hours is reserve.Lister's. Cost: a look at every key.
func (v *View) Hours(
	ctx context.Context, tenant string, kind reserve.RefKind, limit string, from, to int64, most int,
) ([]reserve.Entry, error) {
	return v.scan(ctx, most, func(r reserve.Ref) bool {
		return r.Tenant == tenant && r.Kind == kind && r.Limit == limit && r.N >= from && r.N < to
	})
}

// scan is what stands under the keys that pick picks, in their order.
func (v *View) scan(ctx context.Context, most int, pick func(reserve.Ref) bool) ([]reserve.Entry, error) {
	if err := v.reach(ctx); err != nil {
		return nil, fmt.Errorf("%w: %w", reserve.ErrUnavailable, err)
	}
	v.keys.mu.Lock()
	defer v.keys.mu.Unlock()
	v.keys.tick()
	var page []reserve.Entry
	for ref, it := range v.keys.items {
		if pick(ref) {
			page = append(page, it.Entry)
		}
	}
	slices.SortFunc(page, func(a, b reserve.Entry) int { return compareRefs(a.Ref, b.Ref) })
	return page[:min(len(page), max(most, 0))], nil
}

// Tenants is reserve.Lister's, ascending. Cost: a look at every key.
func (v *View) Tenants(ctx context.Context) ([]string, error) {
	if err := v.reach(ctx); err != nil {
		return nil, fmt.Errorf("%w: %w", reserve.ErrUnavailable, err)
	}
	v.keys.mu.Lock()
	defer v.keys.mu.Unlock()
	v.keys.tick()
	seen := map[string]bool{}
	var tenants []string
	for ref := range v.keys.items {
		if t := ref.Tenant; t != "" && !seen[t] {
			seen[t] = true
			tenants = append(tenants, t)
		}
	}
	slices.Sort(tenants)
	return tenants, nil
}
