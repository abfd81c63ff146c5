package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"

	"github.com/holdfast-dev/holdfast/lease"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/load"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/windows"
)

// now is the clock of everything here.
var now = time.Now

const deskTenant = "default"

// gcPercent is about what Holdfast's budget of garbage comes to with the live memory of this part.
const gcPercent = 250

// deskRig is a desk on an embedded etcd in this process, without HTTP.
type deskRig struct {
	service *reserve.Service
	plain   *clientv3.Client // of the same server
	stop    func()
}

// openDesk wires store, wheel and service as the product does.
func (r *rig) openDesk(ctx context.Context) (*deskRig, error) {
	dir, err := r.folder("desk")
	if err != nil {
		return nil, err
	}
	e, err := embedEtcd(ctx, dir, false, store.EmbeddedMaxOps)
	if err != nil {
		return nil, err
	}
	client := v3client.New(e.Server)
	debug.SetGCPercent(gcPercent)
	const replica = "bench"
	s, err := store.New(client, client, store.Config{Replica: replica, MaxOps: store.EmbeddedMaxOps, Sender: e.Server})
	if err != nil {
		return nil, err
	}
	wheel, err := lease.NewWheel(lease.Config{
		Lease: client, KV: client, MarkerKey: s.ReplicaKey(replica), Now: now,
		MarkerValue: func(at time.Time) []byte { return store.EncodeReplica(reserve.Replica{ID: replica, Clock: at}) },
	})
	if err != nil {
		return nil, err
	}
	service, err := reserve.New(reserve.Config{Store: s, Lister: s, Leases: leaser{wheel}, Packer: store.Packer{}, Now: now, Replica: replica, MaxOps: store.EmbeddedMaxOps})
	if err != nil {
		return nil, err
	}
	if err := defineLimits(ctx, s); err != nil {
		return nil, err
	}
	loops, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { _ = wheel.Run(loops) })
	running.Go(func() { _ = service.Run(loops) })
	d := &deskRig{service: service, plain: client, stop: func() {
		cancel()
		running.Wait()
		_ = client.Close() // it has no connection
		e.Close()
	}}
	return d, d.ready(ctx)
}

func (d *deskRig) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	for {
		err := d.service.Ready(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		<-time.After(lookEvery)
	}
}

// defineLimits puts one concurrent limit and one window on the action "both".
func defineLimits(ctx context.Context, s *store.Store) error {
	g := reserve.Group{Tenant: deskTenant, Catalog: reserve.AnyCatalog}
	for id, w := range map[string]windows.Window{"slots": {Kind: windows.Concurrent}, "days": {Kind: windows.Day, Rolling: true}} {
		l := &limits.Limit{ID: id, Name: id, SubjectKind: kind, Action: "both", Amount: plenty, Window: w, Enabled: true, Generation: 1}
		g.Writes = append(g.Writes, reserve.Write{Ref: reserve.Ref{Tenant: deskTenant, Kind: reserve.RefLimit, Limit: id}, Value: l})
	}
	g.Writes = append(g.Writes, reserve.Write{Ref: reserve.Ref{Tenant: deskTenant, Kind: reserve.RefCatalog}, Value: reserve.Seq(1)})
	_, err := s.Apply(ctx, reserve.Batch{Groups: []reserve.Group{g}})
	return err
}

// leaser is the wheel as the desk wants it.
type leaser struct{ wheel *lease.Wheel }

func (l leaser) Lease(ctx context.Context, keep, grain time.Duration, have reserve.LeaseID) (reserve.LeaseID, error) {
	id, err := l.wheel.Lease(ctx, keep, grain, int64(have))
	return reserve.LeaseID(id), err
}
func (l leaser) Marker(ctx context.Context) (int64, error) { return l.wheel.Marker(ctx) }
func (l leaser) Gone(id reserve.LeaseID)                   { l.wheel.Gone(int64(id)) }

// reserves is an arm of the desk; what it reserves is released, untimed.
func (d *deskRig) reserves(name string, workers int, prefix string, keys load.Keys) arm {
	seed := uint64(0)
	return arm{name: name, workers: workers, begin: func(context.Context) (func(int) (load.Step, error), func(context.Context) error, error) {
		seed += 1_000_000
		kept := make([][]reserve.ID, workers)
		prepare := func(worker int) (load.Step, error) {
			pick := keys.Picker(seed + uint64(worker))
			return func(ctx context.Context) (load.Outcome, error) {
				res, dec, err := d.service.Reserve(ctx, deskAsk(prefix+strconv.Itoa(pick())))
				if err != nil {
					return 0, err
				}
				if !dec.Allowed {
					return load.Refused, nil
				}
				kept[worker] = append(kept[worker], res.ID)
				return load.Granted, nil
			}, nil
		}
		return prepare, func(ctx context.Context) error { return d.release(ctx, kept) }, nil
	}}
}

func deskAsk(id string) reserve.Request {
	return reserve.Request{
		Tenant: deskTenant, Subject: limits.Subject{Kind: kind, ID: id}, Action: "both", Cost: 1, TTL: ttl, Principal: "bench", Route: "bench",
	}
}

func (d *deskRig) release(ctx context.Context, kept [][]reserve.ID) error {
	var all sync.WaitGroup
	faults := make([]error, len(kept))
	for w, ids := range kept {
		all.Go(func() {
			for _, id := range ids {
				ref := reserve.HoldRef{ID: id, By: reserve.Caller{Tenant: deskTenant, Principal: "bench"}}
				if _, err := d.service.Release(ctx, ref, ""); err != nil {
					faults[w] = fmt.Errorf("release %s: %w", id, err)
					return
				}
			}
		})
	}
	all.Wait()
	return errors.Join(faults...)
}

// partDesk is the desk on embedded etcd against Puts in the same process, without HTTP.
func (r *rig) partDesk(ctx context.Context) error {
	d, err := r.openDesk(ctx)
	if err != nil {
		return err
	}
	defer d.stop()
	plain := []*clientv3.Client{d.plain}
	return r.measure(ctx, []arm{
		puts("etcd Puts in process, c=256", 256, plain),
		d.reserves("desk, spread, c=256", 256, "s", spread),
		d.reserves("desk, one hot subject, c=256", 256, "hot", oneKey),
		puts("etcd Puts in process, c=64", 64, plain),
		d.reserves("desk, spread, c=64", 64, "s", spread),
		puts("etcd Puts in process, c=1", 1, plain),
		d.reserves("desk, c=1", 1, "s", spread),
	})
}
