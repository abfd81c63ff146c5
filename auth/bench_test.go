package auth

import "testing"

func BenchmarkVerify_EdDSAUncached(b *testing.B) {
	v := newVerifier(b, Config{Keys: staticSource(b)})
	token := edToken(claims("scope", `"act-for limits:read"`, "jti", `"0123456789"`))
	now := v.now()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.verify(b.Context(), token, now); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerify_Cached(b *testing.B) {
	v := newVerifier(b, Config{Keys: staticSource(b)})
	token := edToken(claims("scope", `"act-for limits:read"`, "jti", `"0123456789"`))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.Verify(b.Context(), token); err != nil {
			b.Fatal(err)
		}
	}
}

func TestVerify_RememberedTokensCostNoAllocation(t *testing.T) {
	v := newVerifier(t, Config{Keys: staticSource(t)})
	token := edToken(claims("scope", `"admin"`))
	verify := func() {
		if _, err := v.Verify(t.Context(), token); err != nil {
			t.Fatalf("Verify(%s): %v", token, err)
		}
	}
	verify()
	if got := testing.AllocsPerRun(100, verify); got != 0 {
		t.Errorf("allocations of one Verify of a remembered token: %v, want 0", got)
	}
}
