package reserve

// What a batch frees is what those in line wait for. Whose turn comes with it is decided at once,
// while the batch is on its way, and its own batch follows behind: the two are often one write to
// etcd's log. It is a hope, not a fact: the grant compares that the slot is free, so one that
// comes too early, or whose slot was not freed, changes nothing and is decided anew on what stands.

// hopeFor has those decided who are next for the slots that a batch frees, one a slot.
func (d *desk) hopeFor(plans []Group) {
	if len(d.p.lines.byScope) == 0 || d.closing {
		return
	}
	var next map[*line]int
	for i := range plans {
		for k := range plans[i].Writes {
			slot := plans[i].Writes[k].Ref
			if slot.Kind != RefSlot || plans[i].Writes[k].Value != nil {
				continue
			}
			l := d.p.lines.of(lineKey(slot))
			if l == nil || next[l] == len(l.tickets) {
				continue
			}
			at := l.tickets[next[l]]
			if at.ticket == nil || at.ticket.Away {
				continue
			}
			w := d.waiters[at.holder()]
			if w == nil || w.busy {
				continue
			}
			w.a.hope = slot
			d.decide(w)
			if next == nil {
				next = map[*line]int{}
			}
			next[l]++
		}
	}
}

// hopes says whether the slot that the check hopes for is still on its way to be freed, and is
// the only one of its set that it could take: all others up to amount are taken, and none beyond.
func (a *asking) hopes(f *fold, set *slotSet, amount int64) bool {
	return a.hope.Kind == RefSlot && f.p.names.key(a.hope) == set.key && f.busy(a.hope) &&
		set.count == amount && set.lowest() == amount && a.hope.N < amount
}
