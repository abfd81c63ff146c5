package main

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// Bounds of the live view.
const (
	leastEvery = 200 * time.Millisecond
	lookWithin = 5 * time.Second // of one look; then what is shown is stale
	keyBuffer  = 64              // bytes typed and not read yet
)

func (a *app) topCommand() *cobra.Command {
	var filter string
	every := time.Second
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch what is full, who holds and who waits, live",
		Long: "Watch what is full, who holds and who waits, in the terminal. Off a terminal, or with -o, it is\n" +
			"shown once. Without the scope holds:read you see your own alone, and without limits:read no amounts.\n\n" +
			"Keys: j and k or the arrows choose a hold, / filters, x ends the hold by force, as force-release\n" +
			"does, space stops and goes on, q ends.",
		Example: "  holdfast top\n" +
			"  holdfast top --filter exports --every 5s\n" +
			"  holdfast top | head                 # once, as text",
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if every < leastEvery {
				return usage("--every must be at least %s", leastEvery).next("for example", "--every 1s")
			}
			call, err := a.caller()
			if err != nil {
				return err
			}
			first, err := call.look(cmd.Context())
			if err != nil {
				return err
			}
			in, out, ok := a.screen()
			if !ok {
				return a.topOnce(first.narrowed(filter))
			}
			restore, err := rawMode(in)
			if err != nil {
				return a.topOnce(first.narrowed(filter))
			}
			v := &topView{call: call, picture: first, seen: a.now(), filter: filter, colour: a.colourful, name: call.target.url}
			return a.live(cmd.Context(), v, every, in, out, restore)
		},
	}
	cmd.Flags().StringVar(&filter, "filter", "", "only rows in which `TEXT` stands")
	cmd.Flags().DurationVar(&every, "every", every, "look again each `TIME`")
	return cmd
}

// screen is the terminal to draw on, when there is one at both ends.
func (a *app) screen() (in, out *os.File, ok bool) {
	in, _ = a.stdin.(*os.File)
	out, _ = a.stdout.(*os.File)
	return in, out, a.client.Output == "table" && a.env["TERM"] != "dumb" && terminal(a.stdin) && terminal(a.stdout)
}

// topOnce is top off a terminal: one look.
func (a *app) topOnce(p topPicture) error {
	return a.emit(p, func() string {
		parts := []string{p.summary() + "\n"}
		if len(p.Limits) > 0 {
			parts = append(parts, p.fillTable().render(""))
		}
		if len(p.Holds) > 0 {
			parts = append(parts, holdTable(p.Holds, p.At.Time).render(""))
		}
		if len(p.Waiters) > 0 {
			parts = append(parts, p.waiterTable().render(""))
		}
		return strings.Join(parts, "\n")
	}, func() (ids []string) {
		for i := range p.Holds {
			ids = append(ids, p.Holds[i].ID)
		}
		return ids
	})
}

// looked is what came of one look.
type looked struct {
	picture topPicture
	err     error
}

// live draws until q, or until ctx ends. Whatever ends it, the terminal is as it was.
//
// A look runs beside it, one at a time, so that keys are heard while the server is away.
func (a *app) live(ctx context.Context, v *topView, every time.Duration, in, out *os.File, restore func()) error {
	_, _ = out.WriteString("\x1b[?1049h\x1b[?25l") // another screen, and no cursor
	defer func() {
		_, _ = out.WriteString("\x1b[?25h\x1b[?1049l")
		restore()
	}()
	keys, looks := make(chan byte, keyBuffer), make(chan looked, 1)
	done := make(chan struct{})
	defer close(done)
	go readKeys(in, keys, done) // ends with the next byte, or with the process
	resized, stop := sizeChanges()
	defer stop()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	looking := false
	for {
		if _, err := out.WriteString(v.draw(a.now(), out)); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case got := <-looks:
			looking = false
			v.take(got, a.now())
		case key, ok := <-keys:
			if !ok || v.key(ctx, key) {
				return nil
			}
		case <-resized:
		case <-ticker.C:
			if looking || v.still {
				continue
			}
			looking = true
			go func() {
				ctx, cancel := context.WithTimeout(ctx, lookWithin)
				defer cancel()
				p, err := v.call.look(ctx)
				looks <- looked{p, err}
			}()
		}
	}
}

func readKeys(in *os.File, keys chan<- byte, done <-chan struct{}) {
	defer close(keys)
	var b [keyBuffer]byte
	for {
		n, err := in.Read(b[:])
		if err != nil {
			return
		}
		for _, key := range b[:n] {
			select {
			case keys <- key:
			case <-done:
				return
			}
		}
	}
}
