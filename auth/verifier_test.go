package auth

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-dev/holdfast/limits"
)

func TestVerify_AcceptsEachAlgorithm(t *testing.T) { // API section 2
	t.Parallel()
	k := keysForTests()
	public := newVerifier(t, Config{Keys: staticSource(t)})
	shared := newVerifier(t, Config{Keys: must(HS256Secret(k.secret))(t)})
	for _, c := range []struct {
		alg, header string
		private     any
		v           *Verifier
	}{
		{"EdDSA", `{"alg":"EdDSA","kid":"ed","typ":"at+jwt"}`, k.ed, public},
		{"ES256", `{"alg":"ES256","kid":"es","typ":"JWT"}`, k.es, public},
		{"RS256", `{"typ":"application/at+jwt","alg":"RS256","kid":"rs","x5t":"abc"}`, k.rs, public},
		{"HS256", `{"alg":"HS256"}`, k.secret, shared},
		{"HS256", `{"alg":"HS256","kid":"any"}`, k.secret, shared},
	} {
		token := sign(c.alg, c.private, c.header, claims())
		got, err := c.v.Verify(t.Context(), token)
		want := Principal{
			Tenant: "default", Issuer: testIssuer, Subject: limits.Subject{Kind: "user", ID: "u_42"},
			IssuedAt: t0, ExpiresAt: t0.Add(10 * time.Minute),
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("Verify(header %s) = %+v, %v; want %+v", c.header, got, err, want)
		}
	}
	for _, alg := range []string{"EdDSA", "ES256", "RS256"} {
		token := sign("HS256", k.secret, `{"alg":"`+alg+`"}`, claims())
		if _, err := shared.Verify(t.Context(), token); !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("Verify(alg %s) beside a secret: %v, want ErrUnauthenticated", alg, err)
		}
	}
}

func TestVerify_ReadsEveryClaim(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, Config{Keys: staticSource(t)})
	token := edToken(claims(
		"sub", `"r\u00e9my/a:b"`, "subject_kind", `"service"`, "tenant", `"acme-1"`, "jti", `"t-1"`,
		"aud", `["other","holdfast"]`, "scope", `"holds:force nonsense act-for"`, "subjects", `["user:*","org:acme:eu"]`,
		"nbf", unix(30*time.Second), "iat", unix(60*time.Second), "exp", unix(90 * time.Second)[:10]+".75",
		"SUB", `"root"`, "Exp", `1`, "Tenant", `"x"`, "realm_access", `{"roles":["a",{"b":null}]}`))
	got, err := v.Verify(t.Context(), token)
	want := Principal{
		Tenant: "acme-1", Issuer: testIssuer, Subject: limits.Subject{Kind: "service", ID: "rémy/a:b"},
		Scopes: ParseScopes("act-for holds:force"), TokenID: "t-1",
		Patterns: []SubjectPattern{{Kind: "user"}, {Kind: "org", ID: "acme:eu"}},
		IssuedAt: t0.Add(time.Minute), ExpiresAt: t0.Add(90 * time.Second),
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Verify(%s) = %+v, %v; want %+v", token, got, err, want)
	}
}

func TestVerify_AcceptsWhatIsJustInBounds(t *testing.T) { // FAULTS section 3 rows 6 and 11
	t.Parallel()
	v := newVerifier(t, Config{Keys: staticSource(t)})
	for _, pairs := range [][]string{
		{"exp", unix(-29 * time.Second)},
		{"iat", unix(60 * time.Second)},
		{"nbf", unix(30 * time.Second)},
		{"exp", unix(24 * time.Hour)},
		{"sub", `"` + strings.Repeat("s", 255) + `"`},
		{"sub", `"\ud83d\ude00"`}, // a surrogate pair is one letter
		{"sub", `"\ufdd0 \u00a0"`},
		{"subject_kind", `"` + strings.Repeat("k", 32) + `"`},
		{"tenant", `"` + strings.Repeat("0", 63) + `"`},
		{"subjects", `[` + strings.TrimSuffix(strings.Repeat(`"user:*",`, 100), ",") + `]`},
		{"jti", `""`},
		{"scope", `""`},
	} {
		if _, err := v.Verify(t.Context(), edToken(claims(pairs...))); err != nil {
			t.Errorf("Verify with %q: %v, want no error", pairs, err)
		}
	}
}

func TestVerify_JudgesCachedTokensAnew(t *testing.T) { // FAULTS section 2 row 44, section 3 row 8
	t.Parallel()
	now := newClock()
	revoked := ""
	reg := prometheus.NewRegistry()
	v := newVerifier(t, Config{Keys: staticSource(t), Now: now.Now, Metrics: reg, Revoked: func(p Principal) bool { return p.TokenID == revoked }})
	first, second := edToken(claims("jti", `"a"`)), edToken(claims("jti", `"b"`))
	check := func(token string, good bool) {
		t.Helper()
		_, err := v.Verify(t.Context(), token)
		if (err == nil) != good || (err != nil && !errors.Is(err, ErrUnauthenticated)) {
			t.Errorf("at %s: Verify(%s): %v, want good: %t", now.Now().UTC(), token, err, good)
		}
	}
	check(first, true)
	check(second, true)
	check(first, true)
	revoked = "a"
	check(first, false)
	check(second, true)
	now.advance(10*time.Minute + defaultLeeway - time.Nanosecond)
	check(second, true)
	now.advance(time.Nanosecond)
	check(second, false)
	if got := cached(v); got != 0 {
		t.Errorf("%d tokens in the cache after all ended, want 0", got)
	}
	want := map[string]float64{"verified": 2, "cached": 3, "refused": 2, "unavailable": 0}
	if got := counted(t, reg, "holdfast_auth_tokens_total"); !maps.Equal(got, want) {
		t.Errorf("tokens counted by result: %v, want %v", got, want)
	}
}

// counted is the value of a counter by its only label.
func counted(t *testing.T, reg *prometheus.Registry, name string) map[string]float64 {
	t.Helper()
	values := map[string]float64{}
	for _, family := range must(reg.Gather())(t) {
		for _, m := range family.GetMetric() {
			if family.GetName() == name {
				values[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	return values
}

func TestVerify_CacheIsBounded(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, Config{Keys: staticSource(t), CacheSize: 5})
	for i := range 40 {
		token := edToken(claims("jti", fmt.Sprintf(`"%d"`, i), "exp", unix(time.Duration(i+1)*time.Second)))
		if _, err := v.Verify(t.Context(), token); err != nil {
			t.Fatalf("Verify(token %d): %v", i, err)
		}
	}
	if got, want := cached(v), 5; got != want {
		t.Errorf("tokens cached: %d, want %d", got, want)
	}
	latest := edToken(claims("jti", `"39"`, "exp", unix(40*time.Second)))
	if v.cache.get(hashToken(latest)) == nil {
		t.Errorf("the token that expires last was dropped before others")
	}
}

func TestCache_ShardsShareTheBound(t *testing.T) {
	t.Parallel()
	const size = 2 * shardedFrom
	c := newCache(size)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 2 * size / 4 {
				h := hashToken(fmt.Sprint(g, i))
				v := &verified{principal: Principal{ExpiresAt: t0}}
				c.put(h, v)
				c.put(h, v)
				if i%5 == 0 {
					c.drop(h, v)
				}
			}
		})
	}
	wg.Wait()
	total := cached(&Verifier{cache: c})
	if total > size || total < size/2 {
		t.Errorf("entries after twice the size was put: %d, want %d to %d", total, size/2, size)
	}
}

func TestVerify_ConcurrentCallers(t *testing.T) {
	t.Parallel()
	v := newVerifier(t, Config{Keys: staticSource(t), CacheSize: 3})
	var tokens []string
	for i := range 6 {
		tokens = append(tokens, edToken(claims("sub", fmt.Sprintf(`"u_%d"`, i))))
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 60 {
				n := (g + i) % len(tokens)
				p, err := v.Verify(t.Context(), tokens[n])
				if want := fmt.Sprintf("u_%d", n); err != nil || p.Subject.ID != want {
					t.Errorf("Verify(token of %s) = %s, %v", want, p.Subject.ID, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestNewVerifier_TellsAllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	_, err := NewVerifier(Config{Issuer: "a\xff", Leeway: 61 * time.Second, MaxLifetime: -1, CacheSize: -1})
	for _, want := range []string{"Issuer", "Audience", "Keys", "Now", "Leeway", "MaxLifetime", "CacheSize"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("NewVerifier of a bad config: %v, want %s in it", err, want)
		}
	}
	reg := prometheus.NewRegistry()
	cfg := Config{Issuer: testIssuer, Audience: testAudience, Keys: staticSource(t), Now: newClock().Now, Metrics: reg}
	if _, err := NewVerifier(cfg); err != nil {
		t.Fatalf("NewVerifier(%+v): %v", cfg, err)
	}
	if _, err := NewVerifier(cfg); err == nil {
		t.Errorf("NewVerifier twice on one registry: no error, want one")
	}
}

func TestInspect_ShowsWithoutVerifying(t *testing.T) {
	t.Parallel()
	header, body, err := Inspect(sign("EdDSA", keysForTests().rogue, `{"alg":"EdDSA","jku":"x"}`, claims("sub", `""`)))
	if err != nil || header["jku"] != "x" || body["iss"] != testIssuer || body["sub"] != "" {
		t.Errorf("Inspect = %v, %v, %v", header, body, err)
	}
	for _, token := range []string{"", "a.b", "a.b.c", b64("{}") + "." + b64("[]") + ".AA", b64("{}") + "." + b64(`{"a":1,"a":1}`) + ".AA"} {
		if header, body, err := Inspect(token); err == nil {
			t.Errorf("Inspect(%q) = %v, %v, want an error", token, header, body)
		}
	}
}
