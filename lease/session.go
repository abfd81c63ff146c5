package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// The session's times. Two keep-alives may fail before the lease is lost.
const (
	SessionTTL   = 10 * time.Second
	SessionEvery = 3 * time.Second

	sessionWithin = 2 * time.Second // of one call
)

// Session is the one lease of this process that is kept alive, for keys that are to go with
// it: its tickets in lines. Nothing that must last for a promised time may hang on it: a
// keep-alive passes raft by (etcd #14758, #21389, #13915), and a process that was asleep for
// SessionTTL finds it ended. It is granted when it is first asked for; how many keys hang on it
// is bounded by whoever puts them. Its methods may be called from several goroutines.
type Session struct {
	lease clientv3.Lease
	log   *slog.Logger

	mu      sync.Mutex // held during a grant: all who ask at the same time wait for the same one
	id      ID         // 0: none
	doubted bool       // a put may have found it ended: look before it is used again
}

// NewSession calls nothing. log nil: nothing is logged.
func NewSession(lease clientv3.Lease, log *slog.Logger) *Session {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Session{lease: lease, log: log}
}

// Lease is the session's lease, granted when there is none. It stands as far as anybody knows.
// Errors: ErrUnavailable, with ErrFull when etcd has no space. Cost: a lock, or one LeaseGrant.
func (s *Session) Lease(ctx context.Context) (ID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, sessionWithin)
	defer cancel()
	if s.doubted {
		if _, err := s.lease.KeepAliveOnce(ctx, clientv3.LeaseID(s.id)); errors.Is(err, rpctypes.ErrLeaseNotFound) {
			s.id = 0
		} else if err != nil {
			return 0, translate("look for the session", err)
		}
		s.doubted = false
	}
	if s.id != 0 {
		return s.id, nil
	}
	granted, err := s.lease.Grant(ctx, int64(SessionTTL/time.Second))
	if err != nil {
		return 0, translate("grant a session", err)
	}
	s.id = ID(granted.ID)
	return s.id, nil
}

// Stands asks etcd whether id is the session's lease and has not ended. Errors: ErrUnavailable
// when etcd does not answer. Cost: one call, which keeps it alive as well; none for another id.
func (s *Session) Stands(ctx context.Context, id ID) (bool, error) {
	s.mu.Lock()
	mine := s.id == id && id != 0
	s.mu.Unlock()
	if !mine {
		return false, nil
	}
	err := s.renew(ctx, id)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Ended says that a put on id was refused because there is no such lease; 0: it may have been
// this one, which is looked for before it is used again.
func (s *Session) Ended(id ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case id == 0:
		s.doubted = s.id != 0
	case id == s.id:
		s.id, s.doubted = 0, false
	}
}

// Run keeps the lease alive until ctx ends and returns nil then; the lease runs out by itself.
// Cost: one call each SessionEvery once there is a lease, however many keys hang on it.
func (s *Session) Run(ctx context.Context) error {
	ticker := time.NewTicker(SessionEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		s.mu.Lock()
		id := s.id
		s.mu.Unlock()
		if id == 0 {
			continue
		}
		if err := s.renew(ctx, id); err != nil && ctx.Err() == nil {
			s.log.Warn("the session lease cannot be kept alive", "error", err)
		}
	}
}

// renew keeps id alive, and forgets it when it has ended.
func (s *Session) renew(ctx context.Context, id ID) error {
	ctx, cancel := context.WithTimeout(ctx, sessionWithin)
	defer cancel()
	_, err := s.lease.KeepAliveOnce(ctx, clientv3.LeaseID(id))
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		s.Ended(id)
		return fmt.Errorf("lease: the session has ended: %w", err)
	}
	if err != nil {
		return translate("keep the session alive", err)
	}
	return nil
}
