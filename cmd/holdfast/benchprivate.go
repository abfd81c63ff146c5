package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Bounds of the private server of a bench.
const (
	privateWithin = 30 * time.Second // until it serves
	privateStop   = 20 * time.Second // until it has drained
	privateLook   = 20 * time.Millisecond
)

// onPrivate starts a development server as a process of its own, with fsync, in a temporary
// folder, and gives use a caller of it. Server and folder are gone when it returns.
func (a *app) onPrivate(ctx context.Context, use func(context.Context, *caller) error) (err error) {
	dir, err := os.MkdirTemp("", "holdfast-bench-") // made 0700
	if err != nil {
		return fail(exitFailed, "no temporary folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	cmd, died, err := a.startPrivate(dir)
	if err != nil {
		return err
	}
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself, which died tells
		select {
		case <-died:
		case <-time.After(privateStop):
			_ = cmd.Process.Kill()
			<-died
		}
	}()
	run, err := a.awaitPrivate(ctx, dir, died)
	if err != nil {
		return err
	}
	own := &caller{app: a, http: &http.Client{}, target: target{url: run.URL, adminURL: run.AdminURL, token: func() (string, error) { return run.Token, nil }}}
	defer own.http.CloseIdleConnections()
	a.say("a private server runs in %s", dir)
	return use(ctx, own)
}

// startPrivate starts this very binary. Its home is the folder, so that it saves its context
// there and not over the user's.
func (a *app) startPrivate(dir string) (cmd *exec.Cmd, died <-chan struct{}, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, fail(exitFailed, "this program cannot be found: %w", err)
	}
	cmd = exec.Command(self, "dev", "--quiet", "--data-dir", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	cmd.Args[0] = "holdfast"
	cmd.Stdout, cmd.Stderr = io.Discard, a.stderr
	cmd.Env = []string{"HOME=" + dir, "XDG_CONFIG_HOME=" + dir, "AppData=" + dir}
	for _, name := range []string{"PATH", "TMPDIR", "GOGC", "GOMEMLIMIT", "GOMAXPROCS"} {
		if value, ok := a.env[name]; ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, fail(exitFailed, "the private server cannot be started: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // how it ended is on stderr
	}()
	return cmd, ended, nil
}

// awaitPrivate waits until the server has told where it listens.
func (a *app) awaitPrivate(ctx context.Context, dir string, died <-chan struct{}) (run runFile, err error) {
	ctx, cancel := context.WithTimeout(ctx, privateWithin)
	defer cancel()
	ticker := time.NewTicker(privateLook)
	defer ticker.Stop()
	for {
		data, err := os.ReadFile(filepath.Join(dir, "data", devName))
		if err == nil {
			return run, json.Unmarshal(data, &run)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return run, fail(exitFailed, "the private server's folder cannot be read: %w", err)
		}
		select {
		case <-ticker.C:
		case <-died:
			return run, fail(exitUnavailable, "the private server ended before it served")
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return run, ctx.Err()
			}
			return run, fail(exitUnavailable, "the private server did not serve within %s", short(privateWithin))
		}
	}
}
