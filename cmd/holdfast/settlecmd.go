package main

import (
	"context"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/api"
)

// settleVerb is what extend, commit and release have in common: one id, one body, one hold back.
func (a *app) settleVerb(ctx context.Context, id, verb string, body any) error {
	call, err := a.caller()
	if err != nil {
		return err
	}
	var hold api.Reservation
	got, err := call.do(ctx, act{method: http.MethodPost, path: of(id, verb), body: body, repeatable: true, into: &hold})
	if err != nil {
		return err
	}
	return a.emit(hold, func() string { return holdText(hold, got.at) }, func() []string { return []string{hold.ID} })
}

func (a *app) extendCommand() *cobra.Command {
	var ttl time.Duration
	cmd := &cobra.Command{
		Use:     "extend ID",
		Short:   "Let a hold last longer, counted from now",
		Example: "  holdfast extend rsv_06C8Q4M2\n  holdfast extend rsv_06C8Q4M2 --ttl 10m",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			var body api.ExtendRequest
			if cmd.Flags().Changed("ttl") {
				body.TTLSeconds = wholeSeconds(ttl)
			}
			return a.settleVerb(cmd.Context(), args[0], "extend", body)
		},
	}
	cmd.Flags().DurationVar(&ttl, "ttl", 0, "let it last `TIME` from now (default: as before)")
	return cmd
}

func (a *app) commitCommand() *cobra.Command {
	var cost int64
	cmd := &cobra.Command{
		Use:     "commit ID",
		Short:   "End a hold and keep what it was charged",
		Example: "  holdfast commit rsv_06C8Q4M2\n  holdfast commit rsv_06C8Q4M2 --cost 12     # it took more, or less, than thought",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			var body api.CommitRequest
			if cmd.Flags().Changed("cost") {
				body.Cost = &cost
			}
			return a.settleVerb(cmd.Context(), args[0], "commit", body)
		},
	}
	cmd.Flags().Int64Var(&cost, "cost", 0, "charge `N` in the end (default: what was reserved)")
	return cmd
}

func (a *app) releaseCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:     "release ID",
		Short:   "End a hold and refund what it was charged",
		Example: "  holdfast release rsv_06C8Q4M2\n  holdfast release rsv_06C8Q4M2 --reason \"source was away\"",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.settleVerb(cmd.Context(), args[0], "release", api.ReleaseRequest{Reason: reason})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "remember `WHY`")
	return cmd
}
