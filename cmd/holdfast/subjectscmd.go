package main

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/api"
)

func (a *app) subjectsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "subjects",
		Short: "See all that concerns one subject, and give it a plan",
		Example: "  holdfast subjects get org:acme\n" +
			"  holdfast subjects plan org:acme pro\n" +
			"  holdfast limits override exports org:acme --amount 10 --for 2h    # one exception, above its plan",
		Args: cobra.ArbitraryArgs,
		RunE: noCommand,
	}
	cmd.AddCommand(a.subjectsGetCommand(), a.subjectsPlanCommand())
	return cmd
}

func subjectPath(s *api.Subject) string {
	return "/v1/subjects/" + url.PathEscape(s.Kind) + "/" + url.PathEscape(s.ID)
}

func (a *app) subjectsGetCommand() *cobra.Command {
	return &cobra.Command{
		Use: "get SUBJECT", Short: "Show a subject's use of every limit, its holds, who of it waits, and its block",
		Example: "  holdfast subjects get user:u_42\n  holdfast subjects get user:u_42 -o json",
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
			var view api.SubjectView
			got, err := call.do(cmd.Context(), act{method: http.MethodGet, path: subjectPath(subject), into: &view})
			if err != nil {
				return err
			}
			return a.emit(view, func() string { return subjectText(&view, got.at) }, func() []string { return args })
		},
	}
}

// subjectText is a subject as people read it: what there is none of is left out.
func subjectText(v *api.SubjectView, at time.Time) string {
	var parts []string
	if v.BlockedForSeconds != nil {
		parts = append(parts, "blocked for "+seconds(*v.BlockedForSeconds)+"\n")
	}
	if len(v.Limits) > 0 {
		parts = append(parts, standTable(v.Limits).render(""))
	}
	if len(v.Holds) > 0 {
		parts = append(parts, holdTable(v.Holds, at).render(""))
	}
	if len(v.Waiters) > 0 {
		parts = append(parts, waiterTable(v.Waiters, at).render(""))
	}
	if len(parts) == 0 {
		return "no limit counts it, and it holds nothing\n"
	}
	return strings.Join(parts, "\n")
}

// standTable shows how far each limit is used; nobody has asked for anything.
func standTable(verdicts []api.Verdict) *table {
	t := newTable("LIMIT", "WINDOW", "AMOUNT", "USED", "LEFT", "STATE")
	for _, v := range verdicts {
		amount, left, state := number(v.Amount), number(v.Remaining), "on"
		switch {
		case v.Unlimited:
			amount, left = "unlimited", "unlimited"
		case v.Remaining == 0:
			state = "full"
		}
		if v.Paused {
			state = "paused"
		}
		t.row(v.ID, windowWords(v.Window, v.Rolling), amount, number(v.Used), left, state)
	}
	return t
}

func (a *app) subjectsPlanCommand() *cobra.Command {
	var remove bool
	cmd := &cobra.Command{
		Use:   "plan SUBJECT [PLAN]",
		Short: "Give a subject a plan of the limits file; without PLAN: show the one it has",
		Long: "Give a subject a plan of the limits file that was applied last in the token's tenant; without\n" +
			"PLAN: show the one it has. An override for the subject stands above its plan.",
		Example: "  holdfast subjects plan org:acme pro\n" +
			"  holdfast subjects plan org:acme             # show it\n" +
			"  holdfast subjects plan org:acme --remove",
		Args: args(cobra.RangeArgs(1, 2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			subject, err := subjectArg(args[0])
			if err != nil {
				return err
			}
			if remove && len(args) > 1 {
				return usage("give PLAN or --remove, not both").next("help", "holdfast subjects plan --help")
			}
			call, err := a.caller()
			if err != nil {
				return err
			}
			path := subjectPath(subject) + "/plan"
			switch {
			case remove:
				return a.removePlan(cmd.Context(), call, args[0], path)
			case len(args) == 1:
				return a.subjectPlan(cmd.Context(), call, args[0], act{method: http.MethodGet, path: path})
			}
			return a.subjectPlan(cmd.Context(), call, args[0], act{
				method: http.MethodPut, path: path, body: api.SubjectPlanInput{Plan: args[1]}, repeatable: true,
			})
		},
	}
	cmd.Flags().BoolVar(&remove, "remove", false, "take its plan away")
	return cmd
}

func (a *app) subjectPlan(ctx context.Context, call *caller, subject string, one act) error {
	var plan api.SubjectPlan
	one.into = &plan
	if _, err := call.do(ctx, one); err != nil {
		return noPlan(subject, err)
	}
	if plan.Amounts == nil {
		a.say("warning: the limits file has no plan %q, so it grants nothing", plan.Plan)
	}
	return a.emit(plan, func() string {
		t := newTable("SUBJECT", "PLAN", "LIMIT", "AMOUNT", "GIVEN BY")
		for _, id := range slices.Sorted(maps.Keys(plan.Amounts)) {
			amount := "unlimited"
			if n := plan.Amounts[id].Amount; !n.Null {
				amount = number(n.Value)
			}
			t.row(subject, plan.Plan, id, amount, plan.By)
		}
		if len(plan.Amounts) == 0 {
			t.row(subject, plan.Plan, "", "", plan.By)
		}
		return t.render("")
	}, func() []string { return []string{plan.Plan} })
}

func (a *app) removePlan(ctx context.Context, call *caller, subject, path string) error {
	if _, err := call.do(ctx, act{method: http.MethodDelete, path: path}); err != nil {
		return noPlan(subject, err)
	}
	a.say("%s has no plan any more", subject)
	return nil
}

// noPlan says what to do for a subject that has none.
func noPlan(subject string, err error) error {
	if problem, ok := errors.AsType[*api.Problem](err); ok && problem.Code == api.NotFound {
		return fail(exitNotFound, "%s has no plan", subject).next("give it one", "holdfast subjects plan "+quoted(subject)+" PLAN")
	}
	return err
}
