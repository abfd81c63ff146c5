package memory

import (
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

// errMisuse marks batches that no right program sends. Nothing happened.
var errMisuse = errors.New("memory: wrong batch")

// apply is one transaction. As in etcd all comparisons come first, then the leases of the puts
// that would be made are looked up, and only then is anything written.
func (k *keyspace) apply(replica string, b reserve.Batch) (reserve.Result, error) {
	k.tick()
	if err := k.check(b); err != nil {
		return reserve.Result{}, err
	}
	if b.Marker != 0 && k.entry(markerRef(replica)).Create != b.Marker {
		return reserve.Result{Rev: k.rev, MarkerGone: true}, nil
	}
	outcomes := make([]reserve.Outcome, len(b.Groups))
	for i := range b.Groups {
		outcomes[i] = k.judge(&b.Groups[i])
	}
	if err := k.checkLeases(b.Groups, outcomes); err != nil {
		return reserve.Result{}, err
	}
	k.write(b.Groups, outcomes)
	return reserve.Result{Rev: k.rev, Outcomes: outcomes}, nil
}

// judge evaluates the comparisons of g and reads what it lost to.
func (k *keyspace) judge(g *reserve.Group) (o reserve.Outcome) {
	if g.Catalog != reserve.AnyCatalog {
		catalog := reserve.Ref{Tenant: g.Tenant, Kind: reserve.RefCatalog}
		if k.entry(catalog).Mod != g.Catalog {
			o.Moved = true
			return o
		}
	}
	if g.NoLine && k.anyLine(g.Tenant) {
		o.Moved = true
		return o
	}
	for i := range g.Guards {
		if !k.stands(&g.Guards[i]) {
			o.Seen = k.read(g.Reads)
			return o
		}
	}
	o.Committed = true
	return o
}

func (k *keyspace) stands(g *reserve.Guard) bool {
	if g.Cond == reserve.NoneFrom {
		return k.noneFrom(g.Ref, g.Rev)
	}
	var create, mod int64
	if it := k.items[g.Ref]; it != nil {
		create, mod = it.Create, it.Mod
	}
	switch g.Cond {
	case reserve.ModIs:
		return mod == g.Rev
	case reserve.CreateIs:
		return create == g.Rev
	case reserve.CreateIsNot:
		return create != g.Rev
	case reserve.NoneFrom: // answered above
	}
	return false // check has refused it
}

func (k *keyspace) read(refs []reserve.Ref) []reserve.Entry {
	entries := make([]reserve.Entry, len(refs))
	for i, ref := range refs {
		entries[i] = k.entry(ref)
	}
	return entries
}

// checkLeases finds a put that would be made on a lease that is no more.
func (k *keyspace) checkLeases(groups []reserve.Group, outcomes []reserve.Outcome) error {
	for i := range groups {
		if !outcomes[i].Committed {
			continue
		}
		for _, w := range groups[i].Writes {
			if w.Value != nil && w.Lease != 0 && k.leases[w.Lease] == nil {
				return &reserve.LeaseError{ID: w.Lease}
			}
		}
	}
	return nil
}

func (k *keyspace) write(groups []reserve.Group, outcomes []reserve.Outcome) {
	c := k.begin()
	for i := range groups {
		if !outcomes[i].Committed {
			continue
		}
		for j := range groups[i].Writes {
			w := &groups[i].Writes[j]
			if w.Value == nil {
				k.delete(&c, w.Ref)
				continue
			}
			k.put(&c, w.Ref, w.Value, w.Lease)
		}
	}
	k.end(&c)
}

// check refuses what is too big, and what would be a fault of the program.
func (k *keyspace) check(b reserve.Batch) error {
	widest := 0
	for i := range b.Groups {
		g := &b.Groups[i]
		widest = max(widest, len(g.Guards), spread(len(g.Writes)), len(g.Reads))
	}
	// Nested three deep: tenants, their groups, the widest group. Tenants and the groups of one
	// of them are at most one more than all groups.
	if 1+len(b.Groups)+widest > k.maxOps {
		return reserve.ErrTooBig
	}
	for i := range b.Groups {
		if err := checkGroup(&b.Groups[i]); err != nil {
			return fmt.Errorf("%w: group %d: %w", errMisuse, i, err)
		}
	}
	if err := k.checkKeys(b.Groups); err != nil {
		return fmt.Errorf("%w: %w", errMisuse, err)
	}
	return nil
}

// spread is how many operations that many writes of a group count, as the real store nests them.
func spread(writes int) int {
	const wide = 64
	if writes <= wide {
		return writes
	}
	size := 1
	for size*size < writes {
		size++
	}
	return (writes+size-1)/size + size
}

func checkGroup(g *reserve.Group) error {
	for _, guard := range g.Guards {
		if guard.Cond < reserve.ModIs || guard.Cond > reserve.NoneFrom || guard.Cond == reserve.NoneFrom && guard.Ref.Kind != reserve.RefTicket {
			return fmt.Errorf("no such condition: %d", guard.Cond)
		}
	}
	for i := range g.Writes {
		if w := &g.Writes[i]; w.Value != nil && !suits(w.Ref.Kind, w.Value) {
			return fmt.Errorf("%T is no value for %+v", w.Value, w.Ref)
		}
	}
	return nil
}

// fewKeys is up to how many writes each is compared with each, which saves a map.
const fewKeys = 16

// checkKeys sees that no key is written twice, and that no group writes what another names.
// Two groups that only compare or read a key do each other no harm.
func (k *keyspace) checkKeys(groups []reserve.Group) error {
	if len(groups) == 1 && max(len(groups[0].Guards), len(groups[0].Writes), len(groups[0].Reads)) <= fewKeys {
		return checkFew(groups[0].Writes)
	}
	clear(k.named)
	for i := range groups {
		for j := range groups[i].Writes {
			if err := k.name(i, groups[i].Writes[j].Ref, true); err != nil {
				return err
			}
		}
		for j := range groups[i].Guards {
			if groups[i].Guards[j].Cond == reserve.NoneFrom {
				continue // it names a range, and no key of it is put for being in it
			}
			if err := k.name(i, groups[i].Guards[j].Ref, false); err != nil {
				return err
			}
		}
		for _, ref := range groups[i].Reads {
			if err := k.name(i, ref, false); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkFew(writes []reserve.Write) error {
	for i := range writes {
		for j := range i {
			if writes[j].Ref == writes[i].Ref {
				return fmt.Errorf("%+v is written twice", writes[i].Ref)
			}
		}
	}
	return nil
}

// naming is which group of a batch names a key, and whether it writes it.
type naming struct {
	group int
	wrote bool
}

func (k *keyspace) name(group int, ref reserve.Ref, writes bool) error {
	before, ok := k.named[ref]
	switch {
	case ok && before.wrote && writes:
		return fmt.Errorf("%+v is written twice", ref)
	case ok && before.group != group && (before.wrote || writes):
		return fmt.Errorf("groups %d and %d both name %+v", before.group, group, ref)
	}
	k.named[ref] = naming{group: group, wrote: writes || before.wrote}
	return nil
}

// suits reports whether value is what DESIGN.md section 3 puts under keys of that kind.
func suits(kind reserve.RefKind, value any) (ok bool) {
	switch kind {
	case reserve.RefCatalog:
		_, ok = value.(reserve.Seq)
	case reserve.RefLimit:
		_, ok = value.(*limits.Limit)
	case reserve.RefOverride:
		_, ok = value.(*limits.Override)
	case reserve.RefFile:
		_, ok = value.(*limits.File)
	case reserve.RefPlan:
		_, ok = value.(*limits.SubjectPlan)
	case reserve.RefBlock:
		_, ok = value.(*limits.Block)
	case reserve.RefSlot, reserve.RefHold:
		_, ok = value.(*reserve.Slot)
	case reserve.RefOpen, reserve.RefEnded:
		_, ok = value.(*reserve.Record)
	case reserve.RefUsage:
		_, ok = value.(reserve.Counts)
	case reserve.RefReplay:
		_, ok = value.(*reserve.Replay)
	case reserve.RefTicket:
		_, ok = value.(*reserve.Ticket)
	case reserve.RefTrail:
		_, ok = value.(*reserve.Note)
	case reserve.RefRollup:
		_, ok = value.(*reserve.Rollup)
	case reserve.RefTally:
		_, ok = value.(*reserve.Tally)
	case reserve.RefExceeded:
		_, ok = value.(*reserve.Exceeded)
	case reserve.RefWebhook:
		_, ok = value.(*reserve.Webhook)
	case reserve.RefDelivery:
		_, ok = value.(*reserve.Delivery)
	case reserve.RefParcel:
		_, ok = value.(*reserve.Parcel)
	case reserve.RefDuty:
		_, ok = value.(*reserve.Duty)
	case reserve.RefReplica:
		_, ok = value.(*reserve.Replica)
	case reserve.RefSecret:
		_, ok = value.(reserve.Secret)
	}
	return ok
}
