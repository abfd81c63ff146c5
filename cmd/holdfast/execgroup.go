//go:build unix

package main

import (
	"errors"
	"syscall"
)

// markName is the variable by which the processes of a command are known where they share our
// process group: every one of them inherits it.
const markName = "HOLDFAST_RESERVATION_ID"

// group is what belongs to a command: its process group, or, with a terminal, those of our own
// group that carry its mark. A group shared with a shell's pipeline is never signalled whole.
type group struct {
	pgid   int    // of its own; 0: it shares ours
	child  int    // the command itself; 0 once it was waited for, as its number may be another's
	mark   string // the id of its reservation
	astray bool   // of which group it is nobody told: it is known by its mark alone
}

// signal sends s to all of it. What is not there any more is no error.
func (g *group) signal(s syscall.Signal) error {
	if g.pgid != 0 {
		return gone(syscall.Kill(-g.pgid, s))
	}
	var failed error
	for _, pid := range g.members() {
		failed = errors.Join(failed, gone(syscall.Kill(pid, s)))
	}
	return failed
}

// stop asks all of it to end. One that is stopped must go on to hear it.
func (g *group) stop() {
	_ = g.signal(syscall.SIGTERM) // whoever is left is killed
	_ = g.signal(syscall.SIGCONT)
}

// kill ends all of it that can be ended.
func (g *group) kill() { _ = g.signal(syscall.SIGKILL) }

// alive reports whether a process of it is left that runs: a dead one that nobody waited for
// does not.
func (g *group) alive() bool {
	if g.pgid != 0 && errors.Is(syscall.Kill(-g.pgid, 0), syscall.ESRCH) {
		return false
	}
	return len(g.members()) > 0
}

func gone(err error) error {
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}
