package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

// Bounds of one act of the command line.
const (
	maxAttempts   = 4               // of one act, the first included
	maxAnswer     = 64 << 20        // bytes of an answer that are read
	maxRetryAfter = 5 * time.Second // that a server may make an act wait between attempts
	firstPause    = 200 * time.Millisecond
)

// act is one request as a verb means it. The same act is sent again, under the same key,
// while its outcome is not known.
type act struct {
	method, path string
	admin        bool // goes to the admin listener
	open         bool // needs no token
	repeatable   bool // doing it twice is doing it once
	query        url.Values
	body         any    // sent as JSON; nil for none
	raw          []byte // in place of body, sent as it is
	form         string // content type of raw
	accept       string
	key          string // Idempotency-Key; "" for none
	ifMatch      string
	wait         time.Duration // that the server was asked to hold the answer back for
	into         any           // takes the answer; nil to drop it
	also         int           // a status beside 2xx whose body is the answer too
}

// reply is what came back beside the body.
type reply struct {
	status   int
	etag     string
	at       time.Time // the server's clock, or ours when it did not say
	replayed bool
	raw      []byte
}

// unreachable says that no answer came.
type unreachable struct {
	url  string
	sent bool // it may have arrived all the same
	err  error
}

func (u *unreachable) Error() string { return "no answer from " + u.url + ": " + u.err.Error() }
func (u *unreachable) Unwrap() error { return u.err }

// caller sends acts to one target.
type caller struct {
	app    *app
	target target
	http   *http.Client
}

// caller prepares a caller for the target of this run. It is the only place that makes one, so
// that the client package can take its place.
func (a *app) caller() (*caller, error) {
	t, err := a.target()
	if err != nil {
		return nil, err
	}
	return &caller{app: a, target: t, http: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // a token follows no redirect
	}}, nil
}

// newKey draws an Idempotency-Key.
func newKey() string { return rand.Text() }

// do sends an act until it is decided, at most maxAttempts times and for --timeout.
// Errors: *api.Problem as the server meant it; *unreachable; *failure without a token.
func (c *caller) do(ctx context.Context, one act) (reply, error) {
	ctx, cancel := context.WithTimeout(ctx, c.app.client.Timeout+one.wait)
	defer cancel()
	pause := firstPause
	for attempt := 1; ; attempt++ {
		got, err := c.once(ctx, one)
		wait, again := c.again(one, err)
		if !again || attempt == maxAttempts || ctx.Err() != nil {
			return got, err
		}
		wait = max(wait, jitter(pause))
		c.app.detail("attempt %d of %d failed (%v), again in %s", attempt, maxAttempts, err, wait.Round(time.Millisecond))
		if !sleep(ctx, wait) {
			return got, err
		}
		pause *= 2
	}
}

// again says whether to send an act once more, and the least time to wait before. What was
// decided is not sent again. A connection that cannot be made is told at once.
func (c *caller) again(one act, err error) (time.Duration, bool) {
	safe := one.key != "" || one.repeatable || one.method == http.MethodGet
	if lost, ok := errors.AsType[*unreachable](err); ok {
		return 0, lost.sent && safe
	}
	problem, ok := errors.AsType[*api.Problem](err)
	if !ok {
		return 0, false
	}
	switch problem.Code {
	case api.StoreUnavailable, api.Contended, api.Overloaded, api.Draining, api.IdempotencyInFlight:
		return min(retryAfter(problem), maxRetryAfter), true // nothing happened
	case api.OutcomeUnknown:
		return min(retryAfter(problem), maxRetryAfter), safe
	default:
		return 0, false
	}
}

// once sends an act once.
func (c *caller) once(ctx context.Context, one act) (reply, error) {
	req, err := c.request(ctx, one)
	if err != nil {
		return reply{}, err
	}
	c.app.detail("%s %s", req.Method, req.URL)
	var sent atomic.Bool // without a connection, TLS included, nothing can have happened
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }}
	resp, err := c.http.Do(req.WithContext(httptrace.WithClientTrace(ctx, trace)))
	if err != nil {
		return reply{}, &unreachable{url: req.URL.Host, sent: sent.Load(), err: unwrapURL(err)}
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return reply{}, &unreachable{url: req.URL.Host, sent: true, err: err}
	}
	return c.read(one, resp, raw)
}

func (c *caller) request(ctx context.Context, one act) (*http.Request, error) {
	base := c.target.url
	if one.admin {
		if base = c.target.adminURL; base == "" {
			return nil, usage("the admin listener of %s is not known", c.target.url).next("name it", "--admin-server URL or HOLDFAST_ADMIN_URL")
		}
	}
	var body io.Reader
	if one.body != nil {
		encoded, err := json.Marshal(one.body)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(encoded)
	}
	form := "application/json"
	if one.raw != nil {
		body, form = bytes.NewReader(one.raw), one.form
	}
	full := base + one.path
	if len(one.query) > 0 {
		full += "?" + one.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, one.method, full, body)
	if err != nil {
		return nil, err
	}
	if !one.open {
		token, err := c.target.token()
		if err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for name, value := range map[string]string{"Idempotency-Key": one.key, "If-Match": one.ifMatch, "Accept": one.accept} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	if body != nil {
		req.Header.Set("Content-Type", form)
	}
	req.Header.Set("User-Agent", "holdfast/"+buildVersion().Version)
	return req, nil
}
