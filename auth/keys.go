package auth

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"
)

// The algorithms, all of them. Which one a token may use is a property of the key alone.
const (
	algEdDSA = "EdDSA"
	algES256 = "ES256"
	algRS256 = "RS256"
	algHS256 = "HS256"
)

const (
	maxKeys        = 20
	maxKeySetBytes = 256 << 10
	minSecretBytes = 32
	minRSABits     = 2048
	maxRSABits     = 8192 // larger ones make one verification cost milliseconds
)

// KeySource gives the keys that tokens are verified with. Its makers are JWKSURL, JWKSFile,
// PEMFile, HS256Secret, StaticKeys and Signer.KeySource. A source belongs to one Verifier.
type KeySource interface {
	// start is called once, before any other method; stop ends what the source has running.
	start(env sourceEnv) (stop func())
	// current is the set to use at now, nil when there is none. It never waits for a network.
	// The same pointer means the same keys: cached answers rest on it.
	current(now time.Time) *keySet
	// refresh asks for keys again if that is allowed now, and waits for the answer. It is
	// called when there is no set or a token names a key that is not in it. The error is
	// that of ctx.
	refresh(ctx context.Context, now time.Time) (*keySet, error)
}

// sourceEnv is what a source needs of its Verifier.
type sourceEnv struct {
	now     time.Time // of the start
	log     *slog.Logger
	fetched func(ok bool) // counts key fetches
}

// key is one trusted key with the one algorithm it is for.
type key struct {
	id       string // kid; empty for a key that is alone in its set
	alg      string
	material any // as golang-jwt wants it: a public key, or []byte for HS256
}

// keySet is immutable.
type keySet struct {
	keys   []key
	digest [sha256.Size]byte // of the document it was read from; zero for fixed sets
}

var (
	errNoKeyID    = errors.New("the token names no key and there is more than one")
	errUnknownKey = errors.New("the token names an unknown key")
	errWrongAlg   = errors.New("the token's algorithm is not the key's")
)

// find is the key that a token with this kid (empty when absent) and algorithm must be
// verified with. Never more than one is tried. errUnknownKey is the only error that newer
// keys could cure.
func (s *keySet) find(id, alg string) (key, error) {
	alone := len(s.keys) == 1 && (id == "" || s.keys[0].id == "")
	err := errUnknownKey
	if id == "" {
		err = errNoKeyID
	}
	for _, k := range s.keys {
		switch {
		case !alone && (id == "" || k.id != id):
		case k.alg != alg:
			err = errWrongAlg
		default:
			return k, nil
		}
	}
	return key{}, err
}

// newKey binds a public key to its algorithm, or says why it cannot be trusted.
func newKey(id string, public crypto.PublicKey) (key, error) {
	switch k := public.(type) {
	case ed25519.PublicKey:
		if len(k) != ed25519.PublicKeySize {
			return key{}, fmt.Errorf("an Ed25519 key has %d bytes, want %d", len(k), ed25519.PublicKeySize)
		}
		return key{id, algEdDSA, k}, nil
	case *ecdsa.PublicKey:
		if k.Curve != elliptic.P256() {
			return key{}, errors.New("an elliptic key is not on P-256")
		}
		return key{id, algES256, k}, nil
	case *rsa.PublicKey:
		if bits := k.N.BitLen(); bits < minRSABits || bits > maxRSABits {
			return key{}, fmt.Errorf("an RSA key has %d bits, want %d to %d", bits, minRSABits, maxRSABits)
		}
		if k.E < 3 || k.E%2 == 0 {
			return key{}, errors.New("an RSA key has a bad exponent")
		}
		return key{id, algRS256, k}, nil
	default:
		return key{}, fmt.Errorf("keys of type %T are not supported; use Ed25519, P-256 or RSA", public)
	}
}

// fixedKeys is a source that never changes.
type fixedKeys struct{ set *keySet }

func (f fixedKeys) start(sourceEnv) func()                              { return func() {} }
func (f fixedKeys) current(time.Time) *keySet                           { return f.set }
func (f fixedKeys) refresh(context.Context, time.Time) (*keySet, error) { return f.set, nil }

// StaticKeys trusts public keys by key identifier: Ed25519, P-256 or RSA of 2,048 to 8,192
// bits, 1 to 20 of them. Tokens must name their key unless there is only one.
//
// Errors: every fault, joined.
func StaticKeys(byID map[string]crypto.PublicKey) (KeySource, error) {
	if n := len(byID); n == 0 || n > maxKeys {
		return nil, fmt.Errorf("%d public keys given, want 1 to %d", n, maxKeys)
	}
	set := &keySet{}
	var faults []error
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		k, err := newKey(id, byID[id])
		if err == nil && !validKeyID(id) {
			err = fmt.Errorf("key identifier %q is not 1 to %d of A-Z a-z 0-9 . _ -", id, maxKeyIDBytes)
		}
		faults = append(faults, err)
		set.keys = append(set.keys, k)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return fixedKeys{set}, nil
}

// HS256Secret trusts tokens signed with a shared secret of at least 32 bytes, and no others:
// a secret never stands beside public keys, so that no public key can pass for a secret.
// The secret is copied.
func HS256Secret(secret []byte) (KeySource, error) {
	if len(secret) < minSecretBytes {
		return nil, fmt.Errorf("the HS256 secret has %d bytes, want at least %d", len(secret), minSecretBytes)
	}
	return fixedKeys{&keySet{keys: []key{{alg: algHS256, material: slices.Clone(secret)}}}}, nil
}
