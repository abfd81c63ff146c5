package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/holdfast-dev/holdfast/api"
)

// yamlText is a YAML document as JSON, and the line of each value by its JSON pointer.
//
// It is the part of YAML that JSON has: one document of mappings, lists and scalars. Anchors,
// aliases, tags, merges and complex keys are refused: nobody who reads the file need know what
// they would stand for, and no small file becomes a large one. Numbers are written as in JSON,
// so that 010 and 1_000 are faults and not somebody's guess; what JSON refuses the decoder of
// bodies refuses, by the same words.
type yamlText struct {
	json  []byte
	lines map[string]int
}

// maxYAMLDepth bounds mappings and lists within one another, before the parser recurses.
const maxYAMLDepth = api.MaxDepth + 2

// readYAML reads one document. Errors: *api.DecodeError with the line of the fault.
func readYAML(data []byte) (y yamlText, err error) {
	defer func() {
		if p := recover(); p != nil { // of the parser, on text that nobody writes
			err = yamlFault(0, "is no YAML that can be read")
		}
	}()
	if !utf8.Valid(data) {
		return y, yamlFault(0, "must be valid UTF-8")
	}
	tokens := lexer.Tokenize(string(data))
	if err := checkTokens(tokens); err != nil {
		return y, err
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return y, parseFault(err)
	}
	y.lines = map[string]int{}
	var body ast.Node
	for _, doc := range file.Docs {
		switch {
		case doc.Body == nil:
		case body != nil:
			return y, yamlFault(doc.Body.GetToken().Position.Line, "begins a second document; a file has one")
		default:
			body = doc.Body
		}
	}
	if body == nil {
		return y, yamlFault(0, "is empty")
	}
	w := yamlWriter{yamlText: &y}
	w.value(body, "", 1)
	return y, w.err
}

// checkTokens refuses what a limits file has no use for, and too deep a nesting.
func checkTokens(tokens token.Tokens) error {
	depth, line, entries := 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			line, entries = t.Position.Line, 0
		}
		switch t.Type { //nolint:exhaustive // the rest is plain YAML
		case token.AnchorType, token.AliasType, token.TagType, token.MergeKeyType, token.MappingKeyType, token.DirectiveType:
			return yamlFault(line, "has "+strconv.Quote(t.Value)+": anchors, aliases, tags, merges, complex keys and directives are not read here")
		case token.InvalidType:
			return yamlFault(line, "is no YAML: "+t.Error)
		case token.MappingStartType, token.SequenceStartType:
			depth++
		case token.MappingEndType, token.SequenceEndType:
			depth--
		case token.SequenceEntryType:
			entries++
		}
		if depth > maxYAMLDepth || entries > maxYAMLDepth {
			return yamlFault(line, "is nested too deep")
		}
	}
	return nil
}

func yamlFault(line int, detail string) *api.DecodeError {
	return &api.DecodeError{Code: api.InvalidBody, Faults: []api.Fault{{Detail: onLine(line, detail)}}}
}

// onLine puts the line before what is wrong; 0 when nobody knows it.
func onLine(line int, detail string) string {
	if line == 0 {
		return detail
	}
	return fmt.Sprintf("line %d: %s", line, detail)
}

func parseFault(err error) error {
	if at, ok := errors.AsType[yaml.Error](err); ok && at.GetToken() != nil {
		return yamlFault(at.GetToken().Position.Line, "is no YAML: "+at.GetMessage())
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	return yamlFault(0, "is no YAML: "+first)
}

// yamlWriter writes nodes as JSON.
type yamlWriter struct {
	*yamlText
	err error
}

func (w *yamlWriter) fail(n ast.Node, detail string) {
	if w.err == nil {
		w.err = yamlFault(n.GetToken().Position.Line, detail)
	}
}

// value writes n, which stands at a pointer.
func (w *yamlWriter) value(n ast.Node, pointer string, depth int) {
	if w.err != nil {
		return
	}
	if depth > maxYAMLDepth {
		w.fail(n, "is nested too deep")
		return
	}
	w.lines[pointer] = n.GetToken().Position.Line
	switch n := n.(type) {
	case *ast.MappingNode:
		w.mapping(n.Values, pointer, depth)
	case *ast.MappingValueNode:
		w.mapping([]*ast.MappingValueNode{n}, pointer, depth)
	case *ast.SequenceNode:
		w.json = append(w.json, '[')
		for i, v := range n.Values {
			if i > 0 {
				w.json = append(w.json, ',')
			}
			w.value(v, pointer+"/"+strconv.Itoa(i), depth+1)
		}
		w.json = append(w.json, ']')
	case *ast.StringNode:
		w.text(n, n.Value)
	case *ast.LiteralNode:
		w.text(n, n.Value.Value)
	case *ast.NullNode:
		w.json = append(w.json, "null"...)
	case *ast.BoolNode:
		w.json = strconv.AppendBool(w.json, n.Value)
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		w.number(n)
	default:
		w.fail(n, "is nothing that JSON has")
	}
}

// mapping writes an object. The line of a member is that of its name.
func (w *yamlWriter) mapping(values []*ast.MappingValueNode, pointer string, depth int) {
	w.json = append(w.json, '{')
	for i, v := range values {
		if i > 0 {
			w.json = append(w.json, ',')
		}
		name := v.Key.GetToken().Value
		if key, ok := v.Key.(*ast.StringNode); ok {
			name = key.Value
		}
		at := pointer + "/" + escapePointer(name)
		w.text(v.Key, name)
		w.json = append(w.json, ':')
		w.value(v.Value, at, depth+1)
		w.lines[at] = v.Key.GetToken().Position.Line
	}
	w.json = append(w.json, '}')
}

func (w *yamlWriter) text(n ast.Node, s string) {
	text, err := json.Marshal(s)
	if err != nil {
		w.fail(n, "is no text")
		return
	}
	w.json = append(w.json, text...)
}

// jsonNumber is how JSON spells a number.
var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

func (w *yamlWriter) number(n ast.Node) {
	spelt := n.GetToken().Value
	if !jsonNumber.MatchString(spelt) {
		w.fail(n, strconv.Quote(spelt)+" is no number in plain digits; quote it if it is text")
		return
	}
	w.json = append(w.json, spelt...)
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

func escapePointer(name string) string { return pointerEscapes.Replace(name) }

// line is where the value at a pointer stands, or what it is part of.
func (y *yamlText) line(pointer string) int {
	for {
		if line, ok := y.lines[pointer]; ok {
			return line
		}
		cut := strings.LastIndexByte(pointer, '/')
		if cut < 0 {
			return y.lines[""]
		}
		pointer = pointer[:cut]
	}
}
