package catalogue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

// File is a limits file as it is to stand.
type File struct {
	Limits []limits.Limit
	Plans  map[string]limits.Plan
	Digest string // of its bytes, noted down; "": nothing is noted
	Source string // noted on each limit that is created or changed
	Prune  bool   // delete limits whose source is "file", and plans, that it has not

	// IfRevision is the revision of the catalogue that the caller has seen; 0 for any.
	IfRevision int64
}

// sourceFile is the source of limits that a file may delete.
const sourceFile = "file"

// Diff says what a file changes: limits in its order, what is deleted by name.
type Diff struct {
	Create    []limits.Limit
	Change    []Change
	Delete    []string
	Unchanged int
	Plans     PlanDiff

	Revision int64        // of the catalogue it was made from, or that applying it made
	Last     *limits.File // what was applied before; nil: nothing
}

// Change is a limit that is there and differs.
type Change struct{ Old, New limits.Limit }

// PlanDiff names plans, ascending.
type PlanDiff struct{ Create, Change, Delete []string }

// None reports whether the file changes nothing.
func (d Diff) None() bool {
	return len(d.Create)+len(d.Change)+len(d.Delete)+len(d.Plans.Create)+len(d.Plans.Change)+len(d.Plans.Delete) == 0
}

// Plan says what Apply would do now, and does nothing. Errors: as Apply.
// Cost: one read; and waiting until Config.Catalog has caught up with it.
func (e *Editor) Plan(ctx context.Context, tenant string, f File, by string) (Diff, error) {
	now := e.now()
	ls, err := importable(f.Limits, f.Source, now)
	if err != nil {
		return Diff{}, err
	}
	refs := fileRefs(tenant, ls)
	for try := range maxTries {
		if !pause(ctx, try) {
			break
		}
		at, err := e.read(ctx, tenant, refs, nil)
		if err != nil {
			return Diff{}, err
		}
		edit := fileEdit{File: f, tenant: tenant, limits: ls, by: by, now: now}
		if err := edit.judge(e, at); !errors.Is(err, errAgain) {
			return edit.diff, err
		}
	}
	return Diff{}, reserve.ErrContended
}

// Apply makes a limits file stand: it creates what is missing, changes what differs, deletes
// what Prune asks for, and leaves the rest, overrides among them. It is one transaction and one
// revision, however many limits there are: every reader sees all of it or nothing (ADR 14).
// More overrides of deleted limits than one transaction takes are deleted after it; they do
// nothing without their limit.
//
// Of two that apply different files at once, one wins; the other, whose limits were changed
// between its read and its write, is told. by is who is noted down.
// Errors: *limits.InvalidError, its fields under /limits/n or /plans, for a value that is wrong
// or an id given twice; *limits.FixedError, likewise; ErrTooMany; *ChangedError; and
// reserve.ErrTooBig, nothing happened, when the store takes no transaction of that size.
func (e *Editor) Apply(ctx context.Context, tenant string, f File, by string) (Diff, error) {
	now := e.now()
	ls, err := importable(f.Limits, f.Source, now)
	if err != nil {
		return Diff{}, err
	}
	var first []reserve.Entry
	var edit fileEdit
	d, err := e.run(ctx, tenant, fileRefs(tenant, ls), func(at standing) ([]reserve.Write, bool, error) {
		edit = fileEdit{File: f, tenant: tenant, limits: ls, by: by, now: now} // of the last try
		if err := edit.judge(e, at); err != nil {
			return nil, false, err
		}
		if first == nil {
			first = at.entries
		}
		if len(edit.writes) > 0 && !sameMods(first, at.entries) {
			return nil, false, &ChangedError{Revision: at.rev}
		}
		return edit.writes, len(edit.writes) > 0, nil
	})
	if err != nil {
		return Diff{}, err
	}
	edit.diff.Revision = d.rev
	if len(edit.rest) > 0 {
		if rev, err := e.deleteOverrides(ctx, tenant, edit.rest, manyWrites); err == nil {
			edit.diff.Revision = max(d.rev, rev)
		}
	}
	return edit.diff, nil
}

func fileRefs(tenant string, ls []limits.Limit) []reserve.Ref {
	refs := make([]reserve.Ref, 0, len(ls)+1)
	refs = append(refs, reserve.Ref{Tenant: tenant, Kind: reserve.RefFile})
	for _, l := range ls {
		refs = append(refs, limitRef(tenant, l.ID))
	}
	return refs
}

// sameMods reports whether nobody has written one of the keys between two reads.
func sameMods(a, b []reserve.Entry) bool {
	return slices.EqualFunc(a, b, func(x, y reserve.Entry) bool { return x.Mod == y.Mod })
}

// fileEdit is one try of applying a file: what it finds, and what it would write.
type fileEdit struct {
	File
	tenant string
	limits []limits.Limit // as they would be stored
	by     string
	now    time.Time

	diff   Diff
	writes []reserve.Write
	rest   []limits.Override // of deleted limits, too many for the transaction
}

// judge compares the file with what stands. Errors: errAgain while the picture is behind.
func (f *fileEdit) judge(e *Editor, at standing) error {
	if f.IfRevision != 0 && f.IfRevision != at.rev {
		return &ChangedError{Revision: at.rev}
	}
	f.diff.Revision = at.rev
	picture := e.cfg.Catalog(f.tenant)
	if picture != nil && picture.Revision() != at.rev {
		return errAgain
	}
	for i, l := range f.limits {
		if err := f.one(l, at.entries[i+1], at.seq+1); err != nil {
			return under(fmt.Sprintf("/limits/%d", i), err)
		}
	}
	f.prune(picture)
	if n := len(f.diff.Create); n > 0 && e.limitsOf(f.tenant)+n-len(f.diff.Delete) > limits.MaxLimits {
		return fmt.Errorf("%w: %d limits", ErrTooMany, limits.MaxLimits)
	}
	return f.note(at.entries[0], picture)
}

// one compares one limit of the file with what stands under its id.
func (f *fileEdit) one(l limits.Limit, entry reserve.Entry, seq int64) error {
	next := fresh(l, seq, f.now, f.by)
	if entry.Mod == 0 {
		f.diff.Create = append(f.diff.Create, next)
	} else {
		old, err := limitIn(entry, 0)
		if err != nil {
			return err
		}
		asked := l
		asked.Source = old.Source // a limit that is as the file says stays as it is
		if next, err = changed(old, asked, seq, f.now, f.by); err != nil {
			return err
		}
		if sameLimit(next, old) {
			f.diff.Unchanged++
			return nil
		}
		next.Source = l.Source
		f.diff.Change = append(f.diff.Change, Change{old, next})
	}
	f.writes = append(f.writes, writeLimit(limitRef(f.tenant, l.ID), next)...)
	return nil
}

// prune deletes what came from a file and is in this one no more, with its overrides.
func (f *fileEdit) prune(picture *limits.Catalog) {
	if !f.Prune || picture == nil {
		return
	}
	kept := make(map[string]bool, len(f.limits))
	for _, l := range f.limits {
		kept[l.ID] = true
	}
	for _, l := range picture.Limits() {
		if l.Source != sourceFile || kept[l.ID] {
			continue
		}
		f.diff.Delete = append(f.diff.Delete, l.ID)
		f.writes = append(f.writes, reserve.Write{Ref: limitRef(f.tenant, l.ID)})
		overrides := picture.Overrides(l.ID)
		n := min(len(overrides), max(0, manyWrites-len(f.writes)-len(f.limits)))
		f.writes = append(f.writes, deletions(f.tenant, overrides[:n])...)
		f.rest = append(f.rest, overrides[n:]...)
	}
}

// note writes down the plans and what file it was, if that is not what stands.
func (f *fileEdit) note(entry reserve.Entry, picture *limits.Catalog) error {
	if entry.Fault != nil && !errors.Is(entry.Fault, reserve.ErrCorrupt) {
		return fmt.Errorf("catalogue: the limits file of %s: %w", f.tenant, entry.Fault)
	}
	if err := limits.CheckPlans(f.Plans, f.known(picture)); err != nil {
		return err
	}
	last, _ := entry.Value.(*limits.File)
	next := &limits.File{Digest: f.Digest, At: f.now, By: f.by, Plans: maps.Clone(f.Plans)}
	if last == nil {
		last = &limits.File{}
	} else {
		f.diff.Last = last
	}
	if next.Digest == "" {
		next.Digest = last.Digest
	}
	f.plans(last, next)
	if len(next.Plans) == 0 {
		next.Plans = nil
	}
	samePlans := reflect.DeepEqual(next.Plans, last.Plans)
	sameFile := f.Digest == "" || f.Digest == last.Digest && len(f.writes) == 0
	if samePlans && sameFile {
		return nil
	}
	f.writes = append(f.writes, reserve.Write{Ref: reserve.Ref{Tenant: f.tenant, Kind: reserve.RefFile}, Value: next})
	return nil
}

// plans says how the plans differ; without Prune those that the file has not are kept.
func (f *fileEdit) plans(last, next *limits.File) {
	for _, name := range next.PlanNames() {
		old, there := last.Plans[name]
		switch {
		case !there:
			f.diff.Plans.Create = append(f.diff.Plans.Create, name)
		case !maps.Equal(old, next.Plans[name]):
			f.diff.Plans.Change = append(f.diff.Plans.Change, name)
		}
	}
	for _, name := range last.PlanNames() {
		if _, kept := next.Plans[name]; kept {
			continue
		}
		if f.Prune {
			f.diff.Plans.Delete = append(f.diff.Plans.Delete, name)
			continue
		}
		if next.Plans == nil {
			next.Plans = map[string]limits.Plan{}
		}
		next.Plans[name] = last.Plans[name]
	}
}

// known finds the limits that plans may name: those of the file, and those that stay.
func (f *fileEdit) known(picture *limits.Catalog) func(id string) *limits.Limit {
	own := make(map[string]*limits.Limit, len(f.limits))
	for i := range f.limits {
		own[f.limits[i].ID] = &f.limits[i]
	}
	return func(id string) *limits.Limit {
		if l := own[id]; l != nil || picture == nil || slices.Contains(f.diff.Delete, id) {
			return l
		}
		l, _ := picture.Limit(id)
		return l
	}
}

// under puts the fields of err below prefix.
func under(prefix string, err error) error {
	if invalid, ok := errors.AsType[*limits.InvalidError](err); ok {
		faults := make([]limits.Fault, len(invalid.Faults))
		for i, one := range invalid.Faults {
			faults[i] = limits.Fault{Field: prefix + one.Field, Reason: one.Reason}
		}
		return &limits.InvalidError{Faults: faults}
	}
	if fixed, ok := errors.AsType[*limits.FixedError](err); ok {
		fields := make([]string, len(fixed.Fields))
		for i, field := range fixed.Fields {
			fields[i] = prefix + field
		}
		return &limits.FixedError{Fields: fields}
	}
	return fmt.Errorf("%s: %w", strings.TrimPrefix(prefix, "/"), err)
}
