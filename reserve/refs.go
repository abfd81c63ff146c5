package reserve

import "github.com/holdfast-dev/holdfast/limits"

// setRef stands for all slots of a limit within a scope: whoever picks one touches it. It is
// no key of the store.
func setRef(tenant, limit, scope string) Ref {
	return Ref{Tenant: tenant, Kind: RefSlot, Limit: limit, Scope: scope, N: -1}
}

func (r Ref) isSet() bool { return r.Kind == RefSlot && r.N < 0 }

func usageRef(tenant, limit, scope string) Ref {
	if scope == limits.AllScope {
		return Ref{Tenant: tenant, Kind: RefUsage, Limit: limit, Scope: scope}
	}
	return Ref{Tenant: tenant, Kind: RefUsage, Scope: scope}
}

func (p Place) ref(tenant string) Ref {
	return Ref{Tenant: tenant, Kind: RefSlot, Limit: p.Limit, Scope: p.Scope, N: p.N}
}

// keys are the keys that keep rec's hold alive: its slots, or its hold key.
func (rec *Record) keys(tenant string) []Ref {
	if len(rec.Places) == 0 {
		return []Ref{{Tenant: tenant, Kind: RefHold, ID: rec.ID}}
	}
	out := make([]Ref, len(rec.Places))
	for i, p := range rec.Places {
		out[i] = p.ref(tenant)
	}
	return out
}

func openRef(tenant string, id ID) Ref { return Ref{Tenant: tenant, Kind: RefOpen, ID: id} }

func endedRef(tenant string, id ID) Ref { return Ref{Tenant: tenant, Kind: RefEnded, ID: id} }
