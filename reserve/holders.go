package reserve

// overdue is a hold that has run out and still stands in the way, nil when there is none. Its
// end is hastened: nobody is refused for a slot that is coming free this instant.
func (a *asking) overdue(f *fold, d Decision) *live {
	for i, v := range d.Verdicts {
		set := f.p.sets[f.p.names.key(a.sets[i])]
		if v.Why != NoSlot || set == nil {
			continue
		}
		f.p.hurry(set, f.p.at(f.now))
		for _, l := range set.soonest() {
			if l.ttl > 0 && l.ends <= f.p.at(f.now) {
				return l
			}
		}
	}
	return nil
}

// nameHolders says who holds the slots of the limit that refuses most strictly. Whose a slot
// of a limit shared by all is, only the record tells; unknown are the records not met yet,
// which the read that confirms the refusal brings along; before it nobody is named.
func (a *asking) nameHolders(f *fold, d *Decision, fresh bool) (unknown []Ref) {
	if d.Binding < 0 || d.Verdicts[d.Binding].Why != NoSlot {
		return nil
	}
	ref := a.sets[d.Binding]
	set := f.p.sets[f.p.names.key(ref)]
	if set == nil {
		return nil
	}
	first := set.soonest()
	if fresh {
		d.Holders = make([]Holder, 0, len(first))
	}
	for i, l := range first {
		rec := set.recordOf(f.p, i)
		if rec == nil {
			unknown = append(unknown, openRef(l.tenant, l.id))
		}
		if fresh {
			d.Holders = append(d.Holders, f.p.holder(l, rec, set, f.now))
		}
	}
	return unknown
}
