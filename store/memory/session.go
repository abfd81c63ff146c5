package memory

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/reserve"
)

// What the session lease goes by.
const (
	sessionSeconds = 10
	sessionEvery   = 3 * time.Second
)

// Session is the lease of the model that one replica keeps alive: reserve.Sessions. The faults
// Down and Full of the replica's View hold for it too. Safe for concurrent use.
type Session struct {
	view *View

	mu sync.Mutex
	id reserve.LeaseID // 0: none
}

var _ reserve.Sessions = (*Session)(nil)

// Session is one for replica. Run, or Tick every few seconds, keeps it alive.
func (s *Store) Session(replica string) *Session { return &Session{view: s.View(replica)} }

// Run keeps the lease alive until ctx ends; then it runs out by itself.
func (s *Session) Run(ctx context.Context) {
	ticker := time.NewTicker(sessionEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.Tick()
		}
	}
}

// Tick starts the lease at its full length again if it still stands.
func (s *Session) Tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id != 0 && s.view.leasable() == nil && !s.view.keys.renew(s.id) {
		s.id = 0
	}
}

// Session is reserve.Sessions'. Errors: ErrUnavailable, ErrFull.
func (s *Session) Session(context.Context) (reserve.LeaseID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id != 0 {
		return s.id, nil
	}
	if err := s.view.leasable(); err != nil {
		return 0, err
	}
	id, err := s.view.keys.grantLocked(sessionSeconds)
	s.id = id
	return id, err
}

// Stands is reserve.Sessions'.
func (s *Session) Stands(_ context.Context, id reserve.LeaseID) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id != id {
		return false, nil
	}
	if err := s.view.leasable(); err != nil {
		return false, err
	}
	return s.view.keys.alive(id), nil
}

// Ended is reserve.Sessions'.
func (s *Session) Ended(id reserve.LeaseID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id == s.id || id == 0 && !s.view.keys.alive(s.id) {
		s.id = 0
	}
}

// renew starts a lease at its full length again; false when it has ended.
func (k *keyspace) renew(id reserve.LeaseID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tick()
	l := k.leases[id]
	if l == nil {
		return false
	}
	l.due = k.now().Add(l.ttl)
	return true
}

func (k *keyspace) alive(id reserve.LeaseID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tick()
	return k.leases[id] != nil
}
