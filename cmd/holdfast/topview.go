package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
	"unicode/utf8"
)

// topMode is what the keys mean now.
type topMode uint8

const (
	browse topMode = iota
	filterText
	forceReason // of the hold in topView.forced
	forceSure
)

// topView is the live view: what was seen last, and where its reader is.
type topView struct {
	call    *caller
	name    string
	picture topPicture
	seen    time.Time // when it was
	trouble error     // why there is nothing newer
	still   bool      // nothing is asked
	colour  bool

	mode   topMode
	filter string
	chosen string // id of the hold
	typed  string
	forced forcing
	told   string // what became of the last act
	escape string // an escape sequence that is not complete
}

// take takes in a look. A failed one leaves what was seen, which is shown to be stale.
func (v *topView) take(got looked, now time.Time) {
	if v.trouble = got.err; got.err == nil {
		v.picture, v.seen = got.picture, now
	}
}

// at is the place of the chosen hold among those shown, the first when it is gone.
func (v *topView) at(p *topPicture) int {
	for i := range p.Holds {
		if p.Holds[i].ID == v.chosen {
			return i
		}
	}
	return 0
}

func (v *topView) move(by int) {
	p := v.picture.narrowed(v.filter)
	if n := len(p.Holds); n > 0 {
		v.chosen = p.Holds[min(max(v.at(&p)+by, 0), n-1)].ID
	}
}

// key takes in one byte from the keyboard, and reports whether it ends the view.
func (v *topView) key(ctx context.Context, key byte) (quit bool) {
	if key == 3 { // Ctrl-C
		return true
	}
	if v.escape != "" || key == 0x1b {
		return v.escaped(ctx, key)
	}
	if v.mode != browse {
		v.edit(ctx, key)
		return false
	}
	v.told = ""
	switch key {
	case 'q':
		return true
	case 'j':
		v.move(1)
	case 'k':
		v.move(-1)
	case ' ':
		v.still = !v.still
	case '/':
		v.mode, v.typed = filterText, v.filter
	case 'x':
		v.beginForce(ctx)
	}
	return false
}

// escaped reads the arrows. A lone escape leaves what is being typed; it is known to be alone by
// the next key.
func (v *topView) escaped(ctx context.Context, key byte) bool {
	v.escape += string(rune(key))
	switch v.escape {
	case "\x1b":
		if v.mode != browse {
			v.mode, v.typed, v.escape = browse, "", ""
		}
	case "\x1b[", "\x1bO":
	case "\x1b[A", "\x1bOA":
		v.escape = ""
		v.move(-1)
	case "\x1b[B", "\x1bOB":
		v.escape = ""
		v.move(1)
	default:
		v.escape = ""
		return v.key(ctx, key)
	}
	return false
}

const mostTyped = 200 // characters of a filter or a reason

// edit is one key of a line that is being typed.
func (v *topView) edit(ctx context.Context, key byte) {
	switch {
	case v.mode == forceSure:
		v.endForce(ctx, key == 'y' || key == 'Y')
	case key == '\r' || key == '\n':
		if v.mode == filterText {
			v.filter, v.mode = v.typed, browse
		} else {
			v.askSure()
		}
	case key == 0x7f || key == 8:
		_, size := utf8.DecodeLastRuneInString(v.typed)
		v.typed = v.typed[:len(v.typed)-size]
	case key == 0x15: // Ctrl-U
		v.typed = ""
	case key >= ' ' && len(v.typed) < mostTyped:
		v.typed += string([]byte{key})
	}
}

// keysHelp is the last line of the screen.
const keysHelp = "j k choose   / filter   x end by force   space stop   q quit"

// draw is the whole screen. Each line overwrites what stood there, so that nothing flickers.
func (v *topView) draw(now time.Time, out *os.File) string {
	width, height := screenSize(out)
	var b strings.Builder
	b.WriteString("\x1b[H")
	lines := v.lines(now, height)
	for i, line := range lines {
		text := cut(line.text, width)
		if v.colour && line.style != "" {
			text = "\x1b[" + line.style + "m" + text + "\x1b[0m"
		}
		b.WriteString(text + "\x1b[K")
		if i < len(lines)-1 {
			b.WriteString("\r\n")
		}
	}
	b.WriteString("\x1b[J")
	return b.String()
}

// topLine is one line of the screen, and how it is painted where there is colour.
type topLine struct{ text, style string }

const (
	bold    = "1"
	reverse = "7"
)

// lines are the lines of a screen of that height.
func (v *topView) lines(now time.Time, height int) []topLine {
	p := v.picture.narrowed(v.filter)
	all := []topLine{{text: "holdfast top  " + v.name + "   " + p.summary(), style: bold}}
	if line := v.state(now); line.text != "" {
		all = append(all, line)
	}
	foot := v.foot()
	room := max(height-len(all)-len(foot)-3, 6) // three tables, an empty line before each
	fill, wait := tableLines(p.fillTable(), room/3), tableLines(p.waiterTable(), room/3)
	chosen := v.at(&p)
	holds := tableLines(holdTable(p.Holds, p.At.Time), max(room-len(fill)-len(wait), 2), chosen)
	for _, part := range [][]topLine{fill, holds, wait} {
		all = append(append(all, topLine{}), part...)
	}
	for len(all)+len(foot) < height {
		all = append(all, topLine{})
	}
	return append(all[:max(min(len(all), height-len(foot)), 0)], foot...)
}

// state says what is not as usual: a filter, a view that stands still, a server that is away.
func (v *topView) state(now time.Time) topLine {
	var words []string
	style := ""
	if v.trouble != nil {
		what := v.call.app.explain(v.trouble).what
		words, style = append(words, fmt.Sprintf("STALE for %s: %s", short(now.Sub(v.seen)), printable(what))), red
	}
	if v.still {
		words = append(words, "stopped; space goes on")
	}
	if v.filter != "" {
		words = append(words, "filter: "+v.filter)
	}
	return topLine{strings.Join(words, "   "), style}
}

// foot is the dialogue, or what became of the last act, and the keys.
func (v *topView) foot() []topLine {
	switch v.mode {
	case filterText:
		return []topLine{{text: "filter: " + v.typed + "_"}, {text: "enter takes it   esc leaves it"}}
	case forceReason, forceSure:
		return v.forceLines()
	case browse:
	}
	return []topLine{{text: printable(v.told)}, {text: keysHelp, style: reverse}}
}

// tableLines are at most most lines of a table, its header included. chosen is a row that is marked
// and stays in sight.
func tableLines(t *table, most int, chosen ...int) (lines []topLine) {
	mark := -1
	if len(chosen) > 0 {
		mark = chosen[0]
	}
	rows := strings.Split(strings.TrimRight(t.render("  "), "\n"), "\n")
	body, from, most := rows[1:], 0, max(most-1, 1)
	if len(body) > most {
		most = max(most-1, 1) // a line for the rest
		from = min(max(mark-most/2, 0), len(body)-most)
	}
	lines = append(lines, topLine{text: rows[0], style: bold})
	for i := from; i < min(from+most, len(body)); i++ {
		if i == mark {
			lines = append(lines, topLine{"> " + strings.TrimPrefix(body[i], "  "), reverse})
		} else {
			lines = append(lines, topLine{text: body[i]})
		}
	}
	if rest := len(body) - most; rest > 0 && len(body) > most {
		lines = append(lines, topLine{text: fmt.Sprintf("  … %d more", rest)})
	}
	return lines
}

// cut is at most width characters of a line.
func cut(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	return string([]rune(s)[:max(width, 0)])
}
