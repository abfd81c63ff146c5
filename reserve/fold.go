package reserve

import (
	"slices"
	"time"
)

// fold is one batch in the making: what its requests have decided so far, on top of the
// picture. A later request of the batch is decided on what an earlier one leaves, and both
// become one guarded write.
//
// Three rules keep it safe. Requests that share a key are in one group, so no two nested
// transactions touch a key. A slot freed here still counts as taken, so no write gives away
// what it frees. Nothing decided on a folded value is answered before its group is committed.
type fold struct {
	p      *picture
	now    time.Time // real clock, for glasses
	busy   func(Ref) bool
	skewed bool // this clock stepped: no window can be judged
	shared bool // other replicas write too: a group that loses brings back what it lost to
	cells  map[Ref]*cell
	sketch draft // of the request that is being decided
	slabs  [][]cell
	guards []Guard // what plan fills
	reads  []Ref
	writes []Write
	used   int                    // cells
	order  []*cell                // as they were met, so that a batch is the same from run to run
	lines  map[lineName]*foldLine // what the batch does to lines
	jobs   int
	groups int
	widest int // operations of the widest group
	bytes  int // estimate of what it puts
}

// slabOf is how many cells are made at a time.
const slabOf = 32

// cell is one key a batch depends on.
type cell struct {
	base    Entry // as the picture knew it when the batch first asked
	value   any   // as the batch leaves it
	written bool
	guessed bool // the picture had not met it: the batch takes it to be absent
	write   Write
	guards  []Guard
	group   *group

	room [1]Guard // most keys are compared once
}

// group is requests that share a key, as a union-find node.
type group struct {
	into    *group
	tenant  string
	catalog int64
	noLine  bool
	jobs    []*job
	cells   []*cell
	chosen  []Ref // slots picked
	planned bool
	guards  int // comparisons of all its cells

	room struct {
		jobs  [1]*job
		cells [6]*cell
	}
}

func (g *group) root() *group {
	for g.into != nil {
		g = g.into
	}
	return g
}

// width is the operations the group's nested transaction has at most on one side: a key is
// written and read once.
func (g *group) width() int { return max(g.guards, len(g.cells)) }

// read is what stands under r for the next request of the batch; known is false when the
// picture has not met it.
func (f *fold) read(r Ref) (e Entry, known bool) {
	if c, ok := f.cells[r]; ok {
		e = c.base
		if c.written && !r.isSet() {
			e.Value = c.value
			if c.value == nil {
				e = Entry{Ref: r}
			}
		}
		return e, true
	}
	switch r.Kind {
	case RefSlot, RefHold:
		return f.p.slotEntry(r), true
	case RefTicket:
		return f.p.ticketEntry(r), true
	case RefCatalog:
		cat := f.p.catalogOf(r.Tenant)
		return Entry{Ref: r, Value: Seq(cat.Seq()), Mod: cat.Revision()}, true
	case RefBlock:
		return Entry{Ref: r}, true // only ever put, never compared
	}
	return f.p.cache.get(r)
}

// untouched says that the batch has not changed r, so that what read tells is the store's.
func (f *fold) untouched(r Ref) bool {
	c, ok := f.cells[r]
	return !ok || !c.written
}

// slotEntry is a slot as the watch told it, without its value.
func (p *picture) slotEntry(r Ref) Entry {
	if _, at := p.placeOf(r); at != nil {
		return Entry{Ref: r, Create: at.create, Mod: at.mod, Lease: at.lease}
	}
	return Entry{Ref: r}
}

// ticketEntry is a ticket as the watch told it, without its value.
func (p *picture) ticketEntry(r Ref) Entry {
	if at := p.lines.standing(r); at != nil {
		return Entry{Ref: r, Create: at.create, Mod: at.mod, Lease: at.lease}
	}
	return Entry{Ref: r}
}

// draft is what one request wants: comparisons, writes, and the keys it decided on.
type draft struct {
	catalog int64
	noLine  bool // it relies on nobody standing in any line of the tenant
	guards  []Guard
	writes  []Write
	touches []Ref
	chosen  []Ref
	lines   []lineGuard
	bytes   int
}

// newDraft is the draft of a request that decided on touches. There is one at a time: join
// takes what it says into the cells before the next request is decided.
func (f *fold) newDraft(catalog int64, touches []Ref) *draft {
	d := &f.sketch
	*d = draft{catalog: catalog, touches: touches, guards: d.guards[:0], writes: d.writes[:0], chosen: d.chosen[:0], lines: d.lines[:0]}
	return d
}

func (d *draft) guard(r Ref, c Cond, rev int64) { d.guards = append(d.guards, Guard{r, c, rev}) }
func (d *draft) put(w Write)                    { d.writes = append(d.writes, w) }
func (d *draft) drop(r Ref)                     { d.writes = append(d.writes, Write{Ref: r}) }

// join takes a request and its draft into the batch.
func (f *fold) join(j *job, d *draft) {
	g := &group{tenant: j.tenant, catalog: AnyCatalog}
	g.jobs, g.cells = g.room.jobs[:0], g.room.cells[:0]
	f.groups++
	for _, r := range d.touches {
		g = f.unite(g, f.cell(r))
	}
	for _, gd := range d.guards {
		c := f.cell(gd.Ref)
		g = f.unite(g, c)
		if !c.written && !slices.Contains(c.guards, gd) {
			c.guards = append(c.guards, gd)
			g.guards++
		}
	}
	for _, w := range d.writes {
		c := f.cell(w.Ref)
		g = f.unite(g, c)
		c.written, c.write, c.value = true, w, w.Value
		if w.Have == 0 {
			c.write.Have = c.base.Lease
		}
		if w.Ref.Kind == RefTicket {
			f.changeLine(&w)
		}
	}
	g = f.joinLines(g, d)
	if d.catalog != AnyCatalog {
		g.catalog = d.catalog
	}
	g.noLine = g.noLine || d.noLine
	g.jobs = append(g.jobs, j)
	g.chosen = append(g.chosen, d.chosen...)
	for _, r := range d.chosen {
		f.p.set(f.p.names.key(r)).mark(r.N)
		f.cell(setRef(r.Tenant, r.Limit, r.Scope)).written = true // no refusal of this batch may rest on it
	}
	f.jobs++
	f.widest = max(f.widest, g.width())
	f.bytes += d.bytes
}

// newCell is a cell out of a slab: a batch has thousands, and they go together.
func (f *fold) newCell() *cell {
	if f.used == len(f.slabs)*slabOf {
		f.slabs = append(f.slabs, make([]cell, slabOf))
	}
	c := &f.slabs[f.used/slabOf][f.used%slabOf]
	f.used++
	return c
}

// clear makes the fold an empty one, to be used again once its batch has landed.
func (f *fold) clear() {
	clear(f.cells)
	for i := 0; i*slabOf < f.used; i++ {
		clear(f.slabs[i][:min(slabOf, f.used-i*slabOf)])
	}
	clear(f.order)
	clear(f.sketch.guards[:cap(f.sketch.guards)])
	clear(f.sketch.writes[:cap(f.sketch.writes)])
	clear(f.sketch.lines[:cap(f.sketch.lines)])
	clear(f.guards)
	clear(f.reads)
	clear(f.writes)
	*f = fold{
		cells: f.cells, order: f.order[:0], slabs: f.slabs, sketch: f.sketch,
		guards: f.guards[:0], reads: f.reads[:0], writes: f.writes[:0],
	}
}

func (f *fold) cell(r Ref) *cell {
	c := f.cells[r]
	if c == nil {
		e, known := f.read(r)
		e.Ref = r
		c = f.newCell()
		c.base, c.guards, c.guessed = e, c.room[:0], !known
		f.cells[r] = c
		f.order = append(f.order, c)
	}
	return c
}

// unite puts c into g, and what c's group already holds.
func (f *fold) unite(g *group, c *cell) *group {
	if c.group == nil {
		c.group = g
		g.cells = append(g.cells, c)
		return g
	}
	o := c.group.root()
	if o == g {
		return g
	}
	if len(o.cells) < len(g.cells) {
		o, g = g, o
	}
	g.into = o
	o.cells = append(o.cells, g.cells...)
	o.jobs = append(o.jobs, g.jobs...)
	o.chosen = append(o.chosen, g.chosen...)
	o.guards += g.guards
	o.noLine = o.noLine || g.noLine
	if g.catalog != AnyCatalog {
		o.catalog = g.catalog
	}
	f.groups--
	return o
}

// plan is the batch's groups as the store takes them, in step with the groups they come from.
//
// What a group lost to is read along only where other replicas write: three reads a group that
// are hardly ever carried out are a fifth of the bytes that etcd allocates for it. A replica
// alone loses to its own guesses, seldom, and loads what it needs then.
func (f *fold) plan() (plans []Group, from []*group) {
	f.makeRoom()
	guards, reads, writes := f.guards, f.reads, f.writes
	plans, from = make([]Group, 0, f.groups), make([]*group, 0, f.groups)
	for _, c := range f.order {
		g := c.group.root()
		if g.planned {
			continue
		}
		g.planned = true
		out := Group{Tenant: g.tenant, Catalog: g.catalog, NoLine: g.noLine, Guards: guards[len(guards):], Reads: reads[len(reads):], Writes: writes[len(writes):]}
		for _, c := range g.cells {
			out.Guards = append(out.Guards, c.guards...)
			if c.base.Ref.isSet() {
				continue
			}
			if f.shared {
				out.Reads = append(out.Reads, c.base.Ref)
			}
			if c.written {
				out.Writes = append(out.Writes, c.write)
			}
		}
		// The groups lie one behind another in the same arrays, each up to its own end.
		guards, reads, writes = guards[:len(guards)+len(out.Guards)], reads[:len(reads)+len(out.Reads)], writes[:len(writes)+len(out.Writes)]
		plans, from = append(plans, out), append(from, g)
	}
	f.guards, f.reads, f.writes = guards, reads, writes
	return plans, from
}

// makeRoom sees that there is room for what all groups compare, read and write.
func (f *fold) makeRoom() {
	n, r, w := 0, 0, 0
	for _, c := range f.order {
		n += len(c.guards)
		if c.written && !c.base.Ref.isSet() {
			w++
		}
	}
	if f.shared {
		r = len(f.order)
	}
	f.guards, f.reads, f.writes = slices.Grow(f.guards, n), slices.Grow(f.reads, r), slices.Grow(f.writes, w)
}
