package events

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-dev/holdfast/reserve"
)

// history reads what comes after the reader's position from the store, up to told and at most a
// batch. Where some of it is not kept any more it gives a Gap, and goes on after that.
func (r *Reader) history(ctx context.Context, told int64) ([]*Event, error) {
	select {
	case r.hub.past <- struct{}{}:
		defer func() { <-r.hub.past }()
	case <-r.hub.drained:
		return nil, ErrDraining
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	after := r.pos.Rev
	if r.pos.Index < Whole {
		after-- // the rest of that revision, too
	}
	var es []*Event
	full := false
	d := newDeriver()
	err := r.hub.cfg.History.History(ctx, r.view.Tenant, after, told, func(u reserve.Update) bool {
		for _, e := range d.derive(u, time.Time{}) {
			if r.pos.before(e.Pos) {
				es = append(es, e)
			}
		}
		full = len(es) >= maxBatch
		return !full
	})
	var gone *reserve.CompactedError
	if errors.As(err, &gone) && len(es) == 0 {
		return r.gap(r.hub.keptFrom(r.view.Tenant, Pos{Rev: gone.Rev, Index: Whole})), nil
	}
	if err != nil && len(es) == 0 {
		return nil, err
	}
	last := Pos{Rev: told, Index: Whole}
	if len(es) > 0 && (full || err != nil) {
		last = Pos{Rev: es[len(es)-1].Rev, Index: Whole} // a revision is told whole
	}
	if es, err = r.seen(ctx, es); err != nil {
		return nil, err
	}
	r.pos = last
	return es, nil
}

// keptFrom is from where on events are known when the store's history begins after pos: a hub may
// have kept what was told before.
func (h *Hub) keptFrom(tenant string, pos Pos) Pos {
	h.mu.Lock()
	defer h.mu.Unlock()
	if start := h.ring(tenant).start; start.before(pos) {
		return start
	}
	return pos
}

// gap says that what happened after the reader's position and up to pos is not known any more.
func (r *Reader) gap(pos Pos) []*Event {
	r.hub.metrics.gaps.Inc()
	e := &Event{Type: Gap, Tenant: r.view.Tenant, Pos: pos, After: r.pos}
	r.pos = e.Pos
	return []*Event{e}
}

// lookAhead judges a position that this replica has not come to. Another replica may have been
// told sooner; but a position that has not happened at all is one of another store, or of this
// one before it was lost.
func (r *Reader) lookAhead(ctx context.Context) ([]*Event, <-chan struct{}, error) {
	got, err := r.hub.cfg.Store.Load(ctx, nil, true)
	if err != nil {
		return nil, nil, err
	}
	r.asked = true
	if r.pos.Rev <= got.Rev {
		return nil, nil, nil
	}
	r.hub.mu.Lock()
	told := r.hub.rev
	r.hub.mu.Unlock()
	return r.gap(Pos{Rev: told, Index: Whole}), nil, nil
}

// lookUp finds the records that extends are about: what was put tells the hold and not always
// whose it is. Records are remembered from when they began; others are read, open or ended.
func (h *Hub) lookUp(ctx context.Context, es []*Event) error {
	var missing []*Event
	h.mu.Lock()
	for _, e := range es {
		if e.Type != Extended || e.record.Load() != nil {
			continue
		}
		k := holdKey{e.Tenant, e.ID}
		if r := h.recent[0][k]; r != nil {
			e.record.Store(r)
		} else if r := h.recent[1][k]; r != nil {
			e.record.Store(r)
		} else {
			missing = append(missing, e)
		}
	}
	h.mu.Unlock()
	if len(missing) == 0 {
		return nil
	}
	refs := make([]reserve.Ref, 0, 2*len(missing))
	for _, e := range missing {
		refs = append(refs, reserve.Ref{Tenant: e.Tenant, Kind: reserve.RefOpen, ID: e.ID}, reserve.Ref{Tenant: e.Tenant, Kind: reserve.RefEnded, ID: e.ID})
	}
	got, err := h.cfg.Store.Load(ctx, refs, false)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, e := range missing {
		found := nobody
		for _, stands := range got.Entries[2*i : 2*i+2] {
			if r, ok := stands.Value.(*reserve.Record); ok && r.State != reserve.Aborted {
				found = r
				h.recent[1][holdKey{e.Tenant, e.ID}] = r // of the older half, which is let go first
			}
		}
		e.record.Store(found)
	}
	return nil
}
