package reserve

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Bounds of what is remembered of replicas that have gone.
const (
	goneKept = 15 * time.Minute
	mostGone = 32
)

// Peer is a replica as this one knows it, this one among them. One that ends tells nobody
// whether it meant to: of the gone it is only known that their marker has.
type Peer struct {
	Replica
	Own   bool
	Apart time.Duration // its clock less this one's, when its marker was last heard; about
	Gone  time.Time     // when its marker went; zero: it is live
}

// roster is the replicas by their markers. Safe for concurrent use.
type roster struct {
	own string

	mu  sync.Mutex
	all map[string]*Peer
}

// tell takes in one update of the watch.
func (r *roster) tell(u *Update, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	told := map[string]bool{}
	for i := range u.Entries {
		e := &u.Entries[i]
		if v, ok := e.Value.(*Replica); ok && e.Ref.Kind == RefReplica {
			told[e.Ref.Scope] = true
			p := &Peer{Replica: *v, Own: e.Ref.Scope == r.own}
			if !u.Reset && !p.Own { // else it may be old
				p.Apart = v.Clock.Sub(now.Round(0))
			}
			r.put(e.Ref.Scope, p)
		}
	}
	for i := range u.Deleted {
		if d := &u.Deleted[i].Ref; d.Kind == RefReplica {
			r.gone(d.Scope, now)
		}
	}
	if u.Reset {
		for id := range r.all {
			if !told[id] {
				r.gone(id, now)
			}
		}
	}
}

// put remembers a live replica. One that has gone from the same address is back with it.
func (r *roster) put(id string, p *Peer) {
	if r.all == nil {
		r.all = map[string]*Peer{}
	}
	for other, was := range r.all {
		if !was.Gone.IsZero() && was.Address == p.Address && p.Address != "" {
			delete(r.all, other)
		}
	}
	r.all[id] = p
}

// gone remembers for a while that a replica was there, unless another has its place already.
func (r *roster) gone(id string, now time.Time) {
	p := r.all[id]
	if p == nil || !p.Gone.IsZero() {
		return
	}
	p.Gone = now
	var oldest string
	n := 0
	for other, q := range r.all {
		if q != p && q.Gone.IsZero() && q.Address == p.Address && p.Address != "" {
			delete(r.all, id)
			return
		}
		if !q.Gone.IsZero() {
			if n++; oldest == "" || q.Gone.Before(r.all[oldest].Gone) {
				oldest = other
			}
		}
	}
	if n > mostGone {
		delete(r.all, oldest)
	}
}

// Replicas are those that are live as far as this one knows, itself first, and those that have
// gone in the last quarter of an hour while no other came to their address.
func (s *Service) Replicas() []Peer {
	now := s.cfg.Now()
	s.roster.mu.Lock()
	defer s.roster.mu.Unlock()
	var out []Peer
	for id, p := range s.roster.all {
		if !p.Gone.IsZero() && now.Sub(p.Gone) > goneKept {
			delete(s.roster.all, id)
			continue
		}
		one := *p
		one.ID = id
		out = append(out, one)
	}
	rank := func(p *Peer) int {
		switch {
		case p.Own:
			return 0
		case p.Gone.IsZero():
			return 1
		}
		return 2
	}
	slices.SortFunc(out, func(a, b Peer) int {
		return cmp.Or(cmp.Compare(rank(&a), rank(&b)), cmp.Compare(a.Address, b.Address), cmp.Compare(a.ID, b.ID))
	})
	return out
}
