package httpapi

import (
	"net/http"
	"strings"

	"github.com/holdfast-dev/holdfast/api"
)

const maxIdempotencyKey = 128 // bytes

var errBadKey = &wireError{
	code: api.InvalidHeader, header: "Idempotency-Key",
	detail: "Idempotency-Key must be 1 to 128 visible ASCII characters, quoted or bare, and be there once.",
}

// idempotencyKey reads the header of that name: a structured-field string or a bare token, the
// same key either way. "" when there is none.
func idempotencyKey(h http.Header) (string, error) {
	given := h["Idempotency-Key"]
	if len(given) == 0 {
		return "", nil
	}
	if len(given) > 1 {
		return "", errBadKey
	}
	key, ok := given[0], true
	if strings.HasPrefix(key, `"`) {
		key, ok = unquoteSF(key)
	} else if strings.ContainsAny(key, `",;\`) { // what only a string can hold
		ok = false
	}
	if !ok || !visibleASCII(key, maxIdempotencyKey) {
		return "", errBadKey
	}
	return key, nil
}

// unquoteSF reads a whole structured-field string without parameters.
func unquoteSF(s string) (string, bool) {
	if len(s) < 2 || s[len(s)-1] != '"' {
		return "", false
	}
	inner := s[1 : len(s)-1]
	if !strings.ContainsAny(inner, `"\`) {
		return inner, true
	}
	out := make([]byte, 0, len(inner))
	for i := 0; i < len(inner); i++ {
		c := inner[i]
		if c == '"' {
			return "", false
		}
		if c == '\\' {
			if i++; i == len(inner) || inner[i] != '"' && inner[i] != '\\' {
				return "", false
			}
			c = inner[i]
		}
		out = append(out, c)
	}
	return string(out), true
}
