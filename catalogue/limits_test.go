package catalogue_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/catalogue"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/windows"
)

func TestNew_NamesAllThatIsMissing(t *testing.T) {
	t.Parallel()
	_, err := catalogue.New(catalogue.Config{})
	for _, field := range []string{"Store", "Leases", "Now"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("New(nothing): got %v, want it to name %s", err, field)
		}
	}
}

func TestCreate_FillsInWhatIsNotTheCallers(t *testing.T) {
	t.Parallel()
	r := setup(t)
	asked := counting("")
	asked.Name, asked.Generation, asked.Revision = "Calls an hour", 77, 88
	asked.Labels = map[string]string{"team": "a"}
	made, rev, err := r.editor.Create(t.Context(), tenant, asked, "user:admin")
	if err != nil {
		t.Fatal(err)
	}
	asked.Labels["team"] = "b" // the caller's own again
	now := time.Date(2027, 3, 1, 12, 0, 0, 123_000_000, time.UTC)
	if made.ID != "calls-an-hour" || made.Generation != 1 || made.Revision != rev || made.UpdatedBy != "user:admin" ||
		made.Source != "api" || made.TTL != limits.DefaultTTL || !made.CreatedAt.Equal(now) || !made.UpdatedAt.Equal(now) {
		t.Errorf("made %+v at %d", made, rev)
	}
	stands := r.limit("calls-an-hour")
	if stands.Revision != rev || stands.Labels["team"] != "a" || r.catalog(tenant).Revision() != rev || r.seq() != 1 {
		t.Errorf("after revision %d: %+v stands, catalogue %d, counter %d", rev, stands, r.catalog(tenant).Revision(), r.seq())
	}
}

func TestCreate_Refuses(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.create(counting("calls"))
	past := counting("paused")
	past.Paused, past.PausedUntil = true, r.now()
	bad := counting("bad")
	bad.Amount, bad.SubjectKind = -1, ""
	exists, ok := errors.AsType[*catalogue.ExistsError](second(r.editor.Create(t.Context(), tenant, counting("calls"), "x")))
	if !ok || exists.ID != "calls" || !errors.Is(exists, catalogue.ErrExists) {
		t.Errorf("Create again: got %v, want *ExistsError for calls", exists)
	}
	for field, l := range map[string]limits.Limit{"/pausedUntil": past, "/amount": bad, "/subjectKind": bad} {
		if err := second(r.editor.Create(t.Context(), tenant, l, "x")); !names(err, field) {
			t.Errorf("Create(%+v): got %v, want it to name %s", l, err, field)
		}
	}
	if r.seq() != 1 {
		t.Errorf("refused edits raised the counter to %d", r.seq())
	}
}

// second is the error of what gives a value, a revision and an error.
func second[T any](_ T, _ int64, err error) error { return err }

// names reports whether err is an *InvalidError that names field.
func names(err error, field string) bool {
	invalid, ok := errors.AsType[*limits.InvalidError](err)
	if !ok {
		return false
	}
	for _, f := range invalid.Faults {
		if f.Field == field {
			return true
		}
	}
	return false
}

func TestCreate_StopsAtTheBound(t *testing.T) {
	t.Parallel()
	r := setup(t)
	var many []limits.Limit
	for i := range limits.MaxLimits {
		many = append(many, counting(fmt.Sprintf("l%d", i)))
	}
	r.show(limits.NewCatalog(5, 5, many, nil, nil))
	if err := second(r.editor.Create(t.Context(), tenant, counting("more"), "x")); !errors.Is(err, catalogue.ErrTooMany) {
		t.Errorf("one more than %d: got %v, want ErrTooMany", limits.MaxLimits, err)
	}
}

func TestChange_KeepsWhatIsNotTheCallers(t *testing.T) {
	t.Parallel()
	r := setup(t)
	made := r.create(counting("calls"))
	r.advance(time.Minute)
	next, rev, err := r.editor.Change(t.Context(), tenant, "calls", made.Revision, "user:other", func(old limits.Limit) (limits.Limit, error) {
		if old.Revision != made.Revision {
			t.Errorf("fn was given revision %d, want %d", old.Revision, made.Revision)
		}
		return limits.Limit{
			ID: "other", Name: "New", SubjectKind: "user", Action: "call", Amount: 20, Enabled: true,
			Window: old.Window, Generation: 99, CreatedAt: r.now(), Source: "page",
		}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if next.ID != "calls" || next.Amount != 20 || next.Generation != made.Generation || next.Revision != rev || next.Source != "page" ||
		!next.CreatedAt.Equal(made.CreatedAt) || !next.UpdatedAt.Equal(made.UpdatedAt.Add(time.Minute)) || next.UpdatedBy != "user:other" {
		t.Errorf("changed %+v to %+v", made, next)
	}
	if got := r.limit("calls"); got.Amount != 20 || got.Revision != rev {
		t.Errorf("stands: %+v, want amount 20 at %d", got, rev)
	}
}

// API.md section 3: the window may change between counting ones, and counts start anew.
func TestChange_OfWindowStartsAnew(t *testing.T) {
	t.Parallel()
	r := setup(t)
	made := r.create(counting("calls"))
	change := func(w windows.Window, share limits.Share) (limits.Limit, error) {
		l, _, err := r.editor.Change(t.Context(), tenant, "calls", 0, "x", func(l limits.Limit) (limits.Limit, error) {
			l.Window, l.Share = w, share
			return l, nil
		})
		return l, err
	}
	rolling, err := change(windows.Window{Kind: windows.Hour, Rolling: true}, limits.Each)
	if err != nil || rolling.Generation != made.Generation+1 || rolling.Generation != r.seq() {
		t.Errorf("rolling: got generation %d and %v, want %d", rolling.Generation, err, made.Generation+1)
	}
	day, err := change(windows.Window{Kind: windows.Day}, limits.Each)
	if err != nil || day.Generation != made.Generation+2 {
		t.Errorf("a day: got generation %d and %v, want %d", day.Generation, err, made.Generation+2)
	}
	_, windowErr := change(windows.Window{Kind: windows.Concurrent}, limits.Each)
	_, shareErr := change(windows.Window{Kind: windows.Day}, limits.All)
	for _, err := range []error{windowErr, shareErr} {
		if _, ok := errors.AsType[*limits.FixedError](err); !ok {
			t.Errorf("what is fixed: got %v, want *FixedError", err)
		}
	}
	if r.limit("calls").Generation != day.Generation {
		t.Errorf("refused changes left generation %d, want %d", r.limit("calls").Generation, day.Generation)
	}
}

func TestChange_Refuses(t *testing.T) {
	t.Parallel()
	r := setup(t)
	made := r.create(counting("calls"))
	keep := func(l limits.Limit) (limits.Limit, error) { return l, nil }
	if err := second(r.editor.Change(t.Context(), tenant, "none", 0, "x", keep)); !errors.Is(err, catalogue.ErrNotFound) {
		t.Errorf("unknown: got %v, want ErrNotFound", err)
	}
	err := second(r.editor.Change(t.Context(), tenant, "calls", made.Revision-1, "x", keep))
	if moved, ok := errors.AsType[*catalogue.ChangedError](err); !ok || moved.Revision != made.Revision || !errors.Is(err, catalogue.ErrChanged) {
		t.Errorf("another revision: got %v, want *ChangedError with %d", err, made.Revision)
	}
	mine := errors.New("mine")
	err = second(r.editor.Change(t.Context(), tenant, "calls", 0, "x", func(l limits.Limit) (limits.Limit, error) { return l, mine }))
	if !errors.Is(err, mine) {
		t.Errorf("fn fails: got %v, want its error", err)
	}
	err = second(r.editor.Change(t.Context(), tenant, "calls", 0, "x", func(l limits.Limit) (limits.Limit, error) {
		l.Amount = -5
		return l, nil
	}))
	if !names(err, "/amount") {
		t.Errorf("amount -5: got %v, want it to name /amount", err)
	}
}

func TestChange_ThatChangesNothingWritesNothing(t *testing.T) {
	t.Parallel()
	r := setup(t)
	made := r.create(counting("calls"))
	r.advance(time.Hour)
	same, rev, err := r.editor.Change(t.Context(), tenant, "calls", 0, "another", func(l limits.Limit) (limits.Limit, error) {
		l.Labels = map[string]string{}
		return l, nil
	})
	if err != nil || same.Revision != made.Revision || rev != made.Revision || same.UpdatedBy != "user:admin" || r.seq() != 1 {
		t.Errorf("got %+v at %d, %v; counter %d; want everything as it was", same, rev, err, r.seq())
	}
}

// A pause that has run out and is not yet ended must not make every PATCH a 422.
func TestChange_BesideAPauseThatHasRunOut(t *testing.T) {
	t.Parallel()
	r := setup(t)
	l := counting("calls")
	l.Paused, l.PausedUntil = true, r.now().Add(time.Minute)
	r.create(l)
	r.advance(time.Hour)
	amount := func(l limits.Limit) (limits.Limit, error) { l.Amount = 11; return l, nil }
	if err := second(r.editor.Change(t.Context(), tenant, "calls", 0, "x", amount)); err != nil {
		t.Errorf("another amount beside an old pause: %v", err)
	}
	again := func(l limits.Limit) (limits.Limit, error) { l.PausedUntil = r.now().Add(-time.Second); return l, nil }
	if err := second(r.editor.Change(t.Context(), tenant, "calls", 0, "x", again)); !names(err, "/pausedUntil") {
		t.Errorf("a pause into the past: got %v, want it to name /pausedUntil", err)
	}
}

func TestReset_GivesANewGeneration(t *testing.T) {
	t.Parallel()
	r := setup(t)
	made := r.create(counting("calls"))
	seq, rev, err := r.editor.Reset(t.Context(), tenant, "calls", "user:admin", "a new contract")
	if got := r.limit("calls"); err != nil || seq != made.Generation+1 || got.Generation != seq || got.Revision != rev || got.Amount != made.Amount {
		t.Errorf("Reset: got %d, %d, %v; stands %+v", seq, rev, err, got)
	}
	if _, _, err := r.editor.Reset(t.Context(), tenant, "none", "x", ""); !errors.Is(err, catalogue.ErrNotFound) {
		t.Errorf("Reset of nothing: got %v, want ErrNotFound", err)
	}
	if _, _, err := r.editor.Reset(t.Context(), tenant, "calls", "x", "a\x00b"); !names(err, "/reason") {
		t.Errorf("Reset for a reason with a zero byte: got %v, want it to name /reason", err)
	}
	next, at, err := r.editor.NextSeq(t.Context(), tenant)
	if err != nil || next != seq+1 || at <= rev || r.seq() != next || r.limit("calls").Generation != seq {
		t.Errorf("NextSeq: got %d at %d, %v; want %d and the limit as it was", next, at, err, seq+1)
	}
}

func TestRecreated_LimitHasAGreaterGeneration(t *testing.T) {
	t.Parallel()
	r := setup(t)
	made := r.create(counting("calls"))
	if _, err := r.editor.Delete(t.Context(), tenant, "calls", 0, "x"); err != nil {
		t.Fatal(err)
	}
	if again := r.create(counting("calls")); again.Generation <= made.Generation {
		t.Errorf("made again: generation %d after %d", again.Generation, made.Generation)
	}
}

// FAULTS rows 39 and 41: no edit is lost under another, and no number is used twice.
func TestEdits_OfManyAtOnceAllCount(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.create(counting("calls"))
	const editors, each = 4, 10
	var all sync.WaitGroup
	for range editors {
		e := r.newEditor(nil)
		all.Go(func() {
			for range each {
				_, _, err := e.Change(t.Context(), tenant, "calls", 0, "x", func(l limits.Limit) (limits.Limit, error) {
					l.Amount++
					return l, nil
				})
				if err != nil && !errors.Is(err, reserve.ErrContended) {
					t.Errorf("Change: %v", err)
				} else if err != nil {
					t.Errorf("lost the race too often among %d editors", editors)
				}
			}
		})
	}
	all.Wait()
	if got := r.limit("calls").Amount; got != 10+editors*each {
		t.Errorf("%d times one more than 10: got %d", editors*each, got)
	}
	if got := r.seq(); got != 1+editors*each {
		t.Errorf("%d edits raised the counter to %d", 1+editors*each, got)
	}
}

func TestUnreadable_LimitIsReadOnly(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.create(counting("calls"))
	ref := reserve.Ref{Tenant: tenant, Kind: reserve.RefLimit, Limit: "calls"}
	keep := func(l limits.Limit) (limits.Limit, error) { return l, nil }
	for _, fault := range []error{reserve.ErrNewer, reserve.ErrCorrupt} {
		r.store.Spoil(ref, fault)
		if err := second(r.editor.Change(t.Context(), tenant, "calls", 0, "x", keep)); !errors.Is(err, fault) {
			t.Errorf("Change of %v: got %v", fault, err)
		}
		if _, err := r.editor.PutOverride(t.Context(), tenant, limits.Override{Limit: "calls", Amount: 1}); !errors.Is(err, fault) {
			t.Errorf("PutOverride on %v: got %v", fault, err)
		}
		_, err := r.editor.Delete(t.Context(), tenant, "calls", 0, "x")
		if deletable := errors.Is(fault, reserve.ErrCorrupt); (err == nil) != deletable {
			t.Errorf("Delete of %v: got %v, want done %v", fault, err, deletable)
		}
	}
	r.store.Spoil(reserve.Ref{Tenant: tenant, Kind: reserve.RefCatalog}, reserve.ErrCorrupt)
	if err := second(r.editor.Create(t.Context(), tenant, counting("more"), "x")); !errors.Is(err, reserve.ErrCorrupt) {
		t.Errorf("Create under a counter that cannot be read: got %v, want ErrCorrupt", err)
	}
}
