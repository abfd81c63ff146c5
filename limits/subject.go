package limits

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// String is kind:id, as ParseSubject reads it.
func (s Subject) String() string { return s.Kind + ":" + s.ID }

// IsZero reports whether s is nobody, which stands for everyone in an Override.
func (s Subject) IsZero() bool { return s == Subject{} }

// ParseSubject reads kind:id. The kind ends at the first colon, so an id may hold more.
// Errors: *InvalidError, with fields "/kind" and "/id".
func ParseSubject(text string) (Subject, error) {
	kind, id, found := strings.Cut(text, ":")
	if !found {
		return Subject{}, &InvalidError{[]Fault{{"", "must be kind:id, such as user:u_42"}}}
	}
	s := Subject{Kind: kind, ID: id}
	if err := s.Validate(); err != nil {
		return Subject{}, err
	}
	return s, nil
}

// Validate checks that the kind matches [a-z][a-z0-9_-]{0,31} and that the id is 1 to 255
// bytes of valid UTF-8 without control characters and U+FFFD, and not only spaces. Nothing is
// normalised: two spellings are two subjects.
// Errors: *InvalidError, with fields "/kind" and "/id". Rule: API.md section 2, CASES O21.
func (s Subject) Validate() error {
	if isKind(s.Kind) && idFault(s.ID) == "" {
		return nil
	}
	var f faults
	f.need(isKind(s.Kind), "/kind", kindReason)
	if reason := idFault(s.ID); reason != "" {
		f.add("/id", reason)
	}
	return f.err()
}

const kindReason = "must match [a-z][a-z0-9_-]{0,31}"

func isKind(s string) bool {
	if len(s) == 0 || len(s) > MaxKind || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	for i := 1; i < len(s); i++ {
		if c := s[i]; !isLowerOrDigit(c) && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

func isLowerOrDigit(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }

// idFault says what is wrong with a subject's id, or "".
// U+FFFD is what others make of bytes they cannot read: two subjects would become one.
func idFault(id string) string {
	if reason := textFault(id, MaxSubjectID); reason != "" {
		return reason
	}
	blank := true
	for _, r := range id {
		if r == utf8.RuneError {
			return "must not hold U+FFFD"
		}
		blank = blank && unicode.IsSpace(r)
	}
	if blank {
		return "must not be only spaces"
	}
	return ""
}

// Validate checks that a is 1 to 128 bytes of valid UTF-8 without control characters.
// Errors: *InvalidError with the field "/action".
func (a Action) Validate() error {
	if reason := textFault(string(a), MaxAction); reason != "" {
		return &InvalidError{[]Fault{{"/action", reason}}}
	}
	return nil
}

// textFault says why s is not 1 to most bytes of valid UTF-8 without control characters, or "".
func textFault(s string, most int) string {
	if len(s) == 0 || len(s) > most {
		return fmt.Sprintf("must be 1 to %d bytes", most)
	}
	return charFault(s)
}

// charFault says why s is not valid UTF-8 without control characters (Unicode Cc), or "".
func charFault(s string) string {
	if !utf8.ValidString(s) {
		return "must be valid UTF-8"
	}
	if strings.IndexFunc(s, unicode.IsControl) >= 0 {
		return "must not hold control characters"
	}
	return ""
}
