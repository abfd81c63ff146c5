package limits

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// Catalog is the limits, overrides, plans and blocks of one tenant as they stood at one revision.
// It is immutable and safe for concurrent use. It reads no clock: an override, a pause or a
// block is in force as long as it is in the catalogue (DESIGN.md section 3, "Amounts").
type Catalog struct {
	revision, seq int64
	entries       []entry    // by limit id
	overrides     []Override // as given; the entries and own point into it
	own           map[ownKey]int32
	index         map[matchKey][]int32
	known         []known // what Nearest may name
	blocks        map[Subject]*Block
	ends          []time.Time // ascending
	file          *File       // nil: none was applied
	given         map[Subject]*SubjectPlan
}

// entry is a limit with its override for everyone; own says whether some subject has one.
type entry struct {
	limit    *Limit
	everyone *Override
	own      bool
}

// ownKey names the override of one subject; limit is the place of its entry.
type ownKey struct {
	limit   int32
	subject Subject
}

// NewCatalog makes the catalogue of what was read at revision rev, seq being the counter in
// the catalogue key's value. It copies what it is given; of two limits, overrides or blocks
// of the same name the last stands. An override of a limit that is not there is left out.
// Cost: linear, some tens of milliseconds for MaxOverrides.
func NewCatalog(rev, seq int64, ls []Limit, os []Override, bs []Block) *Catalog {
	return Parts{Revision: rev, Seq: seq, Limits: ls, Overrides: os, Blocks: bs}.Catalog()
}

// Parts is everything a catalogue is made of.
type Parts struct {
	Revision, Seq int64
	Limits        []Limit
	Overrides     []Override
	Blocks        []Block
	File          *File // nil: no limits file was applied
	SubjectPlans  []SubjectPlan
}

// Catalog is NewCatalog of all parts. What File points to must not change any more.
func (p Parts) Catalog() *Catalog {
	c := &Catalog{revision: p.Revision, seq: p.Seq, blocks: make(map[Subject]*Block, len(p.Blocks))}
	c.addLimits(p.Limits)
	c.addOverrides(p.Overrides)
	c.addPlans(p.File, p.SubjectPlans)
	for _, b := range p.Blocks {
		c.blocks[b.Subject] = &b
	}
	slices.SortFunc(c.ends, time.Time.Compare)
	c.buildIndex()
	return c
}

func (c *Catalog) addLimits(ls []Limit) {
	c.entries = make([]entry, 0, len(ls))
	at := make(map[string]int, len(ls))
	for _, l := range ls {
		l.Labels = maps.Clone(l.Labels)
		if i, twice := at[l.ID]; twice {
			c.entries[i].limit = &l
			continue
		}
		at[l.ID] = len(c.entries)
		c.entries = append(c.entries, entry{limit: &l})
	}
	slices.SortFunc(c.entries, func(a, b entry) int { return strings.Compare(a.limit.ID, b.limit.ID) })
	for _, e := range c.entries {
		if e.limit.Paused {
			c.addEnd(e.limit.PausedUntil)
		}
		c.addEnd(e.limit.Turn.Next)
	}
}

func (c *Catalog) addOverrides(os []Override) {
	c.overrides = slices.Clone(os)
	c.own = make(map[ownKey]int32, len(os))
	i, found := -1, false
	for n := range c.overrides {
		o := &c.overrides[n]
		if n == 0 || o.Limit != c.overrides[n-1].Limit { // they mostly come by limit
			i, found = c.find(o.Limit)
		}
		if !found {
			continue
		}
		c.addEnd(o.Until)
		if o.Subject.IsZero() {
			c.entries[i].everyone = o
			continue
		}
		c.entries[i].own = true
		c.own[ownKey{int32(i), o.Subject}] = int32(n)
	}
}

// ownOf is the override of s under the limit at place i, nil when there is none.
func (c *Catalog) ownOf(i int, s Subject) *Override {
	if !c.entries[i].own {
		return nil
	}
	n, ok := c.own[ownKey{int32(i), s}]
	if !ok {
		return nil
	}
	return &c.overrides[n]
}

func (c *Catalog) addEnd(at time.Time) {
	if !at.IsZero() {
		c.ends = append(c.ends, at)
	}
}

func (c *Catalog) find(id string) (int, bool) {
	return slices.BinarySearchFunc(c.entries, id, func(e entry, id string) int {
		return strings.Compare(e.limit.ID, id)
	})
}

// Revision is the mod revision of the catalogue key that c was read at, 0 when there is none.
func (c *Catalog) Revision() int64 { return c.revision }

// Seq is the counter in the catalogue key's value; generations are taken from it.
func (c *Catalog) Seq() int64 { return c.seq }

// Limit is the limit of that id, enabled or not.
func (c *Catalog) Limit(id string) (*Limit, bool) {
	i, ok := c.find(id)
	if !ok {
		return nil, false
	}
	return c.entries[i].limit, true
}

// Limits are all limits, enabled or not, by id.
func (c *Catalog) Limits() []*Limit {
	all := make([]*Limit, len(c.entries))
	for i, e := range c.entries {
		all[i] = e.limit
	}
	return all
}

// Override is the override of a limit for s, or for everyone when s is the zero Subject.
func (c *Catalog) Override(limit string, s Subject) (Override, bool) {
	i, ok := c.find(limit)
	if !ok {
		return Override{}, false
	}
	o := c.ownOf(i, s)
	if s.IsZero() {
		o = c.entries[i].everyone
	}
	if o == nil {
		return Override{}, false
	}
	return *o, true
}

// Overrides are all overrides of a limit: everyone's first, then by kind and id.
// Cost: a look at every override of the tenant, and a sort of the limit's own; for lists.
func (c *Catalog) Overrides(limit string) []Override {
	i, ok := c.find(limit)
	if !ok {
		return nil
	}
	var all []Override
	if o := c.entries[i].everyone; o != nil {
		all = append(all, *o)
	}
	first := len(all)
	for n := range c.overrides {
		if o := &c.overrides[n]; o.Limit == limit && c.ownOf(i, o.Subject) == o {
			all = append(all, *o)
		}
	}
	slices.SortFunc(all[first:], func(a, b Override) int {
		return cmp.Or(strings.Compare(a.Subject.Kind, b.Subject.Kind), strings.Compare(a.Subject.ID, b.Subject.ID))
	})
	return all
}

// AllOverrides are the overrides of all limits that are there, in no particular order.
// Cost: linear.
func (c *Catalog) AllOverrides() []Override {
	all := make([]Override, 0, len(c.overrides))
	for n := range c.overrides {
		o := &c.overrides[n]
		i, found := c.find(o.Limit)
		if found && (c.entries[i].everyone == o || c.ownOf(i, o.Subject) == o) {
			all = append(all, *o)
		}
	}
	return all
}

// Block is the block on s, if there is one.
func (c *Catalog) Block(s Subject) (*Block, bool) {
	b, ok := c.blocks[s]
	return b, ok
}

// NextEnd is the earliest end later than after of an override or a pause that has one, or turn
// of a schedule. The
// zero time asks for the earliest of all, which may have passed and wait to be applied.
// Blocks are not among them: their keys end by lease.
func (c *Catalog) NextEnd(after time.Time) (time.Time, bool) {
	i, _ := slices.BinarySearchFunc(c.ends, after, func(end, after time.Time) int {
		if end.After(after) {
			return 1
		}
		return -1
	})
	if i == len(c.ends) {
		return time.Time{}, false
	}
	return c.ends[i], true
}
