package reserve

// cachedEntries bounds what a replica remembers of records and replays, and of counts (entries
// of each).
const cachedEntries = 1 << 17

// Packer writes the values of open records and of counts down, shortly: those of a million holds
// are kept in memory.
type Packer interface {
	// Pack is the value of a key of kind as text; ok is false when it cannot be written.
	Pack(kind RefKind, value any) (text string, ok bool)
	// Unpack is what Pack was given. The value may share the memory of text. Errors: ErrCorrupt.
	Unpack(r Ref, text string) (any, error)
}

// cache remembers entries of records, replays and counts by ref, the recently used half for certain. An entry with Mod 0 says
// "nothing stood there". Being wrong is harmless: what is decided from it is guarded.
type cache struct {
	packer Packer // nil: values are kept as they are
	names  *names
	ids    recent[idKey]
	counts recent[setKey] // limit is "" but for counts that are shared by all
}

type idKey struct {
	tenant *limitName // of no limit
	id     ID
	kind   RefKind
}

func (c *cache) idKey(r Ref) idKey { return idKey{c.names.of(r.Tenant, ""), r.ID, r.Kind} }

// kept is an entry without its ref. Its value is a packed one where there is a packer.
type kept struct {
	value       any
	create, mod int64
	lease       LeaseID
}

type packed string

// unread is the value of an entry with a Fault.
type unread struct{ fault error }

func newCache(size int, packer Packer, n *names) *cache {
	return &cache{packer: packer, names: n, ids: newRecent[idKey](size), counts: newRecent[setKey](size)}
}

func (c *cache) get(r Ref) (e Entry, ok bool) {
	k, ok := c.find(r)
	if !ok {
		return e, false
	}
	e = Entry{Ref: r, Value: k.value, Create: k.create, Mod: k.mod, Lease: k.lease}
	switch v := k.value.(type) {
	case packed:
		e.Value, e.Fault = c.packer.Unpack(r, string(v))
	case unread:
		e.Value, e.Fault = nil, v.fault
	}
	return e, true
}

func (c *cache) find(r Ref) (kept, bool) {
	switch r.Kind {
	case RefUsage:
		return c.counts.get(c.names.key(r))
	case RefOpen, RefEnded, RefReplay:
		return c.ids.get(c.idKey(r))
	}
	return kept{}, false
}

func (c *cache) put(e Entry) {
	k := kept{e.Value, e.Create, e.Mod, e.Lease}
	switch {
	case e.Fault != nil:
		k.value = unread{e.Fault}
	case c.packer != nil && (e.Ref.Kind == RefUsage || e.Ref.Kind == RefOpen) && e.Value != nil:
		if text, ok := c.packer.Pack(e.Ref.Kind, e.Value); ok {
			k.value = packed(text)
		}
	}
	if e.Ref.Kind == RefUsage {
		c.counts.put(c.names.key(e.Ref), k)
	} else {
		c.ids.put(c.idKey(e.Ref), k)
	}
}

func (c *cache) drop(r Ref) {
	if r.Kind == RefUsage {
		c.counts.drop(c.names.key(r))
	} else {
		c.ids.drop(c.idKey(r))
	}
}

// knows says whether r is remembered, without calling it used.
func (c *cache) knows(r Ref) (mod int64, ok bool) {
	var k kept
	if r.Kind == RefUsage {
		k, ok = c.counts.peek(c.names.key(r))
	} else {
		k, ok = c.ids.peek(c.idKey(r))
	}
	return k.mod, ok
}

// recent is two generations of entries: what was used since the old one closed is in the young.
type recent[K comparable] struct {
	young, old map[K]kept
	half       int
}

func newRecent[K comparable](size int) recent[K] {
	return recent[K]{young: map[K]kept{}, old: map[K]kept{}, half: max(1, size/2)}
}

func (c *recent[K]) get(key K) (kept, bool) {
	if k, ok := c.young[key]; ok {
		return k, true
	}
	k, ok := c.old[key]
	if ok {
		delete(c.old, key)
		c.put(key, k)
	}
	return k, ok
}

func (c *recent[K]) put(key K, k kept) {
	if len(c.young) >= c.half {
		c.old, c.young = c.young, make(map[K]kept, c.half/4)
	}
	c.young[key] = k
}

func (c *recent[K]) peek(key K) (kept, bool) {
	k, ok := c.young[key]
	if !ok {
		k, ok = c.old[key]
	}
	return k, ok
}

func (c *recent[K]) drop(key K) {
	delete(c.young, key)
	delete(c.old, key)
}
