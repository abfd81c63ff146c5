package catalogue_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/catalogue"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/windows"
)

// setupPast has an override and a pause that end after a minute, and ones that do not.
func setupPast(t *testing.T, maxOps int) *rig {
	t.Helper()
	r := setupWith(t, maxOps, nil)
	minute, hour := r.now().Add(time.Minute), r.now().Add(time.Hour)
	for id, until := range map[string]time.Time{"soon": minute, "later": hour, "never": {}} {
		l := counting(id)
		l.Paused, l.PausedUntil, l.PauseReason = true, until, "repairs"
		r.create(l)
		r.override(limits.Override{Limit: id, Amount: 1, Until: until})
		r.override(limits.Override{Limit: id, Subject: user, Amount: 2, Until: until})
	}
	return r
}

func (r *rig) endPast() (changed int) {
	r.t.Helper()
	changed, rev, err := r.editor.EndPast(r.t.Context(), tenant, r.catalog(tenant), r.now())
	if err != nil || rev != r.catalog(tenant).Revision() {
		r.t.Fatalf("EndPast: got %d, %d, %v; catalogue %d", changed, rev, err, r.catalog(tenant).Revision())
	}
	return changed
}

func TestEndPast_EndsWhatHasPassedInOneTransaction(t *testing.T) {
	t.Parallel()
	r := setupPast(t, 0)
	before := r.seq()
	exactly := r.now().Truncate(time.Millisecond).Add(time.Minute) // as it is stored
	r.advance(exactly.Sub(r.now()) - time.Millisecond)
	if n := r.endPast(); n != 0 || r.seq() != before {
		t.Errorf("a millisecond early: ended %d, counter %d after %d", n, r.seq(), before)
	}
	r.advance(time.Millisecond)
	if n := r.endPast(); n != 3 || r.seq() != before+1 {
		t.Errorf("at the minute: ended %d, counter %d after %d; want 3 by one edit", n, r.seq(), before)
	}
	soon := r.limit("soon")
	if soon.Paused || soon.PauseReason != "" || !soon.PausedUntil.IsZero() || soon.UpdatedBy != "user:admin" || len(r.catalog(tenant).Overrides("soon")) != 0 {
		t.Errorf("after its end: %+v with %+v", soon, r.catalog(tenant).Overrides("soon"))
	}
	for _, id := range []string{"later", "never"} {
		if !r.limit(id).Paused || len(r.catalog(tenant).Overrides(id)) != 2 {
			t.Errorf("%s: %+v with %+v, want it as it was", id, r.limit(id), r.catalog(tenant).Overrides(id))
		}
	}
	if n := r.endPast(); n != 0 || r.seq() != before+1 {
		t.Errorf("once more: ended %d, counter %d", n, r.seq())
	}
}

func TestEndPast_FirstReplicaDoesIt(t *testing.T) {
	t.Parallel()
	r := setupPast(t, 0)
	r.advance(time.Minute)
	c := r.catalog(tenant)
	if n := r.endPast(); n != 3 {
		t.Fatalf("the first: ended %d, want 3", n)
	}
	seq := r.seq()
	if n, rev, err := r.editor.EndPast(t.Context(), tenant, c, r.now()); n != 0 || rev != c.Revision() || err != nil || r.seq() != seq {
		t.Errorf("the second, of an older picture: got %d, %d, %v; counter %d after %d", n, rev, err, r.seq(), seq)
	}
}

func TestEndPast_ManyInSeveralTransactions(t *testing.T) {
	t.Parallel()
	r := setupWith(t, 20, nil) // all at once would count 23
	r.create(counting("calls"))
	for i := range 100 {
		r.override(limits.Override{
			Limit: "calls", Subject: limits.Subject{Kind: "user", ID: fmt.Sprint(i)}, Amount: 1, Until: r.now().Add(time.Minute),
		})
	}
	r.advance(time.Minute)
	before := r.seq()
	if n := r.endPast(); n != 100 || r.overrides() != 0 {
		t.Errorf("ended %d, %d are left; want all 100", n, r.overrides())
	}
	if n := r.seq() - before; n < 2 || n > 12 {
		t.Errorf("took %d transactions of up to 20 operations", n)
	}
}

// ADR 15: whoever sees a turn first applies it; a turn is no edit.
func TestEndPast_AppliesTurnsOfSchedules(t *testing.T) {
	t.Parallel()
	r := setup(t) // at noon of a Monday
	l := counting("calls")
	l.Schedules = []limits.Schedule{{Cron: "0 8 * * *", Zone: "UTC", Amount: 80}, {Cron: "0 20 * * *", Zone: "UTC", Amount: 20}}
	made := r.create(l)
	if got := r.limit("calls"); got.Base() != 80 || got.Amount != 10 {
		t.Fatalf("made at noon: base %d, %+v; want the morning's 80", got.Base(), got.Turn)
	}
	c := r.catalog(tenant)
	if next, ok := c.NextEnd(r.now()); !ok || !next.Equal(r.now().Truncate(time.Hour).Add(8*time.Hour)) {
		t.Errorf("next end: %s, %v", next, ok)
	}
	r.advance(8 * time.Hour)
	if n := r.endPast(); n != 1 {
		t.Fatalf("at eight in the evening: %d changed", n)
	}
	got := r.limit("calls")
	if got.Base() != 20 || !got.UpdatedAt.Equal(made.UpdatedAt) || got.Generation != made.Generation {
		t.Errorf("got base %d, %+v", got.Base(), got)
	}
	seq := r.seq()
	if n, _, err := r.editor.EndPast(t.Context(), tenant, c, r.now()); n != 0 || err != nil || r.seq() != seq {
		t.Errorf("the second, of an older picture: %d, %v", n, err)
	}
	// A change of something else leaves the turn; one of the schedules looks at the clock anew.
	edit := func(fn func(*limits.Limit)) {
		t.Helper()
		if _, _, err := r.editor.Change(t.Context(), tenant, "calls", 0, "x", func(l limits.Limit) (limits.Limit, error) { fn(&l); return l, nil }); err != nil {
			t.Fatal(err)
		}
	}
	edit(func(l *limits.Limit) { l.Amount = 11; l.Turn = limits.Turn{} })
	if got := r.limit("calls"); got.Base() != 20 {
		t.Errorf("after another amount: base %d", got.Base())
	}
	edit(func(l *limits.Limit) { l.Schedules = l.Schedules[:1] })
	if got := r.limit("calls"); got.Base() != 80 {
		t.Errorf("without the evening's: base %d", got.Base())
	}
	edit(func(l *limits.Limit) { l.Schedules = nil })
	if got := r.limit("calls"); got.Base() != 11 || got.Turn != (limits.Turn{}) {
		t.Errorf("without schedules: base %d, %+v", got.Base(), got.Turn)
	}
}

func TestEndPast_ErrorsOfTheStore(t *testing.T) {
	t.Parallel()
	r := setupPast(t, 0)
	r.advance(time.Minute)
	c := r.catalog(tenant)
	for fault, want := range map[memory.Fault]error{memory.Before: reserve.ErrUnavailable, memory.Late: reserve.ErrUnknownOutcome} {
		r.store.FailNext(fault, 1)
		if n, _, err := r.editor.EndPast(t.Context(), tenant, c, r.now()); n != 0 || !errors.Is(err, want) {
			t.Errorf("fault %d: got %d, %v; want %v", fault, n, err, want)
		}
	}
	if n := r.endPast(); n != 3 {
		t.Errorf("looked again: ended %d, want 3", n)
	}
	r.store.ReleaseLate()
	if got := r.catalog(tenant); got.Seq() != c.Seq()+1 {
		t.Errorf("the late one came too: counter %d, want %d", got.Seq(), c.Seq()+1)
	}
}

func (r *rig) importAll(ls []limits.Limit) (int, error) {
	r.t.Helper()
	done, rev, err := r.editor.Import(r.t.Context(), tenant, catalogue.File{Limits: ls, Source: "file"}, "dev")
	if err == nil && rev != r.catalog(tenant).Revision() {
		r.t.Errorf("Import: revision %d, catalogue %d", rev, r.catalog(tenant).Revision())
	}
	return len(done.Created), err
}

func TestImport_CreatesChangesAndLeaves(t *testing.T) {
	t.Parallel()
	r := setup(t)
	own := r.create(counting("own"))
	samples := limits.Samples()
	if n, err := r.importAll(samples); n != len(samples) || err != nil || r.seq() != 2 {
		t.Fatalf("samples: created %d, %v; counter %d; want all by one edit", n, err, r.seq())
	}
	if got := r.limit("gpu"); got.Source != "file" || got.UpdatedBy != "dev" || got.Generation != 2 {
		t.Errorf("made %+v", got)
	}
	if n, err := r.importAll(samples); n != 0 || err != nil || r.seq() != 2 {
		t.Errorf("the same again: created %d, %v; counter %d; want nothing done", n, err, r.seq())
	}
	before := r.limit("gpu").Revision
	samples[1].Window = windows.Window{Kind: windows.Day} // calls: no longer rolling
	samples[2].Amount = 7                                 // exports
	if n, err := r.importAll(samples); n != 0 || err != nil || r.seq() != 3 {
		t.Errorf("two changed: created %d, %v; counter %d", n, err, r.seq())
	}
	calls, exports := r.limit("calls"), r.limit("exports")
	if calls.Generation != 3 || exports.Generation != 2 || exports.Amount != 7 || r.limit("gpu").Revision != before || r.limit("own").Revision != own.Revision {
		t.Errorf("after changing two: calls %+v, exports %+v", calls, exports)
	}
}

// Whoever starts a server with a file must see in its log what the file changed.
func TestImport_NamesWhatItCreatedAndChanged(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.create(counting("kept"))
	changed := r.create(counting("changed"))
	changed.Amount++
	done, _, err := r.editor.Import(t.Context(), tenant, catalogue.File{Limits: []limits.Limit{counting("kept"), counting("new"), changed}, Source: "file"}, "dev")
	if err != nil || !slices.Equal(done.Created, []string{"new"}) || !slices.Equal(done.Changed, []string{"changed"}) {
		t.Errorf("Import: got %+v, %v; want new created and changed changed", done, err)
	}
}

func TestImport_CountsOnceWhenTriedAgain(t *testing.T) {
	t.Parallel()
	h := &hooked{}
	r := setupWith(t, 0, func(s reserve.Store) reserve.Store { h.Store = s; return h })
	rival := r.newEditor(nil)
	h.apply = func(n int) {
		if n == 1 {
			if _, _, err := rival.Create(t.Context(), tenant, counting("calls"), "rival"); err != nil {
				t.Errorf("the rival: %v", err)
			}
		}
	}
	ls := []limits.Limit{counting("calls"), counting("one"), counting("two")}
	if n, err := r.importAll(ls); n != 2 || err != nil || r.seq() != 2 {
		t.Errorf("one was made meanwhile: created %d, %v; counter %d; want 2 by the second edit", n, err, r.seq())
	}
}

// A limit that somebody made by hand as the file says is no change: it stays theirs.
func TestImport_LeavesTheSourceOfWhatIsTheSame(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.create(counting("calls"))
	if n, err := r.importAll([]limits.Limit{counting("calls")}); n != 0 || err != nil || r.seq() != 1 || r.limit("calls").Source != "api" {
		t.Errorf("created %d, %v; counter %d, source %s", n, err, r.seq(), r.limit("calls").Source)
	}
}

func TestImport_AllOrNothing(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.create(counting("calls"))
	fixed := counting("calls")
	fixed.Share = limits.All
	bad := counting("bad")
	bad.Amount = -1
	if _, err := r.importAll([]limits.Limit{counting("new"), bad, counting("new")}); !names(err, "/limits/1/amount") || !names(err, "/limits/2/id") {
		t.Errorf("a bad one and one twice: got %v, want both named", err)
	}
	_, err := r.importAll([]limits.Limit{counting("new"), fixed})
	if _, ok := errors.AsType[*limits.FixedError](err); !ok || !strings.Contains(err.Error(), "/limits/1/share") {
		t.Errorf("another share: got %v, want *FixedError and where it is", err)
	}
	if _, err := r.importAll(make([]limits.Limit, limits.MaxLimits+1)); !errors.Is(err, catalogue.ErrTooMany) {
		t.Errorf("%d limits: got %v, want ErrTooMany", limits.MaxLimits+1, err)
	}
	if _, stands := r.catalog(tenant).Limit("new"); stands || r.seq() != 1 {
		t.Errorf("a limit beside a bad one was made: %v; counter %d", stands, r.seq())
	}
}

func TestImport_MoreThanOneTransactionTakes(t *testing.T) {
	t.Parallel()
	r := setupWith(t, 30, nil)
	var ls []limits.Limit
	for i := range 100 {
		ls = append(ls, counting(fmt.Sprintf("l%d", i)))
	}
	if n, err := r.importAll(ls); n != 100 || err != nil || len(r.catalog(tenant).Limits()) != 100 {
		t.Errorf("created %d, %v; %d stand", n, err, len(r.catalog(tenant).Limits()))
	}
	if n, err := r.importAll(ls); n != 0 || err != nil {
		t.Errorf("again: created %d, %v", n, err)
	}
}

// dev is started again the next day with the same file.
func TestImport_OfAPauseThatHasRunOut(t *testing.T) {
	t.Parallel()
	r := setup(t)
	l := counting("calls")
	l.Paused, l.PausedUntil, l.PauseReason = true, r.now().Add(time.Hour), "repairs"
	if _, err := r.importAll([]limits.Limit{l}); err != nil || !r.limit("calls").Paused {
		t.Fatalf("got %v, paused %v", err, r.limit("calls").Paused)
	}
	r.advance(24 * time.Hour)
	if _, err := r.importAll([]limits.Limit{l}); err != nil || r.limit("calls").Paused || r.limit("calls").PauseReason != "" {
		t.Errorf("a day later: got %v, %+v; want the pause over", err, r.limit("calls"))
	}
}

func TestImport_Nothing(t *testing.T) {
	t.Parallel()
	r := setup(t)
	if n, err := r.importAll(nil); n != 0 || err != nil || r.seq() != 0 {
		t.Errorf("created %d, %v; counter %d", n, err, r.seq())
	}
}
