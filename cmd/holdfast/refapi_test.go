package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/holdfast-dev/holdfast/api"
)

// ordered is a mapping of the API's document, in the order in which it is written.
type ordered yaml.MapSlice

func (o ordered) get(path ...string) ordered {
	for _, name := range path {
		o = asMap(o.value(name))
	}
	return o
}

func (o ordered) value(name string) any {
	for _, item := range o {
		if fmt.Sprint(item.Key) == name {
			return item.Value
		}
	}
	return nil
}

func (o ordered) text(name string) string {
	if v := o.value(name); v != nil {
		return strings.TrimSpace(fmt.Sprint(v))
	}
	return ""
}

func asMap(v any) ordered { m, _ := v.(yaml.MapSlice); return ordered(m) }

func items(v any) []any { l, _ := v.([]any); return l }

// contract is api/openapi.yaml as the page needs it.
type contract struct{ all ordered }

// follow is what a reference stands for, and its name; anything else is itself.
func (c contract) follow(o ordered) (ordered, string) {
	ref := o.text("$ref")
	if ref == "" {
		return o, ""
	}
	parts := strings.Split(strings.TrimPrefix(ref, "#/"), "/")
	return c.all.get(parts...), parts[len(parts)-1]
}

// apiPage is every route and every body, as api/openapi.yaml has them.
func apiPage(t *testing.T) string {
	t.Helper()
	var all yaml.MapSlice
	if err := yaml.UnmarshalWithOptions(api.OpenAPI, &all, yaml.UseOrderedMap()); err != nil {
		t.Fatal(err)
	}
	c := contract{ordered(all)}
	var b strings.Builder
	b.WriteString("# The HTTP API\n\n" + generated +
		"A running server has the same to try out at `/docs`, and the whole document at `/openapi.json`; in the repository it is `api/openapi.yaml`. " +
		"What each `code` of a refusal or an error means is in [problems](../problems.md), the events in [how to follow what happens](../howto/events.md).\n\n" +
		strings.TrimSpace(c.all.get("info").text("description")) + "\n")
	for _, tag := range items(c.all.value("tags")) {
		c.tag(&b, asMap(tag))
	}
	b.WriteString("\n## Bodies\n\nA field in **bold** is always there; in a request it must be.\n")
	for _, s := range c.all.get("components", "schemas") {
		c.schema(&b, fmt.Sprint(s.Key), asMap(s.Value))
	}
	return b.String()
}

// tag writes the routes of one tag.
func (c contract) tag(b *strings.Builder, tag ordered) {
	name := tag.text("name")
	fmt.Fprintf(b, "\n## %s\n\n%s\n", strings.ToUpper(name[:1])+name[1:], tag.text("description"))
	for _, path := range c.all.get("paths") {
		route := asMap(path.Value)
		for _, verb := range route {
			op := asMap(verb.Value)
			if tags := items(op.value("tags")); len(tags) > 0 && tags[0] == name {
				c.operation(b, strings.ToUpper(fmt.Sprint(verb.Key))+" "+fmt.Sprint(path.Key), op, items(route.value("parameters")))
			}
		}
	}
}

func (c contract) operation(b *strings.Builder, head string, op ordered, shared []any) {
	fmt.Fprintf(b, "\n### %s\n\n%s.", head, strings.TrimSuffix(op.text("summary"), "."))
	if text := op.text("description"); text != "" {
		b.WriteString(" " + strings.Join(strings.Fields(text), " "))
	}
	switch scope := op.text("x-scope"); {
	case scope != "":
		b.WriteString(" Scope: `" + scope + "`.")
	case op.value("security") != nil && len(items(op.value("security"))) == 0:
		b.WriteString(" Open to anybody.")
	}
	b.WriteString("\n")
	if all := append(append([]any{}, shared...), items(op.value("parameters"))...); len(all) > 0 {
		b.WriteString("\n| parameter | in | what it takes |\n|---|---|---|\n")
		for _, p := range all {
			p, _ := c.follow(asMap(p))
			b.WriteString("| `" + p.text("name") + "` | " + p.text("in") + " | " + c.meaning(asMap(p.value("schema")), p.text("description")) + " |\n")
		}
	}
	b.WriteString("\n| | |\n|---|---|\n")
	if body, _ := c.follow(op.get("requestBody")); body != nil {
		b.WriteString("| send | " + c.content(body) + " |\n")
	}
	var refused []string
	for _, r := range op.get("responses") {
		status := fmt.Sprint(r.Key)
		answer, _ := c.follow(asMap(r.Value))
		if status >= "4" {
			refused = append(refused, status)
			continue
		}
		says := strings.Join(strings.Fields(answer.text("description")), " ")
		b.WriteString("| " + status + " | " + strings.TrimSpace(cell(says)+" "+c.content(answer)) + " |\n")
	}
	if refused = slices.DeleteFunc(refused, func(s string) bool { return s == "default" }); len(refused) > 0 {
		b.WriteString("| [refused or failed](../problems.md) | " + strings.Join(refused, ", ") + " |\n")
	}
}

// content names the bodies of a request or an answer.
func (c contract) content(body ordered) string {
	var all []string
	for _, kind := range body.get("content") {
		schema := asMap(kind.Value).get("schema")
		word := c.kind(schema)
		if name := fmt.Sprint(kind.Key); name != "application/json" {
			word += " as `" + name + "`"
		}
		all = append(all, strings.TrimSpace(word))
	}
	return strings.Join(all, ", ")
}

// schema writes the fields of one body, or what a named value may be.
func (c contract) schema(b *strings.Builder, name string, s ordered) {
	fmt.Fprintf(b, "\n### %s\n\n", name)
	fields := s.get("properties")
	if len(fields) == 0 {
		b.WriteString(c.meaning(s, s.text("description")) + "\n")
		return
	}
	if text := s.text("description"); text != "" {
		b.WriteString(strings.Join(strings.Fields(text), " ") + "\n\n")
	}
	must := map[any]bool{}
	for _, r := range items(s.value("required")) {
		must[r] = true
	}
	b.WriteString("| field | what it is |\n|---|---|\n")
	for _, f := range fields {
		field := "`" + fmt.Sprint(f.Key) + "`"
		if must[f.Key] {
			field = "**" + field + "**"
		}
		own := asMap(f.Value)
		b.WriteString("| " + field + " | " + c.meaning(own, own.text("description")) + " |\n")
	}
}

// meaning is a value's type, its bounds and what is said of it.
func (c contract) meaning(s ordered, text string) string {
	parts := []string{c.kind(s)}
	between := func(low, high, unit string) {
		switch lo, hi := s.text(low), s.text(high); {
		case lo != "" && hi != "":
			parts = append(parts, lo+" to "+hi+unit)
		case lo != "":
			parts = append(parts, "from "+lo+unit)
		case hi != "":
			parts = append(parts, "up to "+hi+unit)
		}
	}
	between("minimum", "maximum", "")
	between("minLength", "maxLength", " characters")
	between("minItems", "maxItems", " of them")
	if above := s.text("exclusiveMinimum"); above != "" {
		parts = append(parts, "above "+above)
	}
	if pattern := s.text("pattern"); pattern != "" {
		parts = append(parts, "`"+pattern+"`")
	}
	if words := items(s.value("enum")); len(words) > 0 {
		names := make([]string, len(words))
		for i, w := range words {
			names[i] = fmt.Sprintf("`%v`", w)
		}
		parts = append(parts, strings.Join(names, " "))
	}
	if def := s.text("default"); def != "" {
		parts = append(parts, "default `"+def+"`")
	}
	out := strings.Join(parts, ", ")
	if text != "" {
		out += ". " + strings.Join(strings.Fields(text), " ")
	}
	return strings.ReplaceAll(out, "|", `\|`)
}

// kind is the type of a value; of another body it is a link there.
func (c contract) kind(s ordered) string {
	if _, name := c.follow(s); name != "" {
		return "[" + name + "](#" + strings.ToLower(name) + ")"
	}
	var all []string
	for _, of := range items(s.value("oneOf")) {
		all = append(all, c.kind(asMap(of)))
	}
	if len(all) > 0 {
		return strings.Join(all, " or ")
	}
	switch v := s.value("type").(type) {
	case []any:
		for _, of := range v {
			all = append(all, fmt.Sprint(of))
		}
	case string:
		switch {
		case v == "array":
			return "list of " + c.kind(s.get("items"))
		case s.text("format") != "":
			return v + " (" + s.text("format") + ")"
		case v == "object" && len(s.get("additionalProperties")) > 0:
			return "object of " + c.kind(s.get("additionalProperties"))
		}
		all = append(all, v)
	default:
		return "any value"
	}
	return strings.Join(all, " or ")
}
