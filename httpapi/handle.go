package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/labstack/echo/v4"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/reserve"
)

// call is one request as a verb sees it: who calls, and what is not in the body.
type call struct {
	who    auth.Principal // zero on an open route
	req    *http.Request
	out    http.Header // of the answer
	params echo.Context
	query  query
	raw    []byte // the body as sent; not to be kept

	undelivered func() // to be called when the answer cannot be delivered; nil: nothing hangs on it

	id, address string // of the request, and where it came from
}

// verb is what a route does. It answers with a status and a value of package api (nil: no
// body; rawAnswer: as it stands), or with an error that problem.go knows.
type verb func(ctx context.Context, c *call) (status int, answer any, err error)

// rawAnswer is an answer whose bytes are ready. Its headers are the verb's to set.
type rawAnswer []byte

// served says that the verb has written its answer itself.
type served struct{}

// handle is the adapter between Echo and every verb: deadline, token, scope, query, answer.
func (s *server) handle(r route) echo.HandlerFunc {
	return func(ec echo.Context) error {
		x := ec.Response().Writer.(*exchange) // put there by edge, the only way in
		x.route = r.path
		ctx, cancel := context.WithTimeout(ec.Request().Context(), requestBudget)
		defer cancel()
		c := &call{req: ec.Request(), out: x.Header(), params: ec, id: x.id, address: x.address}
		if err := s.admit(ctx, c, x, r); err != nil {
			s.fail(x, err)
			return nil
		}
		status, answer, err := r.verb(ctx, c)
		if err != nil {
			s.fail(x, err)
			return nil
		}
		x.whole = c.undelivered != nil
		left := c.req.Context().Err() != nil // after it was told, whoever goes has the answer
		s.send(x, status, answer)
		if c.undelivered != nil && (left || !delivered(x)) {
			c.undelivered()
		}
		return nil
	}
}

// admit finds out who calls and whether the route and its query are theirs to use.
func (s *server) admit(ctx context.Context, c *call, x *exchange, r route) (err error) {
	if !r.access.open {
		if c.who, err = s.authenticate(ctx, c.req, x); err != nil {
			return err
		}
		x.tenant = c.who.Tenant
		if r.access.scope != "" && !c.who.Has(r.access.scope) {
			return &scopeError{r.access.scope}
		}
	}
	c.query, err = readQuery(c.req.URL.RawQuery, r.query, r.access.open)
	return err
}

// authenticate reads the bearer token. One in a query string is never looked at.
func (s *server) authenticate(ctx context.Context, r *http.Request, x *exchange) (auth.Principal, error) {
	token, err := bearer(r.Header)
	if err != nil {
		return auth.Principal{}, err
	}
	who, err := s.Verifier.Verify(ctx, token)
	switch {
	case errors.Is(err, auth.ErrUnauthenticated) && s.flood.tokenFailed(x.address, s.Now()):
		return who, errSlowDown
	case err != nil:
		return who, err
	case s.FloodRate > 0 && !s.flood.requests.take(who.Tenant+" "+who.ID(), s.Now()):
		return who, errSlowDown
	}
	return who, nil
}

// bearer takes the token out of the one Authorization header there may be.
func bearer(h http.Header) (string, error) {
	const scheme = "bearer "
	given := h["Authorization"]
	if len(given) != 1 || len(given[0]) <= len(scheme) || !strings.EqualFold(given[0][:len(scheme)], scheme) {
		return "", fmt.Errorf("%w: send one header Authorization: Bearer <token>", auth.ErrUnauthenticated)
	}
	return strings.TrimLeft(given[0][len(scheme):], " "), nil
}

// caller is who asks about a hold, and what they may. A hold is theirs to act on when it is
// their own subject's, or when they made it and may act for its subject.
func (c *call) caller() reserve.Caller { return callerOf(c.who) }

// Buffers of bodies and answers. What grew past maxPooled is left to the collector.
const maxPooled = api.MaxBody

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4096); return &b }}

func putBuffer(b *[]byte) {
	if cap(*b) <= maxPooled {
		buffers.Put(b)
	}
}

// send encodes an answer.
func (s *server) send(x *exchange, status int, answer any) {
	switch answer := answer.(type) {
	case served:
		return
	case nil:
		x.WriteHeader(status)
		return
	case rawAnswer:
		x.WriteHeader(status)
		s.write(x, answer)
		return
	}
	buf := buffers.Get().(*[]byte)
	defer putBuffer(buf)
	encoded, err := api.AppendJSON((*buf)[:0], answer)
	if err != nil {
		s.fail(x, fmt.Errorf("encode %T: %w", answer, err))
		return
	}
	*buf = encoded
	x.Header()["Content-Type"] = jsonType
	if x.whole {
		x.Header()["Content-Length"] = []string{strconv.Itoa(len(encoded))}
	}
	x.WriteHeader(status)
	s.write(x, encoded)
}

// write sends what is left to send. A caller that went away is no event.
func (s *server) write(x *exchange, b []byte) {
	if _, err := x.Write(b); err != nil && x.cause == nil {
		x.cause = fmt.Errorf("the caller went away: %w", err)
	}
}
