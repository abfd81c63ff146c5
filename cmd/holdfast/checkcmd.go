package main

import (
	"context"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/api"
)

func (a *app) checkCommand() *cobra.Command {
	var q asked
	cmd := &cobra.Command{
		Use:   "check ACTION [SUBJECT]",
		Short: "Say whether it would be allowed, and by which limits; nothing is taken",
		Long:  "Say whether it would be allowed, and by which limits. Nothing is taken and nothing is charged.\nExits 0 when it would be allowed, 75 when not now, 1 when it can never fit.",
		Example: "  holdfast check export user:u_42\n" +
			"  holdfast check call user:u_42 --cost 20\n" +
			"  holdfast check export && ./export.sh",
		Args: args(cobra.RangeArgs(1, 2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := q.take(args); err != nil {
				return err
			}
			var cost *int64
			if cmd.Flags().Changed("cost") {
				cost = &q.cost
			}
			return a.check(cmd.Context(), q, cost)
		},
	}
	cmd.Flags().Int64Var(&q.cost, "cost", 1, "ask for a cost of `N`")
	return cmd
}

func (a *app) check(ctx context.Context, q asked, cost *int64) error {
	call, err := a.caller()
	if err != nil {
		return err
	}
	var answer api.CheckAnswer
	_, err = call.do(ctx, act{
		method: http.MethodPost, path: "/v1/checks", repeatable: true, into: &answer,
		body: api.CheckRequest{Subject: q.subject, Action: q.action, Mode: api.ModePreview, Cost: cost},
	})
	if err != nil {
		return err
	}
	err = a.emit(answer, func() string {
		return verdictTable(answer.Limits, answer.Code == api.SubjectBlocked).render("")
	}, func() []string {
		names := make([]string, len(answer.Limits))
		for i, l := range answer.Limits {
			names[i] = l.ID
		}
		return names
	})
	if err != nil || answer.Allowed {
		return err
	}
	return checkRefused(answer, q)
}

// checkRefused says why not, and what to do about it.
func checkRefused(answer api.CheckAnswer, q asked) *failure {
	problem := &api.Problem{Code: answer.Code, Title: answer.Code.Title(), Detail: answer.Detail}
	failed := fail(exitNoSlot, "%s", sentence(problem))
	if answer.NeverFits {
		failed.exit = exitFailed
		return failed.next("the limit", "holdfast limits get "+answer.DecidedBy)
	}
	if len(answer.Holders) > 0 {
		failed.table = holdersTable(answer.Holders).render("  ")
		failed.next("wait for one", "holdfast reserve "+q.words()+" --wait 2m")
		return failed.next("free one", "holdfast release "+answer.Holders[0].ID)
	}
	if answer.RetryAfterSeconds != nil {
		failed.next("try again in", seconds(*answer.RetryAfterSeconds))
	}
	if answer.Code == api.SubjectBlocked {
		if answer.Reason != "" {
			failed.what += " (" + answer.Reason + ")"
		}
		return failed.next("lift it", "holdfast limits unblock "+quoted(between(answer.Detail, "", " is blocked")))
	}
	return failed.next("the limit", "holdfast limits get "+answer.DecidedBy)
}

// verdictTable shows each limit's part of an answer.
func verdictTable(verdicts []api.Verdict, blocked bool) *table {
	t := newTable("LIMIT", "WINDOW", "AMOUNT", "USED", "LEFT", "ANSWER")
	for _, v := range verdicts {
		amount, left := number(v.Amount), number(v.Remaining)
		if v.Unlimited {
			amount, left = "unlimited", "unlimited"
		}
		words := verdictWords(v)
		if blocked {
			words = "no, blocked"
		}
		t.row(v.ID, windowWords(v.Window, v.Rolling), amount, number(v.Used), left, words)
	}
	return t
}

func verdictWords(v api.Verdict) string {
	switch {
	case v.Allowed:
		return "yes"
	case v.Shadow:
		return "would refuse (shadow)"
	case v.NeverFits:
		return "never fits"
	case v.Paused && v.RetryAfterSeconds == nil:
		return "no, paused"
	case v.Paused:
		return "no, paused for " + seconds(*v.RetryAfterSeconds)
	case v.RetryAfterSeconds != nil:
		return "no, in " + seconds(*v.RetryAfterSeconds)
	default:
		return "no"
	}
}

func windowWords(window string, rolling bool) string {
	if rolling {
		return "rolling " + window
	}
	return window
}
