//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// watch is the guard's own side: what it guards, and until when.
type watch struct {
	app      *app
	group    group
	from     instant       // when the lengths below were true
	toTerm   time.Duration // before TERM; exec does it itself when it can
	toKill   time.Duration
	starts   string // the mark of a command that is being started
	armed    bool   // it was told of a group
	timed    bool   // it was told until when
	stopping bool   // TERM was sent, by us or by exec

	ears *ears
}

func (a *app) guardCommand() *cobra.Command {
	return &cobra.Command{
		Use: guardName, Hidden: true, Args: cobra.NoArgs,
		Short:             "Stop a command's process group when its exec cannot; exec starts it",
		PersistentPreRunE: func(*cobra.Command, []string) error { return nil }, // it has no settings
		RunE:              func(cmd *cobra.Command, _ []string) error { return a.guard(cmd.Context()) },
	}
}

// guard runs until exec lets it go, or until it has stopped what exec left behind.
func (a *app) guard(ctx context.Context) error {
	w := watch{app: a, ears: newEars(ctx, a)}
	defer w.ears.stop()
	in, err := tellingPipe()
	if err != nil {
		return err
	}
	fmt.Fprintln(a.stdout, "ready")
	var unread []byte
	for {
		now, said, err := in.next(w.tick(), a.clocks)
		unread = append(unread, said...)
		for line, rest, whole := bytes.Cut(unread, []byte("\n")); whole; line, rest, whole = bytes.Cut(unread, []byte("\n")) {
			if unread = rest; string(line) == "over" {
				return nil
			}
			w.hear(string(line))
		}
		switch {
		case err != nil:
			w.endAll()
			return nil
		case len(said) == 0:
			w.look(now)
		}
	}
}

func (w *watch) tick() time.Duration { return min(max(w.toKill/40, leastTick), longestTick) }

// telling is the pipe on which exec tells the guard what to do.
type telling struct {
	file *os.File
	raw  syscall.RawConn
	buf  [4096]byte
}

// tellingPipe is our stdin, as a pipe that can be read with a deadline.
func tellingPipe() (*telling, error) {
	if err := syscall.SetNonblock(syscall.Stdin, true); err != nil {
		return nil, err
	}
	t := &telling{file: os.NewFile(uintptr(syscall.Stdin), "stdin")}
	var err error
	t.raw, err = t.file.SyscallConn()
	return t, err
}

// next waits for what exec says, for within at the longest. When it gives nothing and no error,
// then at now, which has passed, exec had said nothing that was not read: a guard that was
// stopped itself, or had to wait for a processor, must not act on a deadline that was moved
// meanwhile. The error is that exec is gone.
func (t *telling) next(within time.Duration, clocks func() instant) (now instant, said []byte, err error) {
	if err := t.file.SetReadDeadline(clocks().steady.Add(within)); err != nil {
		return now, nil, err
	}
	n, err := t.file.Read(t.buf[:])
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return now, t.buf[:n], err
	}
	now = clocks()
	if err := t.file.SetReadDeadline(time.Time{}); err != nil {
		return now, nil, err
	}
	var got error
	err = t.raw.Read(func(fd uintptr) bool { // once more, without waiting
		n, got = syscall.Read(int(fd), t.buf[:])
		return true
	})
	switch {
	case err != nil:
		return now, nil, err
	case errors.Is(got, syscall.EAGAIN), errors.Is(got, syscall.EINTR):
		return now, nil, nil
	case got != nil:
		return now, nil, got
	case n == 0:
		return now, nil, io.EOF
	default:
		return now, t.buf[:n], nil
	}
}

// hear takes one line of exec's. What it does not know it leaves alone.
func (w *watch) hear(line string) {
	var toTerm, toKill, wall int64
	switch {
	case line == "stopping":
		w.stopping = true
	case strings.HasPrefix(line, "starts "):
		w.starts = strings.TrimPrefix(line, "starts ")
	case line == "reaped":
		w.group.child = 0
	case strings.HasPrefix(line, "ask "):
		var number, signal int
		if n, _ := fmt.Sscanf(line, "ask %d %d", &number, &signal); n == 2 {
			w.ears.ask(number, syscall.Signal(signal))
		}
	default:
		if n, _ := fmt.Sscanf(line, "group %d %d %s", &w.group.pgid, &w.group.child, &w.group.mark); n == 3 {
			w.armed = true
		}
		if n, _ := fmt.Sscanf(line, "until %d %d %d", &toTerm, &toKill, &wall); n == 3 {
			w.timed = true
			w.toTerm, w.toKill = time.Duration(toTerm), time.Duration(toKill)
			w.from = w.app.clocks()
			// We may have been late to read it: the wall clock tells by how much.
			if late := w.from.wall.Sub(time.Unix(0, wall)); late > 0 {
				w.from.steady, w.from.wall = w.from.steady.Add(-late), w.from.wall.Add(-late)
			}
		}
	}
}

// due is the signal that the group should have by now, as exec is stopped or too busy to send it
// itself; 0 for none. Without both a group and a time there is none.
func (w *watch) due(now instant) syscall.Signal {
	gone := now.since(w.from)
	switch {
	case !w.armed || !w.timed:
		return 0
	case gone >= w.toKill:
		return syscall.SIGKILL
	case gone >= w.toTerm+guardSlack && !w.stopping:
		return syscall.SIGTERM
	default:
		return 0
	}
}

// look does what is due.
func (w *watch) look(now instant) {
	switch w.due(now) {
	case syscall.SIGKILL:
		if w.group.child == 0 && !w.group.alive() {
			w.armed = false // all of it is gone, and its number may become another's
			return
		}
		w.group.kill()
	case syscall.SIGTERM:
		w.stopping = true
		w.group.stop()
	}
}

// endAll kills the group of an exec that is gone, at once: nobody is left to extend its hold,
// and a nested exec must be gone before the hold around it is.
func (w *watch) endAll() {
	if !w.armed && w.starts != "" {
		w.group, w.armed = group{mark: w.starts, astray: true}, true
	}
	deadline := time.NewTimer(killPatience)
	defer deadline.Stop()
	ticker := time.NewTicker(leastTick)
	defer ticker.Stop()
	for w.armed && w.group.alive() {
		w.group.kill()
		select {
		case <-ticker.C:
		case <-deadline.C:
			return // what KILL does not end, nobody ends
		}
	}
}
