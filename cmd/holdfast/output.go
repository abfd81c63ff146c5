package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/mattn/go-isatty"
)

// table is rows under a header, laid out by the widest cell of each column.
type table struct {
	header []string
	rows   [][]string
}

func newTable(header ...string) *table { return &table{header: header} }

func (t *table) row(cells ...string) {
	for i := range cells {
		cells[i] = printable(cells[i])
		if cells[i] == "" {
			cells[i] = "-"
		}
	}
	t.rows = append(t.rows, cells)
}

// render lays the table out, each line after indent. Columns are two spaces apart and the
// last one is not padded.
func (t *table) render(indent string) string {
	all := append([][]string{t.header}, t.rows...)
	if len(t.header) == 0 {
		all = t.rows
	}
	var widths []int
	for _, row := range all {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var out strings.Builder
	for _, row := range all {
		var line strings.Builder
		line.WriteString(indent)
		for i, cell := range row {
			line.WriteString(cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
		}
		out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return out.String()
}

// printable keeps what others wrote (owners, labels, reasons) from steering the terminal:
// whatever is not a graphic character becomes a question mark.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsGraphic(r) {
			return '?'
		}
		return r
	}, s)
}

// emit writes the answer to stdout in the form that was asked for. asTable and asNames give
// the two forms for people; the others are value as the API spells it.
func (a *app) emit(value any, asTable func() string, asNames func() []string) error {
	switch a.client.Output {
	case "json":
		encoder := json.NewEncoder(a.stdout)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		return encoder.Encode(value)
	case "yaml":
		text, err := toYAML(value)
		if err != nil {
			return err
		}
		_, err = a.stdout.Write(text)
		return err
	case "name":
		for _, name := range asNames() {
			if _, err := fmt.Fprintln(a.stdout, printable(name)); err != nil {
				return err
			}
		}
		return nil
	default:
		_, err := io.WriteString(a.stdout, asTable())
		return err
	}
}

// toYAML writes value with the names and the order that its JSON has.
func toYAML(value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return yaml.JSONToYAML(text)
}

// say writes a line of talk to stderr unless -q.
func (a *app) say(format string, args ...any) {
	if !a.client.Quiet {
		fmt.Fprintf(a.stderr, format+"\n", args...)
	}
}

// detail writes a line of talk to stderr with -v.
func (a *app) detail(format string, args ...any) {
	if a.client.Verbose {
		fmt.Fprintf(a.stderr, format+"\n", args...)
	}
}

// complain writes a failure: what happened, the table, and what to do next.
func (a *app) complain(f *failure) {
	fmt.Fprintf(a.stderr, "holdfast: %s\n", printable(f.what))
	if a.client.Quiet {
		return
	}
	fmt.Fprint(a.stderr, f.table)
	next := newTable()
	for _, h := range f.hints {
		next.row(h.label+":", h.do)
	}
	fmt.Fprint(a.stderr, next.render("  "))
}

// terminal reports whether a stream is a terminal.
func terminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && isatty.IsTerminal(file.Fd())
}

// paint colours a word on a terminal and nowhere else.
func (a *app) paint(colour, word string) string {
	if !a.colourful {
		return word
	}
	return "\x1b[" + colour + "m" + word + "\x1b[0m"
}

// The colours in use.
const (
	green = "32"
	red   = "31"
)
