package events_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-dev/holdfast/events"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const tenant = "default"

// cell is one keyspace and the replicas on it, in a bubble.
type cell struct {
	t     *testing.T
	store *memory.Store
	ctx   context.Context
	all   sync.WaitGroup
}

// replica is a real service and the hub that hears it.
type replica struct {
	*cell
	service *reserve.Service
	hub     *events.Hub
}

func inCell(t *testing.T, f func(c *cell)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		c := &cell{t: t, ctx: ctx, store: memory.New(memory.Config{Now: time.Now, CheckValues: true, MaxOps: 4096})}
		defer func() { cancel(); c.all.Wait() }()
		f(c)
	})
}

func (c *cell) replica(name string, kept int) *replica {
	c.t.Helper()
	view, wheel := c.store.View(name), c.store.Leases(name, time.Now)
	hub, err := events.New(events.Config{Store: view, History: view, Now: time.Now, Kept: kept})
	if err != nil {
		c.t.Fatal(err)
	}
	service, err := reserve.New(reserve.Config{Store: view, Lister: view, Leases: wheel, Now: time.Now, Replica: name, Told: hub.Tell})
	if err != nil {
		c.t.Fatal(err)
	}
	c.all.Go(func() { _ = service.Run(c.ctx) })
	c.all.Go(func() { wheel.Run(c.ctx) })
	synctest.Wait()
	return &replica{c, service, hub}
}

// define puts a concurrent limit of 1,000 for the action "work".
func (c *cell) define() {
	c.t.Helper()
	l := limits.Samples()[2]
	l.ID, l.Action, l.Amount, l.Generation = "work", "work", 1000, 1
	_, err := c.store.Apply(c.ctx, reserve.Batch{Groups: []reserve.Group{{
		Tenant: tenant, Catalog: reserve.AnyCatalog,
		Writes: []reserve.Write{
			{Ref: reserve.Ref{Tenant: tenant, Kind: reserve.RefLimit, Limit: l.ID}, Value: &l},
			{Ref: reserve.Ref{Tenant: tenant, Kind: reserve.RefCatalog}, Value: reserve.Seq(1)},
		},
	}}})
	if err != nil {
		c.t.Fatal(err)
	}
	synctest.Wait()
}

// work makes n reservations of user u at once and releases every second one.
func (r *replica) work(u string, n int) {
	r.t.Helper()
	subject := limits.Subject{Kind: "user", ID: u}
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			hold, d, err := r.service.Reserve(r.ctx, reserve.Request{Tenant: tenant, Subject: subject, Action: "work", Cost: 1, TTL: time.Hour, Principal: u})
			if err == nil && d.Allowed && i%2 == 0 {
				_, err = r.service.Release(r.ctx, reserve.HoldRef{ID: hold.ID, By: reserve.Caller{Tenant: tenant, Principal: u}}, "")
			}
			if err != nil {
				r.t.Errorf("reserve and release: %v", err)
			}
		})
	}
	all.Wait()
	synctest.Wait()
}

// read opens a reader and reads until it has been idle for a while.
func (r *replica) read(v events.View) (told []string, err error) {
	r.t.Helper()
	v.Tenant = tenant
	reader, err := r.hub.Open(v)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	for {
		es, err := reader.Next(r.ctx, 200*time.Millisecond)
		if err != nil || len(es) == 0 {
			return told, err
		}
		for _, e := range es {
			told = append(told, fmt.Sprint(e.Pos, " ", e.Type, " ", e.ID))
		}
	}
}

func whole() *events.Pos { return &events.Pos{Rev: 1, Index: events.Whole} }

func TestHub_EveryReplicaNumbersAlike(t *testing.T) { // HF-3010
	inCell(t, func(c *cell) {
		one, two := c.replica("one", 0), c.replica("two", 0)
		c.define()
		one.work("a", 30)
		two.work("b", 30)
		late := c.replica("late", 0) // it was told nothing of that, and reads it
		var all [][]string
		for _, r := range []*replica{one, two, late} {
			told, err := r.read(events.View{After: whole()})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, told)
		}
		if len(all[0]) != 1+60+30 {
			t.Errorf("told %d events, want 91", len(all[0]))
		}
		if !slices.Equal(all[0], all[1]) || !slices.Equal(all[0], all[2]) {
			t.Errorf("replicas tell differently:\n%v\n%v\n%v", all[0], all[1], all[2])
		}
	})
}

func TestHub_ResumesAtAnotherReplicaAfterAnyEvent(t *testing.T) { // HF-3004
	inCell(t, func(c *cell) {
		one, two := c.replica("one", 0), c.replica("two", 8) // two keeps next to nothing
		c.define()
		one.work("a", 25)
		all, err := one.read(events.View{After: whole()})
		if err != nil {
			t.Fatal(err)
		}
		for i, told := range all {
			var id string
			_, _ = fmt.Sscan(told, &id)
			after, err := events.ParsePos(id)
			if err != nil {
				t.Fatal(err)
			}
			rest, err := two.read(events.View{After: &after})
			if err != nil || !slices.Equal(rest, all[i+1:]) {
				t.Errorf("after %s: %v, %v; want %v", id, rest, err, all[i+1:])
			}
		}
	})
}

func TestHub_ASlowReaderIsDroppedAndResumes(t *testing.T) { // HF-3009
	inCell(t, func(c *cell) {
		r := c.replica("one", 32)
		c.define()
		slow, err := r.hub.Open(events.View{Tenant: tenant})
		if err != nil {
			t.Fatal(err)
		}
		r.work("a", 2)
		had, err := slow.Next(c.ctx, time.Second)
		if err != nil || len(had) != 2+1 {
			t.Fatalf("first: %d events, %v", len(had), err)
		}
		r.work("a", 60) // and nobody reads
		if es, err := slow.Next(c.ctx, time.Second); !errors.Is(err, events.ErrSlow) {
			t.Fatalf("a reader 90 events behind of 32 kept: %d events, %v; want ErrSlow", len(es), err)
		}
		slow.Close()
		after := slow.Pos()
		rest, err := r.read(events.View{After: &after})
		if err != nil || len(rest) != 90 {
			t.Errorf("resumed: %d events, %v; want the 90 it had missed", len(rest), err)
		}
	})
}

func TestHub_AWatchThatBeganAnewLosesNothing(t *testing.T) { // HF-3011
	inCell(t, func(c *cell) {
		one := c.replica("one", 0)
		deaf, err := events.New(events.Config{Store: c.store, History: c.store, Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		deaf.Tell(reserve.Update{Rev: 1, Reset: true})
		reader, err := deaf.Open(events.View{Tenant: tenant})
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		c.define()
		one.work("a", 4)
		now, err := c.store.Load(c.ctx, nil, true)
		if err != nil {
			t.Fatal(err)
		}
		deaf.Tell(reserve.Update{Rev: now.Rev, Reset: true}) // the watch was away meanwhile
		if es, err := reader.Next(c.ctx, time.Second); err != nil || len(es) != 1+4+2 {
			t.Errorf("told %d events, %v; want the 7 of the time it was away", len(es), err)
		}
	})
}

func TestHub_BoundsItsReaders(t *testing.T) { // HF-3012
	inCell(t, func(c *cell) {
		r := c.replica("one", 0)
		var readers []*events.Reader
		open := func(principal string) error {
			reader, err := r.hub.Open(events.View{Tenant: tenant, Principal: principal})
			if err == nil {
				readers = append(readers, reader)
			}
			return err
		}
		for range events.MaxReadersEach {
			if err := open("a"); err != nil {
				t.Fatal(err)
			}
		}
		if err := open("a"); !errors.Is(err, events.ErrYours) {
			t.Errorf("one more of a: %v, want ErrYours", err)
		}
		for len(readers) < events.MaxReaders {
			if err := open("b"); err != nil {
				t.Fatal(err)
			}
		}
		if err := open("c"); !errors.Is(err, events.ErrTooMany) {
			t.Errorf("one more of c: %v, want ErrTooMany", err)
		}
		readers[0].Close()
		readers[0].Close() // twice is once
		if err := open("a"); err != nil {
			t.Errorf("after one of a has gone: %v", err)
		}
		r.hub.Drain()
		if err := open("d"); !errors.Is(err, events.ErrDraining) {
			t.Errorf("while draining: %v, want ErrDraining", err)
		}
		if _, err := readers[5].Next(c.ctx, time.Minute); !errors.Is(err, events.ErrDraining) {
			t.Errorf("a reader while draining: %v, want ErrDraining", err)
		}
	})
}

func TestPos_IsReadAsItIsWritten(t *testing.T) {
	t.Parallel()
	for _, p := range []events.Pos{{}, {Rev: 1}, {Rev: 1874, Index: 12}, {Rev: 1<<63 - 1, Index: events.Whole}} {
		if got, err := events.ParsePos(p.String()); err != nil || got != p {
			t.Errorf("ParsePos(%s): %v, %v", p, got, err)
		}
	}
	for _, s := range []string{"", "1", "1.", ".0", "+1.0", "1.+0", "1.00", " 1.0", "1.0 ", "1.1000000", "9223372036854775808.0"} {
		if got, err := events.ParsePos(s); err == nil {
			t.Errorf("ParsePos(%q): %v, want an error", s, got)
		}
	}
}
