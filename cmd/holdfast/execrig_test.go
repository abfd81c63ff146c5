//go:build unix

package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

// execRig is a server with a limit of its own, and runs of `holdfast exec` against it.
type execRig struct {
	t    *testing.T
	call *caller
	gate *gate
	env  []string
	dir  string
}

// What most runs here go by: quick to extend, and TTL > 2(K+M). Where a test looks at what is
// left of a hold when its command has ended, the margin is wide: it takes its time to look.
var (
	quick = []string{"--ttl", "6s", "--kill-after", "500ms", "--margin", "1s"}
	wide  = []string{"--ttl", "8s", "--kill-after", "500ms", "--margin", "3s"}
)

// setupExec starts a development server with a limit: amount at once for all, action "job".
func setupExec(t *testing.T, amount int) *execRig {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "limits.yaml")
	text := "limits:\n- {id: jobs, name: Jobs, subjectKind: user, action: job, amount: " + strconv.Itoa(amount) + ", window: concurrent, share: all}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, call := setupDev(t, "--memory", "--limits", file)
	r := &execRig{t: t, call: call, gate: newGate(t, s.run.URL), dir: dir}
	r.env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir, "HOLDFAST_URL="+r.gate.url, "HOLDFAST_TOKEN="+s.run.Token)
	return r
}

// job starts `holdfast exec job user:u1 FLAGS -- ARGV`. The test's end kills it.
func (r *execRig) job(flags []string, argv ...string) *execRun {
	r.t.Helper()
	p, err := r.begin(flags, argv...)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(p.kill)
	return p
}

func (r *execRig) begin(flags []string, argv ...string) (*execRun, error) {
	args := append([]string{"exec", "job", "user:u1"}, flags...)
	p := &execRun{cmd: exec.Command("holdfast", append(append(args, "--"), argv...)...)}
	p.cmd.Dir, p.cmd.Env = r.dir, r.env
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	p.cmd.WaitDelay = generous
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.wait = sync.OnceValue(func() int {
		_ = p.cmd.Wait()
		return statusOf(p.cmd.ProcessState.Sys()).code
	})
	return p, nil
}

// execRun is one run of exec.
type execRun struct {
	cmd      *exec.Cmd
	out, err syncBuffer
	wait     func() int // the exit code, 128+N for a signal
}

func (p *execRun) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	p.wait()
}

func (p *execRun) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatalf("%s to exec: %v", s, err)
	}
}

// expect waits for the end and compares the exit code.
func (p *execRun) expect(t *testing.T, want int) {
	t.Helper()
	if got := p.wait(); got != want {
		t.Errorf("%v: got exit %d, want %d; stderr:\n%s", p.cmd.Args, got, want, p.err.String())
	}
}

// says waits until stdout or stderr has a word.
func (p *execRun) says(t *testing.T, word string) {
	t.Helper()
	p.saysTimes(t, word, 1)
}

// saysTimes waits until it was said so often.
func (p *execRun) saysTimes(t *testing.T, word string, times int) {
	t.Helper()
	until(t, func() bool { return strings.Count(p.out.String()+p.err.String(), word) >= times },
		func() string {
			return "exec says " + strconv.Itoa(times) + " times " + word + "; it said:\n" + p.out.String() + p.err.String()
		})
}

// until waits for something to become true.
func until(t *testing.T, is func() bool, what func() string) {
	t.Helper()
	deadline := time.NewTimer(generous)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not within %s: %s", generous, what())
		}
	}
}

// pid reads a number that a command wrote to a file, once it is whole.
func (r *execRig) pid(name string) (pid int) {
	r.t.Helper()
	until(r.t, func() bool {
		text, err := os.ReadFile(filepath.Join(r.dir, name))
		if err != nil || !bytes.HasSuffix(text, []byte("\n")) {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil
	}, func() string { return "the command writes " + name })
	return pid
}

// touch makes a file that a command waits for.
func (r *execRig) touch(name string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), nil, 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// ends waits until a process runs no more; one that nobody waited for counts as ended.
func (r *execRig) ends(pid int, who string) {
	r.t.Helper()
	until(r.t, func() bool { return !runs(pid) }, func() string { return who + " ends, process " + strconv.Itoa(pid) })
}

// holds lists what is held, or what was.
func (r *execRig) holds(state string) []api.Reservation {
	r.t.Helper()
	var page api.ReservationPage
	_, err := r.call.do(r.t.Context(), act{method: http.MethodGet, path: "/v1/reservations", query: url.Values{"state": {state}, "pageSize": {"500"}}, into: &page})
	if err != nil {
		r.t.Fatal(err)
	}
	return page.Data
}

// get reads one reservation.
func (r *execRig) get(id string) api.Reservation {
	r.t.Helper()
	var one api.Reservation
	if _, err := r.call.do(r.t.Context(), act{method: http.MethodGet, path: of(id, ""), into: &one}); err != nil {
		r.t.Fatal(err)
	}
	return one
}

// only is the one hold there is.
func (r *execRig) only() api.Reservation {
	r.t.Helper()
	held := r.holds(api.StateHeld)
	if len(held) != 1 {
		r.t.Fatalf("got %d holds, want 1", len(held))
	}
	return held[0]
}

// gate stands between exec and the server: it lets pass, is away, or swallows answers.
type gate struct {
	url  string
	mode atomic.Int32
	lost atomic.Int32 // answers swallowed
}

const (
	gateOpen    int32 = iota
	gateAway          // the connection breaks before the server hears of it
	gateSwallow       // the server acts, and its answer is lost
)

func newGate(t *testing.T, server string) *gate {
	t.Helper()
	to, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{}
	transport := &http.Transport{}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, Transport: transport}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch g.mode.Load() {
		case gateAway:
			panic(http.ErrAbortHandler)
		case gateSwallow:
			proxy.ServeHTTP(httptest.NewRecorder(), req)
			g.lost.Add(1)
			panic(http.ErrAbortHandler)
		default:
			proxy.ServeHTTP(w, req)
		}
	}))
	t.Cleanup(func() { front.Close(); transport.CloseIdleConnections() })
	g.url = front.URL
	return g
}

// syncBuffer can be read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
