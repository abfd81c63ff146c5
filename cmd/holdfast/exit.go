package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/api"
)

// The exit codes of CLI.md section 2.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitDenied      = 4 // not signed in or not allowed
	exitChanged     = 6 // changed meanwhile
	exitUnavailable = 69
	exitNoSlot      = 75  // no free slot (in time)
	exitLost        = 76  // hold lost, command stopped
	exitBefore      = 125 // exec itself failed before the command started
	exitNotRun      = 126 // the command cannot be run
	exitNoCommand   = 127 // the command is not there
	exitSignal      = 128
)

// exitByCode is the one place that turns problem codes into exit codes. A code that is not
// here exits 1; a test asks about each code of the contract.
var exitByCode = map[api.Code]int{
	api.InvalidBody:   exitUsage,
	api.InvalidQuery:  exitUsage,
	api.InvalidHeader: exitUsage,
	api.InvalidCursor: exitUsage,
	api.InvalidValue:  exitUsage,

	api.Unauthenticated: exitDenied,
	api.Forbidden:       exitDenied,

	api.NotFound:        exitNotFound,
	api.NoMatchingLimit: exitNotFound,

	api.AlreadySettled:     exitChanged,
	api.FenceDiffers:       exitChanged,
	api.PreconditionFailed: exitChanged,

	api.HoldLost: exitLost,

	api.MethodNotAllowed:     exitFailed, // from here on: nothing a script could do about it
	api.BodyTooLarge:         exitFailed,
	api.UnsupportedMediaType: exitFailed,
	api.LimitExists:          exitFailed,
	api.Overage:              exitFailed,
	api.CursorExpired:        exitFailed,
	api.PreconditionRequired: exitFailed,
	api.NeverFits:            exitFailed,
	api.TooManyLimits:        exitFailed,
	api.WindowFixed:          exitFailed,
	api.IdempotencyMismatch:  exitFailed,
	api.Internal:             exitFailed,

	api.NoFreeSlot:     exitNoSlot,
	api.QuotaExceeded:  exitNoSlot,
	api.LimitPaused:    exitNoSlot,
	api.SubjectBlocked: exitNoSlot,
	api.LineFull:       exitNoSlot,
	api.WaitCancelled:  exitNoSlot,

	api.SlowDown:            exitUnavailable, // the server's own guard, not a limit that said no
	api.IdempotencyInFlight: exitUnavailable,
	api.StoreUnavailable:    exitUnavailable,
	api.OutcomeUnknown:      exitUnavailable,
	api.Contended:           exitUnavailable,
	api.Overloaded:          exitUnavailable,
	api.Draining:            exitUnavailable,
	api.ClockSkew:           exitUnavailable,
	api.StorageFull:         exitUnavailable,
	api.Quarantine:          exitUnavailable,
}

// failure is an error as a person reads it: what happened, what it exits with, and what to do
// next. Table is shown between the two, already laid out.
type failure struct {
	exit  int
	what  string
	table string
	hints []hint
	cause error
}

// hint is one next thing to do: a label, and a command or a sentence.
type hint struct{ label, do string }

func (f *failure) Error() string { return f.what }
func (f *failure) Unwrap() error { return f.cause }

// ended is how a run ended about which all has been said: only its exit code is left.
type ended struct{ code int }

func (e ended) Error() string { return fmt.Sprintf("ended with exit code %d", e.code) }

// fail makes a failure without hints; next adds them.
func fail(exit int, format string, args ...any) *failure {
	err := fmt.Errorf(format, args...)
	return &failure{exit: exit, what: err.Error(), cause: errors.Unwrap(err)}
}

// usage is a failure of how the command was called.
func usage(format string, args ...any) *failure { return fail(exitUsage, format, args...) }

// next adds a hint and returns the failure.
func (f *failure) next(label, do string) *failure {
	f.hints = append(f.hints, hint{label, do})
	return f
}

// exitOf is the exit code an error stands for.
func exitOf(ctx context.Context, err error) int {
	if err == nil {
		return exitDone
	}
	if byVerb, ok := errors.AsType[*failure](err); ok {
		return byVerb.exit
	}
	if e, ok := errors.AsType[ended](err); ok {
		return e.code
	}
	if byServer, ok := errors.AsType[*api.Problem](err); ok {
		if exit, known := exitByCode[byServer.Code]; known {
			return exit
		}
		return exitFailed
	}
	if by, ok := errors.AsType[stopped](context.Cause(ctx)); ok && errors.Is(err, context.Canceled) {
		return exitSignal + int(by.signal)
	}
	if _, ok := errors.AsType[*unreachable](err); ok {
		return exitUnavailable
	}
	return exitFailed
}
