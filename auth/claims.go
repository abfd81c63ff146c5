package auth

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
)

// maxAhead is how far in the future a token may say it was issued: clocks differ, but a
// token from tomorrow would outlive the bound on its lifetime.
const maxAhead = 60 * time.Second

// maxUnixSeconds is the end of the year 9999, past which instants cannot be written.
const maxUnixSeconds = 253_402_300_799

// rules is what a token's claims are judged by; immutable.
type rules struct {
	issuer, audience    string
	leeway, maxLifetime time.Duration
}

// judge makes a Principal of claims whose signature is good, or gives the first reason not to.
// Pure: now is the one reading of the clock of this verification.
func (r rules) judge(claims map[string]any, now time.Time) (Principal, error) {
	c := &claimReader{claims: claims}
	if c.required("iss") != r.issuer {
		c.fail("the issuer is not the one trusted here")
	}
	if !slices.Contains(c.audience(), r.audience) {
		c.fail("the token is for another audience")
	}
	issuedAt, expiresAt := r.judgeTimes(c, now)
	p := Principal{
		Issuer:    r.issuer,
		Tenant:    c.optional("tenant", DefaultTenant),
		Subject:   limits.Subject{Kind: c.optional("subject_kind", DefaultSubjectKind), ID: c.required("sub")},
		Scopes:    ParseScopes(c.optional("scope", "")),
		Patterns:  c.patterns(),
		TokenID:   c.optional("jti", ""),
		IssuedAt:  issuedAt,
		ExpiresAt: expiresAt,
	}
	switch {
	case c.err != nil:
	case !validText(p.Subject.ID):
		c.fail("claim sub is not 1 to 255 bytes of readable text")
	case !validKind(p.Subject.Kind):
		c.fail("claim subject_kind does not match [a-z][a-z0-9_-]{0,31}")
	case !ValidTenant(p.Tenant):
		c.fail("claim tenant does not match [a-z0-9][a-z0-9-]{0,62}")
	case p.TokenID != "" && !validText(p.TokenID):
		c.fail("claim jti is not up to 255 bytes of readable text")
	}
	if c.err != nil {
		return Principal{}, c.err
	}
	return p, nil
}

func (r rules) judgeTimes(c *claimReader, now time.Time) (issuedAt, expiresAt time.Time) {
	expiresAt = c.instant("exp", true)
	issuedAt = c.instant("iat", true)
	notBefore := c.instant("nbf", false)
	switch {
	case r.expired(expiresAt, now):
		c.fail("the token has expired")
	case issuedAt.After(now.Add(maxAhead)):
		c.fail("the token was issued in the future")
	case notBefore.After(now.Add(r.leeway)):
		c.fail("the token is not valid yet")
	case expiresAt.Sub(issuedAt) > r.maxLifetime:
		c.fail("the token lives longer than is allowed")
	}
	return issuedAt, expiresAt
}

// expired is also asked of every cached token, so that a cache never prolongs one.
func (r rules) expired(expiresAt, now time.Time) bool {
	return !expiresAt.After(now.Add(-r.leeway))
}

// claimReader reads typed claims and keeps the first fault. A claim that is there with
// another type, null included, is a fault and never the default.
type claimReader struct {
	claims map[string]any
	err    error
}

func (c *claimReader) fail(reason string) {
	if c.err == nil {
		c.err = refusal(reason)
	}
}

func (c *claimReader) required(name string) string {
	if _, there := c.claims[name]; !there {
		c.fail("claim " + name + " is missing")
		return ""
	}
	return c.optional(name, "")
}

func (c *claimReader) optional(name, absent string) string {
	v, there := c.claims[name]
	if !there {
		return absent
	}
	s, ok := v.(string)
	if !ok {
		c.fail("claim " + name + " is not a string")
	}
	return s
}

// audience is the aud claim as a list: it may be written as a single string.
func (c *claimReader) audience() []string {
	if s, single := c.claims["aud"].(string); single {
		return []string{s}
	}
	list, there := c.list("aud")
	if !there {
		c.fail("claim aud is missing")
	}
	return list
}

// patterns is nil exactly when there is no subjects claim.
func (c *claimReader) patterns() []SubjectPattern {
	list, there := c.list("subjects")
	if !there {
		return nil
	}
	if len(list) > maxPatterns {
		c.fail("claim subjects has more than 100 entries")
		return nil
	}
	patterns := make([]SubjectPattern, 0, len(list))
	for _, s := range list {
		p, err := ParseSubjectPattern(s)
		if err != nil {
			c.fail("claim subjects: " + err.Error())
		}
		patterns = append(patterns, p)
	}
	return patterns
}

func (c *claimReader) list(name string) (list []string, there bool) {
	v, there := c.claims[name]
	if !there {
		return nil, false
	}
	array, ok := v.([]any)
	if !ok {
		c.fail("claim " + name + " is not a list of strings")
	}
	for _, entry := range array {
		s, ok := entry.(string)
		if !ok {
			c.fail("claim " + name + " is not a list of strings")
		}
		list = append(list, s)
	}
	return list, true
}

// instant reads seconds since the Unix epoch. RFC 7519 allows fractions; they are cut off,
// which for exp is the strict side.
func (c *claimReader) instant(name string, required bool) time.Time {
	v, there := c.claims[name]
	if !there {
		if required {
			c.fail("claim " + name + " is missing")
		}
		return time.Time{}
	}
	number, ok := v.(json.Number)
	if !ok {
		c.fail("claim " + name + " is not a number")
		return time.Time{}
	}
	seconds, err := strconv.ParseFloat(number.String(), 64)
	if err != nil || !(seconds >= 0 && seconds <= maxUnixSeconds) {
		c.fail("claim " + name + " is out of bounds")
		return time.Time{}
	}
	return time.Unix(int64(math.Floor(seconds)), 0).UTC()
}
