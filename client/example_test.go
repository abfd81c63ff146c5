package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/holdfast-dev/holdfast/client"
)

// The usual case: work under a slot, which is given back whatever becomes of the work.
func ExampleClient_Do() {
	c, err := client.New(client.FromEnv())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	err = c.Do(context.Background(), client.Request{Action: "export", Wait: 2 * time.Minute},
		func(ctx context.Context, h *client.Hold) error {
			h.SetCost(12)
			return doExport(ctx, h.Slot(), h.Fence()) // what it writes refuses lower fences per slot
		})
	var refusal *client.Refusal
	switch {
	case errors.As(err, &refusal):
		fmt.Println("come back in", refusal.RetryAfter, "it is held by", refusal.Holders)
	case errors.Is(err, client.ErrHoldLost):
		fmt.Println("stopped in time:", err)
	}
}

func doExport(context.Context, int64, int64) error { return nil }

// Long work in steps: the context ends in time, and Err is asked right before what cannot be
// undone.
func ExampleHold_Err() {
	steps := func(ctx context.Context, h *client.Hold, send func() error) error {
		for range 10 {
			if err := h.Err(); err != nil {
				return err
			}
			if err := send(); err != nil {
				return err
			}
		}
		return ctx.Err()
	}
	_ = steps
}
