package store_test

import (
	"testing"

	"github.com/holdfast-dev/holdfast/integration/etcdtest"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/store"
)

func TestLoad_LearnsHowMuchTheServerTakes(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.NoFsync(), etcdtest.MaxTxnOps(50))
	kv := etcdtest.NewCountingKV(server.Client())
	s := newStore(t, kv, server.Client(), store.Config{MaxOps: 1_000})
	at := apply(t, s, batch(put(slotRef(150), slot("x")))).Rev
	var refs []reserve.Ref
	for n := range int64(200) {
		refs = append(refs, slotRef(n))
	}
	loaded, err := s.Load(t.Context(), refs, true)
	if err != nil || len(loaded.Entries) != len(refs) || loaded.Entries[150].Mod != at || loaded.Entries[151].Mod != 0 {
		t.Fatalf("Load of 200 refs: got %d entries, %v", len(loaded.Entries), err)
	}
	if s.MaxOps() > 50 {
		t.Errorf("MaxOps: got %d, want at most the server's 50", s.MaxOps())
	}
	kv.Reset()
	if _, err := s.Load(t.Context(), refs[:s.MaxOps()], false); err != nil || kv.Calls().All() != 1 {
		t.Errorf("Load of %d refs: got %+v calls, %v; want one", s.MaxOps(), kv.Calls(), err)
	}
}

// A revision that is compacted between two parts of a read makes it start over.
func TestLoad_StartsOverAfterCompaction(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.NoFsync())
	c, root := server.Client(), newRoot()
	writer := newStore(t, c, c, store.Config{Root: root})
	both := batch(put(slotRef(0), slot("x")), put(slotRef(99), slot("x")))
	first := apply(t, writer, both).Rev
	kv := etcdtest.NewFaultKV(c, func(n int, _ string) etcdtest.Fault {
		if n == 2 { // between the first part and the second
			if _, err := c.Compact(t.Context(), apply(t, writer, both).Rev); err != nil {
				t.Error(err)
			}
		}
		return etcdtest.None
	})
	s := newStore(t, kv, c, store.Config{Root: root, MaxOps: 40})
	var refs []reserve.Ref
	for n := range int64(100) {
		refs = append(refs, slotRef(n))
	}
	loaded, err := s.Load(t.Context(), refs, true)
	if err != nil {
		t.Fatal(err)
	}
	if one, other := loaded.Entries[0], loaded.Entries[99]; one.Mod <= first || one.Mod != other.Mod {
		t.Errorf("got %+v and %+v, want both of one revision after %d", one, other, first)
	}
}
