//go:build unix

package main

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"
)

// guardName is the hidden command that the guard runs as.
const guardName = "exec-guard"

// guardSlack is how much longer the guard waits with TERM than we do, so that a command gets
// one TERM and not two. KILL has no slack.
const guardSlack = 300 * time.Millisecond

// guard is the small process that stops a command's group when we cannot: we were killed, or
// stopped past the deadline. We tell it in lines what to guard and until when; our death is the
// end of its input. It tells us that it is ready, and answers whether it got a signal.
type guard struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	ready chan struct{}  // closed when it is in place
	dead  chan struct{}  // closed when it has ended
	now   func() instant // for what it is told

	answers chan answer // to what it was asked
}

// answer is whether the guard, as part of our group, got the signal of a question too.
type answer struct {
	number int // of the question
	had    bool
}

// startGuard starts the guard: in a session of its own, where nothing reaches it that is meant
// for others; with a terminal in our group, to tell a signal to all of it from one to us alone.
func startGuard(shared bool, now func() instant) (*guard, error) {
	path, err := ourselves()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path)
	cmd.Args = []string{"holdfast", guardName}
	cmd.Env = []string{} // no token, no mark
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: !shared}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	g := &guard{cmd: cmd, in: in, ready: make(chan struct{}), dead: make(chan struct{}), now: now, answers: make(chan answer, queuedSignals)}
	go g.listen(out)
	return g, nil
}

// listen reads what the guard says until it ends.
func (g *guard) listen(out io.Reader) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var a answer
		if lines.Text() == "ready" {
			close(g.ready)
		} else if _, err := fmt.Sscanf(lines.Text(), "had %d %t", &a.number, &a.had); err == nil {
			select {
			case g.answers <- a:
			default: // more than anybody sends; the signal is passed on
			}
		}
	}
	_ = g.cmd.Wait() // it is gone, whatever it says
	close(g.dead)
}

// tell writes one line. A guard that is gone is noticed elsewhere; one that does not read must
// not hold us up.
func (g *guard) tell(format string, args ...any) {
	if pipe, ok := g.in.(interface{ SetWriteDeadline(time.Time) error }); ok {
		_ = pipe.SetWriteDeadline(g.now().steady.Add(time.Second)) // a pipe has deadlines
	}
	_, _ = fmt.Fprintf(g.in, format+"\n", args...)
}

// until tells it how long the group may run, and when that was true.
func (g *guard) until(t terms, from instant) {
	now := g.now()
	gone := now.since(from)
	g.tell("until %d %d %d", t.termAt()-gone, t.killAt()-gone, now.wall.UnixNano())
}

// end lets it go, and waits for that a little: it has nothing left to do.
func (g *guard) end(within time.Duration) {
	g.tell("over")
	_ = g.in.Close()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-g.dead:
	case <-timer.C:
	}
}
