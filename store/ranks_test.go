package store_test

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/integration/etcdtest"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/store"
)

// The trail is trimmed to its latest notes, and of those to the young ones; others' stay.
func TestTrimTrail_ByCountAndAge(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.NoFsync())
	began := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name          string
		keep          int
		before        time.Duration // after the first note
		most          int
		trimmed, left int
	}{
		{"nothing above what is kept", 20, 0, 100, 0, 20},
		{"what is above", 12, 0, 100, 8, 12},
		{"what is old", 100, 5 * time.Minute, 100, 5, 15},
		{"both", 12, 15 * time.Minute, 100, 15, 5},
		{"no more than a batch", 0, 0, 6, 6, 14},
		{"all", 0, time.Hour, 100, 20, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t, server.Client(), server.Client(), store.Config{MaxOps: store.EmbeddedMaxOps})
			var want []time.Time
			for i := range 20 {
				at := began.Add(time.Duration(i) * time.Minute)
				want = append([]time.Time{at}, want...)
				for _, tenant := range []string{"default", "other"} {
					n := reserve.Note{At: at, Actor: "user:ops"}
					guard, write := n.With(reserve.Change{Act: "limit.change", Target: "x"}).Write(tenant)
					apply(t, s, batch(reserve.Group{Tenant: tenant, Catalog: reserve.AnyCatalog, Guards: []reserve.Guard{guard}, Writes: []reserve.Write{write}}))
				}
			}
			trimmed, err := s.TrimTrail(t.Context(), "default", c.keep, began.Add(c.before), c.most)
			if err != nil || trimmed != c.trimmed {
				t.Errorf("TrimTrail: got %d, %v; want %d", trimmed, err, c.trimmed)
			}
			left, err := s.Trail(t.Context(), "default", 0, 100)
			if err != nil || len(left) != c.left {
				t.Fatalf("got %d left, %v; want %d", len(left), err, c.left)
			}
			var got []time.Time
			for _, e := range left {
				got = append(got, e.Value.(*reserve.Note).At)
			}
			if c.most >= 20 && !slices.EqualFunc(got, want[:c.left], time.Time.Equal) {
				t.Errorf("got %v, want the latest first: %v", got, want[:c.left])
			}
			if others, err := s.Trail(t.Context(), "other", 0, 100); err != nil || len(others) != 20 {
				t.Errorf("another tenant's: got %d, %v; want 20", len(others), err)
			}
		})
	}
}
