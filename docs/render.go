package docs

import (
	"html"
	"path"
	"regexp"
	"strings"
)

// renderer makes HTML of Markdown line by line: headings, paragraphs, lists, tables, fenced
// code; within them code, bold, emphasis and links. Everything else is text.
type renderer struct {
	folder string // of the document, for its relative links
	out    strings.Builder
	title  string
	open   string // the block under way: p, ul, ol, table, pre, or ""
	text   []string
}

func (r *renderer) line(line string) {
	switch {
	case r.open == "pre":
		if strings.HasPrefix(line, "```") {
			r.end()
			return
		}
		r.text = append(r.text, html.EscapeString(line))
	case strings.HasPrefix(line, "```"):
		r.begin("pre")
	case strings.HasPrefix(line, "<!--"), strings.TrimSpace(line) == "":
		r.end()
	case strings.HasPrefix(line, "#"):
		r.end()
		r.heading(line)
	case strings.HasPrefix(line, "|"):
		r.begin("table")
		r.row(line)
	case strings.HasPrefix(line, "- "), strings.HasPrefix(line, "* "):
		r.begin("ul")
		r.text = append(r.text, line[2:])
	case ordered.MatchString(line):
		r.begin("ol")
		r.text = append(r.text, ordered.ReplaceAllString(line, ""))
	case strings.HasPrefix(line, "  ") && (r.open == "ul" || r.open == "ol"):
		r.text[len(r.text)-1] += " " + strings.TrimSpace(line)
	default:
		r.begin("p")
		r.text = append(r.text, line)
	}
}

var ordered = regexp.MustCompile(`^\d+\. `)

// begin ends what is under way, unless it is the same.
func (r *renderer) begin(block string) {
	if r.open != block {
		r.end()
		r.open = block
	}
}

func (r *renderer) end() {
	switch r.open {
	case "p":
		r.out.WriteString("<p>" + r.inline(strings.Join(r.text, " ")) + "</p>\n")
	case "pre":
		r.out.WriteString("<pre>" + strings.Join(r.text, "\n") + "</pre>\n")
	case "ul", "ol":
		r.out.WriteString("<" + r.open + ">\n")
		for _, item := range r.text {
			r.out.WriteString("<li>" + r.inline(item) + "</li>\n")
		}
		r.out.WriteString("</" + r.open + ">\n")
	case "table":
		r.out.WriteString("<table>\n" + strings.Join(r.text, "\n") + "\n</table>\n")
	}
	r.open, r.text = "", nil
}

func (r *renderer) heading(line string) {
	level := len(line) - len(strings.TrimLeft(line, "#"))
	text := strings.TrimSpace(line[level:])
	if r.title == "" {
		r.title = text
	}
	tag := "h" + string(rune('0'+min(level, 4)))
	r.out.WriteString("<" + tag + ` id="` + Anchor(text) + `">` + r.inline(text) + "</" + tag + ">\n")
}

// Anchor is what a link's fragment calls a heading.
func Anchor(heading string) string {
	var b strings.Builder
	for _, c := range strings.ToLower(heading) {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_':
			b.WriteRune(c)
		case c == ' ':
			b.WriteByte('-')
		}
	}
	return b.String()
}

// row is one line of a table; the one under the header is left out.
func (r *renderer) row(line string) {
	if strings.Trim(line, "|-: ") == "" {
		if len(r.text) > 0 {
			return
		}
	}
	cell := "td"
	if len(r.text) == 0 {
		cell = "th"
	}
	var b strings.Builder
	b.WriteString("<tr>")
	for _, text := range cells(line) {
		b.WriteString("<" + cell + ">" + r.inline(strings.TrimSpace(text)) + "</" + cell + ">")
	}
	r.text = append(r.text, b.String()+"</tr>")
}

// cells are the columns of a row; a \| is no border.
func cells(line string) []string {
	line = strings.ReplaceAll(strings.TrimSpace(line), `\|`, "\x00")
	parts := strings.Split(strings.Trim(line, "|"), "|")
	for i := range parts {
		parts[i] = strings.ReplaceAll(parts[i], "\x00", "|")
	}
	return parts
}

var (
	codeSpan = regexp.MustCompile("`([^`]+)`")
	bold     = regexp.MustCompile(`\*\*([^*]+)\*\*`)
	emphasis = regexp.MustCompile(`\*([^*\s][^*]*)\*`)
	link     = regexp.MustCompile(`\[([^\]]*)\]\(([^)\s]+)\)`)
)

// inline writes text with its code, links and stress. Code is set aside first: nothing in it
// is anything else.
func (r *renderer) inline(text string) string {
	var codes []string
	text = codeSpan.ReplaceAllStringFunc(text, func(s string) string {
		codes = append(codes, "<code>"+html.EscapeString(s[1:len(s)-1])+"</code>")
		return "\x01"
	})
	text = html.EscapeString(text)
	text = link.ReplaceAllStringFunc(text, func(s string) string {
		m := link.FindStringSubmatch(s)
		if to, ok := r.target(html.UnescapeString(m[2])); ok {
			return `<a href="` + html.EscapeString(to) + `">` + m[1] + "</a>"
		}
		return m[1]
	})
	text = bold.ReplaceAllString(text, "<strong>$1</strong>")
	text = emphasis.ReplaceAllString(text, "<em>$1</em>")
	for _, code := range codes {
		text = strings.Replace(text, "\x01", code, 1)
	}
	return text
}

// target is where a link leads once the document is served: to the web, within the page, or to
// another document that is served. What is only in the repository is no link here.
func (r *renderer) target(to string) (string, bool) {
	if strings.HasPrefix(to, "https://") || strings.HasPrefix(to, "#") {
		return to, true
	}
	file, fragment, _ := strings.Cut(to, "#")
	name, isDoc := strings.CutSuffix(path.Join(r.folder, file), ".md")
	if _, err := files.ReadFile(name + ".md"); !isDoc || err != nil {
		return "", false
	}
	if fragment != "" {
		fragment = "#" + fragment
	}
	return "/docs/pages/" + name + fragment, true
}
