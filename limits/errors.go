package limits

import "strings"

// Fault is one thing wrong with a value. Field is a JSON pointer such as "/amount" or
// "/labels/x", "" for the value as a whole.
type Fault struct{ Field, Reason string }

// InvalidError lists everything that is wrong with a value, all at once, in the order of its
// fields.
type InvalidError struct{ Faults []Fault }

func (e *InvalidError) Error() string {
	var b strings.Builder
	b.WriteString("limits: invalid")
	for i, f := range e.Faults {
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		b.WriteString(sep)
		if f.Field != "" {
			b.WriteString(f.Field + " ")
		}
		b.WriteString(f.Reason)
	}
	return b.String()
}

// FixedError says which fields of a limit can never change that way. Fields are JSON pointers.
type FixedError struct{ Fields []string }

func (e *FixedError) Error() string {
	return "limits: fixed once the limit is made: " + strings.Join(e.Fields, ", ")
}

// faults gathers what is wrong.
type faults []Fault

func (f *faults) add(field, reason string) { *f = append(*f, Fault{field, reason}) }

// need adds a fault unless ok.
func (f *faults) need(ok bool, field, reason string) {
	if !ok {
		f.add(field, reason)
	}
}

// err is nil when nothing was added.
func (f faults) err() error {
	if len(f) == 0 {
		return nil
	}
	return &InvalidError{Faults: f}
}
