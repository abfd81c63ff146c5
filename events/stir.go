package events

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/reserve"
)

// Stir is word that something of a tenant has changed, whatever it was. It is for those who look
// for themselves, and for whom a hundred changes are as good as one: nothing is kept for it,
// nothing looked up, and it cannot fall behind. It counts as a reader. It is used by one goroutine.
type Stir struct {
	hub    *Hub
	tenant string
	bell   chan struct{} // holds one
	leave  func()
}

// Stir lets somebody in. It must be closed. Errors: as Open's.
func (h *Hub) Stir(tenant, principal string) (*Stir, error) {
	r, err := h.Open(View{Tenant: tenant, Principal: principal})
	if err != nil {
		return nil, err
	}
	s := &Stir{hub: h, tenant: tenant, bell: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stirs[tenant] == nil {
		h.stirs[tenant] = map[*Stir]struct{}{}
	}
	h.stirs[tenant][s] = struct{}{}
	s.leave = sync.OnceFunc(func() {
		h.mu.Lock()
		delete(h.stirs[tenant], s)
		if len(h.stirs[tenant]) == 0 {
			delete(h.stirs, tenant)
		}
		h.mu.Unlock()
		r.Close()
	})
	return s, nil
}

// Close lets another in.
func (s *Stir) Close() { s.leave() }

// Wait returns when something has changed since it last returned, and after idle at the latest.
// Errors: ErrDraining, ctx's own.
func (s *Stir) Wait(ctx context.Context, idle time.Duration) error {
	over := time.NewTimer(idle)
	defer over.Stop()
	select {
	case <-s.bell:
		return nil
	case <-over.C:
		return nil
	case <-s.hub.drained:
		return ErrDraining
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stir rings for each tenant that u is about. What is told anew, and a replica that comes or
// goes, is for everybody. Under mu.
func (h *Hub) stir(u *reserve.Update) {
	if len(h.stirs) == 0 {
		return
	}
	everybody, last := u.Reset, ""
	about := func(r *reserve.Ref) {
		if r.Tenant != last {
			last = r.Tenant
			ringAll(h.stirs[last])
		}
	}
	for i := range u.Entries {
		e := &u.Entries[i]
		everybody = everybody || e.Ref.Kind == reserve.RefReplica && e.Create == e.Mod
		about(&e.Ref)
	}
	for i := range u.Deleted {
		everybody = everybody || u.Deleted[i].Ref.Kind == reserve.RefReplica
		about(&u.Deleted[i].Ref)
	}
	if everybody {
		for _, some := range h.stirs {
			ringAll(some)
		}
	}
}

func ringAll(some map[*Stir]struct{}) {
	for s := range some {
		select {
		case s.bell <- struct{}{}:
		default: // it has not looked since
		}
	}
}
