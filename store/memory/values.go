package memory

import (
	"fmt"
	"reflect"
)

// printed is everything that is in a value, for finding out that somebody changed it.
// Secrets do not print as text, but their bytes do here.
func printed(value any) string {
	if v := reflect.ValueOf(value); v.Kind() == reflect.Pointer {
		return fmt.Sprintf("%#v", v.Elem().Interface())
	}
	return fmt.Sprintf("%#v", value)
}

// checkValues panics when a value is not what was put.
func (k *keyspace) checkValues() {
	if !k.valueChecks {
		return
	}
	for ref, it := range k.items {
		if it.Value == nil {
			continue // spoilt
		}
		if now := printed(it.Value); now != it.print {
			panic(fmt.Sprintf("memory: the value of %+v was changed after it was put\nput: %s\nnow: %s", ref, it.print, now))
		}
	}
}
