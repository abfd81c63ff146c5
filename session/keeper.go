package session

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/reserve"
)

// Bounds of sessions and links.
const (
	MaxLife   = 12 * time.Hour   // of a session, whatever it was started with
	LinkLife  = 10 * time.Minute // of a link nobody follows
	MaxSealed = 3_800            // bytes of a sealed session: browsers keep cookies of 4,096
	leastKey  = 32               // bytes
	idBytes   = 16               // of a session's id
)

// What can be wrong with a session or a link. Other errors are the store's: reserve.ErrUnavailable
// and its neighbours.
var (
	ErrNoSession = errors.New("session: not signed in")                       // none, forged, of another server, over, or ended
	ErrNoLink    = errors.New("session: the link was used, is old, or wrong") // nobody tells which
	ErrTooLong   = errors.New("session: the token's names are too long for a cookie")
)

// Config of a Keeper. Store, Leases, Key and Now are required.
type Config struct {
	Store  reserve.Store
	Leases reserve.Leaser
	Key    []byte           // shared by all replicas, at least 32 bytes
	Now    func() time.Time // the real clock
}

// Session is somebody signed in. Who.ExpiresAt is when the session ends by itself.
type Session struct {
	ID  string
	Who auth.Principal
}

// Keeper starts, opens and ends sessions. Safe for concurrent use.
type Keeper struct {
	cfg  Config
	seal sealer
}

// New makes a Keeper. Errors: all that is missing in cfg, joined.
func New(cfg Config) (*Keeper, error) {
	var faults []error
	need := func(ok bool, what string) {
		if !ok {
			faults = append(faults, fmt.Errorf("session: Config.%s", what))
		}
	}
	need(cfg.Store != nil, "Store is missing")
	need(cfg.Leases != nil, "Leases is missing")
	need(cfg.Now != nil, "Now is missing")
	need(len(cfg.Key) >= leastKey, "Key is shorter than 32 bytes")
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	s, err := newSealer(cfg.Key)
	if err != nil {
		return nil, err
	}
	return &Keeper{cfg: cfg, seal: s}, nil
}

// Start signs who in, for MaxLife and no longer than who.ExpiresAt (zero: MaxLife). sealed is
// for the browser to keep. Nothing is written.
// Errors: ErrTooLong; ErrNoSession when who has expired.
func (k *Keeper) Start(who auth.Principal) (sealed string, s Session, err error) {
	now := k.cfg.Now()
	s = Session{ID: randomID(), Who: bounded(who, now)}
	if !s.Who.ExpiresAt.After(now) {
		return "", Session{}, ErrNoSession
	}
	sealed, err = k.seal.close(sessionSeal, claimsOf(s))
	if err == nil && len(sealed) > MaxSealed {
		err = ErrTooLong
	}
	return sealed, s, err
}

// bounded is who with an end of at most MaxLife from now.
func bounded(who auth.Principal, now time.Time) auth.Principal {
	last := now.Add(MaxLife).UTC().Truncate(time.Second)
	if who.ExpiresAt.IsZero() || who.ExpiresAt.After(last) {
		who.ExpiresAt = last
	}
	who.IssuedAt = now.UTC().Truncate(time.Second)
	return who
}

// Open is the session that Start or Redeem sealed, on whatever replica.
// Errors: ErrNoSession. Cost: one read that need not be the newest: a session ended on another
// replica may be good here for the moment that replication takes.
func (k *Keeper) Open(ctx context.Context, sealed string) (Session, error) {
	var c claims
	if len(sealed) > MaxSealed || !k.seal.open(sessionSeal, sealed, &c) {
		return Session{}, ErrNoSession
	}
	s := c.session()
	if !s.Who.ExpiresAt.After(k.cfg.Now()) {
		return Session{}, ErrNoSession
	}
	got, err := k.cfg.Store.Load(ctx, []reserve.Ref{endedRef(s.ID)}, false)
	if err != nil {
		return Session{}, err
	}
	if got.Entries[0].Mod != 0 {
		return Session{}, ErrNoSession
	}
	return s, nil
}

// End ends a session on every replica. Ending it twice is ending it once.
// Cost: one write, kept until the session would have ended by itself.
func (k *Keeper) End(ctx context.Context, s Session) error {
	left := s.Who.ExpiresAt.Sub(k.cfg.Now())
	if left <= 0 {
		return nil
	}
	_, err := k.apply(ctx, reserve.Group{
		Catalog: reserve.AnyCatalog,
		Writes:  []reserve.Write{{Ref: endedRef(s.ID), Value: reserve.Secret{1}, Keep: left}},
	})
	return err
}

// endedRef is where it is noted that a session was ended.
func endedRef(id string) reserve.Ref {
	return reserve.Ref{Kind: reserve.RefSecret, Scope: "ended-" + id}
}

func randomID() string {
	var b [idBytes]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the process instead
	return hex.EncodeToString(b[:])
}
