package integration

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// What a barrier between a worker and the server does. Which one is on may change at any time.
const (
	letPass   int32 = iota
	cutOff          // the connection breaks, and the server hears of nothing
	swallow         // nothing comes back, and nothing breaks
	loseReply       // the server acts, and its answer is lost
)

// barrier is a proxy of one run's own.
type barrier struct {
	*httptest.Server
	mode atomic.Int32
}

func newBarrier(t testing.TB, server string) *barrier {
	t.Helper()
	to, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	b := &barrier{}
	transport := &http.Transport{}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, Transport: transport,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	over := make(chan struct{})
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch b.mode.Load() {
		case cutOff:
			panic(http.ErrAbortHandler)
		case swallow:
			select {
			case <-r.Context().Done():
			case <-over:
			}
			panic(http.ErrAbortHandler)
		case loseReply:
			proxy.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		default:
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() { close(over); b.CloseClientConnections(); b.Close(); transport.CloseIdleConnections() })
	return b
}

// resource is what workers write to. It takes each write twice: into a store that keeps the
// highest fence it saw for each slot and refuses lower ones, and into one that takes everything.
type resource struct {
	*httptest.Server
	mu       sync.Mutex
	highest  map[string]int64  // by user and slot: what the first store checks
	rightful map[string]string // by user: the id of the later holder, from its first write on
	wrote    map[string]int    // by id
	tally
}

// tally counts the writes of earlier holders that came after the first one of a later holder.
type tally struct {
	late    int // that the store without a check took
	refused int // of these, by the store that checks
	wronged int // writes of rightful holders that it refused
}

func newResource(t testing.TB) *resource {
	t.Helper()
	r := &resource{highest: map[string]int64{}, rightful: map[string]string{}, wrote: map[string]int{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		var w lossWrite
		if err := json.NewDecoder(req.Body).Decode(&w); err != nil {
			t.Errorf("a write that cannot be read: %v", err)
		}
		r.write(w, false)
	}))
	t.Cleanup(r.Close)
	return r
}

// write takes one write; of a later holder, from the test itself, that makes it the rightful one.
func (r *resource) write(w lossWrite, later bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if later {
		r.rightful[w.User] = w.ID
	}
	r.wrote[w.ID]++
	place := fmt.Sprintf("%s/%d", w.User, w.Slot)
	refused := w.Fence < r.highest[place]
	if !refused {
		r.highest[place] = w.Fence
	}
	holder := r.rightful[w.User]
	switch late := holder != "" && holder != w.ID; {
	case late && refused:
		r.late++
		r.refused++
	case late:
		r.late++
	case refused:
		r.wronged++
	}
}

func (r *resource) writes(id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.wrote[id]
}

func (r *resource) counts() tally {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tally
}

// losers are a worker process and what it says, by user.
type losers struct {
	cmd  *exec.Cmd
	held map[string]chan lossReport
	gone map[string]chan lossReport
	done chan struct{} // the process has ended
}

// startLosers runs a worker process; the end of the test kills it.
func startLosers(t testing.TB, o lossOrders) *losers {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	l := &losers{cmd: exec.Command(self), held: map[string]chan lossReport{}, gone: map[string]chan lossReport{}, done: make(chan struct{})}
	for _, run := range o.Runs {
		l.held[run.User], l.gone[run.User] = make(chan lossReport, 1), make(chan lossReport, 1)
	}
	l.cmd.Env = append(os.Environ(), lossEnv+"="+string(raw))
	l.cmd.Stderr = os.Stderr
	dieWithParent(l.cmd)
	out, err := l.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(l.done)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var r lossReport
			switch err := json.Unmarshal(lines.Bytes(), &r); {
			case err != nil || r.Fault != "":
				t.Errorf("the worker: %s %v", lines.Bytes(), err)
			case r.Ended:
				l.gone[r.User] <- r
			default:
				l.held[r.User] <- r
			}
		}
		_ = l.cmd.Wait() // it is gone, whatever it says
	}()
	t.Cleanup(func() { _ = l.cmd.Process.Kill(); <-l.done })
	return l
}

// heard waits for what a worker says.
func heard(t testing.TB, from chan lossReport, what string) lossReport {
	t.Helper()
	timer := time.NewTimer(generous)
	defer timer.Stop()
	select {
	case r := <-from:
		return r
	case <-timer.C:
		t.Fatalf("not within %s: %s", generous, what)
		return lossReport{}
	}
}
