package catalogue_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/catalogue"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/store/memory"
)

// An answer that was lost does not make a limit that was created one that exists already.
func TestUnknown_AnswerLost(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.store.FailNext(memory.After, 1)
	made, rev, err := r.editor.Create(t.Context(), tenant, counting("calls"), "x")
	if err != nil || made.Revision != rev || r.limit("calls").Revision != rev || r.seq() != 1 {
		t.Errorf("Create: got %+v at %d, %v; counter %d, want it made once", made, rev, err, r.seq())
	}
	r.store.FailNext(memory.After, 1)
	if rev, err = r.editor.Delete(t.Context(), tenant, "calls", rev, "x"); err != nil || r.seq() != 2 || rev != r.catalog(tenant).Revision() {
		t.Errorf("Delete: got %d, %v; counter %d, want it deleted once", rev, err, r.seq())
	}
}

// One that may still come is excluded by sending the same again: whichever is first wins, and
// the other loses to it. DESIGN.md section 4.
func TestUnknown_LateLosesToTheRepeat(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.store.FailNext(memory.Late, 1)
	made := r.create(counting("calls"))
	if n := r.store.ReleaseLate(); n != 1 {
		t.Fatalf("released %d, want the first try", n)
	}
	if got := r.limit("calls"); got.Revision != made.Revision || r.seq() != 1 {
		t.Errorf("after the late one came: %+v, counter %d; want it to have lost", got, r.seq())
	}
}

func TestUnknown_LateComesBeforeTheRepeat(t *testing.T) {
	t.Parallel()
	h := &hooked{}
	r := setupWith(t, 0, func(s reserve.Store) reserve.Store { h.Store = s; return h })
	h.apply = func(n int) {
		if n == 2 {
			r.store.ReleaseLate()
		}
	}
	r.store.FailNext(memory.Late, 1)
	made := r.create(counting("calls"))
	if h.applications != 2 || r.seq() != 1 || made.Revision != r.limit("calls").Revision {
		t.Errorf("sent %d times, counter %d, returned revision %d, stands %d", h.applications, r.seq(), made.Revision, r.limit("calls").Revision)
	}
}

// What fails while an outcome is in doubt does not make "nothing happened" of it.
func TestUnknown_StoreAwayMeanwhile(t *testing.T) {
	t.Parallel()
	h := &hooked{}
	r := setupWith(t, 0, func(s reserve.Store) reserve.Store { h.Store = s; return h })
	h.load = func(n int) { r.store.SetDown(n == 2) }
	r.store.FailNext(memory.Late, 1)
	r.store.FailNext(memory.Before, 1)
	made := r.create(counting("calls"))
	r.store.ReleaseLate()
	if h.loads != 4 || h.applications != 3 || r.seq() != 1 || r.limit("calls").Revision != made.Revision {
		t.Errorf("%d reads, %d transactions, counter %d; made %+v, stands %+v", h.loads, h.applications, r.seq(), made, r.limit("calls"))
	}
}

// One edit since, and not ours: ours never was, so the limit that is there is another's.
func TestUnknown_AnotherWasFirst(t *testing.T) {
	t.Parallel()
	h := &hooked{}
	r := setupWith(t, 0, func(s reserve.Store) reserve.Store { h.Store = s; return h })
	rival := r.newEditor(nil)
	h.load = func(n int) {
		if n == 2 {
			if _, _, err := rival.Create(t.Context(), tenant, counting("calls"), "rival"); err != nil {
				t.Errorf("the rival: %v", err)
			}
		}
	}
	r.store.FailNext(memory.Late, 1)
	if err := second(r.editor.Create(t.Context(), tenant, counting("calls"), "x")); !errors.Is(err, catalogue.ErrExists) {
		t.Errorf("got %v, want ErrExists", err)
	}
	r.store.ReleaseLate()
	if got := r.limit("calls"); got.UpdatedBy != "rival" || r.seq() != 1 {
		t.Errorf("stands %+v, counter %d; want the rival's", got, r.seq())
	}
}

// Edits elsewhere do not hide that a limit stands as it stood, or as it was written.
func TestUnknown_SeenBehindOthersEdits(t *testing.T) {
	t.Parallel()
	for _, fault := range []memory.Fault{memory.After, memory.Late} {
		h := &hooked{}
		r := setupWith(t, 0, func(s reserve.Store) reserve.Store { h.Store = s; return h })
		r.create(counting("calls"))
		rival := r.newEditor(nil)
		h.load = func(n int) {
			for _, id := range []string{"a", "b"} {
				if n == 3 { // after the first try
					if _, _, err := rival.Create(t.Context(), tenant, counting(id), "rival"); err != nil {
						t.Errorf("the rival: %v", err)
					}
				}
			}
		}
		r.store.FailNext(fault, 1)
		next, _, err := r.editor.Change(t.Context(), tenant, "calls", 0, "x", func(l limits.Limit) (limits.Limit, error) {
			l.Amount++
			return l, nil
		})
		if err != nil || next.Amount != 11 || r.limit("calls").Amount != 11 || next.Revision != r.limit("calls").Revision || r.seq() != 4 {
			t.Errorf("fault %d: got %+v, %v; stands %+v, counter %d; want one more than 10, once", fault, next, err, r.limit("calls"), r.seq())
		}
	}
}

// When others have written over it nobody can tell, and it says so.
func TestUnknown_HiddenByOthersEdits(t *testing.T) {
	t.Parallel()
	h := &hooked{}
	r := setupWith(t, 0, func(s reserve.Store) reserve.Store { h.Store = s; return h })
	r.create(counting("calls"))
	rival := r.newEditor(nil)
	set := func(e *catalogue.Editor, amount int64) error {
		return second(e.Change(t.Context(), tenant, "calls", 0, "x", func(l limits.Limit) (limits.Limit, error) {
			l.Amount = amount
			return l, nil
		}))
	}
	h.load = func(n int) {
		if n == 3 {
			if err := errors.Join(set(rival, 100), set(rival, 200)); err != nil {
				t.Errorf("the rival: %v", err)
			}
		}
	}
	r.store.FailNext(memory.After, 1)
	if err := set(r.editor, 11); !errors.Is(err, reserve.ErrUnknownOutcome) {
		t.Errorf("got %v, want ErrUnknownOutcome", err)
	}
	if got := r.limit("calls").Amount; got != 200 {
		t.Errorf("amount %d stands, want the rival's 200", got)
	}
}

// Only the counter is to be raised: another number does as well.
func TestUnknown_NextSeqTakesAnother(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.store.FailNext(memory.After, 1)
	if seq, _, err := r.editor.NextSeq(t.Context(), tenant); err != nil || seq != r.seq() || seq != 2 {
		t.Errorf("got %d, %v; counter %d; want the second number", seq, err, r.seq())
	}
}

func TestUnknown_ForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := setup(t)
		r.store.SetFaults(func(reserve.Batch) memory.Fault { return memory.Late })
		start := time.Now()
		err := second(r.editor.Create(t.Context(), tenant, counting("calls"), "x"))
		if !errors.Is(err, reserve.ErrUnknownOutcome) || errors.Is(err, reserve.ErrContended) {
			t.Errorf("no answer ever: got %v, want ErrUnknownOutcome", err)
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("took %v, want at most 5 s", took)
		}
		r.store.SetFaults(nil)
		r.store.ReleaseLate()
		if r.seq() != 1 {
			t.Errorf("of all tries %d took effect, want 1", r.seq())
		}
	})
}

// FAULTS row 17: it says that there is no space, and that nobody knows.
func TestUnknown_NoSpace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := setup(t)
		r.store.SetFull(true, 1)
		err := second(r.editor.Create(t.Context(), tenant, counting("calls"), "x"))
		_, stands := r.catalog(tenant).Limit("calls")
		if err == nil && !stands || err != nil && !errors.Is(err, reserve.ErrFull) {
			t.Errorf("without space: got %v, the limit stands: %v", err, stands)
		}
		if r.seq() > 1 {
			t.Errorf("%d tries took effect, want at most 1", r.seq())
		}
	})
}

func TestContended_AfterTwentyTries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &hooked{}
		r := setupWith(t, 0, func(s reserve.Store) reserve.Store { h.Store = s; return h })
		rival := r.newEditor(nil)
		h.apply = func(int) {
			if _, _, err := rival.NextSeq(t.Context(), tenant); err != nil {
				t.Errorf("the rival: %v", err)
			}
		}
		err := second(r.editor.Create(t.Context(), tenant, counting("calls"), "x"))
		if !errors.Is(err, reserve.ErrContended) || h.applications > 20 || h.applications < 10 {
			t.Errorf("got %v after %d tries, want ErrContended after about twenty", err, h.applications)
		}
		if _, stands := r.catalog(tenant).Limit("calls"); stands {
			t.Error("contended, yet it stands")
		}
	})
}

func TestUnavailable_NothingHappens(t *testing.T) {
	t.Parallel()
	r := setup(t)
	r.store.SetDown(true)
	if err := second(r.editor.Create(t.Context(), tenant, counting("calls"), "x")); !errors.Is(err, reserve.ErrUnavailable) {
		t.Errorf("store away: got %v, want ErrUnavailable", err)
	}
	r.store.SetDown(false)
	r.store.FailNext(memory.Before, 1)
	if err := second(r.editor.Create(t.Context(), tenant, counting("calls"), "x")); !errors.Is(err, reserve.ErrUnavailable) {
		t.Errorf("refused before it was sent: got %v, want ErrUnavailable", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := second(r.editor.Create(gone, tenant, counting("calls"), "x")); !errors.Is(err, reserve.ErrUnavailable) {
		t.Errorf("caller gone before it began: got %v, want ErrUnavailable", err)
	}
	if r.seq() != 0 {
		t.Errorf("counter %d, want nothing to have happened", r.seq())
	}
}

// A caller that hangs up leaves nothing half known: the edit is brought to its end.
func TestCancel_DoesNotCutAnEditShort(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	h := &hooked{apply: func(int) { cancel() }}
	r := setupWith(t, 0, func(s reserve.Store) reserve.Store { h.Store = s; return h })
	if err := second(r.editor.Create(ctx, tenant, counting("calls"), "x")); err != nil {
		t.Errorf("caller gone on the way: got %v, want it made", err)
	}
	r.limit("calls")
}

func TestDeadline_OfTheCallerHolds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := setup(t)
		r.store.SetFaults(func(reserve.Batch) memory.Fault { return memory.Late })
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		start := time.Now()
		err := second(r.editor.Create(ctx, tenant, counting("calls"), "x"))
		if took := time.Since(start); !errors.Is(err, reserve.ErrUnknownOutcome) || took > 100*time.Millisecond {
			t.Errorf("got %v after %v, want ErrUnknownOutcome within 100 ms", err, took)
		}
		r.store.SetFaults(nil)
	})
}

// An editor that leaves notes can always tell what became of an edit: the note is its own.
func TestUnknown_TheNoteTells(t *testing.T) {
	t.Parallel()
	for _, fault := range []memory.Fault{memory.After, memory.Late} {
		h := &hooked{}
		r := setupWith(t, 0, func(s reserve.Store) reserve.Store { h.Store = s; return h })
		r.create(counting("calls"))
		rival := r.newEditor(nil)
		set := func(e *catalogue.Editor, amount int64) error {
			return second(e.Change(t.Context(), tenant, "calls", 0, "x", func(l limits.Limit) (limits.Limit, error) {
				l.Amount = amount
				return l, nil
			}))
		}
		h.load = func(n int) {
			if n == 3 { // after the first try of the edit in doubt
				if err := errors.Join(set(rival, 100), set(rival, 200)); err != nil {
					t.Errorf("the rival: %v", err)
				}
			}
		}
		r.store.FailNext(fault, 1)
		if err := set(r.editor.As(reserve.Note{At: r.now(), Actor: "user:dana"}), 11); err != nil {
			t.Errorf("fault %d: got %v, want it to know", fault, err)
		}
		r.store.ReleaseLate()
		notes, err := r.store.Trail(t.Context(), tenant, 0, 10)
		if err != nil || len(notes) != 1 {
			t.Fatalf("fault %d: the trail: got %+v, %v; want one note", fault, notes, err)
		}
		if n := notes[0].Value.(*reserve.Note); n.Actor != "user:dana" || len(n.Changes) != 1 || n.Changes[0].Act != "limit.change" {
			t.Errorf("fault %d: got %+v", fault, n)
		}
	}
}
