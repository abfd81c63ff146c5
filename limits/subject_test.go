package limits

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// fields lists what an error names, in order.
func fields(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	var invalid *InvalidError
	if !errors.As(err, &invalid) {
		t.Fatalf("%v (%T), want an *InvalidError", err, err)
	}
	var all []string
	for _, f := range invalid.Faults {
		if f.Reason == "" {
			t.Errorf("the fault at %s says nothing", f.Field)
		}
		all = append(all, f.Field)
	}
	return all
}

// CASES O21 step 2; FAULTS part 2 rows 10 and 11.
func TestSubject_Validate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		subject Subject
		want    []string
	}{
		"the plainest":                {Subject{"u", "1"}, nil},
		"a colon and a slash":         {Subject{"user", "a:b/c"}, nil},
		"a space between":             {Subject{"user", "a b"}, nil},
		"percent":                     {Subject{"user", "a%3Ab"}, nil},
		"an address":                  {Subject{"ip", "2001:db8::1"}, nil},
		"the longest":                 {Subject{"a" + strings.Repeat("z", 31), strings.Repeat("x", 255)}, nil},
		"digits, dash, underscore":    {Subject{"a0-_", "é😀"}, nil},
		"nothing":                     {Subject{}, []string{"/kind", "/id"}},
		"no id":                       {Subject{"user", ""}, []string{"/id"}},
		"an id of 256 bytes":          {Subject{"user", strings.Repeat("x", 256)}, []string{"/id"}},
		"128 characters of two bytes": {Subject{"user", strings.Repeat("é", 128)}, []string{"/id"}},
		"only spaces":                 {Subject{"user", "  "}, []string{"/id"}},
		"only spaces of all kinds":    {Subject{"user", "\u00a0\u2003 "}, []string{"/id"}},
		"a line feed":                 {Subject{"user", "a\nb"}, []string{"/id"}},
		"NUL":                         {Subject{"user", "a\x00b"}, []string{"/id"}},
		"DEL":                         {Subject{"user", "a\x7f"}, []string{"/id"}},
		"a C1 control":                {Subject{"user", "a\u0085"}, []string{"/id"}},
		"U+FFFD":                      {Subject{"user", "a\ufffd"}, []string{"/id"}},
		"invalid UTF-8":               {Subject{"user", "a\xff"}, []string{"/id"}},
		"a surrogate":                 {Subject{"user", "\xed\xa0\x80"}, []string{"/id"}},
		"a kind of 33":                {Subject{strings.Repeat("a", 33), "1"}, []string{"/kind"}},
		"a kind in capitals":          {Subject{"User", "1"}, []string{"/kind"}},
		"a kind that begins with 1":   {Subject{"1user", "1"}, []string{"/kind"}},
		"a kind with a colon":         {Subject{"user:a", "b"}, []string{"/kind"}},
		"a kind with a slash":         {Subject{"user/a", "b"}, []string{"/kind"}},
		"any kind":                    {Subject{"*", "b"}, []string{"/kind"}},
	} {
		if got := fields(t, c.subject.Validate()); !slices.Equal(got, c.want) {
			t.Errorf("%s: %+q names %v, want %v", name, c.subject, got, c.want)
		}
	}
}

func TestParseSubject(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Subject{
		"user:u_42":     {"user", "u_42"},
		"user:a:b":      {"user", "a:b"},
		"ip:::1":        {"ip", "::1"},
		"user: x":       {"user", " x"},
		"user":          {},
		"":              {},
		":x":            {},
		"user:":         {},
		"User:x":        {},
		"user:a\tb":     {},
		"user:a\ufffdb": {},
	} {
		got, err := ParseSubject(text)
		if got != want || (err == nil) != (want != Subject{}) {
			t.Errorf("ParseSubject(%q) = %+v, %v, want %+v", text, got, err, want)
		}
		if err == nil && got.String() != text {
			t.Errorf("ParseSubject(%q) is written %q", text, got.String())
		}
	}
}

// CASES O21 step 1: distinct subjects have distinct scopes.
func TestSubject_ScopesNeverMerge(t *testing.T) {
	t.Parallel()
	seen := map[string]Subject{}
	for _, s := range []Subject{
		{"user", "a:b"},
		{"user", "a"},
		{"user", "a/b"},
		{"user", "A:b"},
		{"user", "a%3Ab"},
		{"user", "a b"},
		{"ip", "127.0.0.1"},
		{"user", "127.0.0.1"},
		{"use", "r/a"},
		{"user", "_"},
		{"user", ""},
	} {
		if other, twice := seen[s.Scope()]; twice || s.Scope() == AllScope {
			t.Errorf("%+v and %+v share the scope %q", s, other, s.Scope())
		}
		seen[s.Scope()] = s
	}
}

func TestAction_Validate(t *testing.T) {
	t.Parallel()
	for action, ok := range map[Action]bool{
		"a": true, "b:c/d e": true, Action(strings.Repeat("x", 128)): true, "é": true,
		"": false, Action(strings.Repeat("x", 129)): false, "a\n": false, "\x7f": false, "a\xff": false, "\u0090": false,
	} {
		if got := fields(t, action.Validate()); (got == nil) != ok || got != nil && !slices.Equal(got, []string{"/action"}) {
			t.Errorf("Action(%q).Validate names %v, want it valid: %v", action, got, ok)
		}
	}
}

func TestSlug(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"Exports at once":         "exports-at-once",
		"o01":                     "o01",
		"  --A__b.c!! ":           "a__b.c",
		"o13-...":                 "o13-...",
		"_x":                      "x",
		"10 a second":             "10-a-second",
		"Größe":                   "gr-e",
		"K":                       "k", // a Kelvin sign is a K when it is made small
		strings.Repeat("a", 70):   strings.Repeat("a", 63),
		strings.Repeat("ab ", 30): strings.TrimSuffix(strings.Repeat("ab-", 21), "-"),
		"":                        "",
		"…":                       "",
		"-._":                     "",
	} {
		got, err := Slug(name)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("Slug(%q) = %q, %v, want %q", name, got, err, want)
		}
		if err == nil && !isLimitID(got) {
			t.Errorf("Slug(%q) = %q, which is no id", name, got)
		}
	}
}

func TestWords_ReadWhatTheyWrite(t *testing.T) {
	t.Parallel()
	for _, s := range []Share{Each, All} {
		if got, err := ParseShare(s.String()); got != s || err != nil {
			t.Errorf("ParseShare(%q) = %v, %v", s, got, err)
		}
	}
	for _, o := range []OnExpiry{RefundOnExpiry, ChargeOnExpiry} {
		if got, err := ParseOnExpiry(o.String()); got != o || err != nil {
			t.Errorf("ParseOnExpiry(%q) = %v, %v", o, got, err)
		}
	}
	for _, o := range []Overage{RecordOverage, RejectOverage} {
		if got, err := ParseOverage(o.String()); got != o || err != nil {
			t.Errorf("ParseOverage(%q) = %v, %v", o, got, err)
		}
	}
	for _, word := range []string{"", "Each", "each ", "unknown(2)"} {
		_, share := ParseShare(word)
		_, expiry := ParseOnExpiry(word)
		_, overage := ParseOverage(word)
		got := slices.Concat(fields(t, share), fields(t, expiry), fields(t, overage))
		if want := []string{"/share", "/onExpiry", "/overage"}; !reflect.DeepEqual(got, want) {
			t.Errorf("reading %q names %v, want %v", word, got, want)
		}
	}
	if got := Share(2).String(); got != "unknown(2)" {
		t.Errorf("Share(2) is written %q", got)
	}
}
