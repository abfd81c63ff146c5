package lease

import (
	"slices"
	"time"
)

// entry is a lease that is being granted or has been. Instants are readings of the wheel's
// clock. All fields but ready are guarded by the wheel's lock; id and err do not change once
// ready is closed.
type entry struct {
	deadline time.Duration // it ends no sooner
	ends     time.Duration // it ends no sooner, with the TTL's rounding to whole seconds
	keys     int           // handed out for so many, at most KeysPerLease
	ready    chan struct{} // closed when it is granted or failed
	id       int64
	err      error
}

// book remembers leases. It is thrown away as a whole when they can no longer be trusted; a
// grant that was under way then is noted in the old book, where nobody looks.
type book struct {
	open  shelf // with room for keys, those being granted included
	all   shelf // granted, the full ones included
	known map[int64]*entry
}

func newBook() *book { return &book{known: make(map[int64]*entry)} }

// forget drops what has ended at now, and of more than maxRemembered those that end first.
func (b *book) forget(now time.Duration) {
	past := max(b.all.from(now+1), len(b.all)-maxRemembered)
	for _, e := range b.all[:past] {
		delete(b.known, e.id)
		b.open.remove(e)
	}
	b.all = slices.Delete(b.all, 0, past)
}

// lasts reports whether id is remembered and ends no sooner than need.
func (b *book) lasts(id int64, need time.Duration) bool {
	e := b.known[id]
	return e != nil && e.ends >= need
}

// take counts one more key on a lease with room that ends within [need, latest], and makes
// an entry for latest when there is none; then it must be granted by the caller.
//
// Any lease in that range will do, whoever it was granted for, so that holds of many different
// lengths share leases as well as holds of one length do.
func (b *book) take(need, latest time.Duration) (e *entry, isNew bool) {
	i := b.open.from(need)
	if i < len(b.open) && b.open[i].deadline <= latest {
		e = b.open[i]
	} else {
		e, isNew = &entry{deadline: latest, ready: make(chan struct{})}, true
		b.open.add(e)
	}
	if e.keys++; e.keys == KeysPerLease {
		b.open.remove(e)
	}
	return e, isNew
}

// granted notes that e has become lease id and lasts until ends.
func (b *book) granted(e *entry, id int64, ends time.Duration) {
	e.id, e.ends = id, ends
	b.known[id] = e
	b.all.add(e)
	close(e.ready)
}

// failed takes e out, so that the next caller tries again.
func (b *book) failed(e *entry, err error) {
	e.err = err
	b.open.remove(e)
	close(e.ready)
}

// drop forgets lease id.
func (b *book) drop(id int64) {
	e := b.known[id]
	if e == nil {
		return
	}
	delete(b.known, id)
	b.all.remove(e)
	b.open.remove(e)
}

// shelf is a list of entries in order of their deadlines.
type shelf []*entry

// from is the place of the first entry that ends at d or later.
func (s shelf) from(d time.Duration) int {
	i, _ := slices.BinarySearchFunc(s, d, func(e *entry, d time.Duration) int {
		if e.deadline < d {
			return -1
		}
		return 1 // also when equal: the first of equals is wanted
	})
	return i
}

func (s *shelf) add(e *entry) { *s = slices.Insert(*s, s.from(e.deadline), e) }

// remove takes e out if it is in.
func (s *shelf) remove(e *entry) {
	for i := s.from(e.deadline); i < len(*s) && (*s)[i].deadline == e.deadline; i++ {
		if (*s)[i] == e {
			*s = slices.Delete(*s, i, i+1)
			return
		}
	}
}
