//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Bounds of what the guard hears.
const (
	// hearsay is how long a signal counts that the guard got and exec has not asked about yet.
	// One that exec got too is asked about at once; others were the guard's alone.
	hearsay = 10 * time.Second
	// grace is how long a signal may be behind the question about it: they take different ways,
	// and on a busy machine a thread that has taken the signal may have to wait.
	grace = 250 * time.Millisecond
	// barrier is a signal that the guard sends itself before it answers no. Signals are taken by
	// rising number, by the kernel and by Go, and every one that is passed on has a lower one:
	// however busy the machine is, what was pending before it is here when it is.
	barrier = syscall.SIGIO
)

// ears tell the signals that came to exec's whole group from those that came to exec alone: the
// guard, which is part of that group with a terminal, gets the first kind too.
type ears struct {
	app    *app
	caught <-chan os.Signal
	asks   chan heard
	ended  chan struct{}
	stop   func()
}

// heard is a question of exec's: whether a signal came here too.
type heard struct {
	number int
	signal syscall.Signal
	timed  bool // the grace runs
}

// newEars takes every signal that would end or stop the guard.
func newEars(ctx context.Context, a *app) *ears {
	signal.Ignore(syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGPIPE)
	caught, letGo := takeSignals(ctx)
	barriers := make(chan os.Signal, 1)
	signal.Notify(barriers, barrier)
	e := &ears{app: a, caught: caught, asks: make(chan heard, queuedSignals), ended: make(chan struct{})}
	go e.listen(barriers)
	e.stop = func() {
		close(e.asks)
		<-e.ended
		signal.Stop(barriers)
		letGo()
	}
	return e
}

// ask asks whether a signal that exec got came here too; the answer goes to exec.
func (e *ears) ask(number int, s syscall.Signal) { e.asks <- heard{number: number, signal: s} }

// listen answers one question after the other: yes as soon as the signal is here, no when it has
// not come within the grace and is not behind the barrier either.
func (e *ears) listen(barriers <-chan os.Signal) {
	defer close(e.ended)
	got := map[os.Signal]instant{}
	var open []heard
	waiting := time.NewTimer(0)
	<-waiting.C
	for {
		for len(open) > 0 {
			at, had := got[open[0].signal]
			if !had || e.app.clocks().since(at) > hearsay {
				break
			}
			delete(got, open[0].signal)
			e.answer(&open, true)
		}
		if len(open) > 0 && !open[0].timed {
			open[0].timed = true
			waiting.Reset(grace)
		}
		select {
		case s := <-e.caught:
			got[s] = e.app.clocks()
		case q, more := <-e.asks:
			if !more {
				return
			}
			open = append(open, q)
		case <-waiting.C:
			_ = syscall.Kill(syscall.Getpid(), barrier) // nobody else is that process
		case <-barriers:
			for len(e.caught) > 0 {
				got[<-e.caught] = e.app.clocks()
			}
			if len(open) > 0 && open[0].timed { // else it is somebody else's
				_, had := got[open[0].signal]
				delete(got, open[0].signal)
				e.answer(&open, had)
			}
		}
	}
}

// answer answers the oldest question.
func (e *ears) answer(open *[]heard, had bool) {
	fmt.Fprintf(e.app.stdout, "had %d %t\n", (*open)[0].number, had)
	*open = (*open)[1:]
}
