package auth

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/limits"
)

const (
	maxTextBytes   = 255 // of sub, of an id in a pattern, of jti
	maxKindBytes   = 32
	maxTenantBytes = 63
	maxPatterns    = 100
)

// errPattern is deliberately without the pattern: it can end up in an answer.
var errPattern = errors.New("subject pattern is not kind:id or kind:*")

// SubjectPattern is one entry of the subjects claim: every subject of a kind, or a single one.
type SubjectPattern struct {
	Kind string
	ID   string // empty: any id of the kind
}

// ParseSubjectPattern reads "kind:*" (any id) or "kind:id" (that subject; the id may contain
// colons and a star that is not alone stands for itself).
func ParseSubjectPattern(s string) (SubjectPattern, error) {
	kind, id, found := strings.Cut(s, ":")
	if !found || !validKind(kind) {
		return SubjectPattern{}, errPattern
	}
	if id == "*" {
		return SubjectPattern{Kind: kind}, nil
	}
	if !validText(id) {
		return SubjectPattern{}, errPattern
	}
	return SubjectPattern{Kind: kind, ID: id}, nil
}

// Matches reports whether s is of the kind and, unless any id will do, has the id.
func (p SubjectPattern) Matches(s limits.Subject) bool {
	return p.Kind == s.Kind && (p.ID == "" || p.ID == s.ID)
}

// String is the pattern as it stands in a subjects claim.
func (p SubjectPattern) String() string {
	if p.ID == "" {
		return p.Kind + ":*"
	}
	return p.Kind + ":" + p.ID
}

// validText is the rule for sub. U+FFFD is refused because decoders put it in place of
// whatever they cannot read, which would make one subject of many (FAULTS section 3 row 10).
// Blanks alone are refused because subject.id refuses them (CASES O21), and one rule holds for both.
func validText(s string) bool {
	if s == "" || len(s) > maxTextBytes || !utf8.ValidString(s) {
		return false
	}
	blank := true
	for _, r := range s {
		if r == utf8.RuneError || unicode.IsControl(r) {
			return false
		}
		blank = blank && unicode.IsSpace(r)
	}
	return !blank
}

// validKind is [a-z][a-z0-9_-]{0,31}.
func validKind(s string) bool {
	if s == "" || len(s) > maxKindBytes || !isLower(s[0]) {
		return false
	}
	return onlyBytes(s, func(c byte) bool { return isLower(c) || isDigit(c) || c == '_' || c == '-' })
}

// ValidTenant reports whether s can be a tenant: [a-z0-9][a-z0-9-]{0,62}.
func ValidTenant(s string) bool {
	if s == "" || len(s) > maxTenantBytes || s[0] == '-' {
		return false
	}
	return onlyBytes(s, func(c byte) bool { return isLower(c) || isDigit(c) || c == '-' })
}

// validKeyID is [A-Za-z0-9._-]{1,128}: nothing that means something to a path, a query or a log.
func validKeyID(s string) bool {
	if s == "" || len(s) > maxKeyIDBytes {
		return false
	}
	return onlyBytes(s, func(c byte) bool { return isBase64URL(c) || c == '.' })
}

func onlyBytes(s string, allowed func(byte) bool) bool {
	for i := range len(s) {
		if !allowed(s[i]) {
			return false
		}
	}
	return true
}

func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isBase64URL(c byte) bool {
	return isLower(c) || isUpper(c) || isDigit(c) || c == '-' || c == '_'
}
