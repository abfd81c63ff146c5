package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Bounds of servers as processes.
const (
	startWithin = 60 * time.Second
	stopWithin  = 20 * time.Second
	lookEvery   = 5 * time.Millisecond
)

// process is a server that was started here.
type process struct {
	cmd  *exec.Cmd
	died chan struct{}
	out  string // its log, for when it dies
}

// spawn starts a server whose output goes to a file in dir.
func spawn(dir string, change func(*exec.Cmd), name string, args ...string) (*process, error) {
	log, err := os.CreateTemp(dir, filepath.Base(name)+"-*.log")
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = log, log, childAttributes()
	if change != nil {
		change(cmd)
	}
	return start(cmd, log.Name())
}

func start(cmd *exec.Cmd, log string) (*process, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, died: make(chan struct{}), out: log}
	go func() {
		defer close(p.died)
		_ = cmd.Wait() // how it ended is in its log
	}()
	return p, nil
}

// self starts this binary as a server that tells its address in its first line, and ends with
// its standard input.
func self(dir string, args ...string) (p *process, address string, err error) {
	me, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	cmd := exec.Command(me, args...)
	cmd.Stderr, cmd.SysProcAttr, cmd.Dir = os.Stderr, childAttributes(), dir
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, "", err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = cmd.Wait()
		return nil, "", fmt.Errorf("%v did not start: %w", args, err)
	}
	p = &process{cmd: cmd, died: make(chan struct{})}
	go func() {
		defer close(p.died)
		_ = cmd.Wait() // how it ended is on stderr
		_ = in.Close()
	}()
	return p, strings.TrimSpace(line), nil
}

// untilEOF ends the context when standard input does: the parent is gone or wants us to go.
func untilEOF(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return ctx, cancel
}

// stop asks a server to end, and ends it when it does not.
func (p *process) stop() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.died:
	case <-time.After(stopWithin):
		_ = p.cmd.Process.Kill()
		<-p.died
	}
}

// await calls ready until it is true, the process died, or startWithin is over.
func (p *process) await(ctx context.Context, ready func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for !ready() {
		select {
		case <-ticker.C:
		case <-p.died:
			return fmt.Errorf("%s ended while starting:\n%s", p.cmd.Path, p.tail())
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s did not start:\n%s", p.cmd.Path, p.tail()), ctx.Err())
		}
	}
	return nil
}

// tail is the end of the server's log.
func (p *process) tail() string {
	const most = 2000
	text, _ := os.ReadFile(p.out) // without a log there is nothing to say
	return string(text[max(0, len(text)-most):])
}

// freePort is a loopback port that nobody listens on now.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func listening(port int) bool {
	c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), time.Second)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}
