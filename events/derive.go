package events

import (
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

// deriver makes events of the changes of one revision after another. What it makes of a revision
// depends on nothing but that revision's changes and their order, which is the order in which
// they were written: so every replica, and whoever reads the store's history later, numbers
// events alike (ADR 30). Not safe for concurrent use.
type deriver struct {
	seen     time.Time // when the revision was heard; zero: it is read from history
	out      []*Event
	count    map[string]int // events of the revision, by tenant
	extended map[holdKey]*Event
	deleted  map[limitKey]bool // limits deleted at the revision
	begun    map[holdKey]bool  // reservations begun at the revision

	tickets map[reserve.Ref]*reserve.Ticket // that stand, as far as they were told
}

type (
	holdKey struct {
		tenant string
		id     reserve.ID
	}
	limitKey struct{ tenant, limit string }
)

func newDeriver() *deriver {
	return &deriver{count: map[string]int{}, extended: map[holdKey]*Event{}, deleted: map[limitKey]bool{}, begun: map[holdKey]bool{}, tickets: map[reserve.Ref]*reserve.Ticket{}}
}

// derive is what u means, in order.
//
// A reservation begins with its open record, which is put once while it is held, and ends with
// its ended record, which says how. It is extended when a slot of its is put again; several slots
// put at one revision are one event.
func (d *deriver) derive(u reserve.Update, seen time.Time) []*Event {
	d.seen, d.out = seen, nil
	clear(d.count)
	clear(d.extended)
	clear(d.deleted)
	clear(d.begun)
	for i := range u.Entries {
		d.put(&u.Entries[i], u.Rev)
	}
	for i := range u.Deleted {
		if r := &u.Deleted[i].Ref; r.Kind == reserve.RefLimit {
			d.deleted[limitKey{r.Tenant, r.Limit}] = true
		}
	}
	for i := range u.Deleted {
		d.drop(&u.Deleted[i].Ref, u.Rev)
	}
	return d.out
}

// add makes one event of the revision.
func (d *deriver) add(tenant string, rev int64, e *Event) {
	e.Tenant, e.Pos = tenant, Pos{Rev: rev, Index: d.count[tenant]}
	d.count[tenant]++
	d.out = append(d.out, e)
}

func (d *deriver) put(e *reserve.Entry, rev int64) {
	switch e.Ref.Kind {
	case reserve.RefOpen:
		if r, ok := e.Value.(*reserve.Record); ok && r.State == reserve.Held {
			d.begun[holdKey{e.Ref.Tenant, r.ID}] = true
			d.reservation(Created, e, r, rev)
		}
	case reserve.RefEnded:
		if r, ok := e.Value.(*reserve.Record); ok && ends[r.State] != 0 {
			d.reservation(ends[r.State], e, r, rev)
		}
	case reserve.RefSlot, reserve.RefHold:
		if s, ok := e.Value.(*reserve.Slot); ok && e.Create < e.Mod {
			d.extend(e, s, rev)
		}
	case reserve.RefLimit:
		d.limit(e, rev)
	case reserve.RefOverride:
		d.override(e, rev)
	case reserve.RefExceeded:
		ev := &Event{Type: LimitExceeded, LimitID: e.Ref.Limit, Scope: e.Ref.Scope, At: d.seen}
		if ev.Exceeded, _ = e.Value.(*reserve.Exceeded); ev.Exceeded != nil {
			ev.At = ev.Exceeded.At
		}
		d.add(e.Ref.Tenant, rev, ev)
	case reserve.RefTicket:
		d.joined(e, rev)
	}
}

// startOver forgets all tickets but those that stand.
func (d *deriver) startOver(stands []reserve.Entry) {
	clear(d.tickets)
	for i := range stands {
		if t, ok := stands[i].Value.(*reserve.Ticket); ok {
			d.tickets[stands[i].Ref] = t
		}
	}
}

// joined is what a ticket that was put means: one that stood there already was only handed on.
// A caller that moves from one line to another leaves and joins, at one revision: whether a
// deletion is a move or not would otherwise hang on what was told before.
func (d *deriver) joined(e *reserve.Entry, rev int64) {
	t, _ := e.Value.(*reserve.Ticket)
	if t != nil {
		d.tickets[e.Ref] = t
	}
	if e.Create < e.Mod {
		return
	}
	ev := &Event{Type: WaiterJoined, LimitID: e.Ref.Limit, Scope: e.Ref.Scope, At: d.seen, Ticket: t}
	if t != nil {
		ev.At, ev.ID = t.Since, t.ID
	}
	d.add(e.Ref.Tenant, rev, ev)
}

func (d *deriver) left(r *reserve.Ref, rev int64) {
	ev := &Event{Type: WaiterLeft, LimitID: r.Limit, Scope: r.Scope, At: d.seen, Ticket: d.tickets[*r]}
	if ev.Ticket != nil {
		ev.ID, ev.Granted = ev.Ticket.ID, d.begun[holdKey{r.Tenant, ev.Ticket.ID}]
		delete(d.tickets, *r)
	}
	d.add(r.Tenant, rev, ev)
}

// ends says what each way to end is as an event.
var ends = [...]Type{
	reserve.Held: 0, reserve.Committed: Committed, reserve.Released: Released, reserve.Expired: Expired,
	reserve.Forced: Forced, reserve.Aborted: 0,
}

func (d *deriver) reservation(t Type, e *reserve.Entry, r *reserve.Record, rev int64) {
	ev := &Event{Type: t, At: r.EndedAt, ID: r.ID, Fence: r.Fence}
	if t == Created {
		ev.At, ev.Fence = r.CreatedAt, e.Mod // record and slots are put together
	}
	ev.record.Store(r)
	d.add(e.Ref.Tenant, rev, ev)
}

func (d *deriver) extend(e *reserve.Entry, s *reserve.Slot, rev int64) {
	k := holdKey{e.Ref.Tenant, s.Hold}
	ev := d.extended[k]
	if ev == nil {
		ev = &Event{Type: Extended, At: s.Beat, ID: s.Hold, Fence: e.Create, Slot: s}
		d.extended[k] = ev
		d.add(e.Ref.Tenant, rev, ev)
	}
	if e.Ref.Kind == reserve.RefSlot {
		ev.Places = append(ev.Places, reserve.Place{Limit: e.Ref.Limit, Scope: e.Ref.Scope, N: e.Ref.N})
	}
}

func (d *deriver) limit(e *reserve.Entry, rev int64) {
	ev := &Event{Type: LimitChanged, LimitID: e.Ref.Limit, At: d.seen}
	if ev.Limit, _ = e.Value.(*limits.Limit); ev.Limit != nil { // nil: it cannot be read
		ev.At = ev.Limit.UpdatedAt
	}
	if e.Create == e.Mod {
		ev.Type = LimitCreated
	}
	d.add(e.Ref.Tenant, rev, ev)
}

func (d *deriver) override(e *reserve.Entry, rev int64) {
	ev := &Event{Type: LimitChanged, LimitID: e.Ref.Limit, Scope: e.Ref.Scope, At: d.seen}
	if ev.Override, _ = e.Value.(*limits.Override); ev.Override != nil {
		ev.At = ev.Override.CreatedAt
	}
	d.add(e.Ref.Tenant, rev, ev)
}

// drop is what the deletion of a key means. Overrides that went with their limit are not told.
func (d *deriver) drop(r *reserve.Ref, rev int64) {
	switch r.Kind {
	case reserve.RefLimit:
		d.add(r.Tenant, rev, &Event{Type: LimitDeleted, LimitID: r.Limit, At: d.seen})
	case reserve.RefOverride:
		if !d.deleted[limitKey{r.Tenant, r.Limit}] {
			d.add(r.Tenant, rev, &Event{Type: LimitChanged, LimitID: r.Limit, Scope: r.Scope, At: d.seen})
		}
	case reserve.RefTicket:
		d.left(r, rev)
	}
}
