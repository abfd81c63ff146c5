package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// crew is the loops of a server, all ended and awaited together. A loop that ends before it
// was told to is a fault, which failed tells.
type crew struct {
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	failed chan error // one: the first fault
}

// newCrew makes loops that outlive the signal to stop: they end when they are told to, after
// the last request was answered.
func newCrew() *crew {
	ctx, cancel := context.WithCancel(context.Background())
	return &crew{ctx: ctx, cancel: cancel, failed: make(chan error, 1)}
}

// run starts a loop that must last until it is told to end.
func (c *crew) run(name string, loop func(context.Context) error) {
	c.wg.Go(func() {
		err := loop(c.ctx)
		if c.ctx.Err() != nil {
			return
		}
		if err == nil {
			err = fmt.Errorf("ended by itself")
		}
		select {
		case c.failed <- fmt.Errorf("%s: %w", name, err):
		default:
		}
	})
}

// stop ends all loops and waits for them.
func (c *crew) stop() {
	c.cancel()
	c.wg.Wait()
}

// every calls do again and again, so long apart, and returns when ctx ends.
func every(ctx context.Context, pause time.Duration, do func()) error {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		do()
	}
}
