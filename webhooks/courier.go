package webhooks

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/events"
	"github.com/holdfast-dev/holdfast/reserve"
)

// Times and bounds of a courier.
const (
	flushEvery   = 500 * time.Millisecond // what was accepted within it may be sent again after a crash
	placeEvery   = 10 * time.Second       // history goes back a minute: a place that moved is kept well within it
	idleAfter    = 5 * time.Second
	callWithin   = 2 * time.Second // of the store
	afterTrouble = time.Second
	lastFlights  = 2 * time.Second // that are under way when the duty is given back

	parcelBytes = 64 << 10  // of one parcel, about
	writeBytes  = 256 << 10 // of one transaction, about
	maxParcels  = 24        // of one transaction
	maxBody     = 48 << 10  // of one event
)

// errMoved says that the duty, the webhook or its delivery is not what this courier knows.
var errMoved = errors.New("webhooks: another replica has gone on")

// courier reads, queues and sends what is for one webhook, while this replica has the duty. One
// goroutine owns it; deliveries run beside it.
type courier struct {
	d      *Dispatcher
	key    hookKey
	create int64 // revision of the webhook
	duty   int64 // create revision of the duty's key
	hook   atomic.Pointer[reserve.Webhook]

	state   reserve.Delivery
	mod     int64
	q       queue
	dirty   bool
	flushed time.Time
	placed  time.Time // when the place was last kept
	trouble time.Time // until when nothing is begun, since the store does not take what was done
	flights int
	landed  chan landing
	cut     context.CancelFunc // ends deliveries under way
}

type landing struct {
	letter *letter
	attempt
}

// batch is what the stream told: events, and how far it is.
type batch struct {
	events []*events.Event
	at     events.Pos
}

// run ends with ctx, or with an error after which another courier is to begin from what the
// store has. hurry ends deliveries that are under way.
func (c *courier) run(ctx, hurry context.Context) error {
	if err := c.load(ctx); err != nil {
		return err
	}
	reading, stop := context.WithCancel(ctx)
	in, read := make(chan batch), make(chan struct{})
	go func() {
		defer close(read)
		c.read(reading, in)
	}()
	defer func() { stop(); <-read }()
	hurry, c.cut = context.WithCancel(hurry)
	defer c.cut()
	c.landed = make(chan landing, mostFlights)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(c.begin(hurry))
		from := in
		if c.q.full() || c.inTrouble() {
			from = nil
		}
		var err error
		select {
		case b := <-from:
			err = c.take(ctx, b)
		case l := <-c.landed:
			c.settle(l)
		case <-timer.C:
			err = c.flushIfDue(ctx)
		case <-ctx.Done():
			return c.finish(hurry)
		}
		if err = c.cope(err); err != nil {
			c.abandon()
			return err
		}
	}
}

// maxStream is how many events the stream gives at once, at most.
const maxStream = 1_024

func (c *courier) inTrouble() bool { return c.d.cfg.Now().Before(c.trouble) }

// cope waits out a store that is away. What was accepted meanwhile is remembered, and nothing
// more is sent until it can be written down.
func (c *courier) cope(err error) error {
	if errors.Is(err, reserve.ErrUnavailable) || errors.Is(err, reserve.ErrFull) {
		c.trouble = c.d.cfg.Now().Add(afterTrouble)
		return nil
	}
	return err
}

// load is what the store has: how far the webhook is, and its outbox.
func (c *courier) load(ctx context.Context) error {
	got, err := c.d.load(ctx, c.ref(reserve.RefDelivery, 0))
	if err != nil {
		return err
	}
	e := got.Entries[0]
	c.state, c.mod = reserve.Delivery{Rev: c.create, Index: events.Whole}, e.Mod
	if e.Fault != nil {
		return fmt.Errorf("webhooks: how far %s is cannot be read: %w", c.key.id, e.Fault)
	}
	if v, ok := e.Value.(*reserve.Delivery); ok {
		c.state = *v
	}
	for at := c.state.First; at < c.state.Next; at += maxParcels {
		var refs []reserve.Ref
		for n := at; n < min(at+maxParcels, c.state.Next); n++ {
			refs = append(refs, c.ref(reserve.RefParcel, n))
		}
		got, err := c.d.load(ctx, refs...)
		if err != nil {
			return err
		}
		for i := range got.Entries {
			if p, ok := got.Entries[i].Value.(*reserve.Parcel); ok {
				c.q.add(got.Entries[i].Ref.N, p)
			}
		}
	}
	c.count()
	return nil
}

func (c *courier) ref(kind reserve.RefKind, n int64) reserve.Ref {
	return reserve.Ref{Tenant: c.key.tenant, Kind: kind, Scope: c.key.id, N: n}
}

// read hands on what the stream tells, from where the webhook is.
func (c *courier) read(ctx context.Context, to chan<- batch) {
	at := events.Pos{Rev: c.state.Rev, Index: int(c.state.Index)}
	view := events.View{Tenant: c.key.tenant, Principal: principal, After: &at, NoLocal: true}
	for _, word := range c.hook.Load().Events {
		if t, ok := events.ParseType(word); ok {
			view.Types = append(view.Types, t)
		}
	}
	for ctx.Err() == nil {
		reader, err := c.d.cfg.Events.Open(view)
		for err == nil {
			var b batch
			if b.events, err = reader.Next(ctx, idleAfter); err != nil {
				break
			}
			b.at = reader.Pos()
			select {
			case to <- b:
				at = b.at
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		if reader != nil {
			reader.Close()
		}
		if !errors.Is(err, events.ErrSlow) && !rest(ctx, afterTrouble) {
			return
		}
	}
}

// principal is whose readers a webhook's count to.
const principal = "webhooks"

// take puts events into the outbox, and with them how far the stream was read.
func (c *courier) take(ctx context.Context, b batch) error {
	if len(b.events) == 0 {
		if c.state.Rev != b.at.Rev || c.state.Index != int64(b.at.Index) {
			c.state.Rev, c.state.Index = b.at.Rev, int64(b.at.Index)
			if c.d.cfg.Now().Sub(c.placed) >= placeEvery {
				return c.write(ctx, nil, c.state)
			}
		}
		return nil
	}
	letters := c.letters(b.events)
	state := c.state
	for first := true; first || len(letters) > 0; first = false {
		var writes []reserve.Write
		var parcels []*reserve.Parcel
		total, from := 0, state.Next
		for len(letters) > 0 && len(writes) < maxParcels && total < writeBytes {
			var p *reserve.Parcel
			var size int
			p, letters, size = cut(letters)
			total += size
			parcels = append(parcels, p)
			writes = append(writes, reserve.Write{Ref: c.ref(reserve.RefParcel, state.Next), Value: p})
			state.Next++
			state.Queued += int64(len(p.Events))
			last := p.Events[len(p.Events)-1].ID
			if pos, err := events.ParsePos(last); err == nil {
				state.Rev, state.Index = pos.Rev, int64(pos.Index)
			}
		}
		if len(letters) == 0 {
			state.Rev, state.Index = b.at.Rev, int64(b.at.Index)
		}
		if err := c.insist(ctx, writes, state); err != nil {
			return err
		}
		for i, p := range parcels {
			c.q.add(from+int64(i), p)
		}
		state = c.state
	}
	c.count()
	return nil
}

// insist writes until that is done: what was read off the stream is not read again.
func (c *courier) insist(ctx context.Context, writes []reserve.Write, state reserve.Delivery) error {
	for {
		err := c.write(ctx, writes, state)
		if c.cope(err) != nil || err == nil {
			return err
		}
		if !rest(ctx, afterTrouble) {
			return ctx.Err()
		}
	}
}

// letters are events as they are sent. One that cannot be, or is far too large, is given up.
func (c *courier) letters(es []*events.Event) (out []reserve.Letter) {
	now := c.d.cfg.Now().UTC().Truncate(time.Millisecond)
	for _, e := range es {
		body, err := c.d.cfg.Encode(e)
		if err != nil || len(body) > maxBody {
			c.giveUp("too large")
			continue
		}
		if e.Type == events.Gap {
			c.state.Gaps++
			c.d.metrics.gaps.Inc()
		}
		out = append(out, reserve.Letter{ID: e.Pos.String(), Type: e.Type.String(), At: now, Limits: e.Limits(), Body: body})
	}
	return out
}

// cut takes a parcel off letters.
func cut(letters []reserve.Letter) (p *reserve.Parcel, left []reserve.Letter, size int) {
	n := 0
	for n < len(letters) && n < reserve.MaxLetters && (n == 0 || size+len(letters[n].Body) <= parcelBytes) {
		size += len(letters[n].Body)
		n++
	}
	return &reserve.Parcel{Events: letters[:n:n]}, letters[n:], size
}

// write puts writes and how far the webhook is in one transaction, if all is as this courier
// knows it. Errors: errMoved; those of reserve.Store.Apply.
func (c *courier) write(ctx context.Context, writes []reserve.Write, state reserve.Delivery) error {
	ref := c.ref(reserve.RefDelivery, 0)
	g := reserve.Group{
		Tenant: c.key.tenant, Catalog: reserve.AnyCatalog,
		Guards: []reserve.Guard{
			{Ref: dutyRef, Cond: reserve.CreateIs, Rev: c.duty},
			{Ref: c.ref(reserve.RefWebhook, 0), Cond: reserve.CreateIs, Rev: c.create},
			{Ref: ref, Cond: reserve.ModIs, Rev: c.mod},
		},
		Writes: append(writes, reserve.Write{Ref: ref, Value: &state}),
	}
	res, err := c.d.apply(ctx, g)
	if err != nil {
		return err
	}
	if !res.Outcomes[0].Committed {
		return errMoved
	}
	c.state, c.mod, c.dirty = state, res.Rev, c.dirty && len(c.q.changed(1)) > 0
	c.placed = c.d.cfg.Now()
	return nil
}

// flushIfDue writes down what was sent.
func (c *courier) flushIfDue(ctx context.Context) error {
	if !c.dirty || c.d.cfg.Now().Sub(c.flushed) < flushEvery || c.inTrouble() {
		return nil
	}
	return c.flush(ctx)
}

func (c *courier) flush(ctx context.Context) error {
	c.flushed = c.d.cfg.Now()
	for c.dirty {
		ps := c.q.changed(maxParcels)
		var writes []reserve.Write
		for _, p := range ps {
			w := reserve.Write{Ref: c.ref(reserve.RefParcel, p.rank)}
			if rest := p.rest(); rest != nil {
				w.Value = rest
			}
			writes = append(writes, w)
		}
		state := c.state
		state.First, state.Queued = c.q.first(state.Next), int64(c.q.left)
		if err := c.write(ctx, writes, state); err != nil {
			return err
		}
		c.q.written(ps)
		c.dirty = len(c.q.changed(1)) > 0
	}
	return c.closeUp(ctx)
}
