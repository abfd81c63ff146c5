package httpapi

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// serveOnSocket runs Serve on a socket of its own until the returned stop, which waits for its error.
func serveOnSocket(t *testing.T, h http.Handler, opts ServeOptions) (addr string, stop func() error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, ln, h, opts) }()
	return ln.Addr().String(), func() error { cancel(); return <-ended }
}

func TestServe_FinishesWhatIsInFlightAndTakesNothingNew(t *testing.T) { // FAULTS row 55, CASES O29
	t.Parallel()
	arrived, leave := make(chan struct{}), make(chan struct{})
	addr, stop := serveOnSocket(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-leave
		if r.Context().Err() != nil {
			t.Error("a request in flight was cancelled by the drain")
		}
		_, _ = io.WriteString(w, "done")
	}), ServeOptions{})
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	answered := make(chan string, 1)
	go func() {
		resp, err := client.Get("http://" + addr)
		if err != nil {
			answered <- err.Error()
			return
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		answered <- string(body)
	}()
	<-arrived
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	for { // the listener goes at once
		c, err := net.Dial("tcp", addr)
		if err != nil {
			break
		}
		c.Close()
	}
	close(leave)
	if got := <-answered; got != "done" {
		t.Errorf("the request in flight: got %q, want done", got)
	}
	if err := <-stopped; err != nil {
		t.Errorf("Serve: got %v, want nil", err)
	}
}

func TestServe_CutsWhatOutlastsTheDrain(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	addr, stop := serveOnSocket(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done() // net/http ends it when the connection is closed
	}), ServeOptions{Drain: 10 * time.Millisecond})
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	<-arrived
	if err := stop(); err == nil {
		t.Error("Serve with a request that never ends: got nil, want an error")
	}
}

func TestServe_SaysWhenTheListenerFails(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	ln.Close()
	if err := Serve(t.Context(), ln, http.NotFoundHandler(), ServeOptions{}); err == nil {
		t.Error("Serve on a closed listener: got nil, want an error")
	}
}

func TestServe_BigHeadersAreRefused(t *testing.T) { // FAULTS section 3 row 21
	t.Parallel()
	addr, stop := serveOnSocket(t, http.NotFoundHandler(), ServeOptions{})
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	defer c.Close()
	go func() {
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nX-Big: "+strings.Repeat("x", 64<<10)+"\r\n\r\n")
	}()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("no answer to a header of 64 KiB: %v", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a header of 64 KiB: got %d, want 431", resp.StatusCode)
	}
	if err := stop(); err != nil {
		t.Errorf("Serve: got %v, want nil", err)
	}
}

// pipes is a listener whose connections live in memory, so that a bubble can hold them.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p pipes) Close() error   { close(p.closed); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p pipes) dial() net.Conn {
	here, there := net.Pipe()
	p.conns <- there
	return here
}

func TestServe_SlowCallersAreCut(t *testing.T) { // FAULTS section 3 row 21
	t.Parallel()
	for name, one := range map[string]struct {
		sent   string
		within time.Duration
	}{
		"nothing is sent":            {"", headerTimeout},
		"half a header":              {"GET / HTTP/1.1\r\nHost:", headerTimeout},
		"a body that does not come":  {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n", readTimeout},
		"idle after its one request": {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", idleTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ln := pipes{make(chan net.Conn), make(chan struct{})}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
				go func() { ended <- Serve(ctx, ln, h, ServeOptions{}) }()
				c, began := ln.dial(), time.Now()
				go func() { _, _ = io.WriteString(c, one.sent) }()
				_, _ = io.Copy(io.Discard, c) // until it is cut
				if took := time.Since(began); took > one.within+time.Second {
					t.Errorf("%s: cut after %s, want within %s", name, took, one.within)
				}
				c.Close()
				cancel()
				if err := <-ended; err != nil {
					t.Errorf("Serve: got %v, want nil", err)
				}
			})
		})
	}
}

func TestServe_ConnectionsAreBounded(t *testing.T) { // FAULTS section 3 row 21
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ln := pipes{make(chan net.Conn), make(chan struct{})}
		b := bounded(ln, 2)
		accepted := make(chan net.Conn, 3)
		go func() {
			for {
				c, err := b.Accept()
				if err != nil {
					close(accepted)
					return
				}
				accepted <- c
			}
		}()
		for range 2 {
			ln.dial()
		}
		go ln.dial()
		synctest.Wait()
		if got := len(accepted); got != 2 {
			t.Fatalf("accepted with a bound of 2: got %d", got)
		}
		first := <-accepted
		first.Close()
		first.Close() // makes room once
		synctest.Wait()
		if got := len(accepted); got != 2 {
			t.Errorf("accepted after one left: got %d more, want 1", got-1)
		}
		b.Close() // also ends an Accept that waits for room
	})
}
