// Command worker exports files, never more at once than the limit allows.
//
//	export HOLDFAST_TOKEN="$(holdfast token)"
//	go run ./examples/worker user:u_42 OUT_FOLDER FILE…
//
// Each file is exported under a hold of its own. A hold that is lost stops its file, which is
// left for the next run; nothing half done is left in the folder.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/client"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := client.New(client.FromEnv())
	if err != nil || len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: worker KIND:ID OUT_FOLDER FILE…", err)
		os.Exit(2)
	}
	defer c.Close()
	if left := run(ctx, c, os.Args[1], os.Args[2], os.Args[3:], os.Stdout, os.Stderr); left > 0 {
		os.Exit(1)
	}
}

// run exports files, one after the other, and says how many were left for the next run.
func run(ctx context.Context, c *client.Client, subject, folder string, files []string, out, trouble io.Writer) (left int) {
	kind, id, _ := strings.Cut(subject, ":")
	for _, name := range files {
		ask := client.Request{
			Action: "export", Subject: api.Subject{Kind: kind, ID: id}, TTL: 30 * time.Second, Wait: time.Minute,
			Labels: map[string]string{"file": filepath.Base(name)},
		}
		err := c.Do(ctx, ask, func(ctx context.Context, h *client.Hold) error {
			parts, err := export(ctx, h, name, folder)
			if err == nil {
				fmt.Fprintf(out, "%s: %d parts, slot %d, fence %d\n", filepath.Base(name), parts, h.Slot(), h.Fence())
			}
			return err
		})
		var full *client.Refusal
		switch {
		case errors.As(err, &full):
			fmt.Fprintf(trouble, "%s: no slot within a minute; %d holders are known\n", filepath.Base(name), len(full.Holders))
			left++
		case err != nil:
			fmt.Fprintf(trouble, "%s: left for the next run: %v\n", filepath.Base(name), err)
			left++
		}
	}
	return left
}

// export writes a file in capitals, part by part, and says how many there were. The context ends
// before the slot can be given on; Err, asked before what cannot be undone, also knows of a
// process that was stopped and has just gone on.
func export(ctx context.Context, h *client.Hold, name, folder string) (parts int, err error) {
	source, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer func() { _ = source.Close() }()
	draft, err := os.CreateTemp(folder, ".draft-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.Remove(draft.Name()) }() // renamed when all went well
	lines := bufio.NewScanner(source)
	for ; lines.Scan() && ctx.Err() == nil; parts++ {
		if _, err := fmt.Fprintln(draft, strings.ToUpper(lines.Text())); err != nil {
			return parts, err
		}
	}
	if err := errors.Join(lines.Err(), context.Cause(ctx), draft.Close(), h.Err()); err != nil {
		return parts, err
	}
	return parts, os.Rename(draft.Name(), filepath.Join(folder, filepath.Base(name)))
}
