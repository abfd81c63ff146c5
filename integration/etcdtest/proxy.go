package etcdtest

import (
	"net"
	"sync"
	"testing"
	"time"
)

// Mode is what a Proxy does to the bytes between a client and a member.
type Mode uint8

// The modes. Leaving HalfOpen or NoAnswers ends the connections there are: bytes are missing in
// them.
const (
	Through   Mode = iota // passed on
	Cut                   // connections are closed, and new ones at once
	HalfOpen              // connections stand, and nothing passes either way
	NoAnswers             // what the client sends arrives, what the member answers does not
	Slow                  // passed on SlowBy later, either way
)

// SlowBy is how much later bytes arrive under Slow.
const SlowBy = 200 * time.Millisecond

// Proxy is a loopback address that stands for a member, whose network can be spoilt.
type Proxy struct {
	listener net.Listener
	target   func() string
	ended    chan struct{}
	done     sync.WaitGroup

	mu    sync.Mutex
	mode  Mode
	conns map[net.Conn]struct{}
}

// NewProxy stands before target, which is asked for each connection: a member that was started
// again listens elsewhere. The test's cleanup ends it.
func NewProxy(t testing.TB, target func() string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", loopbackAnyPort)
	if err != nil {
		t.Fatalf("etcdtest: proxy: %v", err)
	}
	p := &Proxy{listener: l, target: target, ended: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	p.done.Go(p.accept)
	t.Cleanup(func() {
		close(p.ended)
		_ = l.Close()
		p.Set(Cut)
		p.done.Wait()
	})
	return p
}

// Addr is where clients connect.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Set changes the mode.
func (p *Proxy) Set(m Mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m == Cut || m != p.mode && (p.mode == HalfOpen || p.mode == NoAnswers) {
		for c := range p.conns {
			_ = c.Close()
		}
		clear(p.conns)
	}
	p.mode = m
}

func (p *Proxy) is() Mode {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mode
}

func (p *Proxy) accept() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.done.Go(func() { p.carry(in) })
	}
}

func (p *Proxy) carry(in net.Conn) {
	defer in.Close()
	out, err := net.Dial("tcp", p.target())
	if err != nil || !p.keep(in, out) {
		if out != nil {
			_ = out.Close()
		}
		return
	}
	defer out.Close()
	var back sync.WaitGroup
	back.Go(func() { p.pass(in, out, true) })
	p.pass(out, in, false)
	back.Wait()
}

// keep notes the pair, so that Set reaches it; false when nothing may be connected.
func (p *Proxy) keep(pair ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mode == Cut {
		return false
	}
	for _, c := range pair {
		p.conns[c] = struct{}{}
	}
	return true
}

// pass moves bytes one way until either side ends; both are closed then.
func (p *Proxy) pass(to, from net.Conn, answers bool) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			switch m := p.is(); {
			case m == HalfOpen, m == NoAnswers && answers:
			case m == Slow && !p.wait():
				return
			default:
				if _, err := to.Write(buf[:n]); err != nil {
					return
				}
			}
		}
		if err != nil {
			return
		}
	}
}

// wait takes SlowBy, and reports false when the proxy ended first.
func (p *Proxy) wait() bool {
	timer := time.NewTimer(SlowBy)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.ended:
		return false
	}
}
