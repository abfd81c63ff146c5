package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/holdfast-dev/holdfast/auth"
)

// TestMain lets scripts call this test binary as holdfast, and looks for goroutines that were
// left behind.
func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){"holdfast": main})
}

type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	if signal.Ignored(syscall.SIGHUP) { // under nohup; what we start would ignore it as well
		heard := make(chan os.Signal, 1)
		signal.Notify(heard, syscall.SIGHUP)
		defer signal.Stop(heard)
	}
	code := l.m.Run()
	if code != 0 {
		return code
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// generous is a liveness deadline: far beyond what anything here takes.
const generous = 60 * time.Second

// devServer is a server that runs in this process.
type devServer struct {
	stop func() int // as a signal would; the exit code
	run  runFile
	said string // up to the line that says it is ready
}

// startDev runs `holdfast dev` on free ports, with further flags, and returns when it is ready.
func startDev(env []string, dir string, stderr io.Writer, flags ...string) (*devServer, error) {
	args := append([]string{"dev", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}, flags...)
	if dir != "" {
		args = append(args, "--data-dir", dir)
	}
	out := newListener("ready in")
	s, err := launch(env, out, out, stderr, args)
	if err != nil {
		return nil, err
	}
	return s, s.read(filepath.Join(s.folder(), devName))
}

// startServe runs `holdfast serve` on free ports and returns when it is ready.
func startServe(env []string, dir string, flags ...string) (*devServer, error) {
	args := append([]string{"serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir", dir}, flags...)
	out := newListener("msg=serving")
	s, err := launch(env, out, io.Discard, out, args)
	if err != nil {
		return nil, err
	}
	return s, s.read(filepath.Join(dir, serveName))
}

// launch runs the program until out hears that it is ready.
func launch(env []string, out *listener, stdout, stderr io.Writer, args []string) (*devServer, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, args, env, strings.NewReader(""), stdout, stderr)
		out.end()
	}()
	s := &devServer{stop: sync.OnceValue(func() int {
		cancel(stopped{syscall.SIGTERM})
		return <-code
	})}
	deadline := time.NewTimer(generous)
	defer deadline.Stop()
	select {
	case ok := <-out.heard:
		if s.said = out.text(); !ok {
			return nil, fmt.Errorf("holdfast %v ended with %d:\n%s", args, s.stop(), s.said)
		}
		return s, nil
	case <-deadline.C:
		return nil, fmt.Errorf("holdfast %v was not ready within %s; it ended with %d:\n%s", args, generous, s.stop(), out.text())
	}
}

func (s *devServer) read(path string) error {
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &s.run)
	}
	if err != nil {
		s.stop()
	}
	return err
}

// listener is a stream that tells when a word was written to it.
type listener struct {
	mu    sync.Mutex
	all   strings.Builder
	word  string
	heard chan bool // true: the word; closed: the stream has ended
	once  sync.Once
}

func newListener(word string) *listener { return &listener{word: word, heard: make(chan bool, 1)} }

func (l *listener) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all.Write(p)
	if strings.Contains(l.all.String(), l.word) {
		l.once.Do(func() { l.heard <- true })
	}
	return len(p), nil
}

func (l *listener) end() { close(l.heard) }

func (l *listener) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// folder is the data folder that the banner names.
func (s *devServer) folder() string {
	_, after, _ := strings.Cut(s.said, "  State      ")
	dir, _, _ := strings.Cut(after, "  (")
	return dir
}

// setupDev starts a development server for a Go test; the test's cleanup stops it.
func setupDev(t *testing.T, flags ...string) (*devServer, *caller) {
	t.Helper()
	home := t.TempDir()
	env := []string{"HOME=" + home, "XDG_CONFIG_HOME=" + home, "AppData=" + home}
	s, err := startDev(env, filepath.Join(home, "data"), t.Output(), flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.stop() })
	return s, clientOf(t, s, s.run.Token)
}

// clientOf makes a caller of a server that runs.
func clientOf(t *testing.T, s *devServer, token string) *caller {
	t.Helper()
	a := newApp([]string{"HOLDFAST_TOKEN=" + token}, nil, io.Discard, io.Discard)
	a.client = clientConfig{Server: s.run.URL, AdminServer: s.run.AdminURL, Timeout: generous}
	call, err := a.caller()
	if err != nil {
		t.Fatal(err)
	}
	call.http.Transport = &http.Transport{}
	t.Cleanup(call.http.CloseIdleConnections)
	return call
}

// trusting writes a key set and gives the flags that trust it, and an administrator's token.
func trusting(t *testing.T, dir string) (flags []string, token string) {
	t.Helper()
	signer, err := auth.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	keys := filepath.Join(dir, "jwks.json")
	token, err = signer.Mint(auth.Claims{Issuer: "me", Audience: "holdfast", Subject: "root", Scope: "admin", TTL: time.Hour}, time.Now())
	if err := errors.Join(err, os.WriteFile(keys, signer.JWKS(), 0o600)); err != nil {
		t.Fatal(err)
	}
	return []string{"--jwks-file", keys, "--jwt-issuer", "me", "--jwt-audience", "holdfast"}, token
}
