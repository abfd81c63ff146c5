package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

// Defaults of a Config, and where a server listens unless it was told otherwise.
const (
	DefaultURL        = "http://127.0.0.1:7420"
	DefaultTimeout    = 15 * time.Second
	DefaultMaxAllowed = 64
)

// Unavailable says what becomes of a check when no server could decide it.
type Unavailable uint8

// The policies. Allow is for work that is worse undone than done twice: it is counted
// (Stats.Allowed) and logged each time, and no promise of Holdfast's holds for it.
const (
	AsConfigured Unavailable = iota // of a Request: as Config says; of a Config: Fail
	Fail                            // ErrUnavailable
	Allow                           // go on unguarded
)

// Config of a Client. TokenSource is required, the zero value of the rest is right.
type Config struct {
	URL         string      // of the API; "": DefaultURL
	TokenSource TokenSource // whose token goes with every call

	Timeout       time.Duration // one act, retries included, waiting for a slot not; 0: DefaultTimeout
	OnUnavailable Unavailable   // default: Fail
	MaxAllowed    int           // holds at once under Allow; more fail. 0: DefaultMaxAllowed
	Owner         *api.Owner    // told of every hold; nil: the program's name, host and process id

	Transport http.RoundTripper // nil: one of its own, which Close closes
	Log       *slog.Logger      // lost and unsure holds, what was allowed unguarded; nil: discard

	fault error // of FromEnv, told by New
}

// FromEnv is a Config from HOLDFAST_URL, and HOLDFAST_TOKEN or HOLDFAST_TOKEN_FILE (which is
// read again when the token ages). What is missing New tells. Saved contexts are the command
// line's: `export HOLDFAST_TOKEN="$(holdfast token)"` takes a token from one.
func FromEnv() Config {
	cfg := Config{URL: os.Getenv("HOLDFAST_URL")}
	token, file := strings.TrimSpace(os.Getenv("HOLDFAST_TOKEN")), os.Getenv("HOLDFAST_TOKEN_FILE")
	switch {
	case token != "":
		cfg.TokenSource = StaticToken(token)
	case file != "":
		cfg.TokenSource = TokenFile(file)
	default:
		cfg.fault = errors.New(`no token: export HOLDFAST_TOKEN="$(holdfast token)", or HOLDFAST_TOKEN_FILE`)
	}
	return cfg
}

// Client talks to one Holdfast. Make one for a process and share it: it is safe for concurrent
// use, and all its holds are extended together.
type Client struct {
	cfg    Config
	base   string
	http   *http.Client
	tokens *tokens
	now    func() instant
	log    *slog.Logger
	heart  *heart
	own    *http.Transport // nil when Config.Transport was given

	allowed atomic.Int64 // checks let through without a server
	loose   atomic.Int64 // holds alive among them
}

// New makes a Client. It asks nothing of the server. Errors: all faults of cfg, joined.
func New(cfg Config) (*Client, error) {
	faults := []error{cfg.fault}
	base, err := baseURL(cmp.Or(cfg.URL, DefaultURL))
	faults = append(faults, err)
	if cfg.TokenSource == nil && cfg.fault == nil {
		faults = append(faults, errors.New("Config.TokenSource is required"))
	}
	if cfg.Timeout < 0 || cfg.MaxAllowed < 0 || cfg.OnUnavailable > Allow {
		faults = append(faults, errors.New("Config.Timeout, MaxAllowed and OnUnavailable must not be below 0 or unknown"))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("holdfast: %w", err)
	}
	cfg.Timeout = cmp.Or(cfg.Timeout, DefaultTimeout)
	cfg.MaxAllowed = cmp.Or(cfg.MaxAllowed, DefaultMaxAllowed)
	if cfg.Owner == nil {
		cfg.Owner = thisProcess()
	}
	c := &Client{cfg: cfg, base: base, tokens: newTokens(cfg.TokenSource), now: clock(), log: cfg.Log}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	transport := cfg.Transport
	if transport == nil {
		c.own = newTransport()
		transport = c.own
	}
	c.http = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // a token follows no redirect
	}}
	c.heart = newHeart(c)
	return c, nil
}

func baseURL(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" {
		return "", fmt.Errorf("URL %q: want http:// or https:// and a host", text)
	}
	return strings.TrimRight(text, "/"), nil
}

// thisProcess is the owner that is told when none is configured.
func thisProcess() *api.Owner {
	owner := &api.Owner{Name: filepath.Base(os.Args[0]), PID: int64(os.Getpid())}
	if host, err := os.Hostname(); err == nil {
		owner.Host = host
	}
	return owner
}

// idleConns is how many connections are kept open for later; the rest are closed after use.
const idleConns = 32

func newTransport() *http.Transport {
	if standard, ok := http.DefaultTransport.(*http.Transport); ok {
		t := standard.Clone()
		t.MaxIdleConnsPerHost = idleConns
		return t
	}
	return &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: idleConns, IdleConnTimeout: time.Minute}
}

// Close ends the heartbeat. Holds that still live are lost, since nobody extends them any more;
// they can be committed and released all the same. It waits for what it sent, a few seconds at
// most. Closing twice is closing once.
func (c *Client) Close() {
	c.heart.close()
	if c.own != nil {
		c.own.CloseIdleConnections()
	}
}

// Stats are counts since the client was made, for metrics.
type Stats struct {
	Holds       int64 // alive now
	Beats       int64 // calls that extended holds, tries that failed included
	FailedBeats int64
	Lost        int64 // holds, those of Close not included
	Allowed     int64 // checks that went on without a server
}

// Stats reads the counts.
func (c *Client) Stats() Stats {
	s := c.heart.stats()
	s.Allowed = c.allowed.Load()
	return s
}

// sleep waits for d, or until ctx ends, and reports whether d has passed.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
