package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/reserve"
)

// secretBytes is the length of the secrets made here: the key of an HMAC with SHA-256.
const secretBytes = 32

// Secret returns the secret of that name, the same on every replica; who asks first makes it,
// of 32 random bytes.
//
// Errors: reserve.ErrUnavailable; reserve.ErrUnknownOutcome and reserve.ErrFull, after which
// asking again finds what stands; reserve.ErrCorrupt, reserve.ErrNewer.
// Cost: one read, and one write the first time.
func (s *Store) Secret(ctx context.Context, name string) (reserve.Secret, error) {
	r := reserve.Ref{Kind: reserve.RefSecret, Scope: name}
	loaded, err := s.Load(ctx, []reserve.Ref{r}, true)
	if err != nil {
		return nil, err
	}
	e := loaded.Entries[0]
	if e.Mod == 0 {
		if e, err = s.makeSecret(ctx, r); err != nil {
			return nil, err
		}
	}
	if e.Fault != nil {
		return nil, fmt.Errorf("store: secret %q: %w", name, e.Fault)
	}
	secret, ok := e.Value.(reserve.Secret)
	if !ok {
		return nil, errors.New("store: a secret is none") // the codec gives no other type
	}
	return secret, nil
}

// makeSecret puts a new secret, or brings back the one of who was faster.
func (s *Store) makeSecret(ctx context.Context, r reserve.Ref) (reserve.Entry, error) {
	secret := make(reserve.Secret, secretBytes)
	_, _ = rand.Read(secret) // never fails: it ends the process instead
	res, err := s.Apply(ctx, reserve.Batch{Groups: []reserve.Group{{
		Catalog: reserve.AnyCatalog,
		Guards:  []reserve.Guard{{Ref: r, Cond: reserve.ModIs, Rev: 0}},
		Writes:  []reserve.Write{{Ref: r, Value: secret}},
		Reads:   []reserve.Ref{r},
	}}})
	if err != nil {
		return reserve.Entry{}, err
	}
	if o := res.Outcomes[0]; !o.Committed {
		return o.Seen[0], nil
	}
	return reserve.Entry{Ref: r, Value: secret, Create: res.Rev, Mod: res.Rev}, nil
}
