package reserve_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/windows"
)

// rig is one keyspace and a service on it, in a bubble of its own time.
type rig struct {
	*reserve.Service
	t     *testing.T
	store *memory.Store
	seq   reserve.Seq
}

const tenant = "default"

var u42 = limits.Subject{Kind: "user", ID: "u_42"}

// inBubble runs f on a fresh rig with the given limits in fake time.
func inBubble(t *testing.T, ls []limits.Limit, f func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, store: memory.New(memory.Config{Now: time.Now, CheckValues: true})}
		r.define(ls...)
		var stop func()
		r.Service, stop = r.replica("")
		defer stop()
		f(r)
	})
}

// replica starts a service on the rig's keyspace; stop ends it and waits.
func (r *rig) replica(name string, opts ...func(*reserve.Config)) (s *reserve.Service, stop func()) {
	r.t.Helper()
	wheel := r.store.Leases(name, time.Now)
	view := r.store.View(name)
	session := r.store.Session(name)
	cfg := reserve.Config{Store: view, Lister: view, Leases: wheel, Sessions: session, Packer: store.Packer{}, Now: time.Now, Replica: name}
	for _, o := range opts {
		o(&cfg)
	}
	s, err := reserve.New(cfg)
	if err != nil {
		r.t.Fatalf("reserve.New: %v", err)
	}
	ctx, cancel := context.WithCancel(r.ctx())
	done := make(chan struct{}, 3)
	go func() { _ = s.Run(ctx); done <- struct{}{} }()
	go func() { wheel.Run(ctx); done <- struct{}{} }()
	go func() { session.Run(ctx); done <- struct{}{} }()
	return s, func() { cancel(); <-done; <-done; <-done }
}

// define puts limits and bumps the catalogue, as catalogue.Editor would.
func (r *rig) define(ls ...limits.Limit) {
	r.t.Helper()
	r.seq++
	g := reserve.Group{Tenant: tenant, Catalog: reserve.AnyCatalog}
	for _, l := range ls {
		l.Enabled = true
		if l.Generation == 0 {
			l.Generation = 1
		}
		g.Writes = append(g.Writes, reserve.Write{Ref: reserve.Ref{Tenant: tenant, Kind: reserve.RefLimit, Limit: l.ID}, Value: &l})
	}
	g.Writes = append(g.Writes, reserve.Write{Ref: reserve.Ref{Tenant: tenant, Kind: reserve.RefCatalog}, Value: r.seq})
	res, err := r.store.Apply(r.ctx(), reserve.Batch{Groups: []reserve.Group{g}})
	if err != nil || !res.Outcomes[0].Committed {
		r.t.Fatalf("define: %v %+v", err, res)
	}
}

func slots(id string, amount int64) limits.Limit {
	return limits.Limit{ID: id, Name: id, SubjectKind: "user", Action: "export", Amount: amount, Window: windows.Window{Kind: windows.Concurrent}}
}

func counted(id string, amount int64, w windows.Window) limits.Limit {
	return limits.Limit{ID: id, Name: id, SubjectKind: "*", Action: "export", Amount: amount, Window: w}
}

func ask(s limits.Subject, cost int64, ttl time.Duration) reserve.Request {
	return reserve.Request{Tenant: tenant, Subject: s, Action: "export", Cost: cost, TTL: ttl, Principal: "p/" + s.ID}
}

func (r *rig) reserve(ask reserve.Request) (reserve.Reservation, reserve.Decision) {
	r.t.Helper()
	res, d, err := r.Reserve(r.ctx(), ask)
	if err != nil {
		r.t.Fatalf("Reserve(%+v): %v", ask, err)
	}
	return res, d
}

// granted reserves and fails the test when that is refused.
func (r *rig) granted(ask reserve.Request) reserve.Reservation {
	r.t.Helper()
	res, d := r.reserve(ask)
	if !d.Allowed {
		r.t.Fatalf("Reserve(%+v): refused, want granted: %+v", ask, d)
	}
	return res
}

// refused reserves and fails the test when that is granted.
func (r *rig) refused(ask reserve.Request) reserve.Decision {
	r.t.Helper()
	_, d := r.reserve(ask)
	if d.Allowed {
		r.t.Fatalf("Reserve(%+v): granted, want refused", ask)
	}
	return d
}

func mine(id reserve.ID) reserve.HoldRef {
	return reserve.HoldRef{ID: id, By: reserve.Caller{Tenant: tenant, Principal: "p/u_42"}}
}

// used is what limit has counted for subject.
func (r *rig) used(limit string, s limits.Subject) int64 {
	r.t.Helper()
	vs, err := r.Usage(r.ctx(), tenant, s)
	if err != nil {
		r.t.Fatalf("Usage(%v): %v", s, err)
	}
	for _, v := range vs {
		if v.Rule.ID == limit {
			return v.Used
		}
	}
	r.t.Fatalf("Usage(%v): no verdict of %s in %+v", s, limit, vs)
	return 0
}

// ctx is the bubble's own context: one from outside may not be waited for inside.
func (r *rig) ctx() context.Context { return r.t.Context() }

// bump raises the catalogue's counter to r.seq and changes nothing else.
func (r *rig) bump() {
	r.t.Helper()
	g := reserve.Group{Tenant: tenant, Catalog: reserve.AnyCatalog, Writes: []reserve.Write{
		{Ref: reserve.Ref{Tenant: tenant, Kind: reserve.RefCatalog}, Value: r.seq},
	}}
	if _, err := r.store.Apply(r.ctx(), reserve.Batch{Groups: []reserve.Group{g}}); err != nil {
		r.t.Fatalf("bump: %v", err)
	}
}

// deadOnce is a wheel that hands out a lease that is no more, once.
type deadOnce struct {
	reserve.Leaser
	at     int64
	handed atomic.Int64
	gone   atomic.Int64
}

func (d *deadOnce) Lease(ctx context.Context, keep, grain time.Duration, have reserve.LeaseID) (reserve.LeaseID, error) {
	if d.handed.Add(1) == d.at {
		return 0x7fffffff, nil
	}
	return d.Leaser.Lease(ctx, keep, grain, have)
}

func (d *deadOnce) Gone(id reserve.LeaseID) {
	d.gone.Add(1)
	d.Leaser.Gone(id)
}
