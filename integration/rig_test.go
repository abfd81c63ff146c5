package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/auth"
)

// The end-to-end tests drive the program as people run it: the binary, as a process, over
// HTTP, with tokens that its own key signed, ended by signals to its process id.

// generous is a liveness deadline: far beyond what anything here takes on a busy machine.
const generous = 60 * time.Second

// waiters is how many tests run at once. Most of them wait for a clock, not for a processor.
const waiters = "8"

// scratch is where the binary and the shared server live; made and removed by TestMain.
var scratch string

func TestMain(m *testing.M) {
	if os.Getenv(workerEnv) != "" {
		os.Exit(work(os.Getenv(workerEnv)))
	}
	if os.Getenv(putEnv) != "" {
		os.Exit(putAll(os.Getenv(putEnv)))
	}
	if os.Getenv(lossEnv) != "" {
		os.Exit(loseAll(os.Getenv(lossEnv)))
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	flag.Parse()
	if !slices.ContainsFunc(os.Args, func(a string) bool { return strings.Contains(a, "test.parallel") }) {
		_ = flag.Set("test.parallel", waiters) // it is a flag of every test binary
	}
	dir, err := os.MkdirTemp("", "holdfast-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	scratch = dir
	defer func() { _ = os.RemoveAll(dir) }()
	defer stopShared()
	return m.Run()
}

// binaryEnv names a program to test in place of the one that is built here, such as one built
// with the race detector.
const binaryEnv = "HOLDFAST_TEST_BINARY"

// binary builds the program once, when a test first needs it.
var binary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv(binaryEnv); path != "" {
		return path, nil
	}
	path := filepath.Join(scratch, "holdfast")
	out, err := exec.Command("go", "build", "-o", path, "../cmd/holdfast").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// stream gathers what a process says.
type stream struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.Write(p)
}

func (s *stream) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.String()
}

// process is a child of this one, and dies with it.
type process struct {
	cmd   *exec.Cmd
	out   stream
	ended chan struct{} // closed once it was waited for
}

// start runs the binary. Its home is home and it inherits nothing but the search path.
func start(home string, env []string, args ...string) (*process, error) {
	path, err := binary()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(path, args...), ended: make(chan struct{})}
	p.cmd.Env = append([]string{"HOME=" + home, "XDG_CONFIG_HOME=" + home, "TMPDIR=" + scratch, "PATH=" + os.Getenv("PATH")}, env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	dieWithParent(p.cmd)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait() // the code is read from ProcessState
		close(p.ended)
	}()
	return p, nil
}

// signal sends s to this process id alone.
func (p *process) signal(s os.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// wait is the exit code, -1 after a signal.
func (p *process) wait(within time.Duration) (int, error) {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-timer.C:
		return 0, fmt.Errorf("process %d did not end within %s; it said:\n%s", p.cmd.Process.Pid, within, &p.out)
	}
}

// kill is kill -9, and returns when the process is gone.
func (p *process) kill() {
	_ = p.signal(os.Kill)
	<-p.ended
}

// server is a `holdfast dev` that is ready.
type server struct {
	*process
	dir string // its data folder
	run struct {
		URL, AdminURL, Token string
		PID                  int
	}
}

// launch starts `holdfast dev` in dir on free ports and returns when it is ready.
func launch(dir string, env []string, flags ...string) (*server, error) {
	file := filepath.Join(dir, "dev.json")
	args := append([]string{"dev", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir", dir}, flags...)
	p, err := start(dir+".home", env, args...)
	if err != nil {
		return nil, err
	}
	s := &server{process: p, dir: dir}
	ticker, limit := time.NewTicker(10*time.Millisecond), time.NewTimer(generous)
	defer ticker.Stop()
	defer limit.Stop()
	for {
		// One that was killed leaves its file behind: the process id tells whose it is.
		data, err := os.ReadFile(file)
		if err == nil && json.Unmarshal(data, &s.run) == nil && s.run.PID == p.cmd.Process.Pid {
			return s, nil
		}
		select {
		case <-ticker.C:
		case <-p.ended:
			return nil, fmt.Errorf("holdfast dev ended with %d before it was ready:\n%s", p.cmd.ProcessState.ExitCode(), &p.out)
		case <-limit.C:
			p.kill()
			return nil, fmt.Errorf("holdfast dev was not ready within %s:\n%s", generous, &p.out)
		}
	}
}

// dev starts a server on a new folder; the test's cleanup kills it.
func dev(t testing.TB, flags ...string) *server {
	t.Helper()
	return devIn(t, filepath.Join(t.TempDir(), "data"), nil, flags...)
}

// devIn starts a server on a folder that may have been used before.
func devIn(t testing.TB, dir string, env []string, flags ...string) *server {
	t.Helper()
	s, err := launch(dir, env, flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	return s
}

// again starts another server on the folder of one that has ended.
func (s *server) again(t testing.TB, flags ...string) *server {
	t.Helper()
	return devIn(t, s.dir, nil, flags...)
}

// stop ends the server as an operator would and checks that it ended well.
func (s *server) stop(t testing.TB) {
	t.Helper()
	if err := s.signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code, err := s.wait(generous); err != nil || code != 0 {
		t.Fatalf("after SIGTERM: exit %d, %v, want 0; it said:\n%s", code, err, &s.out)
	}
}

// token signs one with the server's own key, for a day.
func (s *server) token(c auth.Claims) (string, error) {
	pem, err := os.ReadFile(filepath.Join(s.dir, "key.pem"))
	if err != nil {
		return "", err
	}
	signer, err := auth.LoadSigner(pem)
	if err != nil {
		return "", err
	}
	c.Issuer, c.Audience, c.TTL = "holdfast-dev", "holdfast", 24*time.Hour
	return signer.Mint(c, time.Now())
}

// shared is one server for all tests that neither stop it nor move its clock. Each test has a
// tenant of its own on it: a key space that starts empty.
var shared struct {
	sync.Mutex
	*server
	tenants int
}

// tenant makes a new key space on the shared server and an administrator of it.
func tenant(t testing.TB, name string) *caller {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		s, err := launch(filepath.Join(scratch, "shared"), nil)
		if err != nil {
			t.Fatal(err)
		}
		shared.server = s
	}
	shared.tenants++
	token, err := shared.token(auth.Claims{Subject: "root", Scope: "admin", Tenant: fmt.Sprintf("%s-%d", name, shared.tenants)})
	if err != nil {
		t.Fatal(err)
	}
	return callerOf(t, shared.server, token)
}

func stopShared() {
	shared.Lock()
	defer shared.Unlock()
	if shared.server != nil {
		shared.kill()
	}
}

// until waits for an instant of this machine's clock, because the test is about that instant.
func until(t testing.TB, at time.Time) {
	t.Helper()
	if err := pause(t.Context(), time.Until(at)); err != nil {
		t.Fatalf("the test ended before %s: %v", at, err)
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// notInShort skips what takes more than ten seconds.
func notInShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes more than 10 s")
	}
}
