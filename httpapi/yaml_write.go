package httpapi

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
)

// appendYAML appends a JSON text as YAML, its names in the order they have. Text is quoted as
// in JSON unless it is one plain word, so that nothing a reader of YAML knows (no, 1_000,
// 2027-01-01, ~) is taken for something else. text must be JSON of our own making.
func appendYAML(dst, text []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	w := yamlEmitter{d: d, out: dst}
	w.value(0, false)
	return append(w.out, '\n')
}

type yamlEmitter struct {
	d   *json.Decoder
	out []byte
}

// value writes the next value. What stands on lines of its own is indented by indent; inline
// says that its first line goes on where the list's dash was written.
func (w *yamlEmitter) value(indent int, inline bool) {
	t, err := w.d.Token()
	if err != nil {
		return
	}
	switch t := t.(type) {
	case json.Delim:
		w.nested(t, indent, inline)
	case string:
		w.text(t)
	case json.Number:
		w.out = append(w.out, t...)
	case bool:
		if t {
			w.out = append(w.out, "true"...)
		} else {
			w.out = append(w.out, "false"...)
		}
	case nil:
		w.out = append(w.out, "null"...)
	}
}

func (w *yamlEmitter) nested(open json.Delim, indent int, inline bool) {
	list := open == '['
	if !w.d.More() {
		_, _ = w.d.Token()
		w.out = append(bytes.TrimRight(w.out, " "), ' ')
		w.out = append(w.out, map[bool]string{true: "[]", false: "{}"}[list]...)
		return
	}
	for first := true; w.d.More(); first = false {
		if !first || !inline && len(w.out) > 0 {
			w.out = append(bytes.TrimRight(w.out, " "), '\n')
			w.out = append(w.out, strings.Repeat(" ", indent)...)
		}
		if list {
			w.out = append(w.out, "- "...)
			w.value(indent+2, true)
			continue
		}
		name, _ := w.d.Token()
		text, _ := name.(string)
		w.text(text)
		w.out = append(w.out, ": "...)
		w.value(indent+2, false)
	}
	_, _ = w.d.Token()
}

var (
	plainWord = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]*$`)
	// yamlWords mean something else to some reader of YAML.
	yamlWords = regexp.MustCompile(`(?i)^(y|n|yes|no|on|off|true|false|null|nan|inf)$`)
)

func (w *yamlEmitter) text(s string) {
	if plainWord.MatchString(s) && !yamlWords.MatchString(s) {
		w.out = append(w.out, s...)
		return
	}
	quoted, err := json.Marshal(s)
	if err != nil {
		return
	}
	w.out = append(w.out, quoted...)
}
