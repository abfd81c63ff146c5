package auth

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"testing"
)

// FuzzVerify: whatever is sent, nothing panics and nothing but what was signed is believed.
func FuzzVerify(f *testing.F) {
	signed := map[string]bool{}
	for _, forged := range forgedTokens(f) {
		if len(forged.token) <= 2*maxTokenBytes {
			f.Add(forged.token)
		}
	}
	good := edToken(claims())
	signed[good] = true // a mutation can undo what was done to a forged one
	v := newVerifier(f, Config{Keys: staticSource(f), CacheSize: 4})
	f.Fuzz(func(t *testing.T, token string) {
		_, err := v.Verify(t.Context(), token)
		if err == nil && !signed[token] {
			t.Fatalf("Verify(%q) believed it", token)
		}
		if err != nil && !errors.Is(err, ErrUnauthenticated) {
			t.Fatalf("Verify(%q): %v, want ErrUnauthenticated", token, err)
		}
	})
}

// FuzzClaims: claims under a good signature never make a Principal that breaks a rule.
func FuzzClaims(f *testing.F) {
	f.Add(claims())
	f.Add(claims("sub", `"\ud800"`, "SUB", `"x"`, "subjects", `["user:*"]`))
	f.Add(`{"sub":"a","sub":"b"}`)
	r := rules{testIssuer, testAudience, defaultLeeway, defaultMaxLifetime}
	f.Fuzz(func(t *testing.T, text string) {
		fields, err := strictObject([]byte(text))
		if err != nil {
			return
		}
		p, err := r.judge(fields, t0)
		if err != nil {
			return
		}
		if fields["sub"] != p.Subject.ID || !validText(p.Subject.ID) || !validKind(p.Subject.Kind) || !ValidTenant(p.Tenant) ||
			r.expired(p.ExpiresAt, t0) || p.ExpiresAt.Sub(p.IssuedAt) > defaultMaxLifetime || len(p.Patterns) > maxPatterns {
			t.Fatalf("judge(%q) = %+v", text, p)
		}
	})
}

// FuzzStrictObject: what the strict reader takes, the standard one reads the same way.
func FuzzStrictObject(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":[1,{"b":null}],"c":"\ud800","d":1e5}`, `{"a":1,"A":2}`, `{"a":1,"a":2}`, `{"a":}`, `{} {}`, `[1,]`, "{\"\xff\":1}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := strictObject(data)
		if err != nil {
			return
		}
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		var want map[string]any
		if err := dec.Decode(&want); err != nil {
			t.Fatalf("strictObject took %q, the standard decoder says %v", data, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("strictObject(%q) = %v, want %v", data, got, want)
		}
	})
}
