package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/api"
)

func (a *app) forceCommand() *cobra.Command {
	var reason string
	var block time.Duration
	var yes bool
	cmd := &cobra.Command{
		Use:   "force-release ID",
		Short: "End somebody else's hold, and say why",
		Long: "End somebody else's hold. The hold is read and shown first, and its fence is sent back, so that\n" +
			"only the hold you saw can be ended. Its worker learns at its next heartbeat that it lost the slot.",
		Example: "  holdfast force-release rsv_06C8Q4M2 --reason \"machine is gone\"\n" +
			"  holdfast force-release rsv_06C8Q4M2 --reason \"runs wild\" --block 10m --yes",
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			body := api.ForceReleaseRequest{Reason: reason}
			if reason == "" {
				return usage("ending another's hold needs a reason: it goes into the audit trail").
					next("written as", "holdfast force-release "+args[0]+" --reason WHY")
			}
			if cmd.Flags().Changed("block") {
				body.BlockSubjectSeconds = wholeSeconds(block)
			}
			return a.force(cmd.Context(), args[0], body, yes)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "`WHY`, for the audit trail and the worker (required)")
	cmd.Flags().DurationVar(&block, "block", 0, "also refuse its subject every new grant for `TIME`")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

func (a *app) force(ctx context.Context, id string, body api.ForceReleaseRequest, yes bool) error {
	call, err := a.caller()
	if err != nil {
		return err
	}
	hold, at, err := call.heldNow(ctx, id)
	if err != nil {
		return err
	}
	a.say("%s", strings.TrimRight(holdTable([]api.Reservation{hold}, at).render("  "), "\n"))
	if !yes {
		if err := a.confirm("End it?"); err != nil {
			return err
		}
	}
	ended, at, err := call.forceEnd(ctx, hold, body)
	if err != nil {
		return err
	}
	if body.BlockSubjectSeconds != nil {
		subject := quoted(ended.Subject.Kind + ":" + ended.Subject.ID)
		a.say("%s is refused for %s; lift it: holdfast limits unblock %s", subject, seconds(*body.BlockSubjectSeconds), subject)
	}
	return a.emit(ended, func() string { return holdText(ended, at) }, func() []string { return []string{ended.ID} })
}

// heldNow reads a hold that is to be ended. Errors: as do; one that is not held any more.
func (c *caller) heldNow(ctx context.Context, id string) (hold api.Reservation, at time.Time, err error) {
	got, err := c.do(ctx, act{method: http.MethodGet, path: of(id, ""), into: &hold})
	if err == nil && hold.State != api.StateHeld {
		err = fail(exitChanged, "%s is not held: it was %s", id, hold.State).next("how it ended", "holdfast holds get "+id)
	}
	return hold, got.at, err
}

// forceEnd ends the hold that was seen, by its fence.
func (c *caller) forceEnd(ctx context.Context, seen api.Reservation, body api.ForceReleaseRequest) (ended api.Reservation, at time.Time, err error) {
	body.Fence = seen.Fence
	path := "/admin/v1/reservations/" + url.PathEscape(seen.ID) + "/force-release"
	got, err := c.do(ctx, act{method: http.MethodPost, path: path, admin: true, body: body, into: &ended})
	return ended, got.at, err
}

// confirm asks on a terminal. Off a terminal nobody is there to ask.
func (a *app) confirm(question string) error {
	if !terminal(a.stdin) {
		return usage("nobody is there to ask").next("without asking", "repeat with --yes")
	}
	fmt.Fprintf(a.stderr, "%s [y/N] ", question)
	answer, err := bufio.NewReader(a.stdin).ReadString('\n')
	if err != nil || !strings.HasPrefix(strings.ToLower(strings.TrimSpace(answer)), "y") {
		return fail(exitFailed, "nothing was done")
	}
	return nil
}
