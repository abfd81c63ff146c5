package catalogue_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/catalogue"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/store/memory"
)

func (r *rig) override(o limits.Override) int64 {
	r.t.Helper()
	rev, err := r.editor.PutOverride(r.t.Context(), tenant, o)
	if err != nil {
		r.t.Fatalf("PutOverride(%+v): %v", o, err)
	}
	return rev
}

func TestOverride_IsPutReplacedAndDeleted(t *testing.T) {
	t.Parallel()
	for _, subject := range []limits.Subject{{}, user} {
		r := setup(t)
		r.create(counting("calls"))
		r.override(limits.Override{Limit: "calls", Subject: subject, Amount: 20, By: "user:admin"})
		rev := r.override(limits.Override{Limit: "calls", Subject: subject, Amount: 99, Unlimited: true, Until: r.now().Add(time.Hour)})
		got, ok := r.catalog(tenant).Override("calls", subject)
		if !ok || !got.Unlimited || got.Amount != 0 || r.catalog(tenant).Revision() != rev || r.seq() != 3 ||
			got.CreatedAt != r.now().Truncate(time.Millisecond) || got.Until != r.now().Add(time.Hour).Truncate(time.Millisecond) {
			t.Errorf("for %v: %+v stands (%v), counter %d", subject, got, ok, r.seq())
		}
		if rev, err := r.editor.DeleteOverride(t.Context(), tenant, "calls", subject); err != nil || rev != r.catalog(tenant).Revision() {
			t.Errorf("DeleteOverride(%v): got %d, %v", subject, rev, err)
		}
		if _, ok := r.catalog(tenant).Override("calls", subject); ok {
			t.Errorf("the override for %v stands after it was deleted", subject)
		}
		if _, err := r.editor.DeleteOverride(t.Context(), tenant, "calls", subject); !errors.Is(err, catalogue.ErrNotFound) {
			t.Errorf("DeleteOverride(%v) again: got %v, want ErrNotFound", subject, err)
		}
	}
}

// Somebody puts an override between the look of another and his write: he is told.
func TestOverride_OverWhatWasSeen(t *testing.T) {
	t.Parallel()
	r := setup(t)
	made := r.create(counting("calls"))
	var asked []int64
	seen := func(l *limits.Limit, before *limits.Override) bool {
		if before != nil {
			asked = append(asked, before.Amount)
			return false
		}
		asked = append(asked, -l.Revision)
		r.override(limits.Override{Limit: "calls", Amount: 5})
		return true
	}
	_, err := r.editor.PutOverrideOver(t.Context(), tenant, limits.Override{Limit: "calls", Amount: 9}, seen)
	if !errors.Is(err, catalogue.ErrChanged) || !slices.Equal(asked, []int64{-made.Revision, 5}) {
		t.Errorf("got %v after looks at %v, want ErrChanged after the limit alone and then the rival's 5", err, asked)
	}
	if got, _ := r.catalog(tenant).Override("calls", limits.Subject{}); got.Amount != 5 {
		t.Errorf("%d stands, want the rival's 5", got.Amount)
	}
}

func TestOverride_Refuses(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.create(counting("calls"))
	for field, o := range map[string]limits.Override{
		"/until":        {Limit: "calls", Amount: 1, Until: r.now()},
		"/amount":       {Limit: "calls", Amount: -1},
		"/subject/kind": {Limit: "calls", Amount: 1, Subject: limits.Subject{Kind: "A", ID: "x"}},
	} {
		if _, err := r.editor.PutOverride(t.Context(), tenant, o); !names(err, field) {
			t.Errorf("PutOverride(%+v): got %v, want it to name %s", o, err, field)
		}
	}
	if _, err := r.editor.PutOverride(t.Context(), tenant, limits.Override{Limit: "none", Amount: 1}); !errors.Is(err, catalogue.ErrNotFound) {
		t.Errorf("of no limit: got %v, want ErrNotFound", err)
	}
	many := make([]limits.Override, limits.MaxOverrides)
	for i := range many {
		many[i] = limits.Override{Limit: "calls", Subject: limits.Subject{Kind: "user", ID: fmt.Sprintf("%06d", i)}}
	}
	r.override(limits.Override{Limit: "calls", Subject: user, Amount: 1})
	r.show(limits.NewCatalog(2, 2, []limits.Limit{counting("calls")}, many, nil))
	if _, err := r.editor.PutOverride(t.Context(), tenant, limits.Override{Limit: "calls", Amount: 1}); !errors.Is(err, catalogue.ErrTooMany) {
		t.Errorf("one more than %d: got %v, want ErrTooMany", limits.MaxOverrides, err)
	}
	r.override(limits.Override{Limit: "calls", Subject: user, Amount: 2}) // replaces one, so it is not one more
}

func (r *rig) overrides() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for ref := range r.entries {
		if ref.Kind == reserve.RefOverride {
			n++
		}
	}
	return n
}

func TestDelete_TakesTheOverridesAlong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ overrides, maxOps, transactions int }{
		{0, 128, 1}, {50, 128, 1}, {150, 128, 1}, {150, 20, 11},
	} {
		r := setupWith(t, c.maxOps, nil)
		made := r.create(counting("calls"))
		r.create(counting("other"))
		r.override(limits.Override{Limit: "other", Amount: 1})
		for i := range c.overrides {
			r.override(limits.Override{Limit: "calls", Subject: limits.Subject{Kind: "user", ID: fmt.Sprint(i)}, Amount: 1})
		}
		before := r.seq()
		rev, err := r.editor.Delete(t.Context(), tenant, "calls", made.Revision, "x")
		if err != nil || rev != r.catalog(tenant).Revision() {
			t.Errorf("%+v: Delete: got %d, %v; want the catalogue's revision %d", c, rev, err, r.catalog(tenant).Revision())
		}
		if _, stands := r.catalog(tenant).Limit("calls"); stands || r.overrides() != 1 {
			t.Errorf("%+v: the limit stands: %v, %d overrides do; want the other limit's", c, stands, r.overrides())
		}
		if got := r.seq() - before; got != int64(c.transactions) {
			t.Errorf("%+v: took %d transactions", c, got)
		}
	}
}

func TestDelete_Refuses(t *testing.T) {
	t.Parallel()
	r := setup(t)
	made := r.create(counting("calls"))
	if _, err := r.editor.Delete(t.Context(), tenant, "none", 0, "x"); !errors.Is(err, catalogue.ErrNotFound) {
		t.Errorf("unknown: got %v, want ErrNotFound", err)
	}
	if _, err := r.editor.Delete(t.Context(), tenant, "calls", made.Revision+1, "x"); !errors.Is(err, catalogue.ErrChanged) {
		t.Errorf("another revision: got %v, want ErrChanged", err)
	}
}

// The picture names the overrides, so one that is behind must catch up first.
func TestDelete_WaitsForThePicture(t *testing.T) {
	t.Parallel()
	h := &hooked{}
	r := setupWith(t, 0, func(s reserve.Store) reserve.Store { h.Store = s; return h })
	r.create(counting("calls"))
	r.show(r.catalog(tenant))
	r.override(limits.Override{Limit: "calls", Amount: 1})
	start := h.loads
	h.load = func(n int) {
		if n == start+3 {
			r.show(nil)
		}
	}
	if _, err := r.editor.Delete(t.Context(), tenant, "calls", 0, "x"); err != nil || r.overrides() != 0 {
		t.Errorf("got %v and %d overrides left, want none", err, r.overrides())
	}
}

// A limit made again between the transactions of a delete keeps the overrides it was given.
func TestDelete_SparesWhatWasPutSince(t *testing.T) {
	t.Parallel()
	h := &hooked{}
	r := setupWith(t, 20, func(s reserve.Store) reserve.Store { h.Store = s; return h })
	r.create(counting("calls"))
	for i := range 40 {
		r.override(limits.Override{Limit: "calls", Subject: limits.Subject{Kind: "user", ID: fmt.Sprintf("%02d", i)}, Amount: 1})
	}
	last := limits.Subject{Kind: "user", ID: "39"}
	rival := r.newEditor(nil)
	h.apply = func(int) {
		if _, stands := r.catalog(tenant).Limit("calls"); stands {
			return // not yet deleted
		}
		h.apply = nil
		_, _, made := rival.Create(t.Context(), tenant, counting("calls"), "rival")
		_, put := rival.PutOverride(t.Context(), tenant, limits.Override{Limit: "calls", Subject: last, Amount: 5})
		if err := errors.Join(made, put); err != nil {
			t.Errorf("the rival: %v", err)
		}
	}
	if _, err := r.editor.Delete(t.Context(), tenant, "calls", 0, "x"); err != nil {
		t.Fatal(err)
	}
	if got, ok := r.catalog(tenant).Override("calls", last); !ok || got.Amount != 5 || r.overrides() != 1 {
		t.Errorf("the rival's override: got %+v (%v), and %d in all; want it alone", got, ok, r.overrides())
	}
}

func TestBlock_EndsByItsLease(t *testing.T) {
	t.Parallel()
	r := setup(t)
	rev, err := r.editor.Block(t.Context(), tenant, limits.Block{Subject: user, Until: r.now().Add(10 * time.Minute), Reason: "floods", By: "x"})
	if err != nil || rev != r.catalog(tenant).Revision() || r.seq() != 1 {
		t.Fatalf("Block: got %d, %v; counter %d", rev, err, r.seq())
	}
	blocked := func() bool { _, ok := r.catalog(tenant).Block(user); return ok }
	for range 10 {
		if !blocked() {
			t.Fatalf("at %v the block is over", r.now())
		}
		r.advance(time.Minute)
		r.wheel.Tick()
		r.store.Tick()
	}
	r.advance(time.Minute)
	r.store.Tick()
	if blocked() {
		t.Error("11 minutes after a block of 10 it still stands")
	}
}

func TestBlock_RefusesAndUnblocks(t *testing.T) {
	t.Parallel()
	r := setup(t)
	soon := r.now().Add(time.Hour)
	for field, b := range map[string]limits.Block{
		"/until":        {Subject: user},
		"/subject":      {Until: soon},
		"/subject/kind": {Subject: limits.Subject{ID: "x"}, Until: soon},
		"/reason":       {Subject: user, Until: soon, Reason: "\n"},
	} {
		if _, err := r.editor.Block(t.Context(), tenant, b); !names(err, field) {
			t.Errorf("Block(%+v): got %v, want it to name %s", b, err, field)
		}
	}
	tooLong := limits.Block{Subject: user, Until: r.now().Add(catalogue.MaxBlock + time.Minute)}
	if _, err := r.editor.Block(t.Context(), tenant, tooLong); !names(err, "/until") {
		t.Errorf("a block of 30 days and a minute: got %v, want it to name /until", err)
	}
	if _, err := r.editor.Block(t.Context(), tenant, limits.Block{Subject: user, Until: soon}); err != nil {
		t.Fatal(err)
	}
	if rev, err := r.editor.Unblock(t.Context(), tenant, user); err != nil || rev != r.catalog(tenant).Revision() || r.seq() != 2 {
		t.Errorf("Unblock: got %d, %v; counter %d", rev, err, r.seq())
	}
	if _, err := r.editor.Unblock(t.Context(), tenant, user); !errors.Is(err, catalogue.ErrNotFound) {
		t.Errorf("Unblock again: got %v, want ErrNotFound", err)
	}
}

// A replica that slept, or a lease that is gone: another is taken.
func TestBlock_TakesAnotherLease(t *testing.T) {
	t.Parallel()
	h := &hooked{}
	r := setupWith(t, 0, func(s reserve.Store) reserve.Store { h.Store = s; return h })
	ends := map[string]func(){
		"the marker is gone": func() { remove(t, r.store, reserve.Ref{Kind: reserve.RefReplica, Scope: "r1"}) },
		"the lease is gone":  r.endLeases,
	}
	if _, err := r.wheel.Marker(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.wheel.Tick() // the clocks have been compared: leases are not dropped for that
	for name, end := range ends {
		h.apply = func(int) { h.apply = nil; end() }
		before := r.seq()
		_, err := r.editor.Block(t.Context(), tenant, limits.Block{Subject: user, Until: r.now().Add(time.Minute)})
		if _, ok := r.catalog(tenant).Block(user); err != nil || !ok || r.seq() != before+1 {
			t.Errorf("%s: got %v, blocked %v, counter %d after %d", name, err, ok, r.seq(), before)
		}
	}
}

// remove deletes a key behind the editor's back.
func remove(t *testing.T, s *memory.Store, ref reserve.Ref) {
	t.Helper()
	_, err := s.Apply(t.Context(), reserve.Batch{Groups: []reserve.Group{{
		Tenant: ref.Tenant, Catalog: reserve.AnyCatalog, Writes: []reserve.Write{{Ref: ref}},
	}}})
	if err != nil {
		t.Errorf("deleting %+v: %v", ref, err)
	}
}

// endLeases lets an hour pass for the keyspace while the marker is kept.
func (r *rig) endLeases() {
	for range 1200 {
		r.advance(3 * time.Second)
		r.wheel.Tick()
	}
	r.advance(-time.Hour)
}

func TestOverride_ForAnotherKindThanTheLimitsIsRefused(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.create(counting("calls"))
	o := limits.Override{Limit: "calls", Subject: limits.Subject{Kind: "org", ID: "o_1"}, Amount: 20}
	if _, err := r.editor.PutOverride(t.Context(), tenant, o); !isInvalid(err) {
		t.Errorf("PutOverride(%+v) of a limit that counts users: got %v, want *limits.InvalidError", o, err)
	}
}

func isInvalid(err error) bool {
	_, ok := errors.AsType[*limits.InvalidError](err)
	return ok
}
