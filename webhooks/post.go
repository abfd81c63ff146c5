package webhooks

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/reserve"
)

// Bounds of one attempt.
const (
	DefaultWithin = 5 * time.Second // from looking up the name to the end of the answer
	maxAnswer     = 4 << 10         // bytes of an answer that are read, to use the connection again
	maxHeaders    = 16 << 10        // bytes of its headers
	maxIdle       = 64              // connections kept, of all webhooks
	idleFor       = 30 * time.Second
)

// The troubles of an attempt: values of the label "outcome" beside "accepted".
const (
	accepted        = "accepted"
	troubleStatus   = "status"   // it answered, and not with 2xx
	troubleRedirect = "redirect" // it pointed elsewhere, where nobody goes
	troubleTimeout  = "timeout"
	troubleAddress  = "address" // it may not be reached
	troubleNetwork  = "network" // connection, name or TLS
)

var troubles = []string{accepted, troubleStatus, troubleRedirect, troubleTimeout, troubleAddress, troubleNetwork}

// poster sends letters.
type poster struct {
	client *http.Client
	within time.Duration
	now    func() time.Time
}

func newPoster(p *Policy, within time.Duration, now func() time.Time) *poster {
	return &poster{within: within, now: now, client: &http.Client{
		// A redirect is an answer like any other that is not 2xx.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     transports{"https": transport(p, "https"), "http": transport(p, "http")},
	}}
}

// transports has one transport a scheme: what may be dialled depends on it.
type transports map[string]*http.Transport

func (t transports) RoundTrip(r *http.Request) (*http.Response, error) {
	through, ok := t[r.URL.Scheme]
	if !ok {
		return nil, ErrAddress
	}
	return through.RoundTrip(r)
}

func (p *poster) close() {
	for _, t := range p.client.Transport.(transports) {
		t.CloseIdleConnections()
	}
}

// transport uses no proxy: who may be reached would be the proxy's to say.
func transport(p *Policy, scheme string) *http.Transport {
	return &http.Transport{
		DialContext: p.dialer(scheme), TLSHandshakeTimeout: dialWithin, MaxResponseHeaderBytes: maxHeaders,
		MaxConnsPerHost: mostFlights, MaxIdleConns: maxIdle, IdleConnTimeout: idleFor, DisableCompression: true,
	}
}

// attempt is what became of one.
type attempt struct {
	status  int    // 0: there was no answer
	trouble string // accepted, or what was wrong
}

// post sends a letter once.
func (p *poster) post(ctx context.Context, hook *reserve.Webhook, l *reserve.Letter) attempt {
	ctx, cancel := context.WithTimeout(ctx, p.within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, hook.URL, bytes.NewReader(l.Body))
	if err != nil {
		return attempt{trouble: troubleAddress}
	}
	now := p.now()
	id, stamp := letterID(l), strconv.FormatInt(now.Unix(), 10)
	req.Header = http.Header{
		"Content-Type": {"application/json"}, "User-Agent": {"holdfast-webhooks"},
		"Webhook-Id": {id}, "Webhook-Timestamp": {stamp}, "Webhook-Signature": {sign(hook, now, id, stamp, l.Body)},
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return attempt{trouble: troubleOf(ctx, err)}
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer)) // the status is the answer
	switch resp.StatusCode / 100 {
	case 2:
		return attempt{resp.StatusCode, accepted}
	case 3:
		return attempt{resp.StatusCode, troubleRedirect}
	}
	return attempt{resp.StatusCode, troubleStatus}
}

func troubleOf(ctx context.Context, err error) string {
	var slow *url.Error
	switch {
	case errors.Is(err, ErrAddress):
		return troubleAddress
	case ctx.Err() != nil, errors.As(err, &slow) && slow.Timeout():
		return troubleTimeout
	}
	return troubleNetwork
}

// letterID names a delivery, the same at each attempt and at each replica. It has no dot: the
// parts of what is signed are told apart by dots.
func letterID(l *reserve.Letter) string { return "evt_" + strings.ReplaceAll(l.ID, ".", "_") }

// sign is the value of Webhook-Signature: of id, instant and body, by the secret, and by the one
// before while that is good, separated by a space.
func sign(hook *reserve.Webhook, now time.Time, id, stamp string, body []byte) string {
	text := signature(hook.Secret, id, stamp, body)
	if len(hook.Previous) > 0 && now.Before(hook.Until) {
		text += " " + signature(hook.Previous, id, stamp, body)
	}
	return text
}

func signature(secret reserve.Secret, id, stamp string, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	for _, part := range [][]byte{[]byte(id), []byte("."), []byte(stamp), []byte("."), body} {
		_, _ = mac.Write(part) // a hash never fails to write
	}
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
