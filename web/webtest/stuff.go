// Package webtest is for tests of pages: it fills the values of a page with what no page may take
// for more than text. It knows no page.
package webtest

import "reflect"

// Stuff fills every text of a body's shape with what is hostile, so that no field is forgotten;
// pointers lead somewhere and lists have one element. v must be settable.
func Stuff(v reflect.Value, hostile string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(hostile)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(3)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		Stuff(v.Elem(), hostile)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		Stuff(v.Index(0), hostile)
	case reflect.Struct:
		for i := range v.NumField() {
			Stuff(v.Field(i), hostile)
		}
	default:
	}
}
