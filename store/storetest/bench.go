package storetest

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

// tenant is the one most cases work in.
const tenant = "default"

// bench is a Bench in the hands of one case.
type bench struct {
	Bench
	t *testing.T
}

// slotRef names slot n of a limit; cases use slots for keys in general.
func slotRef(limit string, n int64) reserve.Ref {
	return reserve.Ref{Tenant: tenant, Kind: reserve.RefSlot, Limit: limit, Scope: "user/u_42", N: n}
}

var catalogRef = reserve.Ref{Tenant: tenant, Kind: reserve.RefCatalog}

// slot is a value that differs from others by its name.
func slot(name string) *reserve.Slot {
	return &reserve.Slot{
		TTL: 30 * time.Second, Name: name,
		Since: time.UnixMilli(1_800_000_000_123).UTC(), Beat: time.UnixMilli(1_800_000_000_456).UTC(),
	}
}

// put is a group that writes value under ref whatever stands there.
func put(ref reserve.Ref, value any) reserve.Group {
	return reserve.Group{
		Tenant: ref.Tenant, Catalog: reserve.AnyCatalog,
		Writes: []reserve.Write{{Ref: ref, Value: value}},
	}
}

// when is g under guards; what it lost to is read from the keys it compares.
func when(g reserve.Group, guards ...reserve.Guard) reserve.Group {
	g.Guards = guards
	for _, guard := range guards {
		g.Reads = append(g.Reads, guard.Ref)
	}
	return g
}

func modIs(ref reserve.Ref, rev int64) reserve.Guard {
	return reserve.Guard{Ref: ref, Cond: reserve.ModIs, Rev: rev}
}

// apply applies groups and fails the test unless that succeeds, whatever the outcomes.
func (b *bench) apply(groups ...reserve.Group) reserve.Result {
	b.t.Helper()
	return b.send(reserve.Batch{Groups: groups})
}

func (b *bench) send(batch reserve.Batch) reserve.Result {
	b.t.Helper()
	res, err := b.Store.Apply(b.t.Context(), batch)
	if err != nil {
		b.t.Fatalf("Apply(%+v): %v", batch, err)
	}
	if !res.MarkerGone && len(res.Outcomes) != len(batch.Groups) {
		b.t.Fatalf("Apply(%+v): got %d outcomes, want one a group", batch, len(res.Outcomes))
	}
	return res
}

// set puts value under ref and returns what stands there then.
func (b *bench) set(ref reserve.Ref, value any) reserve.Entry {
	b.t.Helper()
	b.wantCommitted(b.apply(put(ref, value)), true)
	return b.get(ref)
}

// get is what stands under ref by a fresh read.
func (b *bench) get(ref reserve.Ref) reserve.Entry {
	b.t.Helper()
	return b.load(ref)[0]
}

func (b *bench) load(refs ...reserve.Ref) []reserve.Entry {
	b.t.Helper()
	loaded, err := b.Store.Load(b.t.Context(), refs, true)
	if err != nil {
		b.t.Fatalf("Load(%+v): %v", refs, err)
	}
	b.checkLoaded(refs, loaded)
	return loaded.Entries
}

func (b *bench) checkLoaded(refs []reserve.Ref, loaded reserve.Loaded) {
	b.t.Helper()
	if len(loaded.Entries) != len(refs) {
		b.t.Fatalf("Load(%+v): got %d entries, want one a ref", refs, len(loaded.Entries))
	}
	for i, e := range loaded.Entries {
		if e.Ref != refs[i] {
			b.t.Fatalf("Load: entry %d is of %+v, want %+v", i, e.Ref, refs[i])
		}
		if e.Mod > loaded.Rev || e.Create > e.Mod || (e.Mod == 0) != (e.Create == 0) {
			b.t.Fatalf("Load at %d: revisions of %+v cannot be", loaded.Rev, e)
		}
	}
}

// wantCommitted checks which groups were committed, in order.
func (b *bench) wantCommitted(res reserve.Result, want ...bool) {
	b.t.Helper()
	got := make([]bool, len(res.Outcomes))
	for i, o := range res.Outcomes {
		got[i] = o.Committed
	}
	if !reflect.DeepEqual(got, want) {
		b.t.Fatalf("committed: got %v, want %v (outcomes %+v)", got, want, res.Outcomes)
	}
}

// wantValue checks what stands under ref; nil: nothing.
func (b *bench) wantValue(ref reserve.Ref, want any) {
	b.t.Helper()
	e := b.get(ref)
	if (e.Mod == 0) != (want == nil) || !Same(e.Value, want) {
		b.t.Fatalf("under %+v: got %s (%+v), want %s", ref, show(e.Value), e, show(want))
	}
}

// Same reports whether two values of a store are the same: equal up to the location of
// instants, and to nil for what is empty. A limit's Revision is not part of its value.
func Same(a, b any) bool { return reflect.DeepEqual(canonical(a), canonical(b)) }

// canonical is a copy of a value in the one form that Same compares.
func canonical(v any) any {
	if v == nil {
		return nil
	}
	c := canon(reflect.ValueOf(v))
	if l, ok := c.Interface().(*limits.Limit); ok {
		l.Revision = 0 // l is a copy
	}
	return c.Interface()
}

func canon(v reflect.Value) reflect.Value {
	if at, ok := v.Interface().(time.Time); ok {
		return reflect.ValueOf(at.Round(0).UTC())
	}
	out := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			out.Set(reflect.New(v.Type().Elem()))
			out.Elem().Set(canon(v.Elem()))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			out.Field(i).Set(canon(v.Field(i)))
		}
	case reflect.Slice:
		if v.Len() > 0 {
			out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
			for i := range v.Len() {
				out.Index(i).Set(canon(v.Index(i)))
			}
		}
	case reflect.Map:
		if v.Len() > 0 {
			out.Set(v)
		}
	default:
		out.Set(v)
	}
	return out
}

// show prints a value and not the pointer to it.
func show(v any) string {
	if p := reflect.ValueOf(v); p.Kind() == reflect.Pointer && !p.IsNil() {
		return fmt.Sprintf("%+v", p.Elem().Interface())
	}
	return fmt.Sprintf("%+v", v)
}
