package main

import (
	"bytes"
	"testing"

	"github.com/holdfast-dev/holdfast/limits"
)

// Threats row 24: what a worker calls itself does not steer the terminal of who looks at it.
func TestTable_NoControlCharacters(t *testing.T) {
	t.Parallel()
	table := newTable("HOLD", "OWNER")
	table.row("rsv_1", "\x1b[2Jevil\r\nlines\u202e\xff")
	table.row("rsv_22", "")
	got := table.render("  ")
	want := "  HOLD    OWNER\n  rsv_1   ?[2Jevil??lines??\n  rsv_22  -\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Off a terminal there is no colour, whatever the environment says.
func TestPaint_NoColourOffATerminal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	code := run(t.Context(), []string{"version"}, []string{"TERM=xterm-256color"}, nil, &out, &out)
	if code != 0 || bytes.Contains(out.Bytes(), []byte("\x1b[")) {
		t.Errorf("got exit %d, %q, want no escape sequence", code, out.String())
	}
	if got := (&app{colourful: true}).paint(green, "ok"); got != "\x1b[32mok\x1b[0m" {
		t.Errorf("on a terminal: got %q", got)
	}
}

// CLI.md section 4: the line of limits that dev prints.
func TestLimitWords_OfTheSamples(t *testing.T) {
	t.Parallel()
	samples := limits.Samples()
	var all []*limits.Limit
	for i := range samples {
		all = append(all, &samples[i])
	}
	want := "exports 3 at once per user · gpu 2 at once · calls 100 a day · burst 20 at 10/s"
	if got := limitWords(all); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := limitWords(nil); got != "none: holdfast limits create --help" {
		t.Errorf("of none: got %q", got)
	}
	if got := limitWords(append(append(append([]*limits.Limit{}, all...), all...), all[0])); got[len(got)-6:] != "1 more" {
		t.Errorf("of nine: got %q, want the last one counted", got)
	}
}
