// Command holdfast is all of Holdfast in one binary: the server, a development server that
// needs nothing else, and the verbs of a client. The contract (names, flags, exit codes,
// environment) is CLI.md; what is served is composed here and nowhere else.
//
// This package knows flags, files, signals and the order in which things start and stop. It
// decides nothing about limits or holds.
package main

import (
	"cmp"
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // schedules name time zones, and no machine need have the database
)

func main() {
	ctx, stop := untilSignal(context.Background())
	code := run(ctx, os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the whole program as a value: tests call it with their own arguments, environment
// ("NAME=value") and streams. It returns the exit code of CLI.md section 2.
//
// When ctx ends, a server drains and run returns 0; a verb gives up and run returns 128+N for
// signal N, or 1 when no signal was the cause.
func run(ctx context.Context, args, env []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := newApp(env, stdin, stdout, stderr)
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	return a.finish(ctx, cmp.Or(err, a.stray))
}

// stopped is why a context ended: the process was sent a signal.
type stopped struct{ signal syscall.Signal }

func (s stopped) Error() string { return "stopped by signal: " + s.signal.String() }

// standDownKey finds, in main's context, the function that takes the handler of untilSignal
// away. exec calls it: what comes then is for the command it runs.
type standDownKey struct{}

// untilSignal ends the context with a stopped cause at the first INT or TERM. The second one
// ends the process at once: whoever asks twice does not want to wait for a drain.
func untilSignal(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		first, ok := <-signals
		if !ok {
			return
		}
		cancel(stopped{first.(syscall.Signal)})
		if second, ok := <-signals; ok {
			os.Exit(exitSignal + int(second.(syscall.Signal)))
		}
	}()
	ctx = context.WithValue(ctx, standDownKey{}, func() { signal.Stop(signals) })
	return ctx, func() {
		signal.Stop(signals)
		close(signals)
		cancel(nil)
	}
}
