package etcdtest

import (
	"io"
	"net"
	"sync"
	"testing"
)

// relay holds one loopback port for the life of a test and passes its connections on to
// wherever a member listens now. So a member can be told its peer address before it runs,
// listen on port 0, and come back elsewhere, and no port is ever guessed.
type relay struct {
	listener net.Listener
	done     sync.WaitGroup

	mu     sync.Mutex
	target string // "" while the member is down: connections are closed at once
	conns  map[net.Conn]struct{}
	closed bool
}

func newRelay(t testing.TB) *relay {
	t.Helper()
	l, err := net.Listen("tcp", loopbackAnyPort)
	if err != nil {
		t.Fatalf("etcdtest: relay: %v", err)
	}
	r := &relay{listener: l, conns: make(map[net.Conn]struct{})}
	r.done.Go(r.accept)
	t.Cleanup(r.close)
	return r
}

func (r *relay) addr() string { return r.listener.Addr().String() }

// point sends new connections to target and cuts those that exist.
func (r *relay) point(target string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.target = target
	r.cut()
}

// close stops the relay and returns when its goroutines have ended.
func (r *relay) close() {
	_ = r.listener.Close()
	r.mu.Lock()
	r.closed = true
	r.cut()
	r.mu.Unlock()
	r.done.Wait()
}

// cut closes all connections; the caller holds mu.
func (r *relay) cut() {
	for c := range r.conns {
		_ = c.Close()
	}
	clear(r.conns)
}

func (r *relay) accept() {
	for {
		in, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.done.Go(func() { r.carry(in) })
	}
}

// carry passes bytes both ways until either side ends or the relay is cut.
func (r *relay) carry(in net.Conn) {
	defer in.Close()
	r.mu.Lock()
	target := r.target
	r.mu.Unlock()
	if target == "" {
		return
	}
	out, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer out.Close()
	if !r.keep(target, in, out) {
		return
	}
	defer r.drop(in, out)
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(in, out)
		_ = in.Close()
	})
	_, _ = io.Copy(out, in)
	_ = out.Close()
	back.Wait()
}

// keep notes the pair so that cut reaches it; false when the relay was re-pointed or closed
// while the pair was being made.
func (r *relay) keep(target string, pair ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.target != target {
		return false
	}
	for _, c := range pair {
		r.conns[c] = struct{}{}
	}
	return true
}

func (r *relay) drop(pair ...net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range pair {
		delete(r.conns, c)
	}
}
