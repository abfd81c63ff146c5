package api

import (
	"unicode/utf16"
	"unicode/utf8"
)

// scanner reads tokens of strict JSON (RFC 8259). Its methods return false when the syntax
// is broken, and broken then says how.
type scanner struct {
	data   []byte
	pos    int
	depth  int
	broken string
}

// notJSON is how most syntax is broken.
const notJSON = "is not valid JSON"

func (s *scanner) fail(how string) bool {
	if s.broken == "" {
		s.broken = how
	}
	return false
}

// space skips white space.
func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// peek is the next byte that is no white space, 0 at the end.
func (s *scanner) peek() byte {
	s.space()
	if s.pos == len(s.data) {
		return 0
	}
	return s.data[s.pos]
}

// take goes past c when c is next.
func (s *scanner) take(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.pos++
	return true
}

// open goes into an object or list, whose first byte is next.
func (s *scanner) open() bool {
	s.pos++
	if s.depth++; s.depth > MaxDepth {
		return s.fail("is nested deeper than 8")
	}
	return true
}

// more reports whether another element follows in an object or list that ends with end; first
// is true before the first. ok is false when neither an element nor the end is next.
func (s *scanner) more(end byte, first bool) (another, ok bool) {
	switch {
	case s.take(end):
		s.depth--
		return false, true
	case first:
		return true, true
	case s.take(','):
		return true, true
	}
	return false, s.fail(notJSON)
}

// literal goes past a word such as true.
func (s *scanner) literal(word string) bool {
	if len(s.data)-s.pos < len(word) || string(s.data[s.pos:s.pos+len(word)]) != word {
		return s.fail(notJSON)
	}
	s.pos += len(word)
	return true
}

// text reads a string. What it returns is part of the document when there are no escapes in
// it, so it is to be copied when kept.
func (s *scanner) text() ([]byte, bool) {
	if !s.take('"') {
		return nil, s.fail(notJSON)
	}
	start, ascii := s.pos, true
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; {
		case c == '"':
			raw := s.data[start:s.pos]
			s.pos++
			if !ascii && !utf8.Valid(raw) {
				return nil, s.fail("is not valid UTF-8")
			}
			return raw, true
		case c == '\\':
			return s.escaped(start)
		case c < ' ':
			return nil, s.fail("has a bare control character in a string")
		case c >= utf8.RuneSelf:
			ascii = false
		}
		s.pos++
	}
	return nil, s.fail("ends within a string")
}

// escaped goes on with a string that began at start and has a backslash next.
func (s *scanner) escaped(start int) ([]byte, bool) {
	out := append(make([]byte, 0, s.pos-start+64), s.data[start:s.pos]...)
	for s.pos < len(s.data) {
		c := s.data[s.pos]
		s.pos++
		switch {
		case c == '"':
			if !utf8.Valid(out) {
				return nil, s.fail("is not valid UTF-8")
			}
			return out, true
		case c == '\\':
			r, ok := s.escape()
			if !ok {
				return nil, false
			}
			out = utf8.AppendRune(out, r)
		case c < ' ':
			return nil, s.fail("has a bare control character in a string")
		default:
			out = append(out, c)
		}
	}
	return nil, s.fail("ends within a string")
}

// escape reads what follows a backslash. A lone surrogate stands for no character: others
// would read it as U+FFFD, and two subjects would become one.
func (s *scanner) escape() (rune, bool) {
	if s.pos == len(s.data) {
		return 0, s.fail("ends within a string")
	}
	c := s.data[s.pos]
	s.pos++
	switch c {
	case '"', '\\', '/':
		return rune(c), true
	case 'b':
		return '\b', true
	case 'f':
		return '\f', true
	case 'n':
		return '\n', true
	case 'r':
		return '\r', true
	case 't':
		return '\t', true
	case 'u':
		return s.unicode()
	}
	return 0, s.fail("has an unknown escape in a string")
}

func (s *scanner) unicode() (rune, bool) {
	r, ok := s.hex()
	if !ok || !utf16.IsSurrogate(r) {
		return r, ok
	}
	if len(s.data)-s.pos < 2 || s.data[s.pos] != '\\' || s.data[s.pos+1] != 'u' {
		return 0, s.fail("has a lone surrogate in a string")
	}
	s.pos += 2
	low, ok := s.hex()
	if !ok {
		return 0, false
	}
	if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
		return 0, s.fail("has a lone surrogate in a string")
	}
	return r, true
}

func (s *scanner) hex() (r rune, ok bool) {
	if len(s.data)-s.pos < 4 {
		return 0, s.fail("ends within a string")
	}
	for _, c := range s.data[s.pos : s.pos+4] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, s.fail("has an unknown escape in a string")
		}
	}
	s.pos += 4
	return r, true
}

// number reads a number; plain is true when it is only digits and perhaps a minus.
func (s *scanner) number() (digits []byte, plain, ok bool) {
	start := s.pos
	if s.pos < len(s.data) && s.data[s.pos] == '-' {
		s.pos++
	}
	if s.pos < len(s.data) && s.data[s.pos] == '0' {
		s.pos++ // nothing but a fraction or an exponent may follow
	} else if !s.digits() {
		return nil, false, s.fail(notJSON)
	}
	plain = true
	if s.pos < len(s.data) && s.data[s.pos] == '.' {
		s.pos++
		if plain = false; !s.digits() {
			return nil, false, s.fail(notJSON)
		}
	}
	if s.pos < len(s.data) && s.data[s.pos]|0x20 == 'e' {
		s.pos++
		if s.pos < len(s.data) && (s.data[s.pos] == '+' || s.data[s.pos] == '-') {
			s.pos++
		}
		if plain = false; !s.digits() {
			return nil, false, s.fail(notJSON)
		}
	}
	return s.data[start:s.pos], plain, true
}

// digits goes past at least one digit.
func (s *scanner) digits() bool {
	start := s.pos
	for s.pos < len(s.data) && s.data[s.pos]-'0' <= 9 {
		s.pos++
	}
	return s.pos > start
}
