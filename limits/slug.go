package limits

import "strings"

// Slug makes a limit's id from its name: lower-case letters, digits, dots and underscores
// stay, every run of anything else becomes one dash, and it is cut to MaxLimitID bytes.
// Errors: *InvalidError with the field "/name" when nothing is left to make an id from.
func Slug(name string) (string, error) {
	var b strings.Builder
	dash := false
	for _, r := range strings.ToLower(name) {
		ok := r < 0x80 && (isLowerOrDigit(byte(r)) || b.Len() > 0 && (r == '.' || r == '_'))
		if !ok {
			dash = b.Len() > 0
			continue
		}
		if dash {
			b.WriteByte('-')
			dash = false
		}
		b.WriteByte(byte(r))
	}
	id := b.String()
	if len(id) > MaxLimitID {
		id = strings.TrimRight(id[:MaxLimitID], "-")
	}
	if id == "" {
		return "", &InvalidError{[]Fault{{"/name", "has no letter a-z or digit to make an id from; give an id"}}}
	}
	return id, nil
}

// isLimitID reports whether s matches [a-z0-9][a-z0-9._-]{0,62}.
func isLimitID(s string) bool {
	if len(s) == 0 || len(s) > MaxLimitID || !isLowerOrDigit(s[0]) {
		return false
	}
	for i := 1; i < len(s); i++ {
		if c := s[i]; !isLowerOrDigit(c) && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}
