package reserve

import (
	"maps"
	"slices"
	"time"
)

// picture is the keyspace as this replica knows it: slots, holds and catalogues whole, by the
// watch; usage and records as far as they were met. It may be behind the store, never ahead.
//
// Amounts (limits, overrides) come only by the watch, in order. Slots, usage and records are
// also patched with what own transactions wrote and with what lost ones brought back; of two
// tellings of one key the later revision wins. So the slots are always at least as new as the
// catalogue, which the rule of usable slots needs (DESIGN.md section 3). Not safe for
// concurrent use: the desk's lock guards it.
type picture struct {
	rev      int64 // the watch has told everything up to here
	loaded   bool
	epoch    time.Time // moments count from here
	tenants  map[string]*tenantView
	sets     map[setKey]*slotSet
	holds    map[holdKey]*live
	replicas map[string]time.Duration
	clocks   map[string]time.Duration // of those heard since the reset: their clock less ours, when last told
	members  []string                 // ids of live replicas, sorted
	replica  string                   // this one's
	names    *names
	cache    *cache
	odds     odds
	tombs    map[Ref]int64 // deleted at a revision the watch has not reached
	buried   []Deleted     // the same, in the order they were learnt
	telling  bool          // what is patched now comes by the watch
	glass    glass
	lines    lines
	lengths  map[limitKey]time.Duration // how long holds lasted, about
	owed     map[holdKey]owing          // slots freed, record not settled yet
	orphaned func(tenant string, id ID) // a slot went and its record may be open still
}

type holdKey struct {
	tenant string
	id     ID
}

func newPicture(packer Packer) *picture {
	n := newNames()
	p := &picture{names: n, cache: newCache(cachedEntries, packer, n), tombs: map[Ref]int64{}, owed: map[holdKey]owing{}, orphaned: func(string, ID) {}}
	p.lines.overtook, p.lines.told, p.lines.unreceived = func() {}, func(*ticketAt, bool) {}, map[holdKey]struct{}{}
	return p
}

// reset forgets what the watch had told; cached entries are only guesses and go too.
func (p *picture) reset() {
	p.tenants, p.sets, p.holds = map[string]*tenantView{}, map[setKey]*slotSet{}, map[holdKey]*live{}
	p.replicas, p.tombs, p.buried = map[string]time.Duration{}, map[Ref]int64{}, nil
	p.names = newNames()
	p.cache = newCache(cachedEntries, p.cache.packer, p.names)
	p.clocks = map[string]time.Duration{}
	p.glass, p.members = p.glass[:0], nil
	p.lines.reset()
}

// tell takes in one update of the watch, seen at now.
func (p *picture) tell(u Update, now time.Time) {
	if u.Reset {
		p.reset()
	}
	p.telling = true
	defer func() { p.telling = false }()
	var gone []holdKey
	moved := map[string]bool{}
	for i := range u.Entries {
		e := &u.Entries[i]
		if e.Ref.Kind <= RefBlock {
			p.tellCatalog(e.Ref, e, moved)
			continue
		}
		if u.Reset && e.Ref.Kind == RefReplica {
			p.member(e.Ref.Scope) // it may be old, or of a replica that is dead: no clock to compare with
			continue
		}
		p.patch(*e, now)
	}
	for _, d := range u.Deleted {
		switch {
		case d.Ref.Kind <= RefBlock:
			p.tellCatalog(d.Ref, nil, moved)
		case d.Ref.Kind == RefSlot, d.Ref.Kind == RefHold:
			if l, _ := p.placeOf(d.Ref); l != nil {
				gone = append(gone, holdKey{l.tenant, l.id})
			}
			p.erase(d.Ref, d.Rev)
		default:
			p.erase(d.Ref, d.Rev)
		}
	}
	for tenant := range moved {
		p.tenants[tenant].rebuild()
		p.lines.stirAll(tenant)
	}
	p.rev, p.loaded = max(p.rev, u.Rev), true
	p.buryTombs()
	p.lines.lookBack(p.rev)
	p.findOrphans(gone, u.Deleted)
}

// findOrphans speaks of holds whose slots went while their record did not: nobody settled them.
func (p *picture) findOrphans(gone []holdKey, deleted []Deleted) {
	if len(gone) == 0 {
		return
	}
	settled := make(map[holdKey]struct{}, len(gone)) // thousands may end in one transaction
	for i := range deleted {
		if r := &deleted[i].Ref; r.Kind == RefOpen {
			settled[holdKey{r.Tenant, r.ID}] = struct{}{}
		}
	}
	for _, k := range gone {
		if _, ok := settled[k]; !ok {
			p.orphaned(k.tenant, k.id)
		}
	}
}

// patch takes in what stands under a key, unless something later is known.
func (p *picture) patch(e Entry, now time.Time) {
	if e.Mod == 0 {
		return // absent: erase says so, with the revision it was absent at
	}
	switch e.Ref.Kind {
	case RefSlot, RefHold:
		p.patchSlot(e, now)
	case RefReplica:
		if v, ok := e.Value.(*Replica); ok {
			p.member(e.Ref.Scope)
			p.clocks[e.Ref.Scope] = v.Clock.Sub(now.Round(0))
		}
	case RefUsage, RefOpen, RefEnded, RefReplay:
		if mod, ok := p.cache.knows(e.Ref); ok && mod < e.Mod && p.tombs[e.Ref] < e.Mod {
			p.cache.put(e)
		} else if !ok && p.tombs[e.Ref] < e.Mod && p.awaited(&e) {
			p.cache.put(e)
		}
		if e.Ref.Kind == RefUsage {
			p.lines.stirUsage(e.Ref)
		}
	case RefTicket:
		if p.tombs[e.Ref] < e.Mod && (p.telling || e.Mod > p.rev || p.ticketEntry(e.Ref).Mod != 0) {
			p.lines.patch(e)
		}
	}
}

// awaited says whether e is the record of a hold that somebody waits for the end of: whoever is
// told to end it need not read it first.
func (p *picture) awaited(e *Entry) bool {
	rec, ok := e.Value.(*Record)
	if !ok || e.Ref.Kind != RefOpen || !p.telling || len(p.lines.byScope) == 0 {
		return false
	}
	for i := range rec.Places {
		if p.lines.length(lineName{e.Ref.Tenant, rec.Places[i].Limit, rec.Places[i].Scope}) > 0 {
			return true
		}
	}
	return false
}

// learn is patch for an entry that was asked for: it is remembered even when it is new.
// rev is the revision it was read or written at.
func (p *picture) learn(e Entry, rev int64, now time.Time) {
	if e.Ref.Kind <= RefBlock {
		return // amounts come only by the watch
	}
	if e.Mod == 0 {
		p.erase(e.Ref, rev)
	} else {
		p.patch(e, now)
	}
	switch e.Ref.Kind {
	case RefUsage, RefOpen, RefEnded, RefReplay:
		if mod, ok := p.cache.knows(e.Ref); !ok || mod < e.Mod || e.Mod == 0 && mod <= rev {
			p.cache.put(e)
			if e.Ref.Kind == RefUsage {
				p.lines.stirUsage(e.Ref)
			}
		}
	}
}

// wrote is learn for what an own transaction left. What has ended is not remembered: hardly
// anybody asks again, and it would push out what is in use.
func (p *picture) wrote(e Entry, rev int64, now time.Time) {
	switch {
	case e.Ref.Kind == RefEnded, e.Ref.Kind == RefReplay && e.Mod != 0:
		p.patch(e, now)
	case e.Ref.Kind == RefOpen && e.Mod == 0:
		p.erase(e.Ref, rev)
	default:
		p.learn(e, rev, now)
	}
}

// erase takes in that nothing stood under a key at revision rev.
func (p *picture) erase(r Ref, rev int64) {
	switch r.Kind {
	case RefSlot, RefHold:
		l, at := p.placeOf(r)
		if at == nil || at.mod > rev {
			return
		}
		p.lift(l, at)
	case RefTicket:
		p.lines.erase(r, rev)
	case RefReplica:
		delete(p.replicas, r.Scope)
		delete(p.clocks, r.Scope)
		p.members = slices.Sorted(maps.Keys(p.replicas))
	default:
		if mod, ok := p.cache.knows(r); ok && mod <= rev {
			p.cache.drop(r)
		}
		if r.Kind == RefUsage {
			p.lines.stirUsage(r)
		}
	}
	if rev > p.rev {
		p.tombs[r] = rev
		p.buried = append(p.buried, Deleted{Ref: r, Rev: rev})
	}
}

func (p *picture) member(id string) {
	p.replicas[id] = 0
	p.members = slices.Sorted(maps.Keys(p.replicas))
}

// offsets are how far the clocks of all live replicas are from this one's, ascending.
func (p *picture) offsets() []time.Duration {
	out := []time.Duration{0}
	for id, off := range p.clocks {
		if id != p.replica {
			out = append(out, off)
		}
	}
	slices.Sort(out)
	return out
}

// buryTombs forgets deletions the watch has told of, or passed.
func (p *picture) buryTombs() {
	n := 0
	for n < len(p.buried) && p.buried[n].Rev <= p.rev {
		if d := p.buried[n]; p.tombs[d.Ref] <= p.rev {
			delete(p.tombs, d.Ref)
		}
		n++
	}
	p.buried = p.buried[n:]
}
