package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"math/big"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

// read turns an answer into a reply, or into the problem it tells of.
func (c *caller) read(one act, resp *http.Response, raw []byte) (reply, error) {
	got := reply{status: resp.StatusCode, etag: resp.Header.Get("ETag"), at: c.app.now(), replayed: resp.Header.Get("Idempotent-Replayed") == "true", raw: raw}
	if at, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		got.at = at
	}
	told := &api.Problem{}
	isProblem := resp.StatusCode/100 != 2 && json.Unmarshal(raw, told) == nil && told.Code != ""
	switch {
	case isProblem:
	case resp.StatusCode/100 == 2 || resp.StatusCode == one.also:
		if one.into == nil {
			return got, nil
		}
		if err := json.Unmarshal(raw, one.into); err != nil {
			return got, fail(exitUnavailable, "%s answered something that is no Holdfast answer: %w", resp.Request.URL.Host, err).
				next("is it the right server?", "holdfast doctor")
		}
		return got, nil
	case resp.StatusCode == http.StatusBadRequest && strings.Contains(string(raw), "HTTPS server"):
		return got, fail(exitUnavailable, "%s speaks TLS, and was asked without", resp.Request.URL.Host).
			next("written as", "--server https://"+resp.Request.URL.Host)
	default:
		return got, fail(exitUnavailable, "%s answered %s, which is no Holdfast answer", resp.Request.URL.Host, resp.Status).
			next("is it the right server?", "holdfast doctor")
	}
	if seconds, err := strconv.ParseInt(resp.Header.Get("Retry-After"), 10, 64); err == nil && told.RetryAfterSeconds == nil {
		told.RetryAfterSeconds = &seconds
	}
	return got, told
}

// retryAfter is how long a problem asks to wait: the exact figure when there is one.
func retryAfter(p *api.Problem) time.Duration {
	switch {
	case p.RetryAfterMs != nil:
		return time.Duration(*p.RetryAfterMs) * time.Millisecond
	case p.RetryAfterSeconds != nil:
		return time.Duration(*p.RetryAfterSeconds) * time.Second
	default:
		return 0
	}
}

// jitter is d and up to a quarter more, so that those refused together do not come together.
func jitter(d time.Duration) time.Duration {
	more, err := rand.Int(rand.Reader, big.NewInt(int64(d)/4+1))
	if err != nil {
		return d
	}
	return d + time.Duration(more.Int64())
}

// sleep waits, and reports false when ctx ended first.
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

// unwrapURL drops net/http's own preamble, which repeats method and URL.
func unwrapURL(err error) error {
	if outer, ok := errors.AsType[*url.Error](err); ok {
		return outer.Err
	}
	return err
}
