package events

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
)

// Reader is one reader's way through its tenant's events. It is used by one goroutine.
//
// It holds a position and nothing else: what it has not read yet is the hub's, within the hub's
// bound. A reader that falls behind that bound is dropped; it may come back with its position.
type Reader struct {
	hub   *Hub
	view  View
	pos   Pos  // everything up to here was given or passed over
	live  bool // it has come up with what the hub keeps
	epoch int
	asked bool  // whether the position has happened yet
	aside int64 // number of the last event that this replica alone tells
	last  time.Time
	leave func()
}

// Pos is how far the reader is: everything up to there was given to it, or was not for it.
func (r *Reader) Pos() Pos { return r.pos }

// Close lets another reader in.
func (r *Reader) Close() { r.leave() }

// Next waits for the next events that the view shows, in order, and gives at most a bounded
// number of them; none when idle has passed without any. A Gap comes first where events are
// missing.
//
// Errors: ErrSlow; ErrDraining; reserve.ErrUnavailable from the store; ctx's own. After any of
// them the reader is of no more use; its Pos is where to resume.
func (r *Reader) Next(ctx context.Context, idle time.Duration) ([]*Event, error) {
	over := time.NewTimer(idle)
	defer over.Stop()
	if err := r.rest(ctx); err != nil {
		return nil, err
	}
	for {
		es, wake, err := r.take(ctx)
		if err != nil {
			return nil, err
		}
		if len(es) > 0 {
			r.last = r.hub.cfg.Now()
			return es, nil
		}
		if wake == nil {
			continue // nothing of this batch was for it
		}
		select {
		case <-wake:
		case <-over.C:
			r.passOver()
			return nil, nil
		case <-r.hub.drained:
			return nil, ErrDraining
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// rest keeps readers from being woken for every revision when there are many of them.
func (r *Reader) rest(ctx context.Context) error {
	r.hub.mu.Lock()
	still := min(pace*time.Duration(r.hub.readers), mostPace) - r.hub.cfg.Now().Sub(r.last)
	r.hub.mu.Unlock()
	if r.last.IsZero() || still <= 0 {
		return nil
	}
	timer := time.NewTimer(still)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-r.hub.drained:
		return ErrDraining
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// take is what comes next, from memory or from history. wake is closed when there may be more;
// nil: look again at once.
func (r *Reader) take(ctx context.Context) (es []*Event, wake <-chan struct{}, err error) {
	h := r.hub
	h.mu.Lock()
	ring := h.ring(r.view.Tenant)
	es, here := ring.after(r.pos, maxBatch)
	es, wake = slices.Clone(es), ring.wake
	asides := h.asidesAfter(r.aside, r.view.Tenant)
	r.aside = h.aside
	told, epoch, ahead := h.rev, h.epoch, r.pos.Rev > h.rev
	h.mu.Unlock()
	switch {
	case !here && r.live && r.epoch == epoch:
		h.metrics.dropped.Inc()
		return nil, nil, ErrSlow
	case !here:
		r.live = false
		es, err = r.history(ctx, told)
		return es, nil, err
	case ahead && !r.asked:
		return r.lookAhead(ctx)
	}
	r.live, r.epoch = true, epoch
	last := r.pos
	if len(es) > 0 {
		last = es[len(es)-1].Pos
	}
	if es = append(es, asides...); len(es) == 0 {
		return nil, wake, nil
	}
	if es, err = r.seen(ctx, es); err != nil {
		return nil, nil, err
	}
	r.pos = last
	return es, nil, nil
}

// seen leaves of es what the view shows. It makes es shorter in place.
func (r *Reader) seen(ctx context.Context, es []*Event) ([]*Event, error) {
	if len(r.view.Types) > 0 {
		es = slices.DeleteFunc(es, func(e *Event) bool { return !slices.Contains(r.view.Types, e.Type) })
	}
	if err := r.hub.lookUp(ctx, es); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(es, func(e *Event) bool { return !r.shows(e) }), nil
}

func (r *Reader) shows(e *Event) bool {
	v := &r.view
	subject, principal := e.Who()
	none := subject == limits.Subject{}
	switch {
	case v.NoLocal && e.Local():
		return false
	case v.Sees != nil && (none || !v.Sees(subject, principal)),
		v.Subject != limits.Subject{} && subject != v.Subject,
		v.Limit != "" && !slices.Contains(e.Limits(), v.Limit):
		return false
	}
	return true
}

// passOver moves a reader that has come up with the hub past what was told and was not for it:
// when it resumes from there, nothing need be looked for.
func (r *Reader) passOver() {
	r.hub.mu.Lock()
	defer r.hub.mu.Unlock()
	if es, here := r.hub.ring(r.view.Tenant).after(r.pos, 1); here && len(es) == 0 && r.pos.Rev < r.hub.rev {
		r.pos = Pos{Rev: r.hub.rev, Index: Whole}
	}
}
