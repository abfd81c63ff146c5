package store_test

import (
	"context"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-dev/holdfast/integration/etcdtest"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// TestApply_AgreesWithTheModel sends the same batches to etcd and to the in-memory model and
// compares every outcome: nested levels, catalogues, guards of each kind, what was seen.
func TestApply_AgreesWithTheModel(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.NoFsync())
	rapid.Check(t, func(rt *rapid.T) {
		real := &side{t: rt, ctx: t.Context(), store: newStore(t, server.Client(), server.Client(), store.Config{MaxOps: store.EmbeddedMaxOps})}
		model := &side{t: rt, ctx: t.Context(), store: memory.New(memory.Config{Now: time.Now, MaxOps: store.EmbeddedMaxOps})}
		for range rapid.IntRange(1, 8).Draw(rt, "batches") {
			plans := drawPlans(rt)
			got, want := real.apply(plans), model.apply(plans)
			for i := range want.Outcomes {
				g, w := got.Outcomes[i], want.Outcomes[i]
				if g.Committed != w.Committed || g.Moved != w.Moved || len(g.Seen) != len(w.Seen) {
					rt.Fatalf("group %d of %+v: got %+v, want %+v", i, plans, g, w)
				}
				for j := range w.Seen {
					if g.Seen[j].Ref != w.Seen[j].Ref || !storetest.Same(g.Seen[j].Value, w.Seen[j].Value) {
						rt.Fatalf("group %d of %+v saw %+v, want %+v", i, plans, g.Seen[j], w.Seen[j])
					}
				}
			}
		}
	})
}

// side is a store under test with revisions of its own.
type side struct {
	t     *rapid.T
	ctx   context.Context
	store reserve.Store
}

// planned is a group without revisions, which differ from store to store.
type planned struct {
	tenant   string
	keys     []int64 // that it reads, guards and writes
	guards   []guardPlan
	delete   bool
	catalog  int // 0: any, 1: the present one, 2: another
	raises   bool
	sayValue string
}

type guardPlan struct {
	key  int64
	cond reserve.Cond
	now  bool // against what stands; otherwise against a revision that never was
}

func drawPlans(t *rapid.T) []planned {
	var plans []planned
	keys := rapid.Permutation([]int64{0, 1, 2, 3, 4, 5, 6, 7}).Draw(t, "keys")
	raised := false
	for len(keys) > 0 && len(plans) < 5 {
		n := min(rapid.IntRange(1, 3).Draw(t, "width"), len(keys))
		p := planned{
			tenant: rapid.SampledFrom([]string{"default", "acme"}).Draw(t, "tenant"), keys: keys[:n],
			delete: rapid.Bool().Draw(t, "delete"), catalog: rapid.IntRange(0, 2).Draw(t, "catalogue"),
			sayValue: rapid.StringMatching(`[a-z]{3}`).Draw(t, "value"),
		}
		for range rapid.IntRange(0, 2).Draw(t, "guards") {
			p.guards = append(p.guards, guardPlan{
				key:  rapid.SampledFrom(p.keys).Draw(t, "guarded"),
				cond: rapid.SampledFrom([]reserve.Cond{reserve.ModIs, reserve.CreateIs, reserve.CreateIsNot}).Draw(t, "cond"),
				now:  rapid.Bool().Draw(t, "now"),
			})
		}
		if !raised && p.catalog == 1 && len(plans) == 0 {
			p.raises = rapid.Bool().Draw(t, "raises")
			raised = p.raises
		}
		keys = keys[n:]
		plans = append(plans, p)
		if p.raises {
			return plans // nobody else of the batch may compare what it puts
		}
	}
	return plans
}

func (s *side) apply(plans []planned) reserve.Result {
	var b reserve.Batch
	for _, p := range plans {
		b.Groups = append(b.Groups, s.group(p))
	}
	res, err := s.store.Apply(s.ctx, b)
	if err != nil {
		s.t.Fatalf("Apply(%+v): %v", b, err)
	}
	return res
}

func (s *side) group(p planned) reserve.Group {
	ref := func(n int64) reserve.Ref {
		r := slotRef(n)
		r.Tenant = p.tenant
		return r
	}
	catalog := reserve.Ref{Tenant: p.tenant, Kind: reserve.RefCatalog}
	g := reserve.Group{Tenant: p.tenant, Catalog: []int64{reserve.AnyCatalog, s.stands(catalog).Mod, 1 << 50}[p.catalog]}
	for _, gp := range p.guards {
		rev := int64(1 << 50)
		if e := s.stands(ref(gp.key)); gp.now && gp.cond == reserve.ModIs {
			rev = e.Mod
		} else if gp.now {
			rev = e.Create
		}
		g.Guards = append(g.Guards, reserve.Guard{Ref: ref(gp.key), Cond: gp.cond, Rev: rev})
	}
	for _, k := range p.keys {
		w := reserve.Write{Ref: ref(k)}
		if !p.delete {
			w.Value = slot(p.sayValue)
		}
		g.Writes = append(g.Writes, w)
		g.Reads = append(g.Reads, ref(k))
	}
	if p.raises {
		g.Writes = append(g.Writes, reserve.Write{Ref: catalog, Value: reserve.Seq(g.Catalog)})
	}
	return g
}

func (s *side) stands(r reserve.Ref) reserve.Entry {
	loaded, err := s.store.Load(s.ctx, []reserve.Ref{r}, true)
	if err != nil {
		s.t.Fatalf("Load(%+v): %v", r, err)
	}
	return loaded.Entries[0]
}
