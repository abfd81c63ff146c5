package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testIssuer   = "https://issuer.example"
	testAudience = "holdfast"
)

// t0 is the instant at which the tests' tokens are issued.
var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// testKeys are one key for each public algorithm, and one nobody trusts; made once because
// RSA keys are slow to make.
type testKeys struct {
	ed, rogue ed25519.PrivateKey
	es        *ecdsa.PrivateKey
	rs        *rsa.PrivateKey
	secret    []byte
}

var keysForTests = sync.OnceValue(func() testKeys {
	_, ed, err1 := ed25519.GenerateKey(rand.Reader)
	_, rogue, err2 := ed25519.GenerateKey(rand.Reader)
	es, err3 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	rs, err4 := rsa.GenerateKey(rand.Reader, minRSABits)
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			panic(err)
		}
	}
	return testKeys{ed, rogue, es, rs, []byte("0123456789abcdef0123456789abcdef")}
})

func (k testKeys) public() map[string]crypto.PublicKey {
	return map[string]crypto.PublicKey{"ed": k.ed.Public(), "es": k.es.Public(), "rs": k.rs.Public()}
}

// clock is a clock that tests set.
type clock struct{ nanos atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.nanos.Store(t0.UnixNano())
	return c
}

func (c *clock) Now() time.Time          { return time.Unix(0, c.nanos.Load()) }
func (c *clock) advance(d time.Duration) { c.nanos.Add(int64(d)) }

// newVerifier fills in what every test needs and closes the verifier at the end.
func newVerifier(t testing.TB, cfg Config) *Verifier {
	t.Helper()
	cfg.Issuer, cfg.Audience = testIssuer, testAudience
	if cfg.Now == nil {
		cfg.Now = newClock().Now
	}
	v, err := NewVerifier(cfg)
	if err != nil {
		t.Fatalf("NewVerifier: %v", err)
	}
	t.Cleanup(v.Close)
	return v
}

func staticSource(t testing.TB) KeySource {
	t.Helper()
	return must(StaticKeys(keysForTests().public()))(t)
}

// must is the value of a call that may not fail.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// claims is a good set of claims as JSON text. Pairs of name and raw JSON replace single
// ones, an empty value takes one out.
func claims(pairs ...string) string {
	fields := map[string]string{
		"iss": `"` + testIssuer + `"`, "aud": `"` + testAudience + `"`, "sub": `"u_42"`,
		"iat": unix(0), "exp": unix(10 * time.Minute),
	}
	for i := 0; i < len(pairs); i += 2 {
		fields[pairs[i]] = pairs[i+1]
	}
	var members []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if fields[name] != "" {
			members = append(members, `"`+name+`":`+fields[name])
		}
	}
	return "{" + strings.Join(members, ",") + "}"
}

// unix is t0 plus d in seconds since the epoch, as JSON.
func unix(d time.Duration) string {
	data, _ := json.Marshal(t0.Add(d).Unix())
	return string(data)
}

func b64(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

// sign makes a token of raw texts, so that they can be wrong in any way.
func sign(alg string, private any, header, claims string) string {
	text := b64(header) + "." + b64(claims)
	signature, err := jwt.GetSigningMethod(alg).Sign(text, private)
	if err != nil {
		panic(err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// edToken is a token of the trusted Ed25519 key over the given claims.
func edToken(claims string) string {
	return sign("EdDSA", keysForTests().ed, `{"alg":"EdDSA","kid":"ed"}`, claims)
}

// jwks is a key set document.
func jwks(t testing.TB, public map[string]crypto.PublicKey) []byte {
	t.Helper()
	var set jwkset.JWKSMarshal
	for _, id := range slices.Sorted(maps.Keys(public)) {
		jwk := must(publicJWK(public[id]))(t)
		jwk.KID, jwk.USE = id, jwkset.UseSig
		set.Keys = append(set.Keys, jwk)
	}
	return must(json.Marshal(set))(t)
}

func writeFile(t testing.TB, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
