package main

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/api"
)

func (a *app) limitsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "limits",
		Short: "See and change limits",
		Example: "  holdfast limits ls\n" +
			"  holdfast limits create --name \"Exports at once\" --id exports --subject-kind user --action export --amount 3 --window concurrent\n" +
			"  holdfast limits override exports user:u_42 --amount 10 --for 2h --reason \"month end\"",
		Args: cobra.ArbitraryArgs,
		RunE: noCommand,
	}
	cmd.AddCommand(
		a.limitsListCommand(), a.limitsGetCommand(), a.limitsCreateCommand(), a.limitsEditCommand(), a.limitsDeleteCommand(),
		a.limitsPauseCommand(), a.limitsResumeCommand(), a.limitsOverrideCommand(), a.limitsResetCommand(), a.limitsUnblockCommand(),
		a.limitsPlanCommand(), a.limitsApplyCommand(), a.limitsExportCommand(), a.limitsSchemaCommand(),
	)
	return cmd
}

func (a *app) limitsListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "List the limits",
		Example: "  holdfast limits ls\n  holdfast limits ls -o yaml",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			call, err := a.caller()
			if err != nil {
				return err
			}
			page, _, err := listAll[api.Limit](cmd.Context(), call, "/v1/limits", url.Values{})
			if err != nil {
				return err
			}
			if len(page.Data) == 0 {
				a.say("there are no limits yet; make one: holdfast limits create --help")
			}
			return a.emit(page, func() string { return limitTable(page.Data).render("") }, func() []string { return limitIDs(page.Data) })
		},
	}
}

func (a *app) limitsGetCommand() *cobra.Command {
	return &cobra.Command{
		Use: "get ID", Short: "Show one limit",
		Example: "  holdfast limits get exports\n  holdfast limits get exports -o yaml",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			call, err := a.caller()
			if err != nil {
				return err
			}
			limit, _, err := getLimit(cmd.Context(), call, args[0])
			if err != nil {
				return err
			}
			return a.emitLimit(limit)
		},
	}
}

func (a *app) limitsDeleteCommand() *cobra.Command {
	return &cobra.Command{
		Use: "delete ID", Short: "Delete a limit; its holds live on, its counts go",
		Example: "  holdfast limits delete exports",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			call, err := a.caller()
			if err != nil {
				return err
			}
			_, etag, err := getLimit(cmd.Context(), call, args[0])
			if err != nil {
				return err
			}
			if _, err := call.do(cmd.Context(), act{method: http.MethodDelete, path: limitPath(args[0]), ifMatch: etag}); err != nil {
				return err
			}
			a.say("deleted %s", args[0])
			return a.emit(map[string]any{"id": args[0], "deleted": true}, func() string { return "" }, func() []string { return args })
		},
	}
}

func (a *app) limitsPauseCommand() *cobra.Command {
	var reason string
	var until ending
	cmd := &cobra.Command{
		Use: "pause ID", Short: "Refuse every new grant under a limit; holds go on",
		Example: "  holdfast limits pause exports --reason \"storage is moved\" --for 30m",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			patch := map[string]any{"paused": true, "pauseReason": nil, "pausedUntil": nil}
			if reason != "" {
				patch["pauseReason"] = reason
			}
			at, err := until.at(cmd.Flags(), a.now())
			if err != nil {
				return err
			}
			if at != nil {
				patch["pausedUntil"] = at
			}
			return a.patchLimit(cmd.Context(), args[0], patch)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "tell `WHY` to those who are refused")
	until.register(cmd.Flags(), "go on by itself")
	return cmd
}

func (a *app) limitsResumeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "resume ID", Short: "End a pause",
		Example: "  holdfast limits resume exports",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.patchLimit(cmd.Context(), args[0], map[string]any{"paused": false, "pauseReason": nil, "pausedUntil": nil})
		},
	}
}

func (a *app) limitsResetCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "reset ID [SUBJECT]", Short: "Set what a limit has counted to zero; holds stay",
		Example: "  holdfast limits reset calls user:u_42 --reason \"our own test ran wild\"\n  holdfast limits reset calls --reason \"new month agreed\"     # everybody's",
		Args:    args(cobra.RangeArgs(1, 2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			body := api.ResetRequest{Reason: reason}
			if reason == "" {
				return usage("a reset needs a reason: it goes into the audit trail").next("written as", "holdfast limits reset "+args[0]+" --reason WHY")
			}
			if len(args) > 1 {
				subject, err := subjectArg(args[1])
				if err != nil {
					return err
				}
				body.Subject = subject
			}
			call, err := a.caller()
			if err != nil {
				return err
			}
			var limit api.Limit
			one := act{method: http.MethodPost, path: limitPath(args[0]) + "/reset", body: body, repeatable: true, into: &limit}
			if _, err := call.do(cmd.Context(), one); err != nil {
				return meantLimit(cmd.Context(), call, args[0], err)
			}
			a.say("reset %s", strings.Join(args, " for "))
			if !a.asJSON {
				return nil
			}
			return a.emit(limit, nil, nil)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "`WHY`, for the audit trail (required)")
	return cmd
}

func (a *app) limitsUnblockCommand() *cobra.Command {
	return &cobra.Command{
		Use: "unblock SUBJECT", Short: "Lift the block that a force-release put on a subject",
		Example: "  holdfast limits unblock user:u_42",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			subject, err := subjectArg(args[0])
			if err != nil {
				return err
			}
			call, err := a.caller()
			if err != nil {
				return err
			}
			_, err = call.do(cmd.Context(), act{method: http.MethodDelete, path: subjectPath(subject) + "/block"})
			if problem, ok := errors.AsType[*api.Problem](err); ok && problem.Code == api.NotFound {
				return fail(exitNotFound, "%s is not blocked", args[0]).next("what holds it back", "holdfast check ACTION "+quoted(args[0]))
			}
			if err != nil {
				return err
			}
			a.say("%s is granted again", args[0])
			return a.emit(map[string]any{"subject": subject, "unblocked": true}, func() string { return "" }, func() []string { return args })
		},
	}
}

// patchLimit merges a change into a limit as it stands.
func (a *app) patchLimit(ctx context.Context, id string, patch map[string]any) error {
	call, _, etag, err := a.limitToChange(ctx, id)
	if err != nil {
		return err
	}
	var changed api.Limit
	if _, err := call.do(ctx, act{method: http.MethodPatch, path: limitPath(id), body: patch, ifMatch: etag, into: &changed}); err != nil {
		return err
	}
	return a.emitLimit(changed)
}

// limitToChange is a limit as it stands, and the ETag to change it with.
func (a *app) limitToChange(ctx context.Context, id string) (*caller, api.Limit, string, error) {
	call, err := a.caller()
	if err != nil {
		return nil, api.Limit{}, "", err
	}
	limit, etag, err := getLimit(ctx, call, id)
	if err == nil {
		a.warnOfFile(limit)
	}
	return call, limit, etag, err
}

// warnOfFile says that an edit does not outlast the server's next start.
func (a *app) warnOfFile(l api.Limit) {
	if l.Source == sourceFile {
		a.say("warning: %s comes from a limits file, which wins over edits at the server's next start: change it there too", l.ID)
	}
}

// getLimit fetches a limit and its ETag; an id that is not there is met with the nearest one.
func getLimit(ctx context.Context, call *caller, id string) (api.Limit, string, error) {
	var limit api.Limit
	got, err := call.do(ctx, act{method: http.MethodGet, path: limitPath(id), into: &limit})
	if err != nil {
		return limit, "", meantLimit(ctx, call, id, err)
	}
	if got.etag == "" {
		got.etag = strconv.Quote(number(limit.Revision))
	}
	return limit, got.etag, nil
}

// meantLimit adds the nearest limit to an error that says there is none of that id.
func meantLimit(ctx context.Context, call *caller, id string, err error) error {
	problem, ok := errors.AsType[*api.Problem](err)
	if !ok || problem.Code != api.NotFound {
		return err
	}
	failed := fail(exitNotFound, "there is no limit %q", id)
	page, _, listing := listAll[api.Limit](ctx, call, "/v1/limits", url.Values{})
	if listing == nil {
		if near := nearest(id, limitIDs(page.Data)); near != "" {
			failed.next("did you mean", near)
		}
	}
	return failed.next("all limits", "holdfast limits ls")
}
