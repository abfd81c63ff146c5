package main

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-dev/holdfast/api"
)

// ending is when something is to end by itself: after a while, or at an instant.
type ending struct {
	after time.Duration
	until string
}

func (e *ending) register(flags *pflag.FlagSet, what string) {
	flags.DurationVar(&e.after, "for", 0, what+" after `TIME`")
	flags.StringVar(&e.until, "until", "", what+" at `INSTANT` (RFC 3339, such as 2030-01-31T18:00:00Z)")
}

// given reports whether either flag is there.
func (e *ending) given(flags *pflag.FlagSet) bool {
	return flags.Changed("for") || flags.Changed("until")
}

// at is the instant, nil for never: when neither flag is there. A length of 0 is refused, it
// must not mean "without end".
func (e *ending) at(flags *pflag.FlagSet, now time.Time) (*api.Time, error) {
	switch {
	case flags.Changed("for") && e.until != "":
		return nil, usage("give --for or --until, not both").next("for example", "--for 30m")
	case flags.Changed("for") && e.after <= 0:
		return nil, usage("--for must be above 0").next("for example", "--for 30m")
	case e.after > 0:
		return api.AtPtr(now.Add(e.after)), nil
	case e.until == "":
		return nil, nil
	}
	at, err := time.Parse(time.RFC3339, e.until)
	if err != nil {
		return nil, usage("--until %q is no RFC 3339 instant", e.until).next("for example", "--until "+now.UTC().Add(time.Hour).Format(time.RFC3339))
	}
	return api.AtPtr(at), nil
}

func (a *app) limitsOverrideCommand() *cobra.Command {
	var amount, reason string
	var until ending
	var remove bool
	cmd := &cobra.Command{
		Use:   "override ID [SUBJECT]",
		Short: "Put another amount in place of a limit's own, for a subject or for everyone; without flags: show it",
		Example: "  holdfast limits override exports user:u_42 --amount 10 --for 2h --reason \"month end\"\n" +
			"  holdfast limits override exports user:u_42 --amount unlimited\n" +
			"  holdfast limits override exports user:u_42                    # show it\n" +
			"  holdfast limits override exports --amount 1 --for 30m         # everyone\n" +
			"  holdfast limits override exports                              # all that are in force\n" +
			"  holdfast limits override exports user:u_42 --remove",
		Args: args(cobra.RangeArgs(1, 2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := overridePath(args)
			if err != nil {
				return err
			}
			switch {
			case remove && amount != "":
				return usage("give --amount or --remove, not both").next("help", "holdfast limits override --help")
			case remove:
				return a.removeOverride(cmd.Context(), args[0], path)
			case amount == "" && (reason != "" || until.given(cmd.Flags())):
				return usage("say what to put in place of the limit's amount").next("written as", "holdfast limits override "+strings.Join(args, " ")+" --amount N")
			case amount == "" && len(args) == 1:
				return a.listOverrides(cmd.Context(), args[0])
			case amount == "":
				return a.override(cmd.Context(), args[0], act{method: http.MethodGet, path: path})
			}
			input := api.OverrideInput{Reason: reason}
			if input.Amount, err = overrideAmount(amount); err != nil {
				return err
			}
			if input.Until, err = until.at(cmd.Flags(), a.now()); err != nil {
				return err
			}
			return a.override(cmd.Context(), args[0], act{method: http.MethodPut, path: path, body: input, repeatable: true})
		},
	}
	cmd.Flags().StringVar(&amount, "amount", "", "the `N` in force meanwhile, or unlimited")
	cmd.Flags().StringVar(&reason, "reason", "", "remember `WHY`")
	cmd.Flags().BoolVar(&remove, "remove", false, "end it now")
	until.register(cmd.Flags(), "end by itself")
	return cmd
}

// listOverrides shows what is in force for a limit: everyone's first, then by subject.
func (a *app) listOverrides(ctx context.Context, id string) error {
	call, err := a.caller()
	if err != nil {
		return err
	}
	page, _, err := listAll[api.Override](ctx, call, limitPath(id)+"/overrides", url.Values{})
	if err != nil {
		return meantLimit(ctx, call, id, err)
	}
	if len(page.Data) == 0 {
		a.say("no override of %s is in force", id)
	}
	return a.emit(page, func() string {
		if len(page.Data) == 0 {
			return ""
		}
		return overrideTable(page.Data...).render("")
	}, func() []string {
		names := make([]string, len(page.Data))
		for i, o := range page.Data {
			names[i] = overrideSubject(o)
		}
		return names
	})
}

// overrideSubject is whom an override is for, in a word.
func overrideSubject(o api.Override) string {
	if o.Subject == nil {
		return "everyone"
	}
	return o.Subject.Kind + ":" + o.Subject.ID
}

func overridePath(args []string) (string, error) {
	if len(args) == 1 {
		return limitPath(args[0]) + "/override", nil
	}
	subject, err := subjectArg(args[1])
	if err != nil {
		return "", err
	}
	return limitPath(args[0]) + "/overrides/" + url.PathEscape(subject.Kind) + "/" + url.PathEscape(subject.ID), nil
}

func overrideAmount(raw string) (api.Nullable[int64], error) {
	if raw == "unlimited" {
		return api.Null[int64](), nil
	}
	n, err := strconv.ParseInt(raw, 10, 64)
	if err != nil {
		return api.Nullable[int64]{}, usage("--amount %q is neither a whole number nor unlimited", raw).next("for example", "--amount 10")
	}
	return api.Val(n), nil
}

func (a *app) override(ctx context.Context, id string, one act) error {
	call, err := a.caller()
	if err != nil {
		return err
	}
	var o api.Override
	one.into = &o
	if _, err := call.do(ctx, one); err != nil {
		return a.meantOverride(ctx, call, id, err)
	}
	return a.emit(o, func() string { return overrideTable(o).render("") }, func() []string { return []string{o.Limit} })
}

// meantOverride tells a limit that is not there from an override that is not there.
func (a *app) meantOverride(ctx context.Context, call *caller, id string, err error) error {
	if exitOf(ctx, err) != exitNotFound {
		return err
	}
	if _, _, missing := getLimit(ctx, call, id); missing != nil {
		return missing
	}
	return fail(exitNotFound, "%s has no such override", id).next("the limit", "holdfast limits get "+id)
}

func (a *app) removeOverride(ctx context.Context, id, path string) error {
	call, err := a.caller()
	if err != nil {
		return err
	}
	if _, err := call.do(ctx, act{method: http.MethodDelete, path: path}); err != nil {
		return a.meantOverride(ctx, call, id, err)
	}
	a.say("removed: the limit's own amount is in force again")
	return nil
}

func overrideTable(all ...api.Override) *table {
	t := newTable("LIMIT", "SUBJECT", "IN FORCE", "OWN AMOUNT", "OVERRIDE", "ENDS", "BY", "REASON")
	for _, o := range all {
		ends := "never"
		if o.EndsInSeconds != nil {
			ends = "in " + seconds(*o.EndsInSeconds)
		} else if o.Until != nil {
			ends = o.Until.UTC().Format(time.RFC3339)
		}
		t.row(o.Limit, overrideSubject(o), orUnlimited(o.Current), number(o.Base), orUnlimited(o.Override), ends, o.By, o.Reason)
	}
	return t
}

func orUnlimited(n *int64) string {
	if n == nil {
		return "unlimited"
	}
	return number(*n)
}
