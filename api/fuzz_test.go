package api

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"unicode/utf8"
)

// Whatever Decode accepts, encoding/json reads as the same value; whatever it refuses, it
// says why. FAULTS part 2 row 12.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		fullCheck, `{}`, `{"action":"\ud83d\ude00","cost":-0}`, `{"ids":["a"],"ttlSeconds":3}`,
		`{"amount":null,"until":"2026-09-04T18:00:00.5+02:00"}`, `{"amount":9223372036854775808}`,
		`{"limits":[{"name":"n","subjectKind":"*","action":"*","amount":0,"window":"bucket","refillPerSecond":1e-3,"source":[1]}],"plans":{"p":{"x":{"amount":1}}}}`,
		"{\"action\":\"\xff\"}", `{"action":"\ud800"}`, `{"ACTION":"a","action":"b"}`, `[[[[[[[[[`, `{"z":{"a":1,"a":2}}`,
	} {
		f.Add([]byte(seed))
	}
	targets := []func() any{
		func() any { return new(CheckRequest) }, func() any { return new(LimitInput) },
		func() any { return new(LimitsFile) }, func() any { return new(OverrideInput) },
		func() any { return new(HeartbeatRequest) }, func() any { return new(Problem) },
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, target := range targets {
			ours, theirs := target(), target()
			if err := Decode(data, ours); err != nil {
				var bad *DecodeError
				if !errors.As(err, &bad) || len(bad.Faults) == 0 || len(bad.Faults) > maxFault {
					t.Fatalf("Decode(%q) into %T: %v says too little or too much", data, ours, err)
				}
				continue
			}
			if !utf8.Valid(data) {
				t.Fatalf("Decode(%q) into %T took what is not UTF-8", data, ours)
			}
			if err := json.Unmarshal(data, theirs); err != nil {
				t.Fatalf("Decode(%q) into %T took what encoding/json refuses: %v", data, ours, err)
			}
			if !reflect.DeepEqual(ours, theirs) {
				t.Fatalf("Decode(%q) into %T\n got %+v\nencoding/json %+v", data, ours, ours, theirs)
			}
		}
	})
}

// A merged document is what the rule of RFC 7396 makes of maps.
func FuzzMergePatch(f *testing.F) {
	f.Add([]byte(`{"a":{"b":1}}`), []byte(`{"a":{"b":null,"c":[1.50]},"<":"\u2028"}`))
	f.Add([]byte(`[1]`), []byte(`{"a":{"b":{"c":null}}}`))
	f.Fuzz(func(t *testing.T, doc, patch []byte) {
		merged, err := MergePatch(doc, patch)
		if err != nil {
			return
		}
		var to, by, got any
		for data, into := range map[*[]byte]*any{&doc: &to, &patch: &by, &merged: &got} {
			if err := json.Unmarshal(*data, into); err != nil {
				var outOfRange *json.UnmarshalTypeError // 1e999 is JSON and no float64
				if errors.As(err, &outOfRange) {
					return
				}
				t.Fatalf("%q by %q: %q is no JSON: %v", doc, patch, *data, err)
			}
		}
		if want := mergeMaps(to, by); !reflect.DeepEqual(got, want) {
			t.Fatalf("%q by %q\n got %q\nwant %v", doc, patch, merged, want)
		}
	})
}

// mergeMaps is the pseudo-code of RFC 7396 section 2.
func mergeMaps(to, by any) any {
	patch, ok := by.(map[string]any)
	if !ok {
		return by
	}
	into, ok := to.(map[string]any)
	if !ok {
		into = map[string]any{}
	}
	for name, value := range patch {
		if value == nil {
			delete(into, name)
		} else {
			into[name] = mergeMaps(into[name], value)
		}
	}
	return into
}
