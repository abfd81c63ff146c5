package auth

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// issuer is a key server whose behaviour tests change.
type issuer struct {
	*httptest.Server
	fetches atomic.Int64
	answer  atomic.Pointer[http.HandlerFunc]
}

func newIssuer(t *testing.T, answer http.HandlerFunc) *issuer {
	t.Helper()
	i := &issuer{}
	i.serve(answer)
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.fetches.Add(1)
		(*i.answer.Load())(w, r)
	}))
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) serve(answer http.HandlerFunc) { i.answer.Store(&answer) }

func document(data []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.Write(data) }
}

func failing(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }

// hanging answers nothing until the client gives up.
func hanging(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// fetched waits until no fetch is under way.
func fetched(s *urlKeys) {
	s.mu.Lock()
	flight := s.flight
	s.mu.Unlock()
	if flight != nil {
		<-flight
	}
}

func urlVerifier(t *testing.T, i *issuer, opts JWKSOptions) (*Verifier, *urlKeys, *clock) {
	t.Helper()
	now := newClock()
	source := must(JWKSURL(i.URL+"/jwks", opts))(t)
	return newVerifier(t, Config{Keys: source, Now: now.Now}), source.(*urlKeys), now
}

// long is a token of the given key that outlives a test's clock.
func long(alg, kid string, private any, jti string) string {
	return sign(alg, private, `{"alg":"`+alg+`","kid":"`+kid+`"}`, claims("exp", unix(24*time.Hour), "jti", `"`+jti+`"`))
}

func TestJWKSURL_AnswersThatAreNoKeys(t *testing.T) { // FAULTS section 2 row 45, section 3 row 5
	t.Parallel()
	elsewhere := newIssuer(t, document(jwks(t, keysForTests().public())))
	tooMany := map[string]crypto.PublicKey{}
	for n := range maxKeys + 1 {
		tooMany[fmt.Sprint("k", n)] = keysForTests().ed.Public()
	}
	huge := append(jwks(t, keysForTests().public()), []byte(strings.Repeat(" ", 10<<20))...)
	for name, answer := range map[string]http.HandlerFunc{
		"slow":                     hanging,
		"500":                      failing,
		"404":                      http.NotFound,
		"204":                      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"10 MB":                    document(huge),
		"not JSON":                 document([]byte("<html>")),
		"no keys":                  document([]byte(`{"keys":[]}`)),
		"21 keys":                  document(jwks(t, tooMany)),
		"redirect to another host": http.RedirectHandler(elsewhere.URL, http.StatusFound).ServeHTTP,
		"redirect in a circle":     http.RedirectHandler("/jwks", http.StatusFound).ServeHTTP,
		"slow body": func(w http.ResponseWriter, r *http.Request) {
			w.Write([]byte(`{"keys":[`))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newIssuer(t, answer)
			opts := JWKSOptions{Timeout: time.Minute}
			if strings.HasPrefix(name, "slow") {
				opts.Timeout = time.Second // waited out once
			}
			v, source, now := urlVerifier(t, i, opts)
			token := long("EdDSA", "ed", keysForTests().ed, "1")
			for range 3 { // the first waits for the fetch of the start, the others for none
				if _, err := v.Verify(t.Context(), token); !errors.Is(err, ErrKeysUnavailable) || errors.Is(err, ErrUnauthenticated) {
					t.Fatalf("Verify: %v, want ErrKeysUnavailable", err)
				}
			}
			fetched(source)
			if got := i.fetches.Load(); name != "redirect in a circle" && got != 1 {
				t.Errorf("fetches within the back-off: %d, want 1", got)
			}
			i.serve(document(jwks(t, keysForTests().public())))
			now.advance(2 * time.Second)
			if _, err := v.Verify(t.Context(), token); err != nil {
				t.Errorf("Verify after the host recovered: %v, want no error", err)
			}
		})
	}
	t.Cleanup(func() {
		if got := elsewhere.fetches.Load(); got != 0 {
			t.Errorf("the other host was asked %d times, want 0", got)
		}
	})
}

func TestJWKSURL_FollowsRedirectsOnItsHost(t *testing.T) {
	t.Parallel()
	i := newIssuer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/jwks" {
			http.Redirect(w, r, "/keys", http.StatusMovedPermanently)
			return
		}
		document(jwks(t, keysForTests().public()))(w, r)
	})
	v, _, _ := urlVerifier(t, i, JWKSOptions{})
	if _, err := v.Verify(t.Context(), long("ES256", "es", keysForTests().es, "1")); err != nil {
		t.Errorf("Verify: %v, want no error", err)
	}
}

func TestJWKSURL_TrustsOnlyTheGivenRoots(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(document(jwks(t, keysForTests().public())))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // a refused handshake is expected
	server.StartTLS()
	t.Cleanup(server.Close)
	for _, trusted := range []bool{true, false} {
		roots := x509.NewCertPool()
		if trusted {
			roots.AddCert(server.Certificate())
		}
		v := newVerifier(t, Config{Keys: must(JWKSURL(server.URL, JWKSOptions{RootCAs: roots}))(t)})
		_, err := v.Verify(t.Context(), long("EdDSA", "ed", keysForTests().ed, "1"))
		if (err == nil) != trusted {
			t.Errorf("host's certificate trusted: %t; Verify: %v", trusted, err)
		}
	}
}

func TestJWKSURL_RotationFlushesTheCache(t *testing.T) { // FAULTS section 2 row 45
	t.Parallel()
	k := keysForTests()
	i := newIssuer(t, document(jwks(t, map[string]crypto.PublicKey{"ed": k.ed.Public()})))
	v, _, _ := urlVerifier(t, i, JWKSOptions{})
	before, after := long("EdDSA", "ed", k.ed, "1"), long("ES256", "es", k.es, "1")
	for range 2 {
		if _, err := v.Verify(t.Context(), before); err != nil {
			t.Fatalf("Verify with the first key: %v", err)
		}
	}
	i.serve(document(jwks(t, map[string]crypto.PublicKey{"es": k.es.Public()})))
	if _, err := v.Verify(t.Context(), after); err != nil {
		t.Errorf("Verify with the key rotated in: %v, want no error", err)
	}
	if _, err := v.Verify(t.Context(), before); !errors.Is(err, ErrUnauthenticated) {
		t.Errorf("Verify of a cached token whose key was rotated out: %v, want ErrUnauthenticated", err)
	}
	if got, want := i.fetches.Load(), int64(2); got != want {
		t.Errorf("fetches: %d, want %d", got, want)
	}
}

func TestJWKSURL_StormOfUnknownKeysFetchesOnce(t *testing.T) { // FAULTS section 3 row 5
	t.Parallel()
	k := keysForTests()
	i := newIssuer(t, document(jwks(t, k.public())))
	v, source, now := urlVerifier(t, i, JWKSOptions{})
	fetched(source)
	storm := func() {
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				for n := range 25 {
					token := sign("EdDSA", k.rogue, fmt.Sprintf(`{"alg":"EdDSA","kid":"x%d-%d"}`, g, n), claims("exp", unix(24*time.Hour)))
					if _, err := v.Verify(t.Context(), token); !errors.Is(err, ErrUnauthenticated) {
						t.Errorf("Verify with an unknown key: %v, want ErrUnauthenticated", err)
					}
				}
			})
		}
		wg.Wait()
	}
	for round, want := range []int64{2, 2, 3} { // one is that of the start
		if round == 2 {
			now.advance(defaultUnknownEvery)
		}
		storm()
		if got := i.fetches.Load(); got != want {
			t.Errorf("fetches after storm %d: %d, want %d", round, got, want)
		}
	}
}

func TestJWKSURL_LastGoodKeysServeForADay(t *testing.T) { // FAULTS section 2 row 45
	t.Parallel()
	i := newIssuer(t, document(jwks(t, keysForTests().public())))
	v, source, now := urlVerifier(t, i, JWKSOptions{})
	check := func(want error) {
		t.Helper()
		defer fetched(source)
		_, err := v.Verify(t.Context(), long("EdDSA", "ed", keysForTests().ed, now.Now().String()))
		if !errors.Is(err, want) {
			t.Errorf("at %s: Verify: %v, want %v", now.Now().UTC(), err, want)
		}
	}
	check(nil)
	i.serve(failing)
	now.advance(defaultRefreshEvery)
	check(nil) // starts a fetch, which fails behind it
	now.advance(defaultKeepFor - defaultRefreshEvery - time.Second)
	check(nil)
	now.advance(time.Second)
	check(ErrKeysUnavailable)
}

func TestJWKSURL_SameKeysAgainKeepTheCache(t *testing.T) {
	t.Parallel()
	i := newIssuer(t, document(jwks(t, keysForTests().public())))
	v, source, now := urlVerifier(t, i, JWKSOptions{RefreshEvery: time.Minute})
	token := long("EdDSA", "ed", keysForTests().ed, "1")
	var first *verified
	for n := range 3 {
		if _, err := v.Verify(t.Context(), token); err != nil {
			t.Fatalf("Verify %d: %v", n, err)
		}
		fetched(source)
		if got := v.cache.get(hashToken(token)); first == nil {
			first = got
		} else if got != first {
			t.Errorf("after fetch %d of the same keys the token was verified again", n)
		}
		now.advance(time.Minute)
	}
	if got, want := i.fetches.Load(), int64(3); got != want {
		t.Errorf("fetches: %d, want %d", got, want)
	}
	i.serve(document(jwks(t, map[string]crypto.PublicKey{"es": keysForTests().es.Public()})))
	_, _ = v.Verify(t.Context(), token) // starts the fetch that takes the key away
	fetched(source)
	if _, err := v.Verify(t.Context(), token); !errors.Is(err, ErrUnauthenticated) {
		t.Errorf("Verify after the key was withdrawn: %v, want ErrUnauthenticated", err)
	}
}

func TestJWKSURL_CallerMayStopWaiting(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 1)
	i := newIssuer(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		hanging(w, r)
	})
	v, _, _ := urlVerifier(t, i, JWKSOptions{})
	<-asked
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := v.Verify(ctx, edToken(claims()))
	if !errors.Is(err, ErrKeysUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("Verify with an ended context: %v, want ErrKeysUnavailable and context.Canceled", err)
	}
	v.Close() // ends the fetch, so that the server can close
}

func TestJWKSURL_RefusesURLs(t *testing.T) { // FAULTS section 3 row 5
	t.Parallel()
	for _, u := range []string{
		"", "issuer.example/jwks", "http://issuer.example/jwks", "ftp://127.0.0.1/", "file:///etc/passwd", "https:///jwks", "https://user:secret@issuer.example/",
		"https://issuer.example/#x", "http://127.0.0.1.evil.example/", "http://localhost.evil.example/", "http://10.0.0.1/", "https://secret:%zz/",
	} {
		_, err := JWKSURL(u, JWKSOptions{})
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("JWKSURL(%q): %v, want an error without the URL", u, err)
		}
	}
	for _, u := range []string{"https://issuer.example/jwks?x=1", "http://127.0.0.1:1/", "http://[::1]:1/", "http://localhost/"} {
		source, err := JWKSURL(u, JWKSOptions{})
		if err != nil {
			t.Errorf("JWKSURL(%q): %v, want no error", u, err)
			continue
		}
		source.(*urlKeys).end()
	}
}

func TestJWKSURL_ErrorsDoNotShowTheAddress(t *testing.T) { // FAULTS section 3 row 25
	t.Parallel()
	cause := errors.New("connection refused")
	if got := withoutURL(&url.Error{Op: "Get", URL: "https://issuer.example/?key=secret", Err: cause}); got != cause { //nolint:errorlint // the very value
		t.Errorf("withoutURL = %v, want %v", got, cause)
	}
}

func TestRetryAfter_DoublesWithinBounds(t *testing.T) {
	t.Parallel()
	for failures, least := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, time.Minute, time.Minute} {
		if got := retryAfter(failures); got < least || got > least+least/4 {
			t.Errorf("retryAfter(%d) = %s, want %s and up to a quarter more", failures, got, least)
		}
	}
	if got := retryAfter(1 << 40); got < time.Minute {
		t.Errorf("retryAfter(2^40) = %s, want at least 1 min", got)
	}
}
