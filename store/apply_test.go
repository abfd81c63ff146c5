package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"pgregory.net/rapid"

	"github.com/holdfast-dev/holdfast/integration/etcdtest"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/store"
)

var catalogRef = reserve.Ref{Tenant: "default", Kind: reserve.RefCatalog}

func slotRef(n int64) reserve.Ref {
	return reserve.Ref{Tenant: "default", Kind: reserve.RefSlot, Limit: "exports", Scope: "user/u_42", N: n}
}

func slot(name string) *reserve.Slot {
	at := time.UnixMilli(1_800_000_000_123).UTC()
	return &reserve.Slot{TTL: 30 * time.Second, Since: at, Beat: at, Name: name}
}

// put is a group that puts value under ref, whatever stands there.
func put(ref reserve.Ref, value any, guards ...reserve.Guard) reserve.Group {
	return reserve.Group{
		Tenant: ref.Tenant, Catalog: reserve.AnyCatalog, Guards: guards,
		Writes: []reserve.Write{{Ref: ref, Value: value}}, Reads: []reserve.Ref{ref},
	}
}

func under(catalog int64, g reserve.Group) reserve.Group {
	g.Catalog = catalog
	return g
}

func batch(groups ...reserve.Group) reserve.Batch { return reserve.Batch{Groups: groups} }

func apply(t testing.TB, s *store.Store, b reserve.Batch) reserve.Result {
	t.Helper()
	res, err := s.Apply(t.Context(), b)
	if err != nil {
		t.Fatalf("Apply(%.500s): %v", fmt.Sprintf("%+v", b), err)
	}
	return res
}

// Checklist 9: a batch is one call, and carries a level only where it says something.
func TestApply_SendsNoMoreThanItMust(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.NoFsync())
	kv := etcdtest.NewCountingKV(server.Client())
	s := newStore(t, kv, server.Client(), store.Config{MaxOps: store.EmbeddedMaxOps, Replica: "r1"})
	marker := apply(t, s, batch(put(reserve.Ref{Kind: reserve.RefReplica, Scope: "r1"}, &reserve.Replica{ID: "r1"}))).Rev
	catalog := apply(t, s, batch(put(catalogRef, reserve.Seq(1)))).Rev
	acme := put(slotRef(0), slot("x"))
	acme.Tenant, acme.Writes[0].Ref.Tenant, acme.Reads[0].Tenant = "acme", "acme", "acme"
	for _, c := range []struct {
		name  string
		batch reserve.Batch
		want  etcdtest.Ops // both branches together
	}{
		{"nothing", batch(), etcdtest.Ops{}},
		{"one group", batch(put(slotRef(0), slot("x"))), etcdtest.Ops{Puts: 1, Gets: 1}},
		{"two groups", batch(put(slotRef(0), slot("x")), put(slotRef(1), nil)), etcdtest.Ops{Nested: 2, Puts: 1, Deletes: 1, Gets: 2}},
		{
			"one group under a catalogue",
			batch(under(catalog, put(slotRef(0), slot("x")))),
			etcdtest.Ops{Compares: 1, Nested: 1, Puts: 1, Gets: 1},
		},
		{
			"three groups under one catalogue",
			batch(under(catalog, put(slotRef(0), slot("x"))), under(catalog, put(slotRef(1), slot("x"))), under(catalog, put(slotRef(2), slot("x")))),
			etcdtest.Ops{Compares: 1, Nested: 3, Puts: 3, Gets: 3},
		},
		{
			"two tenants and one under any catalogue",
			batch(under(catalog, put(slotRef(0), slot("x"))), under(0, acme), put(slotRef(1), slot("x"))),
			etcdtest.Ops{Compares: 2, Nested: 5, Puts: 3, Gets: 3},
		},
		{
			"a marker and one group",
			reserve.Batch{Marker: marker, Groups: []reserve.Group{put(slotRef(0), slot("x"))}},
			etcdtest.Ops{Compares: 1, Nested: 1, Puts: 1, Gets: 1},
		},
		{
			"a marker, a catalogue, two groups",
			reserve.Batch{Marker: marker, Groups: []reserve.Group{
				under(catalog, put(slotRef(0), slot("x"))),
				under(catalog, put(slotRef(1), slot("x"), reserve.Guard{Ref: slotRef(1), Cond: reserve.CreateIsNot})),
			}},
			etcdtest.Ops{Compares: 3, Nested: 3, Puts: 2, Gets: 2},
		},
	} {
		kv.Reset()
		res := apply(t, s, c.batch)
		calls := kv.Calls()
		if calls.All() != 1 || calls.Txn != 1 || calls.InTxn != c.want {
			t.Errorf("%s: got %+v, want one transaction of %+v", c.name, calls, c.want)
		}
		for i, o := range res.Outcomes {
			if !o.Committed {
				t.Errorf("%s: group %d: got %+v, want it committed", c.name, i, o)
			}
		}
		if res.Rev == 0 || res.MarkerGone || len(res.Outcomes) != len(c.batch.Groups) {
			t.Errorf("%s: got %+v", c.name, res)
		}
	}
}

// What cannot be sent is not sent: nothing happened for certain.
func TestApply_RefusesBeforeSending(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.NoFsync())
	kv := etcdtest.NewCountingKV(server.Client())
	s := newStore(t, kv, server.Client(), store.Config{MaxOps: 100})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	var many []reserve.Group
	for n := range int64(100) {
		many = append(many, put(slotRef(n), slot("x")))
	}
	huge := &reserve.Record{State: reserve.Released, Note: strings.Repeat("x", 1<<20)}
	for _, c := range []struct {
		name  string
		ctx   context.Context
		batch reserve.Batch
		want  error // nil: an error that is none of the port's
	}{
		{"too many operations", t.Context(), batch(many...), reserve.ErrTooBig},
		{"too many bytes", t.Context(), batch(put(reserve.Ref{Tenant: "a", Kind: reserve.RefEnded}, huge)), reserve.ErrTooBig},
		{"the caller has gone", ended, batch(many[0]), reserve.ErrUnavailable},
		{"a value of another kind", t.Context(), batch(many[1], put(slotRef(0), reserve.Seq(1))), nil},
		{"a marker without a replica", t.Context(), reserve.Batch{Marker: 1, Groups: many[:1]}, nil},
	} {
		_, err := s.Apply(c.ctx, c.batch)
		switch {
		case err == nil, c.want != nil && !errors.Is(err, c.want):
			t.Errorf("%s: got error %v, want %v", c.name, err, c.want)
		case c.want == nil && (errors.Is(err, reserve.ErrUnavailable) || errors.Is(err, reserve.ErrUnknownOutcome)):
			t.Errorf("%s: got error %v, want one that blames the program", c.name, err)
		}
		if calls := kv.Reset(); calls.All() != 0 {
			t.Errorf("%s: got %+v, want no call", c.name, calls)
		}
	}
}

// shape draws a batch of some shape on keys of its own, without a marker.
func shape(t *rapid.T) reserve.Batch {
	var b reserve.Batch
	var n int64
	next := func() reserve.Ref { n++; return slotRef(n) }
	for range rapid.IntRange(0, 12).Draw(t, "groups") {
		g := reserve.Group{
			Tenant:  rapid.SampledFrom([]string{"default", "acme"}).Draw(t, "tenant"),
			Catalog: rapid.SampledFrom([]int64{reserve.AnyCatalog, 0, 7}).Draw(t, "catalogue"),
		}
		for range rapid.IntRange(0, 14).Draw(t, "guards") {
			g.Guards = append(g.Guards, reserve.Guard{Ref: next(), Cond: reserve.CreateIs})
		}
		for range rapid.IntRange(0, 14).Draw(t, "writes") {
			g.Writes = append(g.Writes, reserve.Write{Ref: next()})
		}
		for range rapid.IntRange(0, 14).Draw(t, "reads") {
			g.Reads = append(g.Reads, next())
		}
		b.Groups = append(b.Groups, g)
	}
	return b
}

// Operations are counted as etcd counts them, so that a batch is never sent in vain and never
// split without need. FAULTS section 1.2, "128 operations".
func TestApply_CountsOperationsAsEtcdDoes(t *testing.T) {
	t.Parallel()
	const most = 20
	server := etcdtest.Start(t, etcdtest.NoFsync(), etcdtest.MaxTxnOps(most))
	kv := etcdtest.NewCountingKV(server.Client())
	root := newRoot()
	rapid.Check(t, func(rt *rapid.T) {
		b := shape(rt)
		counting := newStore(t, kv, server.Client(), store.Config{Root: root, MaxOps: most})
		trying := newStore(t, server.Client(), server.Client(), store.Config{Root: root, MaxOps: 10_000})
		kv.Reset()
		_, got := counting.Apply(t.Context(), b)
		calls := kv.Calls().All()
		_, want := trying.Apply(t.Context(), b)
		if errors.Is(got, reserve.ErrTooBig) != errors.Is(want, reserve.ErrTooBig) || (got == nil) != (want == nil) {
			rt.Fatalf("%+v: got error %v, etcd says %v", b, got, want)
		}
		if sent := got == nil; (calls == 1) != sent {
			rt.Fatalf("%+v: got error %v after %d calls", b, got, calls)
		}
		if want != nil && trying.MaxOps() >= 10_000 {
			rt.Fatalf("%+v was too big, and nothing was learned", b)
		}
	})
}

// ADR 14: a limits file of thousands is one transaction of a server that takes 128 operations.
func TestApply_ManyWritesFitIntoFewOperations(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.NoFsync(), etcdtest.MaxTxnOps(store.DefaultMaxOps))
	s := newStore(t, server.Client(), server.Client(), store.Config{MaxBytes: store.EmbeddedMaxBytes})
	catalog := apply(t, s, batch(put(catalogRef, reserve.Seq(1)))).Rev
	g := reserve.Group{Tenant: "default", Catalog: catalog, Writes: []reserve.Write{{Ref: catalogRef, Value: reserve.Seq(2)}}}
	for n := range int64(3998) {
		g.Writes = append(g.Writes, reserve.Write{Ref: slotRef(n), Value: slot("x")})
	}
	res := apply(t, s, batch(g))
	if !res.Outcomes[0].Committed {
		t.Fatalf("got %+v", res)
	}
	loaded, err := s.Load(t.Context(), []reserve.Ref{catalogRef, slotRef(0), slotRef(2000), slotRef(3997)}, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range loaded.Entries {
		if e.Mod != res.Rev {
			t.Errorf("%+v stands at %d, the transaction was %d", e.Ref, e.Mod, res.Rev)
		}
	}
	if got := apply(t, s, batch(g)); got.Outcomes[0].Committed || !got.Outcomes[0].Moved {
		t.Errorf("under the catalogue that has moved: got %+v", got)
	}
}

// A check that writes nothing is one read: it takes no revision (checklist 10).
func TestApply_OfNoWritesIsARead(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.NoFsync())
	s := newStore(t, server.Client(), server.Client(), store.Config{})
	at := apply(t, s, batch(put(slotRef(0), slot("x")))).Rev
	check := func(n, rev int64) reserve.Group {
		return reserve.Group{
			Tenant: "default", Catalog: reserve.AnyCatalog,
			Guards: []reserve.Guard{{Ref: slotRef(n), Cond: reserve.ModIs, Rev: rev}}, Reads: []reserve.Ref{slotRef(n)},
		}
	}
	res := apply(t, s, batch(check(0, at), check(1, at), check(1, 0)))
	o := res.Outcomes
	if res.Rev != at || !o[0].Committed || o[1].Committed || !o[2].Committed {
		t.Errorf("checks at revision %d: got %+v", at, res)
	}
	if len(o[1].Seen) != 1 || o[1].Seen[0].Ref != slotRef(1) || o[1].Seen[0].Mod != 0 || o[1].Seen[0].Value != nil {
		t.Errorf("what a check of an absent key lost to: got %+v, want an entry with Mod 0", o[1].Seen)
	}
}

// FAULTS section 1.2, NOSPACE: puts fail and may have happened, deletes pass, reads pass.
func TestApply_WithoutSpace(t *testing.T) {
	t.Parallel()
	const quota = 2 << 20
	server := etcdtest.Start(t, etcdtest.NoFsync(), etcdtest.Quota(quota))
	c := server.Client()
	s := newStore(t, c, c, store.Config{MaxOps: store.EmbeddedMaxOps, Maintenance: c})
	apply(t, s, batch(put(slotRef(0), slot("x")), put(slotRef(1), slot("y"))))
	big := &reserve.Record{State: reserve.Released, Note: strings.Repeat("x", 100<<10)}
	var err error
	for n := 0; err == nil && n < 2_000; n++ { // etcd looks at its file's size, which grows when the backend commits
		_, err = s.Apply(t.Context(), batch(put(reserve.Ref{Tenant: "default", Kind: reserve.RefEnded, ID: reserve.ID{byte(n)}}, big)))
	}
	if !errors.Is(err, reserve.ErrFull) || !errors.Is(err, reserve.ErrUnknownOutcome) {
		t.Fatalf("filling %d bytes: got error %v, want ErrFull and ErrUnknownOutcome", quota, err)
	}
	if _, err = s.Apply(t.Context(), batch(put(slotRef(0), nil), put(slotRef(2), slot("z")))); !errors.Is(err, reserve.ErrFull) {
		t.Errorf("a batch that deletes and puts: got error %v, want ErrFull", err)
	}
	release := put(slotRef(0), nil, reserve.Guard{Ref: slotRef(0), Cond: reserve.CreateIsNot})
	lost := put(slotRef(1), nil, reserve.Guard{Ref: slotRef(1), Cond: reserve.CreateIs})
	if res := apply(t, s, batch(release, lost)); !res.Outcomes[0].Committed || res.Outcomes[1].Committed {
		t.Errorf("a batch that only deletes: got %+v, want the first committed and the second not", res)
	}
	loaded, err := s.Load(t.Context(), []reserve.Ref{slotRef(0), slotRef(1), slotRef(2)}, true)
	if err != nil || loaded.Entries[0].Mod != 0 || loaded.Entries[1].Mod == 0 || loaded.Entries[2].Mod != 0 {
		t.Errorf("afterwards: got %+v, %v; want only the second slot", loaded, err)
	}
	st, err := s.Status(t.Context())
	if err != nil || !st.NoSpace || st.Size < quota/2 || st.InUse == 0 || st.InUse > st.Size || st.Revision < loaded.Rev {
		t.Errorf("Status at revision %d: got %+v, %v; want the alarm", loaded.Rev, st, err)
	}
}

// The attempt ends by its own deadline although the caller would wait.
func TestApply_HasItsOwnDeadline(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.NoFsync())
	s := newStore(t, deafKV{server.Client()}, server.Client(), store.Config{Timeout: 20 * time.Millisecond})
	if _, err := s.Apply(t.Context(), batch(put(slotRef(0), slot("x")))); !errors.Is(err, reserve.ErrUnknownOutcome) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Apply that is never answered: got error %v, want ErrUnknownOutcome by a deadline", err)
	}
	if _, err := s.Load(t.Context(), []reserve.Ref{slotRef(0)}, true); !errors.Is(err, reserve.ErrUnavailable) {
		t.Errorf("Load that is never answered: got error %v, want ErrUnavailable", err)
	}
}

// deafKV never answers a transaction.
type deafKV struct{ clientv3.KV }

func (k deafKV) Txn(ctx context.Context) clientv3.Txn { return deafTxn{k.KV.Txn(ctx), ctx} }

type deafTxn struct {
	clientv3.Txn
	ctx context.Context
}

func (t deafTxn) If(cs ...clientv3.Cmp) clientv3.Txn   { return t }
func (t deafTxn) Then(ops ...clientv3.Op) clientv3.Txn { return t }
func (t deafTxn) Else(ops ...clientv3.Op) clientv3.Txn { return t }
func (t deafTxn) Commit() (*clientv3.TxnResponse, error) {
	<-t.ctx.Done()
	return nil, t.ctx.Err()
}
