package api

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// value reads the next value into v. A value of the wrong kind is a fault, and skipped.
func (d *decoder) value(p *plan, v reflect.Value, r *rules) bool {
	c := d.peek()
	if kindOf(c) == "" {
		return d.fail(notJSON)
	}
	if c == 'n' && p.shape != shapeRaw {
		return d.null(p, v)
	}
	if p.pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if p.nullable {
		v.Field(2).SetBool(true)
		v = v.Field(0)
	}
	if !fits(p.shape, c) {
		d.bodyFault("must be " + p.shape.String() + ", not " + kindOf(c))
		return d.skip()
	}
	switch p.shape {
	case shapeText:
		return d.textValue(v, r)
	case shapeWhole:
		return d.wholeValue(v, r)
	case shapeNumber:
		return d.numberValue(v)
	case shapeBool:
		v.SetBool(c == 't')
		return d.skip()
	case shapeTime:
		return d.timeValue(v)
	case shapeObject:
		return d.object(p, v)
	case shapeList:
		return d.list(p, v, r)
	case shapeMap:
		return d.mapValue(p, v)
	default: // shapeRaw
		start := d.pos
		if !d.skip() {
			return false
		}
		v.SetBytes(append([]byte(nil), d.data[start:d.pos]...))
		return true
	}
}

func (d *decoder) null(p *plan, v reflect.Value) bool {
	switch {
	case p.nullable:
		v.Field(1).SetBool(true)
		v.Field(2).SetBool(true)
	default:
		d.bodyFault("must be " + p.shape.String() + ", not null")
	}
	return d.skip()
}

// fits reports whether a value that begins with c can have shape s.
func fits(s shape, c byte) bool {
	switch kindOf(c) {
	case "a string":
		return s == shapeText || s == shapeTime || s == shapeRaw
	case "a number":
		return s == shapeWhole || s == shapeNumber || s == shapeRaw
	case "true or false":
		return s == shapeBool || s == shapeRaw
	case "an object":
		return s == shapeObject || s == shapeMap || s == shapeRaw
	case "a list":
		return s == shapeList || s == shapeRaw
	default: // null, or no value at all
		return s == shapeRaw
	}
}

// kindOf names the JSON type of a value by its first byte, "" for none.
func kindOf(c byte) string {
	switch {
	case c == '"':
		return "a string"
	case c == '{':
		return "an object"
	case c == '[':
		return "a list"
	case c == 't' || c == 'f':
		return "true or false"
	case c == 'n':
		return "null"
	case c == '-' || c >= '0' && c <= '9':
		return "a number"
	}
	return ""
}

func (d *decoder) textValue(v reflect.Value, r *rules) bool {
	text, ok := d.text()
	if !ok {
		return false
	}
	if r == nil || r.enum == nil {
		v.SetString(string(text))
		return true
	}
	for _, word := range r.enum {
		if string(text) == word {
			v.SetString(word)
			return true
		}
	}
	d.valueFault("must be one of " + strings.Join(r.enum, ", "))
	return true
}

func (d *decoder) wholeValue(v reflect.Value, r *rules) bool {
	digits, plain, ok := d.number()
	if !ok {
		return false
	}
	n, inRange := whole(digits, plain)
	switch {
	case !plain:
		d.valueFault("must be a whole number in plain digits")
	case !inRange || r != nil && r.bounded && (n < r.min || n > r.max):
		d.valueFault("must be " + r.span())
	default:
		v.SetInt(n)
	}
	return true
}

// span says what is allowed.
func (r *rules) span() string {
	switch {
	case r == nil || !r.bounded:
		return "within 64 bits"
	case r.max == math.MaxInt64:
		return fmt.Sprintf("at least %d", r.min)
	case r.min == math.MinInt64:
		return fmt.Sprintf("at most %d", r.max)
	}
	return fmt.Sprintf("%d to %d", r.min, r.max)
}

// whole reads digits that have passed the scanner.
func whole(digits []byte, plain bool) (n int64, ok bool) {
	if !plain {
		return 0, false
	}
	if len(digits) > 18 { // may be above 64 bits
		n, err := strconv.ParseInt(string(digits), 10, 64)
		return n, err == nil
	}
	negative := digits[0] == '-'
	if negative {
		digits = digits[1:]
	}
	for _, c := range digits {
		n = n*10 + int64(c-'0')
	}
	if negative {
		n = -n
	}
	return n, true
}

func (d *decoder) numberValue(v reflect.Value) bool {
	digits, _, ok := d.number()
	if !ok {
		return false
	}
	n, err := strconv.ParseFloat(string(digits), 64)
	if err != nil {
		d.valueFault("is out of range")
		return true
	}
	v.SetFloat(n)
	return true
}

func (d *decoder) timeValue(v reflect.Value) bool {
	text, ok := d.text()
	if !ok {
		return false
	}
	if err := v.Addr().Interface().(*Time).UnmarshalText(text); err != nil {
		d.valueFault("must be an instant such as 2026-01-31T12:00:00Z (RFC 3339)")
	}
	return true
}
