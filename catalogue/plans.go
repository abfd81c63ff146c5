package catalogue

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

func planRef(tenant string, s limits.Subject) reserve.Ref {
	return reserve.Ref{Tenant: tenant, Kind: reserve.RefPlan, Scope: s.Scope()}
}

// PutSubjectPlan gives a subject a plan of the limits file; one that it has is replaced. By is
// the caller's to fill in, CreatedAt is not.
// Errors: *limits.InvalidError, also for a plan that the file has not; ErrTooMany.
func (e *Editor) PutSubjectPlan(ctx context.Context, tenant string, p limits.SubjectPlan) (rev int64, err error) {
	if err := p.Validate(); err != nil {
		return 0, err
	}
	p.CreatedAt = e.now()
	refs := []reserve.Ref{{Tenant: tenant, Kind: reserve.RefFile}, planRef(tenant, p.Subject)}
	d, err := e.run(ctx, tenant, refs, func(at standing) ([]reserve.Write, bool, error) {
		for _, entry := range at.entries {
			if errors.Is(entry.Fault, reserve.ErrNewer) {
				return nil, false, fmt.Errorf("catalogue: plan of %s: %w", p.Subject, entry.Fault)
			}
		}
		file, _ := at.entries[0].Value.(*limits.File)
		if err := inFile(file, p.Plan); err != nil {
			return nil, false, err
		}
		c := e.cfg.Catalog(tenant)
		if at.entries[1].Mod == 0 && c != nil && c.SubjectPlans() >= limits.MaxSubjectPlans {
			return nil, false, fmt.Errorf("%w: %d subjects with a plan", ErrTooMany, limits.MaxSubjectPlans)
		}
		return []reserve.Write{{Ref: refs[1], Value: &p}}, true, nil
	})
	return d.rev, err
}

// inFile wants a plan to be in the file, and says which are.
func inFile(f *limits.File, plan string) error {
	names := f.PlanNames()
	for _, name := range names {
		if name == plan {
			return nil
		}
	}
	reason := "is no plan: no limits file with plans was applied"
	if len(names) > 0 {
		reason = "is no plan of the limits file; it has " + strings.Join(names, ", ")
	}
	return &limits.InvalidError{Faults: []limits.Fault{{Field: "/plan", Reason: reason}}}
}

// DeleteSubjectPlan takes a subject's plan away. Errors: ErrNotFound.
func (e *Editor) DeleteSubjectPlan(ctx context.Context, tenant string, s limits.Subject) (rev int64, err error) {
	return e.deleteOne(ctx, tenant, planRef(tenant, s))
}
