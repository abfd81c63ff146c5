package memory

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/reserve"
)

// Bounds of a lease's TTL in seconds, as etcd has them: less is silently raised, more refused.
const (
	minLeaseSeconds = 2
	maxLeaseSeconds = 9_000_000_000
)

// firstLease only makes ids look unlike revisions and counts in a failing test's output.
const firstLease = reserve.LeaseID(0x1000)

// lease is one lease of the model and the keys that hang on it.
type lease struct {
	id    reserve.LeaseID
	ttl   time.Duration
	due   time.Time
	items []*item
}

// grant makes a lease that ends ttlSeconds from now.
func (k *keyspace) grant(ttlSeconds int64) (reserve.LeaseID, error) {
	if ttlSeconds > maxLeaseSeconds {
		return 0, fmt.Errorf("memory: a lease of %d s is too long", ttlSeconds)
	}
	ttl := time.Duration(max(ttlSeconds, minLeaseSeconds)) * time.Second
	k.lastLease++
	l := &lease{id: firstLease + k.lastLease, ttl: ttl, due: k.now().Add(ttl)}
	k.leases[l.id] = l
	k.sooner(l.due)
	return l.id, nil
}

// sooner keeps due the earliest end of all leases.
func (k *keyspace) sooner(due time.Time) {
	if k.due.IsZero() || due.Before(k.due) {
		k.due = due
	}
}

// rearm starts every lease again at its full TTL.
func (k *keyspace) rearm() {
	now := k.now()
	k.due = time.Time{}
	for _, l := range k.leases {
		l.due = now.Add(l.ttl)
		k.sooner(l.due)
	}
}

// tick ends the leases that are due, the earliest first.
func (k *keyspace) tick() {
	now := k.now()
	if k.due.IsZero() || now.Before(k.due) {
		return
	}
	var ended []*lease
	k.due = time.Time{}
	for _, l := range k.leases {
		if now.Before(l.due) {
			k.sooner(l.due)
			continue
		}
		ended = append(ended, l)
	}
	slices.SortFunc(ended, func(a, b *lease) int {
		return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.id, b.id))
	})
	for _, l := range ended {
		k.expire(l)
	}
}

// expire deletes all keys of l in one revision.
func (k *keyspace) expire(l *lease) {
	delete(k.leases, l.id)
	refs := make([]reserve.Ref, len(l.items))
	for i, it := range l.items {
		refs[i] = it.Ref
	}
	slices.SortFunc(refs, compareRefs)
	c := k.begin()
	for _, ref := range refs {
		k.delete(&c, ref)
	}
	k.end(&c)
}

// attach moves it to the lease of that id; 0 is none. Anything else must be alive.
func (k *keyspace) attach(it *item, id reserve.LeaseID) {
	if it.Lease == id {
		return
	}
	k.detach(it)
	if id == 0 {
		return
	}
	l := k.leases[id]
	it.lease, it.Lease, it.place = l, id, len(l.items)
	l.items = append(l.items, it)
}

func (k *keyspace) detach(it *item) {
	l := it.lease
	if l == nil {
		return
	}
	last := len(l.items) - 1
	l.items[it.place] = l.items[last]
	l.items[it.place].place = it.place
	l.items[last] = nil
	l.items = l.items[:last]
	it.lease, it.Lease = nil, 0
}
