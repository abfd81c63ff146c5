// Command roundtripper reads pages of somebody else's API and stays under its limit, however many
// copies of the program run.
//
//	export HOLDFAST_TOKEN="$(holdfast token)"
//	go run ./examples/roundtripper [-action call] [-hold] [-within 5m] URL…
//
// Every request waits for its turn before it is sent. With -hold it holds a slot until its answer
// was read, for an API that allows so many calls at once; without, it is counted.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/client/middleware"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	action := flag.String("action", "call", "the `ACTION` that their limit counts")
	hold := flag.Bool("hold", false, "hold a slot until the answer was read")
	within := flag.Duration("within", 5*time.Minute, "give up after `TIME`, waiting included")
	flag.Parse()
	c, err := client.New(client.FromEnv())
	if err != nil {
		fmt.Fprintln(os.Stderr, "roundtripper:", err)
		os.Exit(2)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, *within)
	defer cancel()
	theirs := &http.Client{Transport: &middleware.Transport{Client: c, Action: *action, Reserve: *hold}}
	if failed := read(ctx, theirs, flag.Args(), os.Stdout); failed > 0 {
		os.Exit(1)
	}
}

// atOnce is how many requests this program has under way or waiting. Their limit may be lower.
const atOnce = 8

// read gets every page, says a line about each, and how many could not be had.
func read(ctx context.Context, theirs *http.Client, pages []string, out io.Writer) (failed int) {
	var workers sync.WaitGroup
	var mu sync.Mutex // guards out and failed
	turn := make(chan struct{}, atOnce)
	for _, page := range pages {
		turn <- struct{}{}
		workers.Go(func() {
			defer func() { <-turn }()
			size, err := get(ctx, theirs, page)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed++
				fmt.Fprintf(out, "%s: %v\n", page, err)
				return
			}
			fmt.Fprintf(out, "%s: %d bytes\n", page, size)
		})
	}
	workers.Wait()
	return failed
}

// get reads one page to its end: with a hold, that is when the slot is given back.
func get(ctx context.Context, theirs *http.Client, page string) (size int64, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, page, http.NoBody)
	if err != nil {
		return 0, err
	}
	resp, err := theirs.Do(r)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode/100 != 2 {
		return 0, fmt.Errorf("they answered %s", resp.Status)
	}
	return io.Copy(io.Discard, resp.Body)
}
