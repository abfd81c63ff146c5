package api

import (
	"fmt"
	"reflect"
	"strings"
)

// Bounds of what is read.
const (
	MaxBody  = 64 << 10 // bytes of a request's body; whoever reads it keeps to it
	MaxFile  = 1 << 20  // bytes of a limits file
	MaxDepth = 8        // objects and lists within one another
	maxFault = 50       // faults told at once
	maxName  = 128      // bytes of a name shown in a pointer
)

// DecodeError says everything that is wrong with a body. Code is InvalidBody when it is not
// strict JSON or a name or a JSON type is wrong, else InvalidValue. Body faults come first.
type DecodeError struct {
	Code   Code
	Faults []Fault
}

func (e *DecodeError) Error() string {
	var b strings.Builder
	b.WriteString("api: " + string(e.Code))
	for i, f := range e.Faults {
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		fmt.Fprintf(&b, "%s%s %s", sep, f.Pointer, f.Detail)
	}
	return b.String()
}

// And adds faults that were found later, such as by the domain's own Validate, but for those
// whose value, or one it is part of, is named already. It works on nil, and is nil when there is nothing to say.
func (e *DecodeError) And(more ...Fault) *DecodeError {
	for _, f := range more {
		if e == nil {
			e = &DecodeError{Code: InvalidValue}
		}
		if len(e.Faults) < maxFault && !e.names(f.Pointer) {
			e.Faults = append(e.Faults, f)
		}
	}
	return e
}

func (e *DecodeError) names(pointer string) bool {
	for _, f := range e.Faults {
		if f.Pointer == pointer || f.Pointer != "" && strings.HasPrefix(pointer, f.Pointer+"/") {
			return true
		}
	}
	return false
}

// Decode reads one JSON value into the variable that into points to, strictly: valid UTF-8
// without lone surrogates, names of exact case and none twice or unknown, no null unless it
// is an answer of its own ([Nullable]), at most MaxDepth deep, nothing after the value. Whole
// numbers are written in plain digits. Beside the types it checks the tags `rule`.
//
// Errors: *DecodeError, with all faults found; a fault of syntax ends the search. When its
// Code is InvalidValue the rest of into is filled in all the same, so that the caller can
// look for more and tell everything at once (see [DecodeError.And]).
// Decode panics when into is no pointer to a type of the wire: a mistake in the program.
// Cost: a small body takes about a microsecond and an allocation a string.
func Decode(data []byte, into any) error {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		panic(fmt.Sprintf("api: Decode into %T", into))
	}
	d := decoder{scanner: scanner{data: data}}
	d.document(planOf(v.Type().Elem()), v.Elem())
	return d.err()
}

// decoder reads a document into Go values. Its methods return false when the syntax is
// broken and nothing more can be read.
type decoder struct {
	scanner
	path   []step
	store  [MaxDepth + 1]step // what path grows in
	body   []Fault
	values []Fault
}

// step is one segment of the path to the value being read: a name, or a place in a list.
type step struct {
	name  string
	place int // -1 for a name
}

func (d *decoder) document(p *plan, v reflect.Value) {
	d.path = d.store[:0]
	d.space()
	if d.pos == len(d.data) {
		d.bodyFault("is empty")
		return
	}
	if !d.value(p, v, nil) {
		d.bodyFault(d.broken)
		return
	}
	if d.space(); d.pos < len(d.data) {
		d.path = d.path[:0]
		d.bodyFault("has something after its one value")
	}
}

// bodyFault and valueFault name the value at the present path.
func (d *decoder) bodyFault(detail string)  { d.body = d.fault(d.body, detail) }
func (d *decoder) valueFault(detail string) { d.values = d.fault(d.values, detail) }

func (d *decoder) fault(to []Fault, detail string) []Fault {
	if len(to) >= maxFault {
		return to
	}
	return append(to, Fault{pointer(d.path), detail})
}

func (d *decoder) err() error {
	switch {
	case len(d.body) > 0:
		all := append(d.body, d.values...)
		return &DecodeError{InvalidBody, all[:min(len(all), maxFault)]}
	case len(d.values) > 0:
		return &DecodeError{InvalidValue, d.values}
	}
	return nil
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// pointer spells a path as a JSON pointer (RFC 6901); over-long names are cut.
func pointer(path []step) string {
	var b strings.Builder
	for _, s := range path {
		if s.place >= 0 {
			fmt.Fprintf(&b, "/%d", s.place)
			continue
		}
		name := s.name
		if len(name) > maxName {
			name = strings.ToValidUTF8(name[:maxName], "") + "…"
		}
		b.WriteString("/" + pointerEscapes.Replace(name))
	}
	return b.String()
}
