package httpapi

import (
	"net/http"
	"strings"
	"testing"
)

func TestIdempotencyKey(t *testing.T) { // FAULTS section 3 row 32
	t.Parallel()
	long := strings.Repeat("k", 128)
	for _, one := range []struct {
		given []string
		want  string
		ok    bool
	}{
		{nil, "", true},
		{[]string{"m17-boot9"}, "m17-boot9", true},
		{[]string{`"m17-boot9"`}, "m17-boot9", true}, // the same key either way
		{[]string{"8e03978e-40d5-43e8-bc93-6894a57f9324"}, "8e03978e-40d5-43e8-bc93-6894a57f9324", true},
		{[]string{`"a\"b\\c"`}, `a"b\c`, true},
		{[]string{`"a;b,c"`}, "a;b,c", true},
		{[]string{long}, long, true},
		{[]string{`"` + long + `"`}, long, true},
		{[]string{""}, "", false},
		{[]string{`""`}, "", false},
		{[]string{long + "k"}, "", false},
		{[]string{`"` + long + `k"`}, "", false},
		{[]string{"two words"}, "", false},
		{[]string{`"two words"`}, "", false},
		{[]string{"é"}, "", false},
		{[]string{"\"\t\""}, "", false},
		{[]string{`"open`}, "", false},
		{[]string{`"`}, "", false},
		{[]string{`"a"b"`}, "", false},
		{[]string{`"a\b"`}, "", false},
		{[]string{`"a\"`}, "", false},
		{[]string{`"a";p=1`}, "", false},
		{[]string{`a"b`}, "", false},
		{[]string{"a, b"}, "", false},
		{[]string{"a", "a"}, "", false},
	} {
		h := http.Header{}
		for _, v := range one.given {
			h.Add("Idempotency-Key", v)
		}
		if key, err := idempotencyKey(h); key != one.want || (err == nil) != one.ok {
			t.Errorf("Idempotency-Key %q: got %q, %v, want %q, ok %v", one.given, key, err, one.want, one.ok)
		}
	}
}

func FuzzIdempotencyKey(f *testing.F) {
	f.Add(`"a\"b"`)
	f.Add("bare")
	f.Fuzz(func(t *testing.T, given string) {
		key, err := idempotencyKey(http.Header{"Idempotency-Key": {given}})
		if err != nil {
			return
		}
		if !visibleASCII(key, maxIdempotencyKey) {
			t.Fatalf("%q is taken as %q", given, key)
		}
		again, err := idempotencyKey(http.Header{"Idempotency-Key": {string(appendSFString(nil, key))}})
		if err != nil || again != key {
			t.Fatalf("%q quoted comes back as %q, %v", key, again, err)
		}
	})
}
