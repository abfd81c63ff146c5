package client_test

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// relay passes connections on until it is cut; then nothing comes through any more.
type relay struct {
	net.Listener
	to    string
	cut   atomic.Bool
	mu    sync.Mutex
	conns []net.Conn
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Listener: l, to: to}
	var pipes sync.WaitGroup
	pipes.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			r.mu.Lock()
			r.conns = append(r.conns, in, out)
			r.mu.Unlock()
			pipes.Go(func() { r.pass(in, out) })
			pipes.Go(func() { r.pass(out, in) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		r.mu.Lock()
		for _, c := range r.conns {
			_ = c.Close()
		}
		r.mu.Unlock()
		pipes.Wait()
	})
	return r
}

// pass copies until either end closes. What comes after the cut is swallowed: a partition.
func (r *relay) pass(from, to net.Conn) {
	defer func() { _, _ = from.Close(), to.Close() }()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if r.cut.Load() {
			continue
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
