package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/client/holdfasttest"
)

// CASES O14 step 4: what can never fit is told at once, whatever the wait.
func TestWait_NeverFits(t *testing.T) {
	inBubble(t, func(t *testing.T, s *holdfasttest.Server) {
		c := s.Client("u1")
		r := client.Request{Action: "call", Cost: 100, Wait: time.Minute}
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := c.Reserve(ctx, r)
		wantErr(t, "Reserve", err, client.ErrNeverFits)
		wantErr(t, "Wait", c.Wait(ctx, r), client.ErrNeverFits)
		_, err = c.Consume(ctx, r)
		wantErr(t, "Consume", err, client.ErrNeverFits)
		if took := time.Since(began); took > time.Second {
			t.Errorf("the three took %v, want an answer within a second", took)
		}
		if got := s.Used("calls", "u1"); got != 0 {
			t.Errorf("used %d, want nothing", got)
		}
	}, holdfasttest.Counting("calls", "call", 10, "minute"))
}

// CLI.md section 5: Wait has x/time/rate's meaning.
func TestWait_BlocksUntilAllowed(t *testing.T) {
	inBubble(t, func(t *testing.T, s *holdfasttest.Server) {
		c := s.Client("u1")
		call := client.Request{Action: "call"}
		began := time.Now() // a bubble begins at midnight
		for range 10 {
			wantErr(t, "Wait with room", c.Wait(t.Context(), call), nil)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("ten that fit took %v", took)
		}
		short, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		wantErr(t, "Wait past its deadline", c.Wait(short, call), client.ErrQuota)
		if took := time.Since(began); took > time.Second {
			t.Errorf("that the deadline cannot be met was told after %v, want at once", took)
		}
		before := calls(s, "/v1/checks")
		wantErr(t, "Wait", c.Wait(t.Context(), call), nil)
		if took := time.Since(began); took < time.Minute || took > 62*time.Second {
			t.Errorf("allowed after %v, want when the minute is over", took)
		}
		if asked := calls(s, "/v1/checks") - before; asked > 3 {
			t.Errorf("it asked %d times for what says when it comes back", asked)
		}
		wantErr(t, "Wait of a caller that has gone", c.Wait(short, call), context.DeadlineExceeded)
	}, holdfasttest.Counting("calls", "call", 10, "minute"))
}

func TestWait_Cancelled(t *testing.T) {
	inBubble(t, func(t *testing.T, s *holdfasttest.Server) {
		c := s.Client("u1")
		h := reserve(t, c, export)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Second, cancel)
		_, err := c.Reserve(ctx, waiting(30*time.Second, time.Minute))
		wantErr(t, "Reserve of a caller that went away", err, context.Canceled)
		wantErr(t, "the same", err, client.ErrNoFreeSlot)
		wantErr(t, "Release", h.Release(t.Context()), nil)
		time.Sleep(10 * time.Second)
		wantHolds(t, s, 0)
	}, exports(1))
}

// What comes back at no known time is not waited for; a pause with an end is.
func TestReserve_WaitsForNothingHopeless(t *testing.T) {
	paused := api.LimitInput{ID: "exports", Name: "exports", SubjectKind: "user", Action: "export", Amount: 1, Window: "concurrent", Paused: true}
	inBubble(t, func(t *testing.T, s *holdfasttest.Server) {
		c := s.Client("u1")
		began := time.Now()
		_, err := c.Reserve(t.Context(), waiting(30*time.Second, time.Hour))
		wantErr(t, "Reserve under a pause without end", err, client.ErrPaused)
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v", took)
		}
		until := api.At(s.Now().Add(20 * time.Second))
		paused.PausedUntil = &until
		s.SetLimit(paused)
		h := reserve(t, c, waiting(30*time.Second, time.Hour))
		if took := time.Since(began); took < 20*time.Second || took > 25*time.Second {
			t.Errorf("granted after %v, want when the pause is over", took)
		}
		wantErr(t, "Release", h.Release(t.Context()), nil)
	}, holdfasttest.Limits(paused))
}

func TestPreview_TellsAndTakesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, s *holdfasttest.Server) {
		c := s.Client("u1")
		d, err := c.Preview(t.Context(), client.Request{Action: "call", Cost: 3})
		wantErr(t, "Preview", err, nil)
		if !d.Allowed || len(d.Limits) != 1 || d.Limits[0].Remaining != 10 || d.RateLimit == "" {
			t.Errorf("Preview: %+v", d)
		}
		d, err = c.Preview(t.Context(), client.Request{Action: "call", Cost: 11})
		wantErr(t, "Preview of too much", err, nil)
		if d.Allowed || d.Refusal == nil || !errors.Is(d.Refusal, client.ErrNeverFits) {
			t.Errorf("Preview of too much: %+v", d)
		}
		d, err = c.Consume(t.Context(), client.Request{Action: "call", Cost: client.NoCost})
		wantErr(t, "Consume of nothing", err, nil)
		if !d.Allowed || s.Used("calls", "u1") != 0 {
			t.Errorf("Consume of nothing: %+v, used %d", d, s.Used("calls", "u1"))
		}
	}, holdfasttest.Counting("calls", "call", 10, "minute"))
}
