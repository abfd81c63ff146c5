package store_test

import (
	"errors"
	"testing"

	"github.com/holdfast-dev/holdfast/integration/etcdtest"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/store"
)

func TestHistory_SaysWhatWasCompacted(t *testing.T) { // HF-3005
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.NoFsync())
	client := server.Client()
	s := newStore(t, client, client, store.Config{})
	ref := func(n int64) reserve.Ref {
		return reserve.Ref{Tenant: "default", Kind: reserve.RefSlot, Limit: "exports", Scope: "user/u_42", N: n}
	}
	var revs []int64
	for n := range int64(6) {
		res, err := s.Apply(t.Context(), reserve.Batch{Groups: []reserve.Group{{
			Tenant: "default", Catalog: reserve.AnyCatalog, Writes: []reserve.Write{{Ref: ref(n), Value: &reserve.Slot{}}},
		}}})
		if err != nil {
			t.Fatalf("Apply: %v", err)
		}
		revs = append(revs, res.Rev)
	}
	last := revs[len(revs)-1]
	past := func(after int64) (told []int64, err error) {
		err = s.History(t.Context(), "default", after, last, func(u reserve.Update) bool {
			told = append(told, u.Rev)
			return true
		})
		return told, err
	}
	if told, err := past(revs[0] - 1); err != nil || len(told) != len(revs) {
		t.Errorf("before the compaction: %v, %v; want %v", told, err, revs)
	}
	if _, err := client.Compact(t.Context(), revs[2]); err != nil {
		t.Fatalf("Compact: %v", err)
	}
	var gone *reserve.CompactedError
	if told, err := past(revs[0]); !errors.As(err, &gone) || gone.Rev != revs[2] || len(told) != 0 {
		t.Fatalf("after the compaction at %d: told %v, %v; want a CompactedError of it", revs[2], told, err)
	}
	if told, err := past(gone.Rev); err != nil || len(told) != 3 || told[0] != revs[3] {
		t.Errorf("after what was compacted: %v, %v; want %v", told, err, revs[3:])
	}
}
