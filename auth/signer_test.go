package auth

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
)

var goodClaims = Claims{
	Issuer: testIssuer, Audience: testAudience, Subject: "u_42", SubjectKind: "service", Tenant: "acme",
	Scope: "admin", Subjects: []string{"user:*"}, TTL: 90*time.Second + 5*time.Millisecond,
}

func TestSigner_TokensVerifyWithItsKeys(t *testing.T) {
	t.Parallel()
	generated := must(GenerateKey())(t)
	k := keysForTests()
	signers := map[string]Signer{"generated": generated, "read back": must(LoadSigner(generated.PEM()))(t)}
	for name, private := range map[string]crypto.Signer{"Ed25519": k.ed, "P-256": k.es, "RSA": k.rs} {
		der := must(x509.MarshalPKCS8PrivateKey(private))(t)
		signers[name] = must(LoadSigner(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))(t)
	}
	if a, b := generated.KeyID(), signers["read back"].KeyID(); a != b || a == "" {
		t.Errorf("KeyID %q after reading back, want %q", b, a)
	}
	for name, s := range signers {
		token := must(s.Mint(goodClaims, t0.Add(700*time.Millisecond)))(t)
		for origin, source := range map[string]KeySource{"source": s.KeySource(), "JWKS": must(JWKSFile(writeFile(t, s.JWKS())))(t)} {
			got, err := newVerifier(t, Config{Keys: source}).Verify(t.Context(), token)
			if err != nil || got.TokenID == "" {
				t.Fatalf("%s, %s: Verify(%s) = %+v, %v", name, origin, token, got, err)
			}
			got.TokenID = ""
			want := Principal{
				Tenant: "acme", Issuer: testIssuer, Subject: limits.Subject{Kind: "service", ID: "u_42"}, Scopes: ParseScopes("admin"),
				Patterns: []SubjectPattern{{Kind: "user"}}, IssuedAt: t0, ExpiresAt: t0.Add(90 * time.Second),
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s, %s: principal %+v, want %+v", name, origin, got, want)
			}
		}
		other := newVerifier(t, Config{Keys: must(GenerateKey())(t).KeySource()})
		if _, err := other.Verify(t.Context(), token); !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("%s: Verify with another signer's keys: %v, want ErrUnauthenticated", name, err)
		}
	}
}

func TestSigner_MintsNothingItsVerifierWouldRefuse(t *testing.T) {
	t.Parallel()
	s := must(GenerateKey())(t)
	for name, change := range map[string]func(*Claims){
		"no issuer":        func(c *Claims) { c.Issuer = "" },
		"no audience":      func(c *Claims) { c.Audience = "" },
		"no subject":       func(c *Claims) { c.Subject = "" },
		"broken subject":   func(c *Claims) { c.Subject = "a\xff" },
		"long subject":     func(c *Claims) { c.Subject = strings.Repeat("s", 256) },
		"bad kind":         func(c *Claims) { c.SubjectKind = "User" },
		"bad tenant":       func(c *Claims) { c.Tenant = "a/b" },
		"bad pattern":      func(c *Claims) { c.Subjects = []string{"user"} },
		"no TTL":           func(c *Claims) { c.TTL = 0 },
		"TTL under 1 s":    func(c *Claims) { c.TTL = time.Second - 1 },
		"over 8 KiB large": func(c *Claims) { c.Scope = strings.Repeat("x", maxTokenBytes) },
	} {
		c := goodClaims
		change(&c)
		if token, err := s.Mint(c, t0); err == nil {
			t.Errorf("%s: Mint(%+v) = %s, want an error", name, c, token)
		}
	}
}

func TestSigner_DefaultsAreLeftOut(t *testing.T) {
	t.Parallel()
	s := must(GenerateKey())(t)
	token := must(s.Mint(Claims{Issuer: "i", Audience: "a", Subject: "s", TTL: time.Second}, t0))(t)
	header, body, err := Inspect(token)
	if err != nil || header["kid"] != s.KeyID() || header["typ"] != "at+jwt" || header["alg"] != "EdDSA" {
		t.Errorf("Inspect header = %v, %v", header, err)
	}
	for _, name := range []string{"subject_kind", "tenant", "scope", "subjects"} {
		if v, there := body[name]; there {
			t.Errorf("claim %s = %v, want none", name, v)
		}
	}
}

func TestSigner_ShowsNoSecret(t *testing.T) { // FAULTS section 3 row 25
	t.Parallel()
	s := must(GenerateKey())(t)
	seed := s.PEM()[30:60]
	for _, text := range []string{fmt.Sprintf("%v %+v %#v %s", s, s, s, s), string(s.JWKS())} {
		if strings.Contains(text, string(seed)) || strings.Contains(text, `"d"`) || strings.Contains(text, "PRIVATE") {
			t.Errorf("a signer printed as %s", text)
		}
	}
	clear(s.PEM())
	if !bytes.Contains(s.PEM(), []byte("PRIVATE KEY")) {
		t.Errorf("PEM gives out its own memory")
	}
}

func TestLoadSigner_ReadsOlderForms(t *testing.T) {
	t.Parallel()
	k := keysForTests()
	ec := must(x509.MarshalECPrivateKey(k.es))(t)
	for _, block := range []*pem.Block{{Type: "EC PRIVATE KEY", Bytes: ec}, {Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(k.rs)}} {
		if _, err := LoadSigner(pem.EncodeToMemory(block)); err != nil {
			t.Errorf("LoadSigner of %s: %v, want no error", block.Type, err)
		}
	}
	weak, p384 := must(rsa.GenerateKey(rand.Reader, 1024))(t), must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))(t)
	for name, data := range map[string][]byte{
		"nothing": nil, "text": []byte("key"), "a public key": publicPEM(t, k.ed.Public()),
		"broken": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte{1}}),
		"weak":   pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(weak)}),
		"P-384":  pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: must(x509.MarshalECPrivateKey(p384))(t)}),
	} {
		if _, err := LoadSigner(data); err == nil {
			t.Errorf("LoadSigner of %s: no error, want one", name)
		}
	}
}
