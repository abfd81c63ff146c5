package storetest

import (
	"maps"
	"strings"

	"pgregory.net/rapid"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

func valueCases() []testCase {
	return []testCase{
		{"every kind of value comes back as it was put, whatever its key is called", valuesComeBack},
	}
}

// kinds are all families of keys.
func kinds() []reserve.RefKind {
	var all []reserve.RefKind
	for k := reserve.RefCatalog; k <= reserve.RefSecret; k++ {
		all = append(all, k)
	}
	return all
}

// valuesComeBack puts one value of each kind in one transaction, over and over, and reads them
// again; at the end a follower must be told the same. FAULTS.md section 3 row 9.
func valuesComeBack(b *bench) {
	stands := map[reserve.Ref]any{}
	rapid.Check(b.t, func(t *rapid.T) {
		drawn := map[reserve.Ref]any{}
		var refs []reserve.Ref
		var groups []reserve.Group
		tenant := tenantNames.Draw(t, "tenant") // one a round: a follower reads each tenant apart
		for _, kind := range kinds() {
			k := someKey(t, kind, tenant)
			drawn[k.ref] = k.value
			refs = append(refs, k.ref)
			groups = append(groups, put(k.ref, k.value))
		}
		if _, err := b.Store.Apply(b.t.Context(), reserve.Batch{Groups: groups}); err != nil {
			t.Fatalf("Apply(%+v): %v", groups, err)
		}
		maps.Copy(stands, drawn)
		loaded, err := b.Store.Load(b.t.Context(), refs, true)
		if err != nil || len(loaded.Entries) != len(refs) {
			t.Fatalf("Load(%+v): got %d entries and %v, want one a ref", refs, len(loaded.Entries), err)
		}
		for i, e := range loaded.Entries {
			if want := drawn[refs[i]]; e.Fault != nil || !Same(e.Value, want) {
				t.Fatalf("under %+v: got %s (fault %v), want %s", refs[i], show(e.Value), e.Fault, show(want))
			}
		}
	})
	l := b.follow()
	for ref, want := range stands {
		if e, ok := l.stands[ref]; followed(ref.Kind) && (!ok || !Same(e.Value, want)) {
			b.t.Errorf("told under %+v: got %s (there: %v), want %s", ref, show(e.Value), ok, show(want))
		}
	}
}

var tenantNames = rapid.StringMatching(`[a-z0-9][a-z0-9-]{0,62}`)

// keyed is a key of some kind and a value that belongs there.
type keyed struct {
	ref   reserve.Ref
	value any
}

// someKey draws a key of the given kind, spelt as awkwardly as names may be, and its value.
// Whatever of the value is told by the key too agrees with it.
func someKey(t *rapid.T, kind reserve.RefKind, tenant string) keyed {
	ref := reserve.Ref{Kind: kind, Tenant: tenant}
	switch kind {
	case reserve.RefCatalog:
		return keyed{ref, reserve.Seq(count().Draw(t, "seq"))}
	case reserve.RefLimit:
		l := Limits().Draw(t, "limit")
		ref.Limit = l.ID
		return keyed{ref, l}
	case reserve.RefOverride:
		o := Overrides().Draw(t, "override")
		ref.Limit = o.Limit
		if !o.Subject.IsZero() {
			ref.Scope = o.Subject.Scope()
		}
		return keyed{ref, o}
	case reserve.RefFile:
		return keyed{ref, Files().Draw(t, "file")}
	case reserve.RefPlan:
		p := SubjectPlans().Draw(t, "plan")
		ref.Scope = p.Subject.Scope()
		return keyed{ref, p}
	case reserve.RefBlock:
		b := Blocks().Draw(t, "block")
		ref.Scope = b.Subject.Scope()
		return keyed{ref, b}
	case reserve.RefSlot:
		ref.Limit, ref.Scope, ref.N = limitIDs().Draw(t, "limit"), scopes().Draw(t, "scope"), count().Draw(t, "n")
		return keyed{ref, Slots().Draw(t, "slot")}
	case reserve.RefHold:
		s := Slots().Draw(t, "slot")
		ref.ID = s.Hold
		return keyed{ref, s}
	case reserve.RefOpen, reserve.RefEnded:
		r := Records(kind == reserve.RefEnded).Draw(t, "record")
		ref.ID = r.ID
		return keyed{ref, r}
	case reserve.RefUsage:
		if ref.Scope = scopes().Draw(t, "scope"); ref.Scope == limits.AllScope {
			ref.Limit = limitIDs().Draw(t, "limit")
		}
		return keyed{ref, Counts().Draw(t, "counts")}
	case reserve.RefReplay:
		ref.ID = IDs().Draw(t, "id")
		return keyed{ref, Replays().Draw(t, "replay")}
	case reserve.RefTicket:
		ref.Limit, ref.Scope, ref.N = limitIDs().Draw(t, "limit"), scopes().Draw(t, "scope"), count().Draw(t, "rank")
		return keyed{ref, Tickets().Draw(t, "ticket")}
	case reserve.RefTrail:
		ref.N = count().Draw(t, "rank")
		return keyed{ref, Notes().Draw(t, "note")}
	case reserve.RefRollup:
		ref.Limit, ref.N = limitIDs().Draw(t, "limit"), count().Draw(t, "hour")
		return keyed{ref, Rollups().Draw(t, "rollup")}
	case reserve.RefTally:
		ref.Limit, ref.N = limitIDs().Draw(t, "limit"), count().Draw(t, "hour")
		return keyed{ref, Tallies().Draw(t, "tally")}
	case reserve.RefExceeded:
		ref.Limit, ref.Scope = limitIDs().Draw(t, "limit"), scopes().Draw(t, "scope")
		return keyed{ref, Marks().Draw(t, "mark")}
	case reserve.RefWebhook:
		ref.Scope = limitIDs().Draw(t, "id")
		return keyed{ref, Webhooks().Draw(t, "webhook")}
	case reserve.RefDelivery:
		ref.Scope = limitIDs().Draw(t, "id")
		return keyed{ref, Deliveries().Draw(t, "delivery")}
	case reserve.RefParcel:
		ref.Scope, ref.N = limitIDs().Draw(t, "id"), count().Draw(t, "rank")
		return keyed{ref, Parcels().Draw(t, "parcel")}
	case reserve.RefDuty:
		ref.Tenant, ref.Scope = "", "duty-"+rapid.StringMatching(`[a-z]{1,8}`).Draw(t, "name")
		return keyed{ref, Duties().Draw(t, "duty")}
	case reserve.RefReplica:
		r := Replicas().Draw(t, "replica")
		if r.ID = strings.Trim(r.ID, " "); r.ID == "" {
			r.ID = "r"
		}
		ref.Tenant, ref.Scope = "", r.ID
		return keyed{ref, r}
	case reserve.RefSecret:
		ref.Tenant, ref.Scope = "", "secret-"+rapid.StringMatching(`[a-z]{1,8}`).Draw(t, "name")
		return keyed{ref, reserve.Secret(rapid.SliceOfN(rapid.Byte(), 1, 64).Draw(t, "bytes"))}
	}
	panic("no such kind")
}
