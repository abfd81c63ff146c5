package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	"github.com/holdfast-dev/holdfast/api"
)

const mergePatchType = "application/merge-patch+json"

// body reads a strict JSON body into a Req and hands it to fn.
func body[Req any](fn func(context.Context, *call, *Req) (int, any, error)) verb {
	return withBody(fn, false)
}

// optional is body for which nothing at all, without a content type, counts as {}.
func optional[Req any](fn func(context.Context, *call, *Req) (int, any, error)) verb {
	return withBody(fn, true)
}

func withBody[Req any](fn func(context.Context, *call, *Req) (int, any, error), mayBeEmpty bool) verb {
	return func(ctx context.Context, c *call) (int, any, error) {
		var in Req
		err := c.read(mayBeEmpty, func(raw []byte) error { return decode(raw, &in) }, jsonType[0])
		if err != nil {
			return 0, nil, err
		}
		return fn(ctx, c, &in)
	}
}

var emptyObject = []byte("{}")

// read reads the body and hands it to fn, which must not keep it. A copy stays in c.raw when
// an Idempotency-Key asks for one: the same key must mean the same body.
func (c *call) read(mayBeEmpty bool, fn func(raw []byte) error, types ...string) error {
	buf := buffers.Get().(*[]byte)
	defer putBuffer(buf)
	raw, err := readBody(c.req, (*buf)[:0], api.MaxBody)
	*buf = raw[:0]
	if err != nil {
		return err
	}
	if len(raw) == 0 && mayBeEmpty && c.req.Header["Content-Type"] == nil {
		return fn(emptyObject)
	}
	if err := checkType(c.req.Header, types...); err != nil {
		return err
	}
	if c.req.Header["Idempotency-Key"] != nil {
		c.raw = bytes.Clone(raw)
	}
	return fn(raw)
}

// decode reads a strict body and judges its values as well.
func decode(raw []byte, in any) error { return judged(api.Decode(raw, in), in) }

// judged adds what the domain would refuse to what decoding found, so that a caller hears of
// everything at once. What is no strict JSON has no values to judge.
func judged(err error, in any) error { return also(err, judge(in)) }

// also adds faults to what decoding found, if that was nothing worse.
func also(err error, more []api.Fault) error {
	var d *api.DecodeError
	if err != nil && (!errors.As(err, &d) || d.Code != api.InvalidValue) {
		return err
	}
	if d = d.And(more...); d != nil {
		return d
	}
	return nil
}

// readBody appends the body to dst: at most so many bytes.
func readBody(r *http.Request, dst []byte, most int) ([]byte, error) {
	if r.ContentLength > int64(most) {
		return dst, tooLarge(most)
	}
	for {
		if len(dst) == cap(dst) {
			dst = append(dst, 0)[:len(dst)]
		}
		n, err := r.Body.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		switch {
		case len(dst) > most:
			return dst, tooLarge(most)
		case errors.Is(err, io.EOF):
			return dst, nil
		case err != nil:
			return dst, &wireError{code: api.InvalidBody, detail: "The body could not be read to its end."}
		}
	}
}

func tooLarge(most int) *wireError {
	return &wireError{code: api.BodyTooLarge, detail: fmt.Sprintf("A body may have at most %d bytes here.", most)}
}

// checkType wants one of the media types; the only parameter allowed is charset=utf-8.
func checkType(h http.Header, allowed ...string) error {
	given := h["Content-Type"]
	if len(given) == 1 {
		for _, want := range allowed {
			if given[0] == want {
				return nil
			}
		}
		kind, params, err := mime.ParseMediaType(given[0])
		charset, hasCharset := params["charset"]
		fits := err == nil && (len(params) == 0 || hasCharset && len(params) == 1 && equalFoldASCII(charset, "utf-8"))
		for _, want := range allowed {
			if fits && kind == want {
				return nil
			}
		}
	}
	return &wireError{code: api.UnsupportedMediaType, detail: "Send the body as Content-Type: " + allowed[0] + "."}
}
