package auth

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

const (
	defaultFetchTimeout = 5 * time.Second
	defaultRefreshEvery = 15 * time.Minute
	defaultUnknownEvery = 5 * time.Minute
	defaultKeepFor      = 24 * time.Hour

	maxRedirects     = 3
	maxHeaderBytes   = 64 << 10
	firstRetry       = time.Second
	maxRetry         = time.Minute
	maxRetryDoubling = 6 // firstRetry << 6 is past maxRetry
)

// JWKSOptions are the times of JWKSURL. Zero or less means the default.
type JWKSOptions struct {
	Timeout      time.Duration  // of one fetch, all of it; default 5 s
	RefreshEvery time.Duration  // after which keys in use are fetched again, in the background; default 15 min
	UnknownEvery time.Duration  // least time between two fetches caused by unknown keys; default 5 min
	KeepFor      time.Duration  // how long keys serve while fetches fail; default 24 h
	RootCAs      *x509.CertPool // who may vouch for the host; nil: the system's
}

func (o JWKSOptions) withDefaults() JWKSOptions {
	o.Timeout = cmp.Or(max(o.Timeout, 0), defaultFetchTimeout)
	o.RefreshEvery = cmp.Or(max(o.RefreshEvery, 0), defaultRefreshEvery)
	o.UnknownEvery = cmp.Or(max(o.UnknownEvery, 0), defaultUnknownEvery)
	o.KeepFor = cmp.Or(max(o.KeepFor, 0), defaultKeepFor)
	return o
}

// JWKSURL trusts the key set at an https URL (http only on loopback hosts). It is fetched
// when the Verifier is made, in the background: a host that is away delays tokens, not
// the start. Answers count when they are 200, at most 256 KiB and 20 keys, whole within
// opts.Timeout; redirects are followed on the same scheme, host and port only.
//
// One fetch runs at a time and all who need it wait for the same one. Without keys it is
// tried again on demand, at the earliest after 1 s, doubling to 1 min. With keys it runs each
// RefreshEvery, and for a token with an unknown kid at most once per UnknownEvery, so
// that a storm of forged ones costs the issuer one request. While fetches fail, the last
// keys serve for KeepFor.
//
// Errors: the URL is not as above.
func JWKSURL(rawURL string, opts JWKSOptions) (KeySource, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, errors.New("the JWKS URL cannot be parsed") // its text may hold a password
	}
	switch {
	case u.Host == "" || u.User != nil || u.Fragment != "":
		return nil, errors.New("the JWKS URL needs a host and neither user nor fragment")
	case u.Scheme == "http" && isLoopback(u.Hostname()):
	case u.Scheme != "https":
		return nil, errors.New("the JWKS URL must be https; http is for loopback hosts")
	}
	opts = opts.withDefaults()
	s := &urlKeys{url: u, opts: opts, client: fetchClient(u, opts)}
	s.life, s.end = context.WithCancel(context.Background())
	return s, nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// fetchClient keeps no connection: the next fetch is minutes away.
func fetchClient(u *url.URL, opts JWKSOptions) *http.Client {
	return &http.Client{
		Timeout: opts.Timeout,
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			TLSClientConfig:        &tls.Config{RootCAs: opts.RootCAs, MinVersion: tls.VersionTLS12},
			DisableKeepAlives:      true,
			MaxResponseHeaderBytes: maxHeaderBytes,
		},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if r.URL.Scheme != u.Scheme || r.URL.Host != u.Host {
				return errors.New("redirected to another host")
			}
			if len(via) > maxRedirects {
				return errors.New("redirected too often")
			}
			return nil
		},
	}
}

// urlKeys is a source that follows a URL.
type urlKeys struct {
	url    *url.URL
	opts   JWKSOptions
	client *http.Client
	life   context.Context // of the fetches; ended by end
	end    context.CancelFunc
	env    sourceEnv

	held atomic.Pointer[heldKeys] // nil until the first fetch went well

	mu        sync.Mutex    // guards what follows and every store to held
	flight    chan struct{} // closed when the fetch under way has ended; nil when none is
	failures  int           // in a row
	retryAt   time.Time     // earliest next fetch while there are no keys
	unknownAt time.Time     // earliest next fetch for an unknown key
}

// heldKeys is immutable.
type heldKeys struct {
	set       *keySet
	refreshAt time.Time // when to fetch again in the background
	goodUntil time.Time // when to stop trusting it
}

func (s *urlKeys) start(env sourceEnv) func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.env = env
	s.begin(env.now)
	return s.stop
}

func (s *urlKeys) stop() {
	s.end()
	s.mu.Lock()
	flight := s.flight
	s.mu.Unlock()
	if flight != nil {
		<-flight
	}
}

func (s *urlKeys) current(now time.Time) *keySet {
	h := s.held.Load()
	if h == nil || !now.Before(h.goodUntil) {
		return nil
	}
	if !now.Before(h.refreshAt) {
		s.refreshBehind(now)
	}
	return h.set
}

// refreshBehind starts a fetch nobody waits for, unless one is under way.
func (s *urlKeys) refreshBehind(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.held.Load(); s.flight == nil && !now.Before(h.refreshAt) {
		s.begin(now)
	}
}

func (s *urlKeys) refresh(ctx context.Context, now time.Time) (*keySet, error) {
	s.mu.Lock()
	flight := s.flight
	if flight == nil && s.mayFetch(now) {
		flight = s.begin(now)
	}
	s.mu.Unlock()
	if flight != nil {
		select {
		case <-flight:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return s.current(now), nil
}

// mayFetch spends the allowance it grants. s.mu is held.
func (s *urlKeys) mayFetch(now time.Time) bool {
	if h := s.held.Load(); h == nil || !now.Before(h.goodUntil) {
		return !now.Before(s.retryAt)
	}
	if now.Before(s.unknownAt) {
		return false
	}
	s.unknownAt = now.Add(s.opts.UnknownEvery)
	return true
}

// begin starts the one fetch. s.mu is held. All times count from before it, the safe side.
func (s *urlKeys) begin(now time.Time) chan struct{} {
	if s.life.Err() != nil {
		return nil
	}
	flight := make(chan struct{})
	s.flight = flight
	if h := s.held.Load(); h != nil {
		// Moved on first, so that readers do not queue for s.mu while the fetch runs.
		s.held.Store(&heldKeys{h.set, now.Add(s.opts.RefreshEvery), h.goodUntil})
	}
	go func() {
		defer close(flight)
		set, err := s.fetch()
		s.finish(now, set, err)
	}()
	return flight
}

func (s *urlKeys) finish(began time.Time, set *keySet, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flight = nil
	s.env.fetched(err == nil)
	h := s.held.Load()
	if err != nil {
		wait := retryAfter(s.failures)
		s.failures++
		s.retryAt = began.Add(wait)
		if h != nil {
			s.held.Store(&heldKeys{h.set, s.retryAt, h.goodUntil})
		}
		s.env.log.Warn("verification keys cannot be fetched", "host", s.url.Host, "error", withoutURL(err),
			slog.Int("failures", s.failures), slog.Bool("keysHeld", h != nil))
		return
	}
	s.failures, s.retryAt = 0, time.Time{}
	if h != nil && h.set.digest == set.digest {
		set = h.set // the same pointer: cached tokens stay good
	}
	s.held.Store(&heldKeys{set, began.Add(s.opts.RefreshEvery), began.Add(s.opts.KeepFor)})
}

func (s *urlKeys) fetch() (*keySet, error) {
	request, err := http.NewRequestWithContext(s.life, http.MethodGet, s.url.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/jwk-set+json, application/json")
	response, err := s.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()               //nolint:errcheck // only read from
	if response.StatusCode != http.StatusOK { //nolint:forbidigo // the status of an answer to us, not of ours
		return nil, fmt.Errorf("answered %d", response.StatusCode)
	}
	data, err := readBounded(response.Body)
	if err != nil {
		return nil, err
	}
	return parseJWKS(data)
}

// retryAfter doubles from 1 s to 1 min. Up to a quarter is added at random, so that
// replicas that failed together do not come back together.
func retryAfter(failures int) time.Duration {
	wait := min(firstRetry<<min(failures, maxRetryDoubling), maxRetry)
	return wait + rand.N(wait/4) //nolint:gosec // spreads load, guards nothing
}

// withoutURL drops the address from a client's error: its query may hold a secret.
func withoutURL(err error) error {
	if u := (*url.Error)(nil); errors.As(err, &u) {
		return u.Err
	}
	return err
}
