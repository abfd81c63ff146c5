package auth

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

type forgery struct{ name, token, reason string }

// forgedTokens is the corpus of FAULTS section 3 rows 1 to 11. Each has one thing wrong, and
// the reason tells that it is refused for that thing.
func forgedTokens(t testing.TB) []forgery {
	corpus := forgedShapes()
	corpus = append(corpus, forgedHeaders()...)
	corpus = append(corpus, forgedSignatures(t)...)
	return append(corpus, forgedClaims()...)
}

// FAULTS section 3 row 4.
func forgedShapes() []forgery {
	good := edToken(claims())
	header, rest, _ := strings.Cut(good, ".")
	body, signature, _ := strings.Cut(rest, ".")
	return []forgery{
		{"nothing", "", "8 KiB"},
		{"a word", "token", "three"},
		{"one dot", header + "." + body, "three"},
		{"three dots", good + ".", "three"},
		{"five parts as an encrypted token", good + ".a.b", "three"},
		{"8 KiB of dots", strings.Repeat(".", maxTokenBytes), "three"},
		{"1 MiB of dots", strings.Repeat(".", 1<<20), "8 KiB"},
		{"over 8 KiB and well signed", edToken(claims("pad", `"`+strings.Repeat("x", maxTokenBytes)+`"`)), "8 KiB"},
		{"no header", "." + body + "." + signature, "three"},
		{"no claims", header + ".." + signature, "three"},
		{"no signature", header + "." + body + ".", "three"},
		{"line break after it", good + "\n", "three"},
		{"line break in the signature", header + "." + body + "." + signature[:9] + "\r\n" + signature[9:], "three"},
		{"blank before it", " " + good, "three"},
		{"padded", good + "==", "three"},
		{"standard base64", header + "." + body + "." + "+/" + signature[2:], "three"},
		{"word Bearer left on", "Bearer " + good, "three"},
		{"NUL after it", good + "\x00", "three"},
		{"header not base64", header + "A." + body + "." + signature, "header"},
		{"header not JSON", b64("alg") + "." + body + "." + signature, "header is not valid JSON"},
		{"header an array", b64(`["EdDSA"]`) + "." + body + "." + signature, "header is not a JSON object"},
		{"header null", b64(`null`) + "." + body + "." + signature, "header is not a JSON object"},
		{"header with text after it", b64(`{"alg":"EdDSA"} {}`) + "." + body + "." + signature, "header is not valid JSON"},
		{"header nested deep", b64(`{"alg":"EdDSA","x":`+strings.Repeat("[", 9)+strings.Repeat("]", 9)+`}`) + "." + body + "." + signature, "header is nested"},
	}
}

// FAULTS section 3 rows 1 and 3.
func forgedHeaders() []forgery {
	var corpus []forgery
	signed := func(name, header, reason string) {
		corpus = append(corpus, forgery{name, sign("EdDSA", keysForTests().ed, header, claims()), reason})
	}
	for _, alg := range []string{"none", "None", "NONE", "nOnE", "", "none ", "eddsa", "Ed25519", "es256", "rs256", "hs256", "ES384", "RS512", "PS256", "HS384", "HS512", "RSA1_5", "dir"} {
		header := fmt.Sprintf(`{"alg":%q,"kid":"ed"}`, alg)
		signed("alg "+alg, header, "algorithm is not accepted")
		corpus = append(corpus, forgery{"alg " + alg + " with a stub for a signature", b64(header) + "." + b64(claims()) + ".AA", "algorithm is not accepted"})
	}
	signed("alg missing", `{"kid":"ed"}`, "algorithm is not accepted")
	signed("alg null", `{"alg":null,"kid":"ed"}`, "algorithm is not accepted")
	signed("alg a list", `{"alg":["EdDSA"],"kid":"ed"}`, "algorithm is not accepted")
	signed("alg in capitals only", `{"ALG":"EdDSA","kid":"ed"}`, "algorithm is not accepted")
	signed("alg twice", `{"alg":"none","kid":"ed","alg":"EdDSA"}`, "twice")
	signed("crit", `{"alg":"EdDSA","kid":"ed","crit":["exp"]}`, "crit")
	signed("crit empty", `{"alg":"EdDSA","kid":"ed","crit":[]}`, "crit")
	signed("crit null", `{"alg":"EdDSA","kid":"ed","crit":null}`, "crit")
	signed("crit with b64", `{"alg":"EdDSA","kid":"ed","b64":false,"crit":["b64"]}`, "crit")
	signed("jku", `{"alg":"EdDSA","kid":"ed","jku":"https://evil.example/jwks"}`, "jku")
	signed("x5u", `{"alg":"EdDSA","kid":"ed","x5u":"https://evil.example/cert"}`, "x5u")
	signed("jwk", `{"alg":"EdDSA","kid":"ed","jwk":{"kty":"OKP"}}`, "jwk")
	signed("typ of a logout token", `{"alg":"EdDSA","kid":"ed","typ":"logout+jwt"}`, "type")
	signed("typ a number", `{"alg":"EdDSA","kid":"ed","typ":1}`, "type")
	for _, kid := range []string{`""`, `null`, `7`, `["ed"]`, `"../../etc/passwd"`, `"ed' OR '1'='1"`, `"ed\u0000"`, `"ed\n"`, `"é"`, `"` + strings.Repeat("k", maxKeyIDBytes+1) + `"`} {
		signed("kid "+kid, `{"alg":"EdDSA","kid":`+kid+`}`, "key identifier")
	}
	signed("kid missing with many keys", `{"alg":"EdDSA"}`, "names no key")
	signed("kid unknown", `{"alg":"EdDSA","kid":"Ed"}`, "unknown key")
	signed("kid twice", `{"alg":"EdDSA","kid":"ed","kid":"es"}`, "twice")
	signed("kid of a key of another type", `{"alg":"EdDSA","kid":"rs"}`, "algorithm is not the key's")
	return corpus
}

// FAULTS section 3 row 2, and what was done to the signature.
func forgedSignatures(t testing.TB) []forgery {
	k := keysForTests()
	var corpus []forgery
	for id, public := range k.public() {
		der := must(x509.MarshalPKIXPublicKey(public))(t)
		for form, secret := range map[string][]byte{
			"PEM": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), "DER": der,
			"trimmed PEM": bytes.TrimSpace(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})),
			"JWK set":     jwks(t, k.public()),
		} {
			corpus = append(corpus, forgery{
				"HS256 with the " + form + " of public key " + id,
				sign("HS256", secret, `{"alg":"HS256","kid":"`+id+`"}`, claims()), "algorithm is not the key's",
			})
		}
	}
	good := edToken(claims())
	text, signature, _ := strings.Cut(good[strings.Index(good, ".")+1:], ".")
	header := good[:strings.Index(good, ".")]
	raw := must(base64.RawURLEncoding.DecodeString(signature))(t)
	resigned := func(change func([]byte) []byte) string {
		return header + "." + text + "." + base64.RawURLEncoding.EncodeToString(change(bytes.Clone(raw)))
	}
	badSignature := "signature is not good"
	return append(corpus,
		forgery{"first bit flipped", resigned(func(b []byte) []byte { b[0] ^= 1; return b }), badSignature},
		forgery{"last bit flipped", resigned(func(b []byte) []byte { b[63] ^= 0x80; return b }), badSignature},
		forgery{"signature of zeros", resigned(func([]byte) []byte { return make([]byte, 64) }), badSignature},
		forgery{"signature cut", resigned(func(b []byte) []byte { return b[:63] }), badSignature},
		forgery{"signature made longer", resigned(func(b []byte) []byte { return append(b, 0) }), badSignature},
		forgery{"spare bits set", good[:len(good)-1] + string(sparedBits(good[len(good)-1])), badSignature},
		forgery{"claims of another token", header + "." + b64(claims("sub", `"root"`)) + "." + signature, badSignature},
		forgery{"header of another token", b64(`{"alg":"EdDSA","kid":"ed","typ":"JWT"}`) + "." + text + "." + signature, badSignature},
		forgery{"key nobody trusts", sign("EdDSA", k.rogue, `{"alg":"EdDSA","kid":"ed"}`, claims()), badSignature},
		forgery{"keys swapped: ES256 under the RSA key", sign("ES256", k.es, `{"alg":"ES256","kid":"rs"}`, claims()), "algorithm is not the key's"},
		forgery{"keys swapped: RS256 under the Ed25519 key", sign("RS256", k.rs, `{"alg":"RS256","kid":"ed"}`, claims()), "algorithm is not the key's"},
		forgery{"ES256 signature of zeros", b64(`{"alg":"ES256","kid":"es"}`) + "." + b64(claims()) + "." + b64(string(make([]byte, 64))), badSignature},
		forgery{"PS256 signature said to be RS256", b64(`{"alg":"RS256","kid":"rs"}`) + "." + b64(claims()) + "." + lastPart(sign("PS256", k.rs, `{"alg":"RS256","kid":"rs"}`, claims())), badSignature},
	)
}

// sparedBits is another letter for the same byte: 64 bytes leave four bits of the last one unused.
func sparedBits(letter byte) byte {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return alphabet[strings.IndexByte(alphabet, letter)|1]
}

func lastPart(token string) string { return token[strings.LastIndexByte(token, '.')+1:] }

// FAULTS section 3 rows 6, 7, 10, 11 and 12, all under a good signature.
func forgedClaims() []forgery {
	corpus := []forgery{
		{"claims not JSON", edToken("sub=u_42"), "signature is not good"},
		{"claims null", edToken("null"), "claims are"},
		{"claims an array", edToken("[]"), "not a JSON object"},
		{"claims a string", edToken(`"u_42"`), "not a JSON object"},
		{"claims twice", edToken(claims() + claims()), "signature is not good"},
		{"claims cut", edToken(strings.TrimSuffix(claims(), "}")), "signature is not good"},
		{"claims nested deep", edToken(claims("x", strings.Repeat(`{"a":`, 9)+"1"+strings.Repeat("}", 9))), "nested"},
		{"claims not UTF-8", edToken(claims("sub", "\"u\xff\"")), "UTF-8"},
		{"unknown claim not UTF-8", edToken(claims("x", "\"\xc0\x80\"")), "UTF-8"},
		{"sub twice", edToken(`{"sub":"u_1",` + claims()[1:]), "twice"},
		{"sub twice, once escaped", edToken(`{"\u0073ub":"u_1",` + claims()[1:]), "twice"},
		{"exp twice", edToken(`{"exp":9999999999,` + claims()[1:]), "twice"},
		{"name twice inside an unknown claim", edToken(claims("x", `{"a":1,"a":2}`)), "twice"},
		{"name of a lone surrogate", edToken(claims(`\ud800`, `1`)), "cannot be read"},
	}
	add := func(name, reason string, pairs ...string) {
		corpus = append(corpus, forgery{name, edToken(claims(pairs...)), reason})
	}
	for _, name := range []string{"iss", "aud", "sub", "exp", "iat"} {
		add(name+" missing", "claim "+name+" is missing", name, "")
		add(name+" in capitals only", "claim "+name+" is missing", name, "", strings.ToUpper(name), `"u_42"`)
		add(name+" null", "claim "+name+" is not", name, "null")
		add(name+" an object", "claim "+name+" is not", name, `{"a":1}`)
		add(name+" a boolean", "claim "+name+" is not", name, "true")
	}
	for name, sub := range map[string]string{
		"empty": `""`, "of 256 bytes": `"` + strings.Repeat("s", 256) + `"`, "of 256 bytes in 128 letters": `"` + strings.Repeat("é", 128) + `"`,
		"of U+FFFD": `"u\ufffd"`, "of U+FFFD as bytes": `"u` + "\uFFFD" + `"`, "with a high surrogate alone": `"\ud800"`,
		"with a low surrogate alone": `"u\udc00x"`, "with surrogates the wrong way round": `"\udc00\ud800"`,
		"with NUL": `"u\u0000"`, "with a line break": `"u\n"`, "with DEL": `"u\u007f"`, "of blanks": `" \u00a0\u2003"`, "with a C1 control": `"u\u0085"`,
	} {
		add("sub "+name, "claim sub is not 1 to 255", "sub", sub)
	}
	add("sub a number", "claim sub is not a string", "sub", "42")
	add("sub a list", "claim sub is not a string", "sub", `["u_42"]`)
	add("iss of another", "issuer", "iss", `"https://evil.example"`)
	add("iss with a slash more", "issuer", "iss", `"`+testIssuer+`/"`)
	add("iss in capitals", "issuer", "iss", `"`+strings.ToUpper(testIssuer)+`"`)
	add("iss a list", "not a string", "iss", `["`+testIssuer+`"]`)
	add("aud of another", "audience", "aud", `"other"`)
	add("aud begins like ours", "audience", "aud", `"holdfast-admin"`)
	add("aud an empty list", "audience", "aud", `[]`)
	add("aud a list of others", "audience", "aud", `["a","b"]`)
	add("aud a list with a number", "not a list of strings", "aud", `["holdfast",1]`)
	corpus = append(corpus, forgedTimes()...)
	for _, tenant := range []string{`""`, `"A"`, `"-a"`, `"a/b"`, `"a b"`, `"` + strings.Repeat("t", 64) + `"`, `".."`, `"é"`} {
		add("tenant "+tenant, "claim tenant", "tenant", tenant)
	}
	for _, kind := range []string{`""`, `"User"`, `"1a"`, `"a:b"`, `"*"`, `"` + strings.Repeat("k", 33) + `"`} {
		add("subject_kind "+kind, "claim subject_kind", "subject_kind", kind)
	}
	for _, name := range []string{"tenant", "subject_kind", "scope", "jti"} {
		add(name+" null", "claim "+name+" is not a string", name, "null")
		add(name+" a list", "claim "+name+" is not a string", name, `["admin"]`)
	}
	add("jti with a control", "claim jti", "jti", `"a\n"`)
	for _, subjects := range []string{`null`, `"user:*"`, `[1]`, `["user"]`, `["*"]`, `["*:*"]`, `[":a"]`, `["user:"]`, `["User:*"]`, `["user:\u0000"]`, `["user:\ud800"]`, `[` + strings.TrimSuffix(strings.Repeat(`"user:*",`, 101), ",") + `]`} {
		add("subjects "+subjects[:min(len(subjects), 20)], "claim subjects", "subjects", subjects)
	}
	return corpus
}

func forgedTimes() []forgery {
	var corpus []forgery
	add := func(name, reason string, pairs ...string) {
		corpus = append(corpus, forgery{name, edToken(claims(pairs...)), reason})
	}
	add("exp at now less leeway", "expired", "exp", unix(-defaultLeeway))
	add("exp 1970", "expired", "exp", "0")
	add("exp negative", "out of bounds", "exp", "-1")
	add("exp past the year 9999", "out of bounds", "exp", "1e12")
	add("exp past what a float can hold", "out of bounds", "exp", "1e999")
	add("exp a string", "claim exp is not a number", "exp", `"`+unix(time.Minute)+`"`)
	add("iat 61 s ahead", "issued in the future", "iat", unix(61*time.Second))
	add("nbf 31 s ahead", "not valid yet", "nbf", unix(31*time.Second))
	add("nbf null", "claim nbf is not a number", "nbf", "null")
	add("nbf a string", "claim nbf is not a number", "nbf", `"0"`)
	add("lifetime a second over 24 h", "lives longer", "exp", unix(24*time.Hour+time.Second))
	add("lifetime over 24 h by an old iat", "lives longer", "iat", "0")
	return corpus
}

func TestVerify_RefusesForgedTokens(t *testing.T) { // FAULTS section 3 rows 1 to 11
	t.Parallel()
	corpus := forgedTokens(t)
	if got, want := len(corpus), 60; got < want {
		t.Fatalf("the corpus has %d tokens, want at least %d", got, want)
	}
	v := newVerifier(t, Config{Keys: staticSource(t)})
	for _, f := range corpus {
		t.Run(f.name, func(t *testing.T) {
			for range 2 { // the second time shows that a refusal is not remembered as good
				got, err := v.Verify(t.Context(), f.token)
				if !errors.Is(err, ErrUnauthenticated) || got.Issuer != "" {
					t.Fatalf("Verify(%.200q) = %+v, %v; want ErrUnauthenticated", f.token, got, err)
				}
				if !strings.Contains(err.Error(), f.reason) {
					t.Errorf("Verify(%.200q): reason %q, want %q in it", f.token, err, f.reason)
				}
				if len(f.token) > 20 && strings.Contains(err.Error(), f.token[:20]) {
					t.Errorf("Verify(%.200q): reason %q quotes the token", f.token, err)
				}
			}
		})
	}
	if got := cached(v); got != 0 {
		t.Errorf("%d refused tokens are in the cache, want 0", got)
	}
}

// cached counts the entries of v's cache.
func cached(v *Verifier) int {
	n := 0
	for i := range v.cache.shards {
		s := &v.cache.shards[i]
		s.mu.RLock()
		n += len(s.entries)
		s.mu.RUnlock()
	}
	return n
}
