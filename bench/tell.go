package main

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// table is one table of the answer, written as Markdown that reads well as text.
type table struct {
	title  string
	header []string
	rows   [][]string
}

func (t *table) add(what, format string, args ...any) {
	t.rows = append(t.rows, []string{what, fmt.Sprintf(format, args...)})
}

func (t table) String() string {
	widths := make([]int, len(t.header))
	for _, row := range append([][]string{t.header}, t.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var out strings.Builder
	line := func(row []string) {
		for i, cell := range row {
			out.WriteString("| " + cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+1))
		}
		out.WriteString("|\n")
	}
	out.WriteString("### " + t.title + "\n\n")
	line(t.header)
	for _, w := range widths {
		out.WriteString("|" + strings.Repeat("-", w+2))
	}
	out.WriteString("|\n")
	for _, row := range t.rows {
		line(row)
	}
	return out.String()
}

// report is everything that was measured.
func (r *rig) report(bars table) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%d cores, %s; %d rounds of %s each after %s of warm-up, interleaved; load generator included.\n\n",
		runtime.NumCPU(), strings.Join(machine(), ", "), r.rounds, r.length, r.warm)
	out.WriteString(bars.String() + "\n")
	for _, t := range r.tables {
		out.WriteString(t.String() + "\n")
	}
	out.WriteString(r.everything().String())
	if len(r.notes) > 0 {
		out.WriteString("\nNotes:\n")
	}
	for _, text := range r.notes {
		out.WriteString("- " + text + "\n")
	}
	return out.String()
}

// everything is the absolute figures: they say something of this machine alone.
func (r *rig) everything() table {
	t := table{title: "All arms (absolute figures mean little on another machine)", header: []string{"arm", "a second", "least", "most", "p50", "p99"}}
	for _, name := range slices.Sorted(maps.Keys(r.figures)) {
		fs := r.figures[name]
		all := rates(fs)
		t.rows = append(t.rows, []string{
			name, fmt.Sprintf("%.0f", median(all)), fmt.Sprintf("%.0f", slices.Min(all)), fmt.Sprintf("%.0f", slices.Max(all)), short(p50(fs)), short(p99(fs)),
		})
	}
	return t
}

func p50(fs []figure) time.Duration {
	return middle(fs, func(m figure) time.Duration { return m.p50 })
}

func p99(fs []figure) time.Duration {
	return middle(fs, func(m figure) time.Duration { return m.p99 })
}

func middle(fs []figure, of func(figure) time.Duration) time.Duration {
	var all []float64
	for _, m := range fs {
		all = append(all, float64(of(m)))
	}
	return time.Duration(median(all))
}

func short(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%.1f ms", d.Seconds()*1000)
	default:
		return fmt.Sprintf("%.0f ms", d.Seconds()*1000)
	}
}

func two(x float64) string { return fmt.Sprintf("%.2f", x) }

func between(x ratio) string {
	if x.least == x.most {
		return "–"
	}
	return two(x.least) + "–" + two(x.most)
}
