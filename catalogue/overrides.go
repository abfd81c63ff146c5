package catalogue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

// PutOverride puts an override of a limit, for one subject or, with a zero Subject, for
// everyone; one that is there is replaced. By is the caller's to fill in, CreatedAt is not.
// Errors: *limits.InvalidError, ErrNotFound for the limit, ErrTooMany.
func (e *Editor) PutOverride(ctx context.Context, tenant string, o limits.Override) (rev int64, err error) {
	return e.PutOverrideOver(ctx, tenant, o, func(*limits.Limit, *limits.Override) bool { return true })
}

// PutOverrideOver is PutOverride for whoever has seen what is in force: seen is asked about the
// limit and the override that o would replace, nil for none, as they stand when it is written.
// Errors: ErrChanged when seen says no; nothing happened.
func (e *Editor) PutOverrideOver(
	ctx context.Context, tenant string, o limits.Override, seen func(*limits.Limit, *limits.Override) bool,
) (rev int64, err error) {
	now := e.now()
	if o.Until = stored(o.Until); !o.Until.IsZero() && !o.Until.After(now) {
		return 0, notFuture
	}
	if err := o.Validate(); err != nil {
		return 0, err
	}
	if o.Unlimited {
		o.Amount = 0
	}
	o.CreatedAt = now
	refs := []reserve.Ref{limitRef(tenant, o.Limit), overrideRef(tenant, o.Limit, o.Subject)}
	d, err := e.run(ctx, tenant, refs, func(at standing) ([]reserve.Write, bool, error) {
		l, err := limitIn(at.entries[0], 0)
		if err != nil {
			return nil, false, err
		}
		if l.Share == limits.All && !o.Subject.IsZero() {
			return nil, false, oneAmount
		}
		if !o.Subject.IsZero() && l.SubjectKind != limits.Any && l.SubjectKind != o.Subject.Kind {
			return nil, false, &limits.InvalidError{Faults: []limits.Fault{{
				Field: "/subject/kind", Reason: "must be " + l.SubjectKind + ", the kind this limit counts",
			}}}
		}
		if err := e.checkOverride(tenant, at.entries[1]); err != nil {
			return nil, false, err
		}
		before, _ := at.entries[1].Value.(*limits.Override)
		if !seen(&l, before) {
			return nil, false, &ChangedError{Revision: at.entries[0].Mod}
		}
		return []reserve.Write{{Ref: refs[1], Value: &o}}, true, nil
	})
	return d.rev, err
}

var notFuture = &limits.InvalidError{Faults: []limits.Fault{{Field: "/until", Reason: "must be in the future"}}}

// oneAmount: a count that all subjects share has one amount, or the rule of usable slots
// (DESIGN.md section 3) would have several.
var oneAmount = &limits.InvalidError{Faults: []limits.Fault{{
	Field: "/subject", Reason: "this limit is shared by all: override it for everyone",
}}}

// checkOverride sees whether an override may be put where entry stands: not over one of a newer
// version, and not as one more than a tenant may have.
func (e *Editor) checkOverride(tenant string, entry reserve.Entry) error {
	if errors.Is(entry.Fault, reserve.ErrNewer) {
		return fmt.Errorf("catalogue: override of %s: %w", entry.Ref.Limit, entry.Fault)
	}
	c := e.cfg.Catalog(tenant)
	if entry.Mod != 0 || c == nil {
		return nil
	}
	if len(c.AllOverrides()) >= limits.MaxOverrides {
		return fmt.Errorf("%w: %d overrides", ErrTooMany, limits.MaxOverrides)
	}
	return nil
}

// DeleteOverride deletes the override of a limit for s, or with a zero Subject everyone's.
// Errors: ErrNotFound.
func (e *Editor) DeleteOverride(ctx context.Context, tenant, limit string, s limits.Subject) (rev int64, err error) {
	return e.deleteOne(ctx, tenant, overrideRef(tenant, limit, s))
}

// Block refuses a subject every new grant until b.Until, which is at most MaxBlock away; its
// holds stay. A block that is there is replaced. It ends by its lease, within the lease's
// grain after Until: a sixteenth of its length and some seconds.
// Errors: *limits.InvalidError.
func (e *Editor) Block(ctx context.Context, tenant string, b limits.Block) (rev int64, err error) {
	now := e.now()
	b.Until = stored(b.Until)
	if err := checkBlock(b, now); err != nil {
		return 0, err
	}
	ref := blockRef(tenant, b.Subject)
	d, err := e.run(ctx, tenant, []reserve.Ref{ref}, func(at standing) ([]reserve.Write, bool, error) {
		if fault := at.entries[0].Fault; errors.Is(fault, reserve.ErrNewer) {
			return nil, false, fmt.Errorf("catalogue: block of %s: %w", b.Subject, fault)
		}
		return []reserve.Write{{Ref: ref, Value: &b, Keep: b.Until.Sub(now)}}, true, nil
	})
	return d.rev, err
}

func checkBlock(b limits.Block, now time.Time) error {
	// An override for this subject with this reason is right when the block's subject and reason are.
	if err := (limits.Override{Subject: b.Subject, Reason: b.Reason}).Validate(); err != nil {
		return err
	}
	switch {
	case b.Subject.IsZero():
		return &limits.InvalidError{Faults: []limits.Fault{{Field: "/subject", Reason: "must be given"}}}
	case !b.Until.After(now):
		return notFuture
	case b.Until.Sub(now) > MaxBlock:
		return &limits.InvalidError{Faults: []limits.Fault{{Field: "/until", Reason: "must be at most 30 days away"}}}
	}
	return nil
}

// Unblock ends a block. Errors: ErrNotFound.
func (e *Editor) Unblock(ctx context.Context, tenant string, s limits.Subject) (rev int64, err error) {
	return e.deleteOne(ctx, tenant, blockRef(tenant, s))
}

// deleteOne deletes one key, also one that cannot be read, unless a newer version wrote it.
func (e *Editor) deleteOne(ctx context.Context, tenant string, ref reserve.Ref) (rev int64, err error) {
	d, err := e.run(ctx, tenant, []reserve.Ref{ref}, func(at standing) ([]reserve.Write, bool, error) {
		if err := found(at.entries[0], 0); err != nil {
			return nil, false, err
		}
		if fault := at.entries[0].Fault; errors.Is(fault, reserve.ErrNewer) {
			return nil, false, fmt.Errorf("catalogue: %+v: %w", ref, fault)
		}
		return []reserve.Write{{Ref: ref}}, true, nil
	})
	return d.rev, err
}
