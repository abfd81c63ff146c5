package reserve

import (
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
)

// charge adds the cost to every counting limit and puts each usage value once.
func (a *asking) charge(f *fold, dr *draft, cat *limits.Catalog, at time.Time) (made []Charge, err error) {
	if a.Cost == 0 {
		return a.chargeNothing(at), nil
	}
	var few [2]usageValue // a subject's own counts are one value, each shared limit's another
	values := few[:0]
	for i := range a.ss {
		ref := a.sets[i]
		if ref.isSet() || !a.ss[i].counts(a.Cost, at) {
			continue
		}
		k := slices.IndexFunc(values, func(v usageValue) bool { return v.ref == ref })
		if k < 0 {
			e, _ := f.read(ref)
			cs, _ := e.Value.(Counts)
			dr.guard(ref, ModIs, e.Mod)
			k = len(values)
			values = append(values, usageValue{ref, cs})
		}
		var c Charge
		values[k].counts, c, err = values[k].counts.charge(a.ss[i].rule, a.ss[i].scope, a.Cost, at)
		if err != nil && (a.ss[i].rule.Unlimited || a.ss[i].rule.Shadow) {
			continue // more than can be counted, where nothing is refused
		}
		if err != nil {
			return nil, err
		}
		made = append(made, c)
	}
	for _, v := range values {
		dr.put(usageWrite(v.ref, v.counts, cat, at))
	}
	return made, nil
}

// chargeNothing remembers which limits a cost of 0 was judged by: a commit may use more.
func (a *asking) chargeNothing(at time.Time) (made []Charge) {
	for i := range a.ss {
		if s := &a.ss[i]; !a.sets[i].isSet() {
			made = append(made, Charge{Limit: s.rule.ID, Scope: s.scope, Generation: s.gen, Slice: s.rule.Window.SliceAt(at)})
		}
	}
	return made
}

// usageValue is the counts of one scope as a request leaves them.
type usageValue struct {
	ref    Ref
	counts Counts
}

// usageWrite puts what is left to remember of cs on a lease that outlives its windows, or
// deletes the key when nothing is.
func usageWrite(ref Ref, cs Counts, cat *limits.Catalog, at time.Time) Write {
	kept, keep := cs.tidy(cat, at)
	if len(kept) == 0 {
		return Write{Ref: ref}
	}
	return Write{Ref: ref, Value: kept, Keep: keep, Grain: max(keep/8, leastUsageKeep/4)}
}
