package api

import (
	"encoding/json"
	"strconv"
)

// AppendJSON appends v as JSON, byte for byte what encoding/json makes of it. The answers of
// the busy routes (CheckAnswer, Reservation, Problem) are written by hand and allocate little
// but what dst needs; anything else goes through encoding/json. v is a value or a pointer.
//
// Errors: those of encoding/json. Instants must lie within the years 0 to 9999.
func AppendJSON(dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case *CheckAnswer:
		return v.append(dst), nil
	case CheckAnswer:
		return v.append(dst), nil
	case *Reservation:
		return v.append(dst), nil
	case Reservation:
		return v.append(dst), nil
	case *Problem:
		return v.append(dst), nil
	case Problem:
		return v.append(dst), nil
	}
	text, err := json.Marshal(v)
	return append(dst, text...), err
}

// object writes the members of one object. Names are written as they are: they are ours.
type object struct {
	dst   []byte
	after byte // what comes before the next name: { at first, then a comma
}

func begin(dst []byte) object { return object{dst, '{'} }

// end closes the object. None of ours is ever empty but an Owner.
func (o *object) end() []byte {
	if o.after == '{' {
		o.dst = append(o.dst, '{')
	}
	return append(o.dst, '}')
}

func (o *object) name(name string) {
	o.dst = append(append(append(o.dst, o.after, '"'), name...), '"', ':')
	o.after = ','
}

func (o *object) text(name, s string) {
	o.name(name)
	o.dst = appendString(o.dst, s)
}

func (o *object) textUnlessEmpty(name, s string) {
	if s != "" {
		o.text(name, s)
	}
}

func (o *object) whole(name string, n int64) {
	o.name(name)
	o.dst = strconv.AppendInt(o.dst, n, 10)
}

func (o *object) wholeUnlessZero(name string, n int64) {
	if n != 0 {
		o.whole(name, n)
	}
}

func (o *object) wholeUnlessNil(name string, n *int64) {
	if n != nil {
		o.whole(name, *n)
	}
}

// wholeOrNull writes null for a figure that an unlimited one has not.
func (o *object) wholeOrNull(name string, n int64, null bool) {
	if null {
		o.name(name)
		o.dst = append(o.dst, "null"...)
		return
	}
	o.whole(name, n)
}

func (o *object) truth(name string, b bool) {
	o.name(name)
	o.dst = strconv.AppendBool(o.dst, b)
}

func (o *object) truthIfSet(name string, b bool) {
	if b {
		o.truth(name, b)
	}
}

func (o *object) time(name string, t Time) {
	o.name(name)
	o.dst = append(t.UTC().AppendFormat(append(o.dst, '"'), timeLayout), '"')
}

func (o *object) timeUnlessNil(name string, t *Time) {
	if t != nil {
		o.time(name, *t)
	}
}

// appendList appends what one does with each element; a nil list is null, as in encoding/json.
func appendList[T any](dst []byte, list []T, one func(*T, []byte) []byte) []byte {
	if list == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, '[')
	for i := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = one(&list[i], dst)
	}
	return append(dst, ']')
}

// appendString appends s as a JSON string. Texts that need no escape, nearly all, are copied;
// for the others encoding/json knows how.
func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			text, _ := json.Marshal(s) // a string always has a JSON form
			return append(dst, text...)
		}
	}
	return append(append(append(dst, '"'), s...), '"')
}
