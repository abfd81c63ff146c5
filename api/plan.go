package api

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// shape is the JSON form a Go type is read from.
type shape uint8

const (
	shapeText shape = iota + 1
	shapeWhole
	shapeNumber
	shapeBool
	shapeTime
	shapeObject
	shapeList
	shapeMap
	shapeRaw // anything, kept as it stands
)

// String names the shape for a fault.
func (s shape) String() string {
	return [...]string{"", "a string", "a whole number", "a number", "true or false", "a string", "an object", "a list", "an object", "anything"}[s]
}

// plan is how one Go type is read. Plans are made once a type and never changed.
type plan struct {
	shape    shape
	pointer  bool // the type is a pointer to what the rest speaks of
	nullable bool // the type is a Nullable of what the rest speaks of
	elem     *plan
	fields   []field
}

// field is one name of an object.
type field struct {
	name  string
	index int
	plan  *plan
	rules rules
}

// rules are the checks of a tag `rule`.
type rules struct {
	required, bounded bool
	min, max          int64
	enum              []string
}

var (
	plans          sync.Map // reflect.Type to *plan
	timeType       = reflect.TypeFor[Time]()
	rawType        = reflect.TypeFor[json.RawMessage]()
	limitInputType = reflect.TypeFor[LimitInput]()
)

func planOf(t reflect.Type) *plan {
	if p, ok := plans.Load(t); ok {
		return p.(*plan)
	}
	p, _ := plans.LoadOrStore(t, makePlan(t))
	return p.(*plan)
}

func makePlan(t reflect.Type) *plan {
	switch {
	case t == timeType:
		return &plan{shape: shapeTime}
	case t == rawType:
		return &plan{shape: shapeRaw}
	case isNullable(t):
		p := *planOf(t.Field(0).Type)
		p.nullable = true
		return &p
	}
	switch t.Kind() {
	case reflect.String:
		return &plan{shape: shapeText}
	case reflect.Int, reflect.Int64:
		return &plan{shape: shapeWhole}
	case reflect.Float64:
		return &plan{shape: shapeNumber}
	case reflect.Bool:
		return &plan{shape: shapeBool}
	case reflect.Pointer:
		p := *planOf(t.Elem())
		p.pointer = true
		return &p
	case reflect.Slice:
		return &plan{shape: shapeList, elem: planOf(t.Elem())}
	case reflect.Map:
		if t.Key().Kind() == reflect.String {
			return &plan{shape: shapeMap, elem: planOf(t.Elem())}
		}
	case reflect.Struct:
		return &plan{shape: shapeObject, fields: fieldsOf(t)}
	}
	panic(fmt.Sprintf("api: no wire form for %s", t))
}

// isNullable reports whether t is a Nullable of anything.
func isNullable(t reflect.Type) bool {
	_, ok := reflect.Zero(t).Interface().(interface{ nullable() })
	return ok
}

// fieldsOf lists the names of a struct, at most 64: what was seen is kept in one word.
func fieldsOf(t reflect.Type) []field {
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" || !f.IsExported() {
			panic(fmt.Sprintf("api: %s.%s has no name on the wire", t, f.Name))
		}
		fields = append(fields, field{name: name, index: i, plan: planOf(f.Type), rules: rulesOf(f.Tag.Get("rule"))})
	}
	if len(fields) > 64 {
		panic(fmt.Sprintf("api: %s has more than 64 fields", t))
	}
	return fields
}

// rulesOf reads a tag `rule`.
func rulesOf(tag string) rules {
	r := rules{min: -1 << 63, max: 1<<63 - 1}
	if tag == "" {
		return r
	}
	for part := range strings.SplitSeq(tag, ",") {
		key, value, _ := strings.Cut(part, "=")
		var err error
		switch key {
		case "required":
			r.required = true
		case "min":
			r.bounded = true
			r.min, err = strconv.ParseInt(value, 10, 64)
		case "max":
			r.bounded = true
			r.max, err = strconv.ParseInt(value, 10, 64)
		case "enum":
			r.enum = strings.Split(value, "|")
		default:
			err = strconv.ErrSyntax
		}
		if err != nil {
			panic(fmt.Sprintf("api: rule %q", tag))
		}
	}
	return r
}
