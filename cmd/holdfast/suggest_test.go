package main

import (
	"testing"

	"github.com/holdfast-dev/holdfast/limits"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	names := []string{"reserve", "release", "extend", "commit", "check", "holds", "limits", "dev", "doctor"}
	for _, c := range []struct{ word, want string }{
		{"reserv", "reserve"},
		{"resreve", "reserve"}, // two letters swapped
		{"Relase", "release"},
		{"chek", "check"},
		{"hold", "holds"},
		{"limit", "limits"},
		{"doc", "doctor"},
		{"x", ""},
		{"kubernetes", ""},
		{"", ""},
	} {
		if got := nearest(c.word, names); got != c.want {
			t.Errorf("nearest(%q): got %q, want %q", c.word, got, c.want)
		}
	}
	if got := nearest("reserve", nil); got != "" {
		t.Errorf("nearest of no names: got %q, want none", got)
	}
}

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"a", "", 1},
		{"", "abc", 3},
		{"same", "same", 0},
		{"ab", "ba", 1},
		{"kitten", "sitting", 3},
		{"abc", "acb", 1},
	} {
		if got := limits.EditDistance(c.a, c.b); got != c.want {
			t.Errorf("EditDistance(%q, %q): got %d, want %d", c.a, c.b, got, c.want)
		}
		if got := limits.EditDistance(c.b, c.a); got != c.want {
			t.Errorf("EditDistance(%q, %q): got %d, want %d (the other way round)", c.b, c.a, got, c.want)
		}
	}
}
