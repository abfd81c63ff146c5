package auth

import (
	"errors"
	"strconv"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
)

var (
	// ErrUnauthenticated says that the token is no proof of who calls. It is always wrapped
	// with a reason that may be shown to the caller: no reason quotes the token.
	ErrUnauthenticated = errors.New("unauthenticated")

	// ErrForbidden says that the caller is known and lacks the scope or the subject. This
	// package never returns it: it is the value callers of Has and MayActFor refuse with.
	ErrForbidden = errors.New("forbidden")

	// ErrKeysUnavailable says that no key set can be used, so that nothing can be told about
	// the token: none was ever loaded, the last is too old, or the caller's context ended
	// while keys were being fetched. It is our trouble, not the caller's.
	ErrKeysUnavailable = errors.New("keys unavailable")
)

// DefaultTenant is the key space of a token without a tenant claim.
const DefaultTenant = "default"

// DefaultSubjectKind is the kind of a token without a subject_kind claim.
const DefaultSubjectKind = "user"

// Principal is who calls, as the token proves it. It is shared between calls by the cache
// of verified tokens: treat it, Patterns included, as immutable.
type Principal struct {
	Tenant  string         // the key space; nothing crosses it
	Issuer  string         // claim iss
	Subject limits.Subject // the caller's own: claims subject_kind and sub
	Scopes  ScopeSet
	// Patterns narrow ActFor to the subjects they match. Nil when the token has no subjects
	// claim, which narrows nothing; empty but not nil matches nobody.
	Patterns []SubjectPattern
	TokenID  string // claim jti, empty when absent

	IssuedAt, ExpiresAt time.Time // claims iat and exp, UTC, whole seconds; leeway not included
}

// ID is the identity of the caller across tokens and replicas: what idempotency keys belong
// to and what "made by this principal" compares. It names issuer, subject kind and sub and
// nothing else, injectively: distinct triples have distinct IDs. The tenant is not in it.
//
// Its form is kind:length:issuer:sub with the issuer's length in bytes. A kind has no colon
// and the length fences the issuer off, so that no part can pretend to be another.
// Cost: one allocation.
func (p Principal) ID() string {
	return p.Subject.Kind + ":" + strconv.Itoa(len(p.Issuer)) + ":" + p.Issuer + ":" + p.Subject.ID
}

// Has reports whether the token grants s, by itself or by a scope that includes it.
func (p Principal) Has(s Scope) bool { return p.Scopes.Has(s) }

// MayActFor reports whether the caller may act for s. Its own subject always; any other with
// ActFor (or Admin, which includes it), when Patterns is nil or one of them matches.
//
// Pure. Cost: at most 100 comparisons.
func (p Principal) MayActFor(s limits.Subject) bool {
	if s == p.Subject {
		return true
	}
	if !p.Has(ActFor) {
		return false
	}
	if p.Patterns == nil {
		return true
	}
	for _, pattern := range p.Patterns {
		if pattern.Matches(s) {
			return true
		}
	}
	return false
}
