package memory

import (
	"time"

	"github.com/holdfast-dev/holdfast/reserve"
)

// defaultMaxOps is etcd's own default for operations in one transaction.
const defaultMaxOps = 128

// Config of a Store. Now is required, the rest is optional.
type Config struct {
	Now     func() time.Time // the clock of the leader: leases run by it
	Replica string           // whose marker the Store itself compares; "" is a name like any other
	MaxOps  int              // operations a transaction may have; 0: 128

	// Record is told each revision in order: what it put and what it deleted. It is called with
	// the keyspace locked, so it must be quick and must not call back. nil: nobody is told.
	Record func(rev int64, puts []reserve.Entry, deletes []reserve.Deleted)

	// CheckValues makes Tick panic when a value was changed after it had been put. Slow: for tests.
	CheckValues bool
}

// Store is one keyspace, and what Config.Replica sees of it: all methods of its View.
type Store struct {
	*own
	keys *keyspace
}

// own is View under a name that leaves the name to Store's method.
type own = View

var (
	_ reserve.Store  = (*View)(nil)
	_ reserve.Lister = (*View)(nil)
)

// New returns an empty keyspace at revision 1, like a new etcd.
func New(cfg Config) *Store {
	keys := newKeyspace(cfg)
	return &Store{own: keys.view(cfg.Replica), keys: keys}
}

// View is the keyspace as replica sees it; the same View for the same replica.
func (s *Store) View(replica string) *View { return s.keys.view(replica) }

// Tick ends the leases that are due by Config.Now and deletes their keys, one revision a
// lease. Every Apply and Load does it too, and so does a follower when a lease comes due.
func (s *Store) Tick() {
	s.keys.mu.Lock()
	defer s.keys.mu.Unlock()
	s.keys.tick()
	s.keys.checkValues()
	s.keys.feed.wakeAll()
}

// Rearm is a change of leader: every lease starts again at its full TTL.
func (s *Store) Rearm() {
	s.keys.mu.Lock()
	defer s.keys.mu.Unlock()
	s.keys.tick()
	s.keys.rearm()
}

// CompactNow forgets all history: every follower starts over with a Reset.
func (s *Store) CompactNow() {
	s.keys.mu.Lock()
	defer s.keys.mu.Unlock()
	s.keys.feed.compact()
}

// Spoil makes what stands under ref unreadable, as a foreign writer or a flipped bit would:
// fault is reserve.ErrCorrupt or reserve.ErrNewer. It reports whether anything stood there.
func (s *Store) Spoil(ref reserve.Ref, fault error) bool {
	s.keys.mu.Lock()
	defer s.keys.mu.Unlock()
	s.keys.tick()
	it := s.keys.items[ref]
	if it == nil {
		return false
	}
	c := s.keys.begin()
	it.Value, it.Fault, it.Mod, it.print = nil, fault, c.rev, ""
	c.put(it.Entry)
	s.keys.end(&c)
	return true
}
