package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

// exchange is one request and its answer, as the edge follows them. It stands in for the
// http.ResponseWriter, so that a handler finds it there and nothing rides on a context.
type exchange struct {
	http.ResponseWriter
	id      string // X-Request-Id
	address string // of the caller, by the trusted proxies
	route   string // pattern; "" when none matched
	tenant  string
	code    api.Code // of a problem document
	cause   error    // of a 5xx, for the log alone
	status  int
	bytes   int
	head    bool // nobody reads the body
	whole   bool // the answer is sent at once, and has its length
}

// WriteHeader notes the status.
func (x *exchange) WriteHeader(status int) {
	if x.status == 0 {
		x.status = status
	}
	x.ResponseWriter.WriteHeader(status)
}

// Write notes the size.
func (x *exchange) Write(b []byte) (int, error) {
	if x.status == 0 {
		x.status = http.StatusOK
	}
	n, err := x.ResponseWriter.Write(b)
	x.bytes += n
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

var exchanges = sync.Pool{New: func() any { return new(exchange) }}

// edge is the outermost handler.
type edge struct {
	*server
	next     http.Handler
	address  func(*http.Request) string
	inFlight atomic.Int64
}

// Header values that never change, ready to be put into a header map.
var (
	noSniff  = []string{"nosniff"}
	noStore  = []string{"no-store"}
	jsonType = []string{"application/json"}
	probType = []string{api.ProblemType}
	onlyTLS  = []string{"max-age=31536000"} // a year, of this host
)

// ServeHTTP follows one request from its first byte to its log line.
func (e *edge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := e.Now()
	x := exchanges.Get().(*exchange)
	*x = exchange{ResponseWriter: w, id: requestID(r.Header), address: e.address(r)}
	h := w.Header()
	h["X-Request-Id"] = []string{x.id}
	h["X-Content-Type-Options"] = noSniff
	h["Cache-Control"] = noStore
	if r.TLS != nil {
		h["Strict-Transport-Security"] = onlyTLS // a browser sends no token to this host in the clear any more
	}
	e.metrics.inFlight.Inc()
	n := e.inFlight.Add(1)
	method := r.Method
	defer func() {
		e.inFlight.Add(-1)
		e.metrics.inFlight.Dec()
		if p := recover(); p != nil {
			e.panicked(x, p)
		}
		took := e.Now().Sub(began)
		e.metrics.served(x, method, took)
		e.logged(r, method, x, took)
		*x = exchange{}
		exchanges.Put(x)
	}()
	if n > int64(e.MaxInFlight) && !isProbe(r.URL.Path) {
		e.fail(x, &wireError{code: api.Overloaded, detail: "Too many requests are being served; nothing happened."})
		return
	}
	if method == http.MethodHead { // net/http leaves the body out by the request it keeps
		get := *r
		get.Method = http.MethodGet
		x.head = true
		r = &get
	}
	e.next.ServeHTTP(x, r)
}

// isProbe keeps health answering under overload.
func isProbe(path string) bool {
	return path == "/livez" || path == "/readyz" || path == "/metrics"
}

// panicked answers 500 if nothing was sent yet. http.ErrAbortHandler is net/http's own.
func (e *edge) panicked(x *exchange, p any) {
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(p)
	}
	e.metrics.panics.Inc()
	x.cause = fmt.Errorf("panic: %v", p)
	e.log.Error("panic", "request", x.id, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	if x.status == 0 {
		e.fail(x, x.cause)
	}
}

// logged writes the one event line of a request. The path is not in it, for it can hold a
// subject; tokens are nowhere near.
func (e *edge) logged(r *http.Request, method string, x *exchange, took time.Duration) {
	level := slog.LevelInfo
	if x.status >= http.StatusInternalServerError {
		level = slog.LevelError
	}
	if !e.log.Enabled(context.Background(), level) {
		return
	}
	attrs := make([]slog.Attr, 0, 12)
	attrs = append(attrs,
		slog.String("request", x.id), slog.String("method", knownMethod(method)), slog.String("route", x.route),
		slog.Int("status", x.status), slog.Float64("took_ms", float64(took.Microseconds())/1000),
		slog.Int("bytes", x.bytes), slog.String("address", x.address))
	if x.tenant != "" {
		attrs = append(attrs, slog.String("tenant", x.tenant))
	}
	if x.code != "" {
		attrs = append(attrs, slog.String("code", string(x.code)))
	}
	if trace := traceID(r.Header.Get("Traceparent")); trace != "" {
		attrs = append(attrs, slog.String("trace", trace))
	}
	if x.cause != nil {
		attrs = append(attrs, slog.Any("cause", x.cause))
	}
	e.log.LogAttrs(context.Background(), level, "request", attrs...)
}

const maxRequestID = 128 // bytes

// requestID is the caller's, when it is up to 128 visible ASCII characters, or a new one.
func requestID(h http.Header) string {
	if given := h["X-Request-Id"]; len(given) == 1 && visibleASCII(given[0], maxRequestID) {
		return given[0]
	}
	var buf [26]byte
	b := strconv.AppendUint(buf[:0], rand.Uint64()|1<<63, 36)
	return string(strconv.AppendUint(b, rand.Uint64()|1<<63, 36))
}

// visibleASCII reports whether s is 1 to most bytes of 0x21 to 0x7E.
func visibleASCII(s string, most int) bool {
	if s == "" || len(s) > most {
		return false
	}
	for i := range len(s) {
		if s[i] < 0x21 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

// traceID is the trace of a traceparent header (W3C Trace Context, version 00), or "".
func traceID(header string) string {
	const length, from, to = 55, 3, 35
	if len(header) != length || header[:from] != "00-" || header[to] != '-' || header[52] != '-' {
		return ""
	}
	for i := from; i < to; i++ {
		if c := header[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return ""
		}
	}
	return header[from:to]
}
