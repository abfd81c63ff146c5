package main

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/api"
)

func (a *app) waitersCommand() *cobra.Command {
	list := func(cmd *cobra.Command, _ []string) error { return a.listWaiters(cmd.Context()) }
	cmd := &cobra.Command{
		Use:   "waiters",
		Short: "Show who waits in line, and end a wait",
		Example: "  holdfast waiters                       # your own; all with the scope holds:read\n" +
			"  holdfast waiters cancel wtr_06C8Q4M2",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return noCommand(cmd, args)
			}
			return list(cmd, args)
		},
	}
	cmd.AddCommand(&cobra.Command{
		Use: "ls", Short: "List who waits in line, who came first first", Example: "  holdfast waiters ls -o json",
		Args: args(cobra.NoArgs), RunE: list,
	}, &cobra.Command{
		Use: "cancel ID", Short: "End a wait: its caller is refused, and told why", Example: "  holdfast waiters cancel wtr_06C8Q4M2",
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			call, err := a.caller()
			if err != nil {
				return err
			}
			_, err = call.do(cmd.Context(), act{method: http.MethodDelete, path: "/v1/waiters/" + url.PathEscape(args[0])})
			if err == nil {
				a.say("%s waits no more", args[0])
			}
			return err
		},
	})
	return cmd
}

func (a *app) listWaiters(ctx context.Context) error {
	call, err := a.caller()
	if err != nil {
		return err
	}
	page, at, err := listAll[api.Waiter](ctx, call, "/v1/waiters", url.Values{})
	if err != nil {
		return err
	}
	if len(page.Data) == 0 {
		a.say("nobody waits here")
	}
	return a.emit(page, func() string {
		if len(page.Data) == 0 {
			return ""
		}
		return waiterTable(page.Data, at).render("")
	}, func() []string {
		ids := make([]string, len(page.Data))
		for i, w := range page.Data {
			ids[i] = w.ID
		}
		return ids
	})
}

func waiterTable(waiters []api.Waiter, at time.Time) *table {
	t := newTable("WAITER", "LIMIT", "SUBJECT", "PLACE", "OWNER", "SINCE", "GIVES UP", "TURN")
	for _, w := range waiters {
		turn := "unknown"
		if w.EstimateSeconds != nil {
			turn = "in about " + seconds(*w.EstimateSeconds)
		}
		t.row(w.ID, w.Limit, w.Subject.Kind+":"+w.Subject.ID, number(w.Place), owner(w.Owner),
			short(at.Sub(w.Since.Time)), "in "+short(w.GivesUpAt.Sub(at)), turn)
	}
	return t
}
