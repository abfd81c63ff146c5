package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	holdfast "github.com/holdfast-dev/holdfast/client"
)

// A loss worker is this test binary run again as another process: it works under holds of the Go
// client, each against an address of its own, until every one of them is lost.

// lossEnv makes the test binary a loss worker; its value is the orders as JSON.
const lossEnv = "HOLDFAST_TEST_LOSS"

type lossOrders struct {
	Token, Resource string
	TTL             time.Duration
	Runs            []lossRun
}

type lossRun struct{ URL, User string }

// lossReport is one line of a worker. At is in Unix nanoseconds of this machine's clock.
type lossReport struct {
	User, ID, Fault string
	Fence, Slot     int64
	Ended           bool // the context of the work has ended
	At              int64
}

// lossWrite is what a worker writes to the resource.
type lossWrite struct {
	User, ID    string
	Slot, Fence int64
}

// workStep is how long a worker computes between asking whether it may write and writing.
const workStep = 20 * time.Millisecond

func loseAll(raw string) int {
	var o lossOrders
	if err := json.Unmarshal([]byte(raw), &o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var mu sync.Mutex
	lines := json.NewEncoder(os.Stdout)
	say := func(r lossReport) {
		mu.Lock()
		defer mu.Unlock()
		_ = lines.Encode(r) // the test misses what it does not hear
	}
	var all sync.WaitGroup
	for _, run := range o.Runs {
		all.Go(func() {
			err := o.work(run, say)
			if err != nil && !errors.Is(err, holdfast.ErrHoldLost) {
				say(lossReport{User: run.User, Fault: err.Error()})
			}
		})
	}
	all.Wait()
	return 0
}

// work is one run: a hold, and writes under it until it is lost.
func (o *lossOrders) work(run lossRun, say func(lossReport)) error {
	c, err := holdfast.New(holdfast.Config{URL: run.URL, TokenSource: holdfast.StaticToken(o.Token)})
	if err != nil {
		return err
	}
	defer c.Close()
	ask := holdfast.Request{Action: "loss", Subject: api.Subject{Kind: "user", ID: run.User}, TTL: o.TTL}
	return c.Do(context.Background(), ask, func(ctx context.Context, h *holdfast.Hold) error {
		var told sync.WaitGroup
		told.Go(func() {
			<-ctx.Done()
			say(lossReport{User: run.User, ID: h.ID(), Ended: true, At: time.Now().UnixNano()})
		})
		defer told.Wait()
		say(lossReport{User: run.User, ID: h.ID(), Slot: h.Slot(), Fence: h.Fence(), At: time.Now().UnixNano()})
		for ctx.Err() == nil && h.Err() == nil {
			<-time.After(workStep) // a worker that computes looks at no context
			if err := o.write(lossWrite{run.User, h.ID(), h.Slot(), h.Fence()}); err != nil {
				return err
			}
		}
		return nil
	})
}

// write sends one write. A refused one is the resource's business, and the test's.
func (o *lossOrders) write(w lossWrite) error {
	body, err := json.Marshal(w)
	if err != nil {
		return err
	}
	resp, err := http.Post(o.Resource, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.Body.Close()
}
