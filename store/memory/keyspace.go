package memory

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

// keyspace is what all views share. Everything in it is guarded by mu.
type keyspace struct {
	now         func() time.Time
	maxOps      int
	record      func(rev int64, puts []reserve.Entry, deletes []reserve.Deleted)
	valueChecks bool

	mu        sync.Mutex
	rev       int64
	items     map[reserve.Ref]*item
	records   map[family]map[reserve.ID]*item // the same items, for pages
	lines     map[reserve.Ref]map[int64]*item // and tickets by rank, under the ref of their line (N 0)
	leases    map[reserve.LeaseID]*lease
	lastLease reserve.LeaseID
	due       time.Time // when the next lease ends; zero: none
	views     map[string]*View
	feed      feed
	named     map[reserve.Ref]naming // of the batch being checked; kept to save the allocation
}

// item is one key that stands.
type item struct {
	reserve.Entry
	lease *lease
	place int    // in lease.items
	print string // of the value as it was put, when values are checked
}

// family is a range of records.
type family struct {
	tenant string
	kind   reserve.RefKind
}

func newKeyspace(cfg Config) *keyspace {
	if cfg.MaxOps == 0 {
		cfg.MaxOps = defaultMaxOps
	}
	return &keyspace{
		now: cfg.Now, maxOps: cfg.MaxOps, record: cfg.Record, valueChecks: cfg.CheckValues,
		rev:     1,
		items:   map[reserve.Ref]*item{},
		records: map[family]map[reserve.ID]*item{},
		lines:   map[reserve.Ref]map[int64]*item{},
		leases:  map[reserve.LeaseID]*lease{},
		views:   map[string]*View{},
		named:   map[reserve.Ref]naming{},
	}
}

func (k *keyspace) view(replica string) *View {
	k.mu.Lock()
	defer k.mu.Unlock()
	v := k.views[replica]
	if v == nil {
		v = &View{keys: k, replica: replica}
		k.views[replica] = v
	}
	return v
}

// change is what one revision does. What is done is written down only when somebody listens.
type change struct {
	rev     int64
	wrote   bool
	listens bool
	puts    []reserve.Entry
	deletes []reserve.Deleted
}

func (k *keyspace) begin() change {
	return change{rev: k.rev + 1, listens: k.record != nil || k.feed.followed()}
}

// end makes c the present revision, if it wrote anything: a transaction that changes nothing
// has no revision of its own.
func (k *keyspace) end(c *change) {
	if !c.wrote {
		return
	}
	k.rev = c.rev
	if k.record != nil {
		k.record(c.rev, c.puts, c.deletes)
	}
	k.feed.add(reserve.Update{Rev: c.rev, Entries: c.puts, Deleted: c.deletes}, k.now)
}

func (c *change) put(e reserve.Entry) {
	c.wrote = true
	if c.listens {
		c.puts = append(c.puts, e)
	}
}

func (c *change) deleted(ref reserve.Ref) {
	c.wrote = true
	if c.listens {
		c.deletes = append(c.deletes, reserve.Deleted{Ref: ref, Rev: c.rev})
	}
}

// put writes value under ref and hangs the key on the lease, or on none. The lease is alive.
func (k *keyspace) put(c *change, ref reserve.Ref, value any, id reserve.LeaseID) *item {
	it := k.items[ref]
	if it == nil {
		it = &item{Entry: reserve.Entry{Ref: ref, Create: c.rev}}
		k.items[ref] = it
		k.index(it)
	}
	it.Value, it.Fault, it.Mod = stamped(value, c.rev), nil, c.rev
	if k.valueChecks {
		it.print = printed(it.Value)
	}
	k.attach(it, id)
	c.put(it.Entry)
	return it
}

// stamped fills in the one field of a value that is not stored but read off its key.
func stamped(value any, rev int64) any {
	l, ok := value.(*limits.Limit)
	if !ok || l.Revision == rev {
		return value
	}
	stamped := *l
	stamped.Revision = rev
	return &stamped
}

func (k *keyspace) delete(c *change, ref reserve.Ref) {
	it := k.items[ref]
	if it == nil {
		return
	}
	k.detach(it)
	delete(k.items, ref)
	k.unindex(it)
	c.deleted(ref)
}

func (k *keyspace) index(it *item) {
	if it.Ref.Kind == reserve.RefTicket {
		line, rank := lineOf(it.Ref)
		if k.lines[line] == nil {
			k.lines[line] = map[int64]*item{}
		}
		k.lines[line][rank] = it
	}
	if !isRecord(it.Ref.Kind) {
		return
	}
	f := family{it.Ref.Tenant, it.Ref.Kind}
	if k.records[f] == nil {
		k.records[f] = map[reserve.ID]*item{}
	}
	k.records[f][it.Ref.ID] = it
}

// lineOf is the line a ticket stands in, and its rank there.
func lineOf(ticket reserve.Ref) (line reserve.Ref, rank int64) {
	rank, ticket.N = ticket.N, 0
	return ticket, rank
}

// noneFrom reports whether no ticket of end's line has a rank from from up to below end's.
func (k *keyspace) noneFrom(end reserve.Ref, from int64) bool {
	line, below := lineOf(end)
	for rank := range k.lines[line] {
		if rank >= from && rank < below {
			return false
		}
	}
	return true
}

// anyLine reports whether a ticket of the tenant stands.
func (k *keyspace) anyLine(tenant string) bool {
	for line := range k.lines {
		if line.Tenant == tenant {
			return true
		}
	}
	return false
}

func (k *keyspace) unindex(it *item) {
	if it.Ref.Kind == reserve.RefTicket {
		line, rank := lineOf(it.Ref)
		if delete(k.lines[line], rank); len(k.lines[line]) == 0 {
			delete(k.lines, line)
		}
	}
	if isRecord(it.Ref.Kind) {
		delete(k.records[family{it.Ref.Tenant, it.Ref.Kind}], it.Ref.ID)
	}
}

func isRecord(kind reserve.RefKind) bool {
	return kind == reserve.RefOpen || kind == reserve.RefEnded
}

// entry is what stands under ref, also when nothing does.
func (k *keyspace) entry(ref reserve.Ref) reserve.Entry {
	if it := k.items[ref]; it != nil {
		return it.Entry
	}
	return reserve.Entry{Ref: ref}
}

// compareRefs is a total order, so that what a map holds is told the same way each time.
func compareRefs(a, b reserve.Ref) int {
	return cmp.Or(
		strings.Compare(a.Tenant, b.Tenant),
		cmp.Compare(a.Kind, b.Kind),
		strings.Compare(a.Limit, b.Limit),
		strings.Compare(a.Scope, b.Scope),
		cmp.Compare(a.N, b.N),
		slices.Compare(a.ID[:], b.ID[:]),
	)
}
