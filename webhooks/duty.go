package webhooks

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-dev/holdfast/reserve"
)

// Run delivers while this replica has the duty, until ctx ends; then it lets what is under way
// end, gives the duty back, and returns nil.
//
// The duty is a key on this replica's session lease, made by a compare: it goes with a replica
// that is dead or asleep, and another takes it. Every write of a courier compares it.
func (d *Dispatcher) Run(ctx context.Context) error {
	hurry, cut := context.WithCancel(context.WithoutCancel(ctx))
	r := &round{d: d, ctx: ctx, hurry: hurry, couriers: map[hookKey]*running{}}
	timer := time.NewTimer(0)
	defer timer.Stop()
	defer d.poster.close()
	defer cut()
	for {
		select {
		case <-ctx.Done():
			r.stopAll()
			d.giveBack()
			return nil
		case <-d.stir:
		case <-timer.C:
		}
		wanted := d.wanted()
		if had := d.duty; !d.keep(ctx, len(wanted) > 0 || d.leftovers()) || had != d.duty {
			r.stopAll()
		}
		if d.duty != 0 {
			r.reconcile(wanted)
			d.sweep(ctx)
		}
		timer.Reset(dutyEvery)
	}
}

// keep looks after the duty, and reports whether it is this replica's. It is taken only when
// there is something to do.
func (d *Dispatcher) keep(ctx context.Context, needed bool) bool {
	if d.duty == 0 && !needed {
		return false
	}
	looked := d.cfg.Now()
	got, err := d.load(ctx, dutyRef)
	switch {
	case err != nil:
		if d.duty != 0 && !d.onDuty() {
			d.lost("it could not be seen in time")
		}
		return d.duty != 0
	case got.Entries[0].Mod == 0:
		if d.duty != 0 {
			d.lost("the session has ended")
		}
		d.takeUp(ctx)
	case got.Entries[0].Create != d.duty:
		if d.duty != 0 {
			d.lost("another replica has it")
		}
	default:
		d.see(looked)
	}
	return d.duty != 0
}

func (d *Dispatcher) lost(why string) {
	d.cfg.Log.Warn("this replica has lost the duty of sending webhooks", "why", why)
	d.duty = 0
	d.see(time.Time{})
}

func (d *Dispatcher) see(at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen = at
}

// takeUp makes the duty's key if there is none.
func (d *Dispatcher) takeUp(ctx context.Context) {
	began := d.cfg.Now()
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	lease, err := d.cfg.Sessions.Session(ctx)
	if err != nil {
		return
	}
	res, err := d.apply(ctx, reserve.Group{
		Catalog: reserve.AnyCatalog,
		Guards:  []reserve.Guard{{Ref: dutyRef, Cond: reserve.ModIs}},
		Writes:  []reserve.Write{{Ref: dutyRef, Value: &reserve.Duty{Replica: d.cfg.Replica, Since: began.UTC().Truncate(time.Millisecond)}, Lease: lease}},
	})
	if gone := (*reserve.LeaseError)(nil); errors.As(err, &gone) {
		d.cfg.Sessions.Ended(lease)
		d.wake()
		return
	}
	if err != nil || !res.Outcomes[0].Committed {
		return // of an unknown outcome: the key goes with the session, or is found to be another's
	}
	d.duty = res.Rev
	d.see(began)
}

// giveBack lets another replica go on at once.
func (d *Dispatcher) giveBack() {
	if d.duty == 0 {
		return
	}
	_, err := d.apply(context.Background(), reserve.Group{
		Catalog: reserve.AnyCatalog,
		Guards:  []reserve.Guard{{Ref: dutyRef, Cond: reserve.CreateIs, Rev: d.duty}},
		Writes:  []reserve.Write{{Ref: dutyRef}},
	})
	if err != nil {
		d.cfg.Log.Warn("the duty of sending webhooks could not be given back; it goes with this replica's session", "error", err)
	}
	d.duty = 0
	d.see(time.Time{})
}

// round are the couriers of this replica.
type round struct {
	d          *Dispatcher
	ctx, hurry context.Context
	couriers   map[hookKey]*running
}

type running struct {
	*courier
	stop  context.CancelFunc
	ended chan struct{}
	again time.Time // when it failed: not to begin anew before
}

// reconcile starts a courier for each webhook that has none, and ends those of others.
func (r *round) reconcile(wanted map[hookKey]hookAt) {
	for k, run := range r.couriers {
		at, still := wanted[k]
		select {
		case <-run.ended:
			if still && r.d.cfg.Now().Before(run.again) {
				continue
			}
			delete(r.couriers, k)
			continue
		default:
		}
		if !still || at.create != run.create {
			run.stop()
			<-run.ended
			delete(r.couriers, k)
			continue
		}
		run.hook.Store(at.hook)
	}
	for k, at := range wanted {
		if r.couriers[k] == nil {
			r.start(k, at)
		}
	}
}

func (r *round) start(k hookKey, at hookAt) {
	ctx, stop := context.WithCancel(r.ctx)
	run := &running{courier: &courier{d: r.d, key: k, create: at.create, duty: r.d.duty}, stop: stop, ended: make(chan struct{})}
	run.hook.Store(at.hook)
	r.couriers[k] = run
	go func() {
		defer close(run.ended)
		defer stop()
		err := run.run(ctx, r.hurry)
		if run.again = r.d.cfg.Now().Add(courierRest); err != nil && ctx.Err() == nil {
			r.d.cfg.Log.Warn("deliveries to a webhook begin anew", "tenant", k.tenant, "webhook", k.id, "cause", err)
			time.AfterFunc(courierRest, r.d.wake)
		}
	}()
}

func (r *round) stopAll() {
	for _, run := range r.couriers {
		run.stop()
	}
	for k, run := range r.couriers {
		<-run.ended
		delete(r.couriers, k)
	}
}

// leftovers reports whether a webhook that is gone left anything behind.
func (d *Dispatcher) leftovers() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for k := range d.far {
		if _, there := d.hooks[k]; !there {
			return true
		}
	}
	return false
}

const (
	sweepParcels = 48 // deleted in one transaction
	maxSweeps    = 64 // transactions of one look
)

// sweep deletes what webhooks that are gone left behind: their outbox, then how far they were.
func (d *Dispatcher) sweep(ctx context.Context) {
	d.mu.Lock()
	left := map[hookKey]reserve.Delivery{}
	for k, v := range d.far {
		if _, there := d.hooks[k]; !there {
			left[k] = *v
		}
	}
	d.mu.Unlock()
	n := 0
	for k, v := range left {
		for at, done := v.First, false; !done && n < maxSweeps && ctx.Err() == nil; n++ {
			to := min(at+sweepParcels, v.Next)
			g := reserve.Group{
				Tenant: k.tenant, Catalog: reserve.AnyCatalog,
				Guards: []reserve.Guard{
					{Ref: dutyRef, Cond: reserve.CreateIs, Rev: d.duty},
					{Ref: reserve.Ref{Tenant: k.tenant, Kind: reserve.RefWebhook, Scope: k.id}, Cond: reserve.ModIs},
				},
			}
			for ; at < to; at++ {
				g.Writes = append(g.Writes, reserve.Write{Ref: reserve.Ref{Tenant: k.tenant, Kind: reserve.RefParcel, Scope: k.id, N: at}})
			}
			ref := reserve.Ref{Tenant: k.tenant, Kind: reserve.RefDelivery, Scope: k.id}
			if done = to == v.Next; done {
				g.Writes = append(g.Writes, reserve.Write{Ref: ref})
			} else {
				next := v
				next.First = to
				g.Writes = append(g.Writes, reserve.Write{Ref: ref, Value: &next})
			}
			if res, err := d.apply(ctx, g); err != nil || !res.Outcomes[0].Committed {
				return
			}
		}
	}
}
