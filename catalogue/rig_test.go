package catalogue_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-dev/holdfast/catalogue"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/windows"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const tenant = "default"

var user = limits.Subject{Kind: "user", ID: "u_42"}

// rig is a keyspace, an editor on it, and the picture of a replica that follows it at once.
type rig struct {
	t      *testing.T
	store  *memory.Store
	editor *catalogue.Editor
	wheel  *memory.Wheel

	mu      sync.Mutex
	at      time.Time
	entries map[reserve.Ref]reserve.Entry
	known   *limits.Catalog // made of entries; nil when they have changed since
	behind  *limits.Catalog // what the replica shows instead of what it knows
}

func setup(t *testing.T) *rig { return setupWith(t, 0, nil) }

// setupWith bounds operations a transaction (0: the default) and puts wrap around the store.
func setupWith(t *testing.T, maxOps int, wrap func(reserve.Store) reserve.Store) *rig {
	t.Helper()
	r := &rig{t: t, at: time.Date(2027, 3, 1, 12, 0, 0, 123_456_789, time.UTC), entries: map[reserve.Ref]reserve.Entry{}}
	r.store = memory.New(memory.Config{Now: r.now, Replica: "r1", MaxOps: maxOps, Record: r.record, CheckValues: true})
	r.wheel = r.store.Leases("r1", r.now)
	t.Cleanup(r.store.Tick) // finds values that were changed after they were put
	r.editor = r.newEditor(wrap)
	return r
}

func (r *rig) newEditor(wrap func(reserve.Store) reserve.Store) *catalogue.Editor {
	r.t.Helper()
	var s reserve.Store = r.store
	if wrap != nil {
		s = wrap(s)
	}
	e, err := catalogue.New(catalogue.Config{Store: s, Leases: r.wheel, Now: r.now, Catalog: r.catalog})
	if err != nil {
		r.t.Fatal(err)
	}
	return e
}

func (r *rig) now() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at
}

func (r *rig) advance(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at = r.at.Add(d)
}

func (r *rig) record(_ int64, puts []reserve.Entry, deletes []reserve.Deleted) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known = nil
	for _, e := range puts {
		r.entries[e.Ref] = e
	}
	for _, d := range deletes {
		delete(r.entries, d.Ref)
	}
}

// catalog is what the replica knows: everything, unless it is made to be behind.
func (r *rig) catalog(string) *limits.Catalog {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.behind != nil:
		return r.behind
	case r.known == nil:
		r.known = catalogOf(r.entries)
	}
	return r.known
}

func catalogOf(entries map[reserve.Ref]reserve.Entry) *limits.Catalog {
	var rev, seq int64
	var ls []limits.Limit
	var os []limits.Override
	var bs []limits.Block
	var file *limits.File
	var ps []limits.SubjectPlan
	for ref, e := range entries {
		if ref.Tenant != tenant {
			continue
		}
		switch v := e.Value.(type) {
		case reserve.Seq:
			rev, seq = e.Mod, int64(v)
		case *limits.Limit:
			ls = append(ls, *v)
		case *limits.Override:
			os = append(os, *v)
		case *limits.File:
			file = v
		case *limits.SubjectPlan:
			ps = append(ps, *v)
		case *limits.Block:
			bs = append(bs, *v)
		}
	}
	return limits.Parts{Revision: rev, Seq: seq, Limits: ls, Overrides: os, Blocks: bs, File: file, SubjectPlans: ps}.Catalog()
}

// show makes the replica's picture stand still at c; nil lets it go on.
func (r *rig) show(c *limits.Catalog) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.behind = c
}

// create makes a limit and fails the test if that does.
func (r *rig) create(l limits.Limit) limits.Limit {
	r.t.Helper()
	made, _, err := r.editor.Create(r.t.Context(), tenant, l, "user:admin")
	if err != nil {
		r.t.Fatalf("Create(%+v): %v", l, err)
	}
	return made
}

func (r *rig) limit(id string) *limits.Limit {
	r.t.Helper()
	l, ok := r.catalog(tenant).Limit(id)
	if !ok {
		r.t.Fatalf("there is no limit %s", id)
	}
	return l
}

func (r *rig) seq() int64 { return r.catalog(tenant).Seq() }

// counting is a valid limit of 10 an hour.
func counting(id string) limits.Limit {
	return limits.Limit{
		ID: id, Name: id, SubjectKind: "user", Action: "call", Amount: 10, Enabled: true,
		Window: windows.Window{Kind: windows.Hour},
	}
}

// hooked calls before each Load and Apply; n counts each from 1.
type hooked struct {
	reserve.Store
	load, apply         func(n int)
	mu                  sync.Mutex
	loads, applications int
}

func (h *hooked) Load(ctx context.Context, refs []reserve.Ref, fresh bool) (reserve.Loaded, error) {
	h.mu.Lock()
	h.loads++
	n := h.loads
	h.mu.Unlock()
	if h.load != nil {
		h.load(n)
	}
	return h.Store.Load(ctx, refs, fresh)
}

func (h *hooked) Apply(ctx context.Context, b reserve.Batch) (reserve.Result, error) {
	h.mu.Lock()
	h.applications++
	n := h.applications
	h.mu.Unlock()
	if h.apply != nil {
		h.apply(n)
	}
	return h.Store.Apply(ctx, b)
}
