package store_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/integration/etcdtest"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/store"
)

func recordRef(kind reserve.RefKind, id reserve.ID) reserve.Ref {
	return reserve.Ref{Tenant: "default", Kind: kind, ID: id}
}

// fill puts n records under random ids, ended one second after another, and returns the ids in
// that order. keyed says which are made under an Idempotency-Key.
func fill(t *testing.T, s *store.Store, kind reserve.RefKind, n int, keyed func(i int) bool) []reserve.ID {
	t.Helper()
	random := rand.New(rand.NewPCG(1, uint64(n)))
	ids := make([]reserve.ID, n)
	var writes []reserve.Write
	for i := range ids {
		for j := range ids[i] {
			ids[i][j] = byte(random.Uint32())
		}
		writes = append(writes, reserve.Write{Ref: recordRef(kind, ids[i]), Value: &reserve.Record{
			ID: ids[i], State: reserve.Released, Keyed: keyed(i), EndedAt: time.Unix(1_800_000_000+int64(i), 0).UTC(),
		}})
	}
	for part := range slices.Chunk(writes, 1_000) {
		apply(t, s, batch(reserve.Group{Tenant: "default", Catalog: reserve.AnyCatalog, Writes: part}))
	}
	return ids
}

func never(int) bool { return false }

func sortIDs(ids []reserve.ID) []reserve.ID {
	return slices.SortedFunc(slices.Values(ids), func(a, b reserve.ID) int { return slices.Compare(a[:], b[:]) })
}

// pages reads all records of a kind, and says how many pages it took.
func pages(t *testing.T, s *store.Store, kind reserve.RefKind, size int) (ids []reserve.ID, n int) {
	t.Helper()
	var after reserve.ID
	for {
		page, err := s.Records(t.Context(), "default", kind, after, size)
		if err != nil || len(page) > size {
			t.Fatalf("Records(after %v, %d): got %d, %v", after, size, len(page), err)
		}
		if n++; len(page) == 0 {
			return ids, n
		}
		for _, e := range page {
			ids = append(ids, e.Ref.ID)
		}
		after = ids[len(ids)-1]
	}
}

// Pages are found in narrow parts of the ids, of which no call reads many.
func TestRecords_InNarrowParts(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.NoFsync())
	kv := etcdtest.NewCountingKV(server.Client())
	s := newStore(t, kv, server.Client(), store.Config{MaxOps: store.EmbeddedMaxOps})
	want := sortIDs(fill(t, s, reserve.RefOpen, 5_000, never))
	for _, size := range []int{3, 50, 7, 1_000, 6_000} {
		kv.Reset()
		got, n := pages(t, s, reserve.RefOpen, size)
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d: got %d ids, want %d in order", size, len(got), len(want))
		}
		if calls := kv.Calls().All(); calls > 2*n+10 {
			t.Errorf("pages of %d: %d calls for %d pages", size, calls, n)
		}
	}
	if _, err := s.Records(t.Context(), "default", reserve.RefSlot, reserve.ID{}, 1); err == nil || errors.Is(err, reserve.ErrUnavailable) {
		t.Errorf("records of slots: got error %v, want one that blames the program", err)
	}
}

func TestTenants_AreFoundByTheirKeys(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.NoFsync())
	c, root := server.Client(), newRoot()
	s := newStore(t, c, c, store.Config{Root: root, MaxOps: store.EmbeddedMaxOps})
	want := []string{".", "a", "a-b", "a.", "a/b", "a0", "b", "default", "é"}
	for _, tenant := range want {
		apply(t, s, batch(put(reserve.Ref{Tenant: tenant, Kind: reserve.RefOpen, ID: reserve.ID{1}}, &reserve.Record{State: reserve.Held})))
	}
	fill(t, s, reserve.RefOpen, 2_500, never) // more than a page of one tenant's
	for _, key := range []string{"t/foreign", "t/%zz/catalog", "t//catalog", "u/x", "s/x"} {
		if _, err := c.Put(t.Context(), root+key, "x"); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when string, want ...string) {
		t.Helper()
		if got, err := s.Tenants(t.Context()); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %q, %v; want %q", when, got, err, want)
		}
	}
	check("by a scan", want...)
	l := follow(t, s)
	l.reset()
	now := apply(t, s, batch(put(reserve.Ref{Tenant: "new", Kind: reserve.RefCatalog}, reserve.Seq(1)))).Rev
	l.rev(now)
	l.rev(apply(t, s, batch(put(slotRef(0), slot("x")))).Rev) // the watch has taken in the one before
	check("by the watch", append(slices.Clone(want[:8]), "new", "é")...)
}

func TestTrim_DeletesTheOldest(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.NoFsync())
	every3rd := func(i int) bool { return i%3 == 0 }
	for _, c := range []struct {
		name          string
		keep, most    int
		keyed         func(int) bool
		trimmed, left int
		oldest        int // place, in order of their end, of the first that is gone
	}{
		{"nothing above what is kept", 20, 100, never, 0, 20, 0},
		{"what is above", 12, 100, never, 8, 12, 0},
		{"no more than a batch", 0, 5, never, 5, 15, 0},
		{"none under a key", 12, 100, every3rd, 8, 12, 1},
		{"none under a key, though there are too many", 2, 100, every3rd, 13, 7, 1},
		{"a keep below 0 is none", -3, 100, never, 20, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			client, root := server.Client(), newRoot()
			s := newStore(t, client, client, store.Config{Root: root, MaxOps: 8})
			writer := newStore(t, client, client, store.Config{Root: root, MaxOps: store.EmbeddedMaxOps})
			ids := fill(t, writer, reserve.RefEnded, 20, c.keyed)
			got, err := s.Trim(t.Context(), "default", c.keep, c.most)
			if err != nil || got != c.trimmed {
				t.Errorf("Trim: got %d, %v; want %d", got, err, c.trimmed)
			}
			left, _ := pages(t, s, reserve.RefEnded, 50)
			if len(left) != c.left {
				t.Errorf("got %d left, want %d", len(left), c.left)
			}
			gone := 0
			for i, id := range ids {
				trimmable := !c.keyed(i) && gone < c.trimmed
				if stands := slices.Contains(left, id); stands == trimmable {
					t.Errorf("record %d stands: %v, want %v", i, stands, !trimmable)
				}
				if trimmable {
					gone++
				}
			}
			if again, err := s.Trim(t.Context(), "default", max(c.keep, c.left), c.most); err != nil || again != 0 {
				t.Errorf("Trim again: got %d, %v; want nothing to do", again, err)
			}
		})
	}
}

// With many records keep is met by parts of the ids, in calls that are bounded each.
func TestTrim_OfMany(t *testing.T) {
	t.Parallel()
	const records, keep, most = 9_000, 3_000, 1_000
	server := etcdtest.Start(t, etcdtest.NoFsync())
	s := newStore(t, server.Client(), server.Client(), store.Config{MaxOps: store.EmbeddedMaxOps})
	ids := fill(t, s, reserve.RefEnded, records, never)
	total := 0
	for range 30 {
		n, err := s.Trim(t.Context(), "default", keep, most)
		if err != nil || n > most {
			t.Fatalf("Trim(%d, %d): got %d, %v", keep, most, n, err)
		}
		total += n
	}
	left, _ := pages(t, s, reserve.RefEnded, 10_000)
	if len(left) != records-total || len(left) < keep*9/10 || len(left) > keep*11/10 {
		t.Errorf("got %d left of %d after trimming %d, want about %d", len(left), records, total, keep)
	}
	for i, id := range ids[records-keep/2:] {
		if !slices.Contains(left, id) {
			t.Errorf("record %d of the newest %d is gone", i, keep/2)
		}
	}
}

func TestSecret_IsMadeOnce(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.NoFsync())
	c, root := server.Client(), newRoot()
	secrets := make(chan reserve.Secret)
	for range 8 {
		go func() {
			secret, err := newStore(t, c, c, store.Config{Root: root}).Secret(t.Context(), "cursors")
			if err != nil {
				t.Errorf("Secret: %v", err)
			}
			secrets <- secret
		}()
	}
	first := <-secrets
	for range 7 {
		if other := <-secrets; string(other) != string(first) {
			t.Errorf("two replicas have the secrets %x and %x", []byte(first), []byte(other))
		}
	}
	s := newStore(t, c, c, store.Config{Root: root})
	if other, err := s.Secret(t.Context(), "sessions"); err != nil || len(other) != 32 || len(first) != 32 || string(other) == string(first) {
		t.Errorf("another secret: got %d bytes (the first has %d), %v; want 32 others", len(other), len(first), err)
	}
	if _, err := c.Put(t.Context(), root+"secrets/spoilt", "?"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Secret(t.Context(), "spoilt"); !errors.Is(err, reserve.ErrNewer) {
		t.Errorf("a secret of a newer version: got error %v, want ErrNewer", err)
	}
	if got := fmt.Sprint(first); got != "(secret)" {
		t.Errorf("a secret prints as %q", got)
	}
}

// An answer that is lost leaves either no secret or the one that asking again finds.
func TestSecret_AfterALostAnswer(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.NoFsync())
	c := server.Client()
	kv := etcdtest.NewFaultKV(c, func(n int, _ string) etcdtest.Fault {
		if n == 2 {
			return etcdtest.After
		}
		return etcdtest.None
	})
	s := newStore(t, kv, c, store.Config{})
	if _, err := s.Secret(t.Context(), "cursors"); !errors.Is(err, reserve.ErrUnknownOutcome) {
		t.Fatalf("a lost answer: got error %v, want ErrUnknownOutcome", err)
	}
	first, err := s.Secret(t.Context(), "cursors")
	again, err2 := s.Secret(t.Context(), "cursors")
	if err != nil || err2 != nil || len(first) != 32 || string(first) != string(again) {
		t.Errorf("afterwards: got %x, %v and %x, %v", []byte(first), err, []byte(again), err2)
	}
}
