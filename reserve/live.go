package reserve

import "time"

// moment is an instant of this replica's monotonic clock, in nanoseconds since its picture was
// begun; 0 is none. A time.Time takes three times the room, and there are four in a hold.
type moment int64

// at is t as a moment. The picture begins a second before the first one it is asked for, so that
// none is 0.
func (p *picture) at(t time.Time) moment {
	if p.epoch.IsZero() {
		p.epoch = t.Add(-time.Second)
	}
	return moment(t.Sub(p.epoch))
}

func (p *picture) when(m moment) time.Time { return p.epoch.Add(time.Duration(m)) }

func (m moment) plus(d time.Duration) moment { return m + moment(d) }

// reading is one look at both clocks: the monotonic one, and the wall's in nanoseconds since the
// Unix epoch.
type reading struct {
	mono moment
	wall int64
}

func (p *picture) read(now time.Time) reading { return reading{p.at(now), now.UnixNano()} }

// live is one hold as the watched keyspace shows it: its slots, and the sand-glass it runs by.
// There may be a million: what is rare is behind a pointer, and one slot has its room inside.
type live struct {
	tenant string
	id     ID
	places []placed
	room   [1]placed
	ttl    time.Duration
	since  int64 // milliseconds since the Unix epoch
	beat   int64 // the same
	beats  int64

	ends  moment // when the glass runs out; never early
	due   moment // when this replica ends it: at once, or a little later when another one should
	told  moment // what the caller was told, when this replica granted or extended it; else 0
	index int    // in the glass; -1 when it is not there
	rare  *rare
}

// rare is what most holds have not.
type rare struct {
	name, host string
	fault      error // its slot's value cannot be read
}

// placed is one slot (or hold key) of a live hold.
type placed struct {
	set         *slotSet // nil: the hold key
	n           int64    // of the slot
	create, mod int64
	lease       LeaseID
}

func (l *live) ref(at *placed) Ref {
	if at.set == nil {
		return Ref{Tenant: l.tenant, Kind: RefHold, ID: l.id}
	}
	return at.set.ref(at.n)
}

func (l *live) fault() error {
	if l.rare == nil {
		return nil
	}
	return l.rare.fault
}

// worker is the name and host the holder gave.
func (l *live) worker() (name, host string) {
	if l.rare == nil {
		return "", ""
	}
	return l.rare.name, l.rare.host
}

// slot is the value of its slots, without the last beat.
func (l *live) slot() *Slot {
	s := &Slot{Hold: l.id, TTL: l.ttl, Since: l.sinceTime(), Beats: l.beats}
	s.Name, s.Host = l.worker()
	return s
}

func (l *live) sinceTime() time.Time { return time.UnixMilli(l.since).UTC() }
func (l *live) beatTime() time.Time  { return time.UnixMilli(l.beat).UTC() }

// fence is the create revision its slots share: they were all put by one transaction.
func (l *live) fence() int64 {
	if len(l.places) == 0 {
		return 0
	}
	return l.places[0].create
}

// left is the time the hold has for certain, at now: never more than its holder was told,
// and never more than the wall clock of the replica that wrote the slot leaves.
func (l *live) left(now reading) time.Duration {
	left := time.Duration(l.promise() - now.mono)
	if byWall := time.Duration(l.beat*int64(time.Millisecond)-now.wall) + l.ttl; l.told == 0 && byWall < left {
		left = byWall
	}
	return max(left, 0)
}

// promise is the end the holder was told of when that is known, else the glass's.
func (l *live) promise() moment {
	if l.told != 0 && l.told < l.ends {
		return l.told
	}
	return l.ends
}

// placeOf is the live hold in a slot or under a hold key, and its place there; nil when there
// is none.
func (p *picture) placeOf(r Ref) (*live, *placed) {
	var l *live
	var s *slotSet
	if r.Kind == RefHold {
		l = p.holds[holdKey{r.Tenant, r.ID}]
	} else if s = p.sets[p.names.key(r)]; s != nil {
		l = s.holder(r.N)
	}
	if l != nil {
		for i := range l.places {
			if at := &l.places[i]; at.set == s && at.n == r.N {
				return l, at
			}
		}
	}
	return l, nil
}

// noEnd is how far off the end of a slot is taken to be that cannot be read.
const noEnd = 24 * time.Hour

func (p *picture) patchSlot(e Entry, now time.Time) {
	if p.tombs[e.Ref] >= e.Mod {
		return
	}
	l, at := p.placeOf(e.Ref)
	if e.Mod <= p.rev && !p.telling && l == nil {
		return // an answer that comes after the watch has told of the slot's end
	}
	if l != nil {
		if at == nil || at.mod >= e.Mod {
			return
		}
		if v, ok := e.Value.(*Slot); ok && v.Hold == l.id && at.create == e.Create {
			at.mod, at.lease = e.Mod, e.Lease
			p.beat(l, v, now)
			return
		}
		p.lift(l, at)
	}
	p.place(e, now)
}

// place puts a slot that is new to us.
func (p *picture) place(e Entry, now time.Time) {
	v, ok := e.Value.(*Slot)
	if !ok {
		v = &Slot{Hold: e.Ref.ID} // it cannot be read: the slot counts as taken, by nobody, without an end
	}
	k := holdKey{e.Ref.Tenant, v.Hold}
	l := p.holds[k]
	if l == nil || !ok {
		l = &live{tenant: e.Ref.Tenant, id: v.Hold, index: -1, since: v.Since.UnixMilli(), ends: p.at(now).plus(noEnd)}
		l.places = l.room[:0]
		if v.Name != "" || v.Host != "" || e.Fault != nil {
			l.rare = &rare{v.Name, v.Host, e.Fault}
		}
	}
	if ok || e.Ref.Kind == RefHold {
		p.holds[k] = l
	}
	at := placed{n: e.Ref.N, create: e.Create, mod: e.Mod, lease: e.Lease}
	if e.Ref.Kind == RefSlot {
		at.set = p.set(p.names.key(e.Ref))
		at.set.seat(e.Ref.N, l)
		at.set.mark(e.Ref.N)
		at.set.learnt = max(at.set.learnt, e.Mod)
		at.set.changed()
	}
	l.places = append(l.places, at)
	if ok {
		p.beat(l, v, now)
	}
}

// beat starts the hold's glass anew: the change was committed before now, when it is seen.
func (p *picture) beat(l *live, v *Slot, now time.Time) {
	l.ttl, l.beat, l.beats = v.TTL, v.Beat.UnixMilli(), v.Beats
	l.ends, l.told = p.at(now).plus(v.TTL), 0
	l.due = l.ends
	if !p.owns(l.id) {
		l.due = l.ends.plus(secondAfter)
	}
	p.glass.put(l)
	l.stir()
}

// stir makes the sets of a hold look again for the holds that end first.
func (l *live) stir() {
	for i := range l.places {
		if s := l.places[i].set; s != nil {
			s.changed()
		}
	}
}

// lift takes one slot away from a hold; the hold goes with its last.
func (p *picture) lift(l *live, at *placed) {
	if s := at.set; s != nil {
		s.vacate(at.n)
		s.clear(at.n)
		s.changed()
		p.lines.stirSet(s.key)
		if s.count == 0 {
			delete(p.sets, s.key)
		}
	}
	last := len(l.places) - 1
	*at = l.places[last]
	l.places[last] = placed{}
	l.places = l.places[:last]
	if len(l.places) == 0 {
		p.glass.take(l)
		if k := (holdKey{l.tenant, l.id}); p.holds[k] == l {
			delete(p.holds, k)
		}
	}
}
