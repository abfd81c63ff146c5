package catalogue_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast/catalogue"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

func (r *rig) apply(f catalogue.File) (catalogue.Diff, error) {
	r.t.Helper()
	if f.Source == "" {
		f.Source = "file"
	}
	d, err := r.editor.Apply(r.t.Context(), tenant, f, "user:admin")
	if err == nil && d.Revision != r.catalog(tenant).Revision() {
		r.t.Errorf("Apply: revision %d, catalogue %d", d.Revision, r.catalog(tenant).Revision())
	}
	return d, err
}

func (r *rig) mustApply(f catalogue.File) catalogue.Diff {
	r.t.Helper()
	d, err := r.apply(f)
	if err != nil {
		r.t.Fatalf("Apply: %v", err)
	}
	return d
}

func many(n int) []limits.Limit {
	ls := make([]limits.Limit, n)
	for i := range ls {
		ls[i] = counting(fmt.Sprintf("l%04d", i))
	}
	return ls
}

// ADR 14: one transaction, one revision, however many limits; also where 128 operations are all
// that the store takes.
func TestApply_ManyLimitsAreOneRevision(t *testing.T) {
	t.Parallel()
	r := setupWith(t, 128, nil)
	ls := many(3000)
	d := r.mustApply(catalogue.File{Limits: ls, Digest: "d1"})
	if len(d.Create) != len(ls) || r.seq() != 1 {
		t.Fatalf("created %d by %d edits, want %d by one", len(d.Create), r.seq(), len(ls))
	}
	for _, l := range r.catalog(tenant).Limits() {
		if l.Source != "file" || l.UpdatedBy != "user:admin" {
			t.Fatalf("made %+v", l)
		}
	}
	again := r.mustApply(catalogue.File{Limits: ls, Digest: "d1"})
	if !again.None() || again.Unchanged != len(ls) || r.seq() != 1 || again.Last == nil || again.Last.Digest != "d1" {
		t.Errorf("the same again: %d unchanged, counter %d, last %+v; want nothing done", again.Unchanged, r.seq(), again.Last)
	}
}

func TestPlan_SaysWhatApplyDoesAndDoesNothing(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.mustApply(catalogue.File{Limits: many(3), Digest: "d1", Plans: map[string]limits.Plan{"pro": {"l0000": {Amount: 5}}, "old": {}}})
	r.create(counting("by-hand"))
	r.override(limits.Override{Limit: "l0002", Subject: user, Amount: 1})
	ls := many(2)
	ls[1].Amount++
	ls = append(ls, counting("new"))
	file := catalogue.File{Limits: ls, Source: "file", Digest: "d2", Prune: true, Plans: map[string]limits.Plan{"pro": {"l0000": {Unlimited: true}}, "free": {"new": {}}}}
	seq := r.seq()
	planned, err := r.editor.Plan(t.Context(), tenant, file, "user:admin")
	if err != nil || r.seq() != seq {
		t.Fatalf("Plan: %v; counter %d, want %d", err, r.seq(), seq)
	}
	applied := r.mustApply(file)
	for what, d := range map[string]catalogue.Diff{"plan": planned, "apply": applied} {
		if len(d.Create) != 1 || d.Create[0].ID != "new" || len(d.Change) != 1 || d.Change[0].New.Amount != 11 || d.Change[0].Old.Amount != 10 ||
			!slices.Equal(d.Delete, []string{"l0002"}) || d.Unchanged != 1 {
			t.Errorf("%s: %+v", what, d)
		}
		if p := d.Plans; !slices.Equal(p.Create, []string{"free"}) || !slices.Equal(p.Change, []string{"pro"}) || !slices.Equal(p.Delete, []string{"old"}) {
			t.Errorf("%s: plans %+v", what, p)
		}
	}
	if r.seq() != seq+1 || r.overrides() != 0 {
		t.Errorf("applied by %d edits, %d overrides of the deleted limit left", r.seq()-seq, r.overrides())
	}
	if _, stands := r.catalog(tenant).Limit("by-hand"); !stands {
		t.Error("prune deleted a limit that no file made")
	}
}

func TestApply_KeepsOverridesAndWhatItDoesNotName(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.mustApply(catalogue.File{Limits: many(2), Plans: map[string]limits.Plan{"pro": {}}})
	r.override(limits.Override{Limit: "l0000", Subject: user, Amount: 1})
	ls := many(1)
	ls[0].Amount = 99
	if d := r.mustApply(catalogue.File{Limits: ls}); len(d.Change) != 1 || len(d.Delete)+len(d.Plans.Delete) != 0 {
		t.Errorf("got %+v", d)
	}
	if o, ok := r.catalog(tenant).Override("l0000", user); !ok || o.Amount != 1 {
		t.Errorf("the override: %+v, %v", o, ok)
	}
	if _, stands := r.catalog(tenant).Limit("l0001"); !stands || len(r.catalog(tenant).File().Plans) != 1 {
		t.Error("a limit or a plan went that the file does not name, without prune")
	}
}

// Issue 8, shown by 1: two at once, one wins, the other is told.
func TestApply_OfTwoAtOnceOneIsTold(t *testing.T) {
	t.Parallel()
	h := &hooked{}
	r := setupWith(t, 0, func(s reserve.Store) reserve.Store { h.Store = s; return h })
	rival := r.newEditor(nil)
	theirs := many(10)
	h.apply = func(n int) {
		if n == 1 {
			if _, err := rival.Apply(t.Context(), tenant, catalogue.File{Limits: theirs, Source: "file"}, "rival"); err != nil {
				t.Errorf("the rival: %v", err)
			}
		}
	}
	ours := many(10)
	ours[3].Amount = 77
	_, err := r.apply(catalogue.File{Limits: ours})
	if changed, ok := errors.AsType[*catalogue.ChangedError](err); !ok || changed.Revision != r.catalog(tenant).Revision() {
		t.Errorf("got %v, want *ChangedError at revision %d", err, r.catalog(tenant).Revision())
	}
	if got := r.limit("l0003").Amount; got != 10 || r.seq() != 1 {
		t.Errorf("amount %d after %d edits, want the rival's 10 after one", got, r.seq())
	}
	if d, err := r.apply(catalogue.File{Limits: theirs}); err != nil || !d.None() {
		t.Errorf("the same file as the rival's: %+v, %v; want nothing to do", d, err)
	}
}

// An edit of something else at the same time is in nobody's way.
func TestApply_GoesOnBesideAnotherEdit(t *testing.T) {
	t.Parallel()
	h := &hooked{}
	r := setupWith(t, 0, func(s reserve.Store) reserve.Store { h.Store = s; return h })
	rival := r.newEditor(nil)
	h.apply = func(n int) {
		if n == 1 {
			if _, _, err := rival.Create(t.Context(), tenant, counting("other"), "rival"); err != nil {
				t.Errorf("the rival: %v", err)
			}
		}
	}
	if d := r.mustApply(catalogue.File{Limits: many(2)}); len(d.Create) != 2 || r.seq() != 2 {
		t.Errorf("got %+v, counter %d", d, r.seq())
	}
}

func TestApply_InsistsOnTheRevisionSeen(t *testing.T) {
	t.Parallel()
	r := setup(t)
	first := r.mustApply(catalogue.File{Limits: many(1)})
	r.create(counting("other"))
	if _, err := r.apply(catalogue.File{Limits: many(2), IfRevision: first.Revision}); !errors.Is(err, catalogue.ErrChanged) {
		t.Errorf("got %v, want ErrChanged", err)
	}
	if _, err := r.apply(catalogue.File{Limits: many(2), IfRevision: r.catalog(tenant).Revision()}); err != nil {
		t.Errorf("at the present revision: %v", err)
	}
}

func TestApply_RefusesPlansThatCannotBe(t *testing.T) {
	t.Parallel()
	r := setup(t)
	shared := counting("shared")
	shared.Share = limits.All
	r.create(counting("by-hand"))
	_, err := r.apply(catalogue.File{Limits: []limits.Limit{shared}, Plans: map[string]limits.Plan{
		"pro": {"nowhere": {Amount: 1}, "shared": {Amount: 1}, "by-hand": {Amount: 1}}, "Wrong": {}, "much": {"by-hand": {Amount: -1}},
	}})
	for _, field := range []string{"/plans/pro/nowhere", "/plans/pro/shared", "/plans/Wrong", "/plans/much/by-hand/amount"} {
		if !names(err, field) {
			t.Errorf("got %v, want %s named", err, field)
		}
	}
	if names(err, "/plans/pro/by-hand") || r.seq() != 1 {
		t.Errorf("got %v, counter %d", err, r.seq())
	}
}

// API.md section 3 and ADR 15: most specific wins.
func TestPlans_StandBetweenTheOverrides(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.mustApply(catalogue.File{Limits: many(1), Plans: map[string]limits.Plan{"pro": {"l0000": {Amount: 50}}, "max": {"l0000": {Unlimited: true}}}})
	amount := func() int64 { return r.catalog(tenant).Rule(r.limit("l0000"), user).Amount }
	give := func(plan string) {
		t.Helper()
		if _, err := r.editor.PutSubjectPlan(t.Context(), tenant, limits.SubjectPlan{Subject: user, Plan: plan, By: "user:admin"}); err != nil {
			t.Fatalf("PutSubjectPlan(%s): %v", plan, err)
		}
	}
	if got := amount(); got != 10 {
		t.Fatalf("base: got %d", got)
	}
	r.override(limits.Override{Limit: "l0000", Amount: 20})
	if got := amount(); got != 20 {
		t.Errorf("override for everyone: got %d, want 20", got)
	}
	give("pro")
	if got := amount(); got != 50 {
		t.Errorf("plan: got %d, want 50", got)
	}
	give("max")
	if got := amount(); got != limits.NoCeiling {
		t.Errorf("unlimited plan: got %d", got)
	}
	r.override(limits.Override{Limit: "l0000", Subject: user, Amount: 3})
	if got := amount(); got != 3 {
		t.Errorf("the subject's override: got %d, want 3", got)
	}
	if _, err := r.editor.DeleteOverride(t.Context(), tenant, "l0000", user); err != nil {
		t.Fatal(err)
	}
	if _, err := r.editor.DeleteSubjectPlan(t.Context(), tenant, user); err != nil || amount() != 20 {
		t.Errorf("without a plan: %v, %d; want 20", err, amount())
	}
	if _, err := r.editor.DeleteSubjectPlan(t.Context(), tenant, user); !errors.Is(err, catalogue.ErrNotFound) {
		t.Errorf("no plan any more: got %v", err)
	}
	if _, err := r.editor.PutSubjectPlan(t.Context(), tenant, limits.SubjectPlan{Subject: user, Plan: "gold"}); !names(err, "/plan") {
		t.Errorf("an unknown plan: got %v", err)
	}
}

// A plan that is gone from the file leaves whoever has it with the limit's own amount.
func TestPlans_GoneFromTheFileDoNothing(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.mustApply(catalogue.File{Limits: many(1), Plans: map[string]limits.Plan{"pro": {"l0000": {Amount: 50}}}})
	if _, err := r.editor.PutSubjectPlan(t.Context(), tenant, limits.SubjectPlan{Subject: user, Plan: "pro"}); err != nil {
		t.Fatal(err)
	}
	r.mustApply(catalogue.File{Limits: many(1), Prune: true})
	if got := r.catalog(tenant).Rule(r.limit("l0000"), user); got.Amount != 10 || got.Plan != "" {
		t.Errorf("got %+v", got)
	}
}

func TestApply_TooBigForTheStore(t *testing.T) {
	t.Parallel()
	r := setupWith(t, 20, nil)
	if _, err := r.apply(catalogue.File{Limits: many(200)}); !errors.Is(err, reserve.ErrTooBig) || r.seq() != 0 {
		t.Errorf("got %v, counter %d; want ErrTooBig and nothing done", err, r.seq())
	}
}
