package auth

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

func publicPEM(t testing.TB, keys ...crypto.PublicKey) []byte {
	t.Helper()
	var out []byte
	for _, k := range keys {
		der := must(x509.MarshalPKIXPublicKey(k))(t)
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})...)
	}
	return out
}

func TestPEMFile_OneKeyNeedsNoName(t *testing.T) {
	t.Parallel()
	k := keysForTests()
	for alg, pair := range map[string][2]any{"EdDSA": {k.ed.Public(), k.ed}, "ES256": {k.es.Public(), k.es}, "RS256": {k.rs.Public(), k.rs}} {
		v := newVerifier(t, Config{Keys: must(PEMFile(writeFile(t, publicPEM(t, pair[0]))))(t)})
		for _, header := range []string{`{"alg":"` + alg + `"}`, `{"alg":"` + alg + `","kid":"whatever"}`} {
			if _, err := v.Verify(t.Context(), sign(alg, pair[1], header, claims())); err != nil {
				t.Errorf("Verify(header %s): %v, want no error", header, err)
			}
		}
		if _, err := v.Verify(t.Context(), sign("EdDSA", k.rogue, `{"alg":"EdDSA"}`, claims())); !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("Verify of another key's token under %s: %v, want ErrUnauthenticated", alg, err)
		}
	}
}

func TestPEMFile_SeveralKeysAreKnownByThumbprint(t *testing.T) {
	t.Parallel()
	k := keysForTests()
	v := newVerifier(t, Config{Keys: must(PEMFile(writeFile(t, publicPEM(t, k.ed.Public(), k.es.Public()))))(t)})
	id := must(thumbprint(k.es.Public()))(t)
	for header, good := range map[string]bool{`{"alg":"ES256","kid":"` + id + `"}`: true, `{"alg":"ES256"}`: false, `{"alg":"ES256","kid":"x"}`: false} {
		if _, err := v.Verify(t.Context(), sign("ES256", k.es, header, claims())); (err == nil) != good {
			t.Errorf("Verify(header %s): %v, want good: %t", header, err, good)
		}
	}
}

func TestKeyFiles_RefuseWhatCannotBeTrusted(t *testing.T) {
	t.Parallel()
	k := keysForTests()
	p384 := must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))(t)
	weak := must(rsa.GenerateKey(rand.Reader, 1024))(t)
	private := must(x509.MarshalPKCS8PrivateKey(k.ed))(t)
	var many []crypto.PublicKey
	for range maxKeys + 1 {
		public, _, _ := ed25519.GenerateKey(rand.Reader)
		many = append(many, public)
	}
	for name, data := range map[string][]byte{
		"empty": nil, "not PEM": []byte("key"), "a weak RSA key": publicPEM(t, weak.Public()), "P-384": publicPEM(t, p384.Public()),
		"a private key":         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
		"a certificate":         pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}),
		"text after it":         append(publicPEM(t, k.ed.Public()), "-----BEGIN"...),
		"one good and one weak": publicPEM(t, k.ed.Public(), weak.Public()),
		"the same key twice":    publicPEM(t, k.ed.Public(), k.ed.Public()),
		"21 keys":               publicPEM(t, many...),
		"over 256 KiB":          append(publicPEM(t, k.ed.Public()), bytes.Repeat([]byte("\n"), maxKeySetBytes)...),
	} {
		if _, err := PEMFile(writeFile(t, data)); err == nil {
			t.Errorf("PEMFile of %s: no error, want one", name)
		}
	}
	for name, set := range map[string]string{
		"not JSON": "x", "a list": "[]", "no list of keys": `{"keys":{}}`, "no keys": `{"keys":[]}`, "a name twice": `{"keys":[],"keys":[]}`,
		"a key that is no object": `{"keys":[1]}`, "a shared secret": `{"keys":[{"kty":"oct","kid":"a","k":"` + b64(string(k.secret)) + `"}]}`,
		"a weak RSA key": string(jwks(t, map[string]crypto.PublicKey{"a": weak.Public()})), "P-384": string(jwks(t, map[string]crypto.PublicKey{"a": p384.Public()})),
		"a key for encryption":          edJWK(t, `"use":"enc"`),
		"a key for signing only":        edJWK(t, `"key_ops":["sign"]`),
		"a key for another algorithm":   edJWK(t, `"alg":"RS256"`),
		"an identifier none may name":   edJWK(t, `"kid":"../x"`),
		"an identifier that is no text": edJWK(t, `"kid":7`),
		"a point not on the curve":      `{"keys":[{"kty":"EC","crv":"P-256","x":"` + b64(strings.Repeat("a", 32)) + `","y":"` + b64(strings.Repeat("b", 32)) + `"}]}`,
		"two keys of one name":          twice(edJWK(t, `"kid":"a"`)),
		"two keys without a name":       twice(edJWK(t, `"use":"sig"`)),
	} {
		if _, err := JWKSFile(writeFile(t, []byte(set))); err == nil {
			t.Errorf("JWKSFile of %s (%s): no error, want one", name, set)
		}
	}
	if _, err := JWKSFile("/nonexistent/keys"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("JWKSFile of a missing file: %v, want os.ErrNotExist", err)
	}
}

// edJWK is a set of one Ed25519 key with a member more.
func edJWK(t testing.TB, member string) string {
	t.Helper()
	public := keysForTests().ed.Public().(ed25519.PublicKey)
	return `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"` + b64(string(public)) + `",` + member + `}]}`
}

func twice(set string) string {
	one := strings.TrimSuffix(strings.TrimPrefix(set, `{"keys":[`), `]}`)
	return `{"keys":[` + one + `,` + one + `]}`
}

func TestJWKSFile_PassesOverKeysThatCannotServe(t *testing.T) { // RFC 7517 section 5
	t.Parallel()
	one := strings.TrimSuffix(edJWK(t, `"kid":"ed","use":"sig","alg":"EdDSA","key_ops":["verify"],"x5u":"https://evil.example/"`), `]}`)
	set := one + `,{"kty":"oct","kid":"ed","k":"` + b64(string(keysForTests().secret)) + `"},{"kty":"new"},{"kty":"OKP","crv":"X25519","x":"` + b64(strings.Repeat("a", 32)) + `"}]}`
	v := newVerifier(t, Config{Keys: must(JWKSFile(writeFile(t, []byte(set))))(t)})
	if _, err := v.Verify(t.Context(), edToken(claims())); err != nil {
		t.Errorf("Verify with %s: %v, want no error", set, err)
	}
	token := sign("HS256", keysForTests().secret, `{"alg":"HS256","kid":"ed"}`, claims())
	if _, err := v.Verify(t.Context(), token); !errors.Is(err, ErrUnauthenticated) {
		t.Errorf("Verify with a secret published in a key set: %v, want ErrUnauthenticated", err)
	}
}

func TestJWKSFile_IsReadAgainWhenItChanges(t *testing.T) { // FAULTS section 2 row 45
	t.Parallel()
	k, now := keysForTests(), newClock()
	path := writeFile(t, jwks(t, map[string]crypto.PublicKey{"ed": k.ed.Public()}))
	v := newVerifier(t, Config{Keys: must(JWKSFile(path))(t), Now: now.Now})
	ed, es := edToken(claims()), sign("ES256", k.es, `{"alg":"ES256","kid":"es"}`, claims())
	change := func(data []byte, stamp time.Duration) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, t0, t0.Add(stamp)); err != nil {
			t.Fatal(err)
		}
	}
	check := func(moment string, edGood, esGood bool) {
		t.Helper()
		for token, good := range map[string]bool{ed: edGood, es: esGood} {
			if _, err := v.Verify(t.Context(), token); (err == nil) != good || (err != nil && !errors.Is(err, ErrUnauthenticated)) {
				t.Errorf("%s: Verify(%.30s): %v, want good: %t", moment, token, err, good)
			}
		}
	}
	check("at first", true, false)
	change(jwks(t, map[string]crypto.PublicKey{"es": k.es.Public()}), time.Second)
	check("changed, within the same second", true, false)
	now.advance(fileCheckEvery)
	check("changed, a second later", false, true)
	change([]byte("half a fi"), 2*time.Second)
	now.advance(fileCheckEvery)
	check("changed for the worse", false, true)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	now.advance(fileCheckEvery)
	check("taken away", false, true)
	change(jwks(t, k.public()), 3*time.Second)
	now.advance(fileCheckEvery)
	check("mended", true, true)
}

func TestFixedKeys_RefuseBadInput(t *testing.T) {
	t.Parallel()
	ed := keysForTests().ed.Public()
	many := map[string]crypto.PublicKey{}
	for n := range maxKeys + 1 {
		many[fmt.Sprint(n)] = ed
	}
	for name, keys := range map[string]map[string]crypto.PublicKey{
		"none": nil, "21": many, "a bad name": {"a b": ed}, "no key": {"a": nil}, "a short key": {"a": ed.(ed25519.PublicKey)[:31]},
		"a private key": {"a": keysForTests().ed}, "an even exponent": {"a": &rsa.PublicKey{N: keysForTests().rs.N, E: 4}},
	} {
		if _, err := StaticKeys(keys); err == nil {
			t.Errorf("StaticKeys of %s: no error, want one", name)
		}
	}
	if _, err := HS256Secret(make([]byte, minSecretBytes-1)); err == nil {
		t.Errorf("HS256Secret of 31 bytes: no error, want one")
	}
	secret := bytes.Clone(keysForTests().secret)
	v := newVerifier(t, Config{Keys: must(HS256Secret(secret))(t)})
	clear(secret)
	if _, err := v.Verify(t.Context(), sign("HS256", keysForTests().secret, `{"alg":"HS256"}`, claims())); err != nil {
		t.Errorf("Verify after the caller wiped its secret: %v, want no error", err)
	}
}

func TestThumbprint_IsThatOfTheRFC(t *testing.T) { // RFC 8037 appendix A.3
	t.Parallel()
	public := must(base64.RawURLEncoding.DecodeString("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"))(t)
	got := must(thumbprint(ed25519.PublicKey(public)))(t)
	if want := "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"; got != want {
		t.Errorf("thumbprint = %s, want %s", got, want)
	}
}
