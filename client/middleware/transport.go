package middleware

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/client"
)

// Transport keeps a program, with all its replicas, under the limit of somebody else's API: each
// request waits for its turn before it is sent. Client and Action are required.
type Transport struct {
	Client *client.Client
	Action string

	// Reserve holds a slot until the answer's body was read to its end or closed: for an API
	// that allows so many calls at once. Default: a check that charges, for one that counts.
	Reserve bool
	TTL     time.Duration // of such a hold; 0: the limits' own

	Cost func(*http.Request) int64 // as client.Request has it; nil: 1
	Base http.RoundTripper         // nil: http.DefaultTransport
}

// longest is how long a request without a deadline waits for a slot.
const longest = 24 * time.Hour

var errTransport = errors.New("holdfast middleware: Transport.Client and Action are required")

// RoundTrip waits until r may be sent, for as long as its context lives, and sends it. It fails
// at once when its turn cannot come before the context's deadline.
//
// Errors: those of client.Wait and client.Reserve, when nothing was sent; the base's.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.Client == nil || t.Action == "" {
		closeBody(r)
		return nil, errTransport
	}
	ask := client.Request{Action: t.Action, TTL: t.TTL}
	if t.Cost != nil {
		ask.Cost = t.Cost(r)
	}
	if t.Reserve {
		return t.holding(r, ask)
	}
	if err := t.Client.Wait(r.Context(), ask); err != nil {
		closeBody(r)
		return nil, err
	}
	return t.base().RoundTrip(r)
}

func (t *Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}

// holding sends r under a hold of its own. When the hold is lost, the request is cut.
func (t *Transport) holding(r *http.Request, ask client.Request) (*http.Response, error) {
	ask.Wait = longest
	if deadline, ok := r.Context().Deadline(); ok {
		ask.Wait = time.Until(deadline)
	}
	h, err := t.Client.Reserve(r.Context(), ask)
	if err != nil {
		closeBody(r)
		return nil, err
	}
	ctx, cancel := h.Within(r.Context())
	resp, err := t.base().RoundTrip(r.WithContext(ctx))
	if err != nil {
		_ = h.Release(ctx) // its TTL does it otherwise
		cause := context.Cause(ctx)
		cancel()
		if errors.Is(cause, client.ErrHoldLost) {
			err = errors.Join(cause, err)
		}
		return nil, err
	}
	resp.Body = &heldBody{ReadCloser: resp.Body, settle: sync.OnceFunc(func() {
		_ = h.Commit(ctx) // its TTL does it otherwise
		cancel()
	})}
	return resp, nil
}

// closeBody keeps the promise of a RoundTripper that sends nothing.
func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
}

// heldBody gives the slot back when there is nothing more to read.
type heldBody struct {
	io.ReadCloser
	settle func()
}

// Read settles at the end of the body.
func (b *heldBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.settle()
	}
	return n, err
}

// Close settles a body that was not read to its end.
func (b *heldBody) Close() error {
	err := b.ReadCloser.Close()
	b.settle()
	return err
}
