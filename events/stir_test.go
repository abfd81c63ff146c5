package events_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/events"
)

func TestStir_ManyChangesAreOneAndOthersAreNone(t *testing.T) { // HF-4101
	inCell(t, func(c *cell) {
		one, two := c.replica("one", 0), c.replica("two", 0)
		c.define()
		one.work("a", 1) // with it the replica's own marker comes, of which everybody is told
		ours, err := two.hub.Stir(tenant, "dana")
		if err != nil {
			t.Fatal(err)
		}
		defer ours.Close()
		theirs, err := two.hub.Stir("acme", "eve")
		if err != nil {
			t.Fatal(err)
		}
		defer theirs.Close()
		waited := func(s *events.Stir, idle time.Duration) time.Duration {
			began := time.Now()
			if err := s.Wait(c.ctx, idle); err != nil {
				t.Fatal(err)
			}
			return time.Since(began)
		}
		one.work("a", 100) // at the other replica
		if d := waited(ours, time.Hour); d != 0 {
			t.Errorf("a change was told after %s, want at once", d)
		}
		if d := waited(ours, time.Minute); d != time.Minute {
			t.Errorf("a hundred changes were told twice: the second after %s", d)
		}
		if d := waited(theirs, time.Minute); d != time.Minute {
			t.Errorf("another tenant's changes were told, after %s", d)
		}
		one.work("a", 1)
		if d := waited(ours, time.Minute); d != 0 {
			t.Errorf("a change after a rest was told after %s, want at once", d)
		}
	})
}

func TestStir_EndsWithTheReplicaAndIsBounded(t *testing.T) { // HF-4102
	inCell(t, func(c *cell) {
		r := c.replica("one", 0)
		c.define()
		var all []*events.Stir
		for range events.MaxReadersEach {
			s, err := r.hub.Stir(tenant, "dana")
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, s)
		}
		if _, err := r.hub.Stir(tenant, "dana"); !errors.Is(err, events.ErrYours) {
			t.Errorf("one more than a principal may have: %v, want ErrYours", err)
		}
		for _, s := range all[1:] {
			s.Close()
		}
		again, err := r.hub.Stir(tenant, "dana")
		if err != nil {
			t.Errorf("after the others have gone: %v", err)
		} else {
			again.Close()
		}
		ended := make(chan error, 1)
		go func() { ended <- all[0].Wait(c.ctx, time.Hour) }()
		synctest.Wait()
		r.hub.Drain()
		if err := <-ended; !errors.Is(err, events.ErrDraining) {
			t.Errorf("a replica that ends: %v, want ErrDraining", err)
		}
		all[0].Close()
	})
}
