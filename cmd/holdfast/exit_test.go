package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/holdfast-dev/holdfast/api"
)

// CLI.md section 2: each code of the contract has its exit code, chosen and not by default.
func TestExit_EveryCodeOfTheContract(t *testing.T) {
	t.Parallel()
	want := map[int]int{401: exitDenied, 403: exitDenied, 404: exitNotFound, 412: exitChanged, 503: exitUnavailable}
	for _, code := range api.Codes() {
		got, listed := exitByCode[code]
		if !listed {
			t.Errorf("%s (%d) has no exit code", code, code.Status())
		}
		if must, ok := want[code.Status()]; ok && got != must {
			t.Errorf("%s (%d): got exit %d, want %d", code, code.Status(), got, must)
		}
		if code.Status() == 429 && code != api.SlowDown && got != exitNoSlot {
			t.Errorf("%s: got exit %d, want %d", code, got, exitNoSlot)
		}
	}
	if len(exitByCode) != len(api.Codes()) {
		t.Errorf("exitByCode has %d codes, the contract %d", len(exitByCode), len(api.Codes()))
	}
}

func TestExit_OfErrors(t *testing.T) {
	t.Parallel()
	term, cancel := context.WithCancelCause(t.Context())
	cancel(stopped{syscall.SIGTERM})
	for _, c := range []struct {
		name string
		ctx  context.Context
		err  error
		want int
	}{
		{"nothing went wrong", t.Context(), nil, 0},
		{"a hold is lost", t.Context(), &api.Problem{Code: api.HoldLost}, 76},
		{"a hold is lost, wrapped", t.Context(), fmt.Errorf("extend: %w", &api.Problem{Code: api.HoldLost}), 76},
		{"a code of a newer server", t.Context(), &api.Problem{Code: "brand-new"}, 1},
		{"no answer", t.Context(), &unreachable{url: "x", err: errors.New("refused")}, 69},
		{"a verb's own", t.Context(), usage("no"), 2},
		{"a signal while waiting", term, context.Canceled, 128 + 15},
		{"a signal during a request", term, &unreachable{url: "x", err: context.Canceled}, 128 + 15},
		{"an answer that came before the signal", term, &api.Problem{Code: api.NoFreeSlot}, 75},
		{"anything else", t.Context(), errors.New("odd"), 1},
	} {
		if got := exitOf(c.ctx, c.err); got != c.want {
			t.Errorf("%s (%v): got %d, want %d", c.name, c.err, got, c.want)
		}
	}
}

// Every code says what to do next, or carries it in its own answer.
func TestExplain_NamesTheNextStep(t *testing.T) {
	t.Parallel()
	seconds := int64(3)
	for _, code := range api.Codes() {
		problem := api.NewProblem(code, "Something a person can act on.")
		problem.RequestID = "r1"
		if code.RetryAfter() {
			problem.RetryAfterSeconds = &seconds
		}
		failed := (&app{}).explainProblem(&problem)
		if failed.what == "" || failed.exit == 0 {
			t.Errorf("%s: got %q, exit %d", code, failed.what, failed.exit)
		}
		if len(failed.hints) == 0 {
			t.Errorf("%s: got no next step", code)
		}
	}
}
