package api

import (
	"fmt"
	"reflect"
	"strings"
)

// push and pop move the path into and out of a value.
func (d *decoder) push(name string, place int) { d.path = append(d.path, step{name, place}) }
func (d *decoder) pop()                        { d.path = d.path[:len(d.path)-1] }

// name reads the name of an object's next member and the colon after it.
func (d *decoder) name() ([]byte, bool) {
	name, ok := d.text()
	if !ok {
		return nil, false
	}
	if !d.take(':') {
		return nil, d.fail(notJSON)
	}
	return name, true
}

// object reads an object whose names are known.
func (d *decoder) object(p *plan, v reflect.Value) bool {
	if !d.open() {
		return false
	}
	var seen uint64
	for first := true; ; first = false {
		another, ok := d.more('}', first)
		if !ok {
			return false
		}
		if !another {
			break
		}
		if !d.member(p, v, &seen) {
			return false
		}
	}
	for i := range p.fields {
		if f := &p.fields[i]; f.rules.required && seen&(1<<i) == 0 {
			d.push(f.name, -1)
			d.valueFault("is required")
			d.pop()
		}
	}
	return true
}

// member reads one name and its value. On broken syntax the path stays, for the fault to name.
func (d *decoder) member(p *plan, v reflect.Value, seen *uint64) bool {
	name, ok := d.name()
	if !ok {
		return false
	}
	i := p.find(name)
	if i < 0 {
		d.push(string(name), -1)
		d.bodyFault(p.unknown(string(name)))
		return d.skip() && d.leave()
	}
	f := &p.fields[i]
	d.push(f.name, -1)
	if *seen&(1<<i) != 0 {
		d.bodyFault("is there twice")
		return d.skip() && d.leave()
	}
	*seen |= 1 << i
	return d.value(f.plan, v.Field(f.index), &f.rules) && d.leave()
}

func (d *decoder) leave() bool { d.pop(); return true }

// find is the place of a name among the fields, -1 when it is unknown.
func (p *plan) find(name []byte) int {
	for i := range p.fields {
		if p.fields[i].name == string(name) {
			return i
		}
	}
	return -1
}

// unknown says that a name is unknown, and which one differs only in case.
func (p *plan) unknown(name string) string {
	for i := range p.fields {
		if strings.EqualFold(p.fields[i].name, name) {
			return "is not known; did you mean " + p.fields[i].name + "?"
		}
	}
	return "is not known"
}

// list reads a list. What is above the most entries allowed is skipped, not kept.
func (d *decoder) list(p *plan, v reflect.Value, r *rules) bool {
	if !d.open() {
		return false
	}
	v.Set(reflect.MakeSlice(v.Type(), 0, 4))
	for n := 0; ; n++ {
		another, ok := d.more(']', n == 0)
		if !ok || !another {
			return ok
		}
		if r != nil && r.bounded && int64(n) >= r.max {
			if int64(n) == r.max {
				d.valueFault(fmt.Sprintf("must have at most %d entries", r.max))
			}
			if !d.skip() {
				return false
			}
			continue
		}
		v.Grow(1)
		v.SetLen(n + 1)
		d.push("", n)
		if !d.value(p.elem, v.Index(n), nil) {
			return false
		}
		d.pop()
	}
}

// mapValue reads an object whose names are the caller's.
func (d *decoder) mapValue(p *plan, v reflect.Value) bool {
	if !d.open() {
		return false
	}
	v.Set(reflect.MakeMap(v.Type()))
	texts, _ := v.Interface().(map[string]string)
	for first := true; ; first = false {
		another, ok := d.more('}', first)
		if !ok || !another {
			return ok
		}
		raw, ok := d.name()
		if !ok {
			return false
		}
		name := string(raw)
		d.push(name, -1)
		switch {
		case texts != nil:
			ok = d.textEntry(texts, name)
		default:
			ok = d.entry(p, v, name)
		}
		if !ok {
			return false
		}
		d.pop()
	}
}

// textEntry reads one value of a map of strings.
func (d *decoder) textEntry(texts map[string]string, name string) bool {
	if _, twice := texts[name]; twice {
		d.bodyFault("is there twice")
		return d.skip()
	}
	c := d.peek()
	if kindOf(c) == "" {
		return d.fail(notJSON)
	}
	if !fits(shapeText, c) {
		texts[name] = ""
		d.bodyFault("must be a string, not " + kindOf(c))
		return d.skip()
	}
	text, ok := d.text()
	texts[name] = string(text)
	return ok
}

func (d *decoder) entry(p *plan, v reflect.Value, name string) bool {
	key := reflect.ValueOf(name)
	if v.MapIndex(key).IsValid() {
		d.bodyFault("is there twice")
		return d.skip()
	}
	one := reflect.New(v.Type().Elem()).Elem()
	ok := d.value(p.elem, one, nil)
	v.SetMapIndex(key, one)
	return ok
}

// skip goes past a value of any kind, as strict about syntax and names as the rest.
func (d *decoder) skip() bool {
	switch c := d.peek(); kindOf(c) {
	case "a string":
		_, ok := d.text()
		return ok
	case "a number":
		_, _, ok := d.number()
		return ok
	case "true or false":
		if c == 't' {
			return d.literal("true")
		}
		return d.literal("false")
	case "null":
		return d.literal("null")
	case "an object":
		return d.skipObject()
	case "a list":
		return d.skipList()
	}
	return d.fail(notJSON)
}

func (d *decoder) skipObject() bool {
	if !d.open() {
		return false
	}
	seen := map[string]bool{}
	for first := true; ; first = false {
		another, ok := d.more('}', first)
		if !ok || !another {
			return ok
		}
		name, ok := d.name()
		if !ok {
			return false
		}
		d.push(string(name), -1)
		if seen[string(name)] {
			d.bodyFault("is there twice")
		}
		seen[string(name)] = true
		if !d.skip() {
			return false
		}
		d.pop()
	}
}

func (d *decoder) skipList() bool {
	if !d.open() {
		return false
	}
	for n := 0; ; n++ {
		another, ok := d.more(']', n == 0)
		if !ok || !another {
			return ok
		}
		d.push("", n)
		if !d.skip() {
			return false
		}
		d.pop()
	}
}
