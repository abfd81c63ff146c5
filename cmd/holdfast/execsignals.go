//go:build unix

package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

// passedOn are the signals that the command gets when we get them.
var passedOn = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT,
}

// queuedSignals is how many signals may wait to be passed on.
const queuedSignals = 64

// takeSignals catches what is to be passed on, in place of the handler that ends a verb. The
// old one is taken away after the new one stands, so that no signal falls between them.
//
// SIGPIPE is caught as well: a closed stderr must not end us while the command runs. The
// command itself starts with the default of each signal, but for a HUP that nohup ignores.
func takeSignals(ctx context.Context) (<-chan os.Signal, func()) {
	caught, pipe := make(chan os.Signal, queuedSignals), make(chan os.Signal, 1)
	for _, s := range passedOn {
		if s != syscall.SIGHUP || !signal.Ignored(s) {
			signal.Notify(caught, s)
		}
	}
	signal.Notify(pipe, syscall.SIGPIPE)
	if standDown, ok := ctx.Value(standDownKey{}).(func()); ok {
		standDown()
	}
	return caught, func() {
		signal.Stop(caught)
		signal.Stop(pipe)
	}
}

// question is a signal of which the guard was asked whether it got it too.
type question struct {
	number int // of the question
	signal syscall.Signal
	at     instant
}

// passOn gives a signal to the command's whole group. With a terminal we share a group with the
// command, and what went to all of it, as Ctrl-C does, has reached the command already: then the
// guard got it too, and it is asked.
func (r *execution) passOn(s os.Signal) {
	number, ok := s.(syscall.Signal)
	if !ok {
		return
	}
	if r.own {
		r.send(number)
		return
	}
	r.questions++
	r.asked = append(r.asked, question{r.questions, number, r.app.clocks()})
	r.guard.tell("ask %d %d", r.questions, int(number))
}

// answered passes a signal on that came to us alone.
func (r *execution) answered(a answer) {
	for i, q := range r.asked {
		if q.number == a.number {
			r.asked = slices.Delete(r.asked, i, i+1)
			if a.had {
				r.app.detail("%s came to all of our group: the command has it already", q.signal)
			} else {
				r.send(q.signal)
			}
			return
		}
	}
}

// passOnAsked passes on what the guard has not answered for that long: a signal twice is better
// than none.
func (r *execution) passOnAsked(after time.Duration) {
	for len(r.asked) > 0 && r.app.clocks().since(r.asked[0].at) >= after {
		r.send(r.asked[0].signal)
		r.asked = r.asked[1:]
	}
}

func (r *execution) send(s syscall.Signal) {
	if err := r.group.signal(s); err != nil {
		r.app.say("holdfast: %s could not be passed on: %v", s, err)
	}
}

// ends reports whether a signal ends a wait in line.
func ends(s os.Signal) bool { return s != syscall.SIGWINCH && s != syscall.SIGCONT }

// signalled is how a run ends that a signal stopped before it began.
func signalled(s os.Signal) ended {
	number, _ := s.(syscall.Signal)
	return ended{exitSignal + int(number)}
}

// signalOf is the signal that ended ctx, or TERM when something else did.
func signalOf(ctx context.Context) syscall.Signal {
	if by, ok := errors.AsType[stopped](context.Cause(ctx)); ok {
		return by.signal
	}
	return syscall.SIGTERM
}
