package session

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/limits"
)

// What a seal is for; one is never taken for the other.
const (
	sessionSeal = "holdfast session 1"
	linkSeal    = "holdfast link 1"
)

// claims are what is sealed. No narrowing of act-for is among them: the page acts for nobody.
type claims struct {
	ID        string `json:"id"`
	Tenant    string `json:"tenant"`
	Issuer    string `json:"iss"`
	Kind      string `json:"kind"`
	Subject   string `json:"sub"`
	Scopes    string `json:"scope"`
	Issued    int64  `json:"iat"` // Unix seconds
	Expires   int64  `json:"exp"`
	LinkUntil int64  `json:"link,omitempty"` // of a link
}

func claimsOf(s Session) claims {
	return claims{
		ID: s.ID, Tenant: s.Who.Tenant, Issuer: s.Who.Issuer, Kind: s.Who.Subject.Kind, Subject: s.Who.Subject.ID,
		Scopes: s.Who.Scopes.String(), Issued: s.Who.IssuedAt.Unix(), Expires: s.Who.ExpiresAt.Unix(),
	}
}

func (c claims) session() Session {
	return Session{ID: c.ID, Who: auth.Principal{
		Tenant: c.Tenant, Issuer: c.Issuer, Subject: limits.Subject{Kind: c.Kind, ID: c.Subject},
		Scopes: auth.ParseScopes(c.Scopes), Patterns: []auth.SubjectPattern{},
		IssuedAt: time.Unix(c.Issued, 0).UTC(), ExpiresAt: time.Unix(c.Expires, 0).UTC(),
	}}
}

// sealer encrypts and authenticates under one key: AES-256-GCM with a random nonce. At 2^32
// seals of a key the nonces would have to be feared; a sign-in a second is 136 years.
type sealer struct{ aead cipher.AEAD }

func newSealer(secret []byte) (sealer, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, "holdfast sessions", sha256.Size)
	if err != nil {
		return sealer{}, fmt.Errorf("session: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return sealer{}, fmt.Errorf("session: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return sealer{aead}, err
}

// close seals c for use.
func (s sealer) close(use string, c claims) (string, error) {
	plain, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("session: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, plain, []byte(use))), nil
}

// open reports whether text is what close made for the same use.
func (s sealer) open(use, text string, into *claims) bool {
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return false
	}
	plain, err := s.aead.Open(nil, nil, sealed, []byte(use))
	return err == nil && json.Unmarshal(plain, into) == nil
}
