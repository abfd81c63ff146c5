package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

// maxAnswer bounds what is read of an answer, in bytes: 500 heartbeats that all failed, and more.
const maxAnswer = 4 << 20

// call is one request, ready to be sent any number of times.
type call struct {
	method, path string
	body         []byte // JSON; nil for none
	key          string // Idempotency-Key; "" for none
	written      func() // called when the request has left, or never will; nil: nobody asks

	// anew makes the body of each try, and tells how long the server is asked to hold the answer
	// back; nil: body stands.
	anew func() ([]byte, time.Duration)
}

// answer is what came back.
type answer struct {
	sent    instant // read before the request was sent
	status  int
	header  http.Header
	body    []byte
	problem *api.Problem // of a status of 300 and more
}

// into decodes a successful answer. Fields this client does not know are left out.
func (a *answer) into(v any) error {
	if err := json.Unmarshal(a.body, v); err != nil {
		return fmt.Errorf("holdfast: the answer (%d) cannot be read: %w", a.status, err)
	}
	return nil
}

// retryAfter is how long the server asks to wait; 0 when it does not say, or says nonsense.
func (a *answer) retryAfter(now time.Time) time.Duration {
	if a.problem != nil {
		if wait := waitOf(a.problem.RetryAfterMs, a.problem.RetryAfterSeconds); wait > 0 {
			return wait
		}
	}
	return parseRetryAfter(a.header.Get("Retry-After"), now)
}

// maxWait bounds what is believed of a Retry-After.
const maxWait = 40 * 24 * time.Hour

// waitOf is a wait as bodies carry it, the exact figure first.
func waitOf(ms, seconds *int64) time.Duration {
	if ms != nil && *ms > 0 && *ms <= maxWait.Milliseconds() {
		return time.Duration(*ms) * time.Millisecond
	}
	if seconds != nil && *seconds > 0 && *seconds <= int64(maxWait/time.Second) {
		return time.Duration(*seconds) * time.Second
	}
	return 0
}

// parseRetryAfter reads seconds, whole or (against the standard, and seen) with a fraction, or
// a date. What is not above zero counts as not said.
func parseRetryAfter(text string, now time.Time) time.Duration {
	text = strings.TrimSpace(text)
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		if seconds > 0 && seconds <= maxWait.Seconds() {
			return time.Duration(seconds * float64(time.Second))
		}
		return 0
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), maxWait)
	}
	return 0
}

// send sends a call once, and once more with another token when the first one was refused.
func (c *Client) send(ctx context.Context, one call) (answer, error) {
	token, err := c.tokens.get(ctx, c.now().wall)
	if err != nil {
		return answer{}, &notSent{err}
	}
	a, err := c.once(ctx, one, token)
	if err != nil || a.status != http.StatusUnauthorized {
		return a, err
	}
	token, err = c.tokens.after(ctx, token, c.now().wall)
	if err != nil || token == "" {
		return a, nil // the refusal stands
	}
	return c.once(ctx, one, token)
}

// notSent says that a call did not leave this process: nothing happened.
type notSent struct{ error }

func (e *notSent) Unwrap() error { return e.error }

func (c *Client) once(ctx context.Context, one call, token string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, one.method, c.base+one.path, bytes.NewReader(one.body))
	if err != nil {
		return answer{}, &notSent{err}
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Accept", "application/json, "+api.ProblemType)
	req.Header.Set("User-Agent", "holdfast-go")
	if one.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if one.key != "" {
		req.Header.Set("Idempotency-Key", `"`+one.key+`"`)
	}
	if one.written != nil {
		req = req.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			WroteRequest: func(httptrace.WroteRequestInfo) { one.written() },
		}))
	}
	a := answer{sent: c.now()}
	resp, err := c.http.Do(req)
	if err != nil {
		if dialFailed(err) {
			err = &notSent{err}
		}
		return a, err
	}
	defer func() { _ = resp.Body.Close() }()
	a.status, a.header = resp.StatusCode, resp.Header
	if a.body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer)); err != nil {
		return a, fmt.Errorf("the answer broke off: %w", err)
	}
	if a.status >= http.StatusMultipleChoices {
		a.problem = problemIn(&a)
	}
	return a, nil
}

// dialFailed reports whether there was not even a connection.
func dialFailed(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// problemIn is the problem document of an answer, or one made up for an answer of somebody
// else's, such as a proxy in between.
func problemIn(a *answer) *api.Problem {
	p := &api.Problem{}
	if json.Unmarshal(a.body, p) == nil && p.Code != "" {
		return p
	}
	return &api.Problem{
		Status: a.status, Code: foreign(a.status), Title: http.StatusText(a.status),
		Detail: fmt.Sprintf("an answer of %d that is not Holdfast's", a.status),
	}
}

// foreign is the code that comes nearest to a status without one. A 404 is none of a hold's:
// somebody else does not know the route.
func foreign(status int) api.Code {
	switch {
	case status == http.StatusUnauthorized:
		return api.Unauthenticated
	case status == http.StatusForbidden:
		return api.Forbidden
	case status == http.StatusTooManyRequests:
		return api.SlowDown
	case status == http.StatusRequestEntityTooLarge:
		return api.BodyTooLarge
	case status < http.StatusInternalServerError:
		return api.MethodNotAllowed
	}
	return api.Internal // may have happened
}
