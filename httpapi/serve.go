package httpapi

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of a connection. Echo sets none of them.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second
	writeTimeout  = 75 * time.Second // the longest wait in line, and the budget of a request
	idleTimeout   = 60 * time.Second
	maxHeader     = 32 << 10 // bytes
	maxStreams    = 100      // of one HTTP/2 connection

	DefaultMaxConns = 16_384
	DefaultDrain    = 10 * time.Second

	// parting is how long answers say "Connection: close" before idle connections are closed: a
	// request that is on its way on one of them must not be met by a reset (CASES O29).
	parting = 250 * time.Millisecond
)

// ServeOptions say how a listener is served. The zero value is right for production.
type ServeOptions struct {
	MaxConns int           // connections at once; further ones wait to be accepted. 0: DefaultMaxConns
	Drain    time.Duration // most that requests in flight get after ctx ended. 0: DefaultDrain
	TLS      *tls.Config   // nil: plain
	Log      *slog.Logger  // nil: discard
}

// Serve serves h on ln until ctx ends, then accepts nothing more, lets what is in flight
// finish and closes idle connections. Config.Draining must say true from that moment on, so
// that readiness is gone before the listener is. ln is closed in any case.
//
// Errors: nil after a drain in time; context.DeadlineExceeded when requests had to be cut;
// what the listener says, when it fails by itself.
func Serve(ctx context.Context, ln net.Listener, h http.Handler, opts ServeOptions) error {
	if opts.MaxConns == 0 {
		opts.MaxConns = DefaultMaxConns
	}
	if opts.Drain == 0 {
		opts.Drain = DefaultDrain
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	var ending atomic.Bool
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if ending.Load() {
				w.Header().Set("Connection", "close")
			}
			h.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeader,
		HTTP2:          &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		TLSConfig:      opts.TLS,
		ErrorLog:       slog.NewLogLogger(opts.Log.Handler(), slog.LevelDebug),
		BaseContext:    func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	failed := make(chan error, 1)
	door := bounded(ln, opts.MaxConns)
	go func() { failed <- serveOn(srv, door, opts.TLS != nil) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), opts.Drain)
	defer cancel()
	ending.Store(true)
	err := door.Close()
	timer := time.NewTimer(min(parting, opts.Drain/2))
	defer timer.Stop()
	<-timer.C
	err = errors.Join(err, srv.Shutdown(drain))
	if err != nil {
		err = errors.Join(err, srv.Close())
	}
	if listenErr := <-failed; !errors.Is(listenErr, http.ErrServerClosed) && !errors.Is(listenErr, net.ErrClosed) {
		err = errors.Join(err, listenErr)
	}
	return err
}

func serveOn(srv *http.Server, ln net.Listener, secure bool) error {
	if secure {
		return srv.ServeTLS(ln, "", "")
	}
	return srv.Serve(ln)
}

// boundedListener accepts only while fewer than its bound of connections are open.
type boundedListener struct {
	net.Listener
	room   chan struct{}
	closed chan struct{}
	once   sync.Once
}

func bounded(ln net.Listener, most int) net.Listener {
	return &boundedListener{Listener: ln, room: make(chan struct{}, most), closed: make(chan struct{})}
}

// Accept waits for room before it takes a connection off the listener.
func (l *boundedListener) Accept() (net.Conn, error) {
	select {
	case l.room <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.room
		return nil, err
	}
	return &boundedConn{Conn: c, leave: sync.OnceFunc(func() { <-l.room })}, nil
}

// Close also ends an Accept that waits for room. The second one, of Shutdown, does nothing.
func (l *boundedListener) Close() (err error) {
	l.once.Do(func() {
		close(l.closed)
		err = l.Listener.Close()
	})
	return err
}

type boundedConn struct {
	net.Conn
	leave func()
}

// Close makes room for another, once.
func (c *boundedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
