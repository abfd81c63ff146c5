package main

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/api"
)

func (a *app) auditCommand() *cobra.Command {
	var actor, act, target string
	var since time.Duration
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show who changed, freed or ran what, the latest first",
		Long: "Show the audit trail: each change of a limit or an override, each reset, pause, force-release,\n" +
			"lifted block, job run by hand and move of the test clock, with who did it, from where, and why.\n" +
			"It needs the scope audit:read.",
		Example: "  holdfast audit\n" +
			"  holdfast audit --target exports --since 24h\n" +
			"  holdfast audit --actor user:dana -o json",
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := url.Values{}
			for name, value := range map[string]string{"actor": actor, "act": act, "target": target} {
				if value != "" {
					query.Set(name, value)
				}
			}
			if cmd.Flags().Changed("since") {
				if since <= 0 {
					return usage("--since must be above 0").next("for example", "--since 24h")
				}
				query.Set("from", a.now().Add(-since).UTC().Format(time.RFC3339Nano))
			}
			return a.listAudit(cmd.Context(), query)
		},
	}
	cmd.Flags().StringVar(&actor, "actor", "", "only what `KIND:ID` did")
	cmd.Flags().StringVar(&act, "act", "", "only this `ACT`, such as limit.change")
	cmd.Flags().StringVar(&target, "target", "", "only what was done to `TARGET`: a limit (its overrides too), kind:id, a reservation, a job")
	cmd.Flags().DurationVar(&since, "since", 0, "only what was done within the last `TIME`")
	return cmd
}

func (a *app) listAudit(ctx context.Context, query url.Values) error {
	call, err := a.caller()
	if err != nil {
		return err
	}
	page, err := auditPage(ctx, call, query)
	if err != nil {
		return err
	}
	if len(page.Data) == 0 {
		a.say("nothing of the kind was done")
	}
	return a.emit(page, func() string {
		if len(page.Data) == 0 {
			return ""
		}
		t := newTable("AT", "ACTOR", "ACT", "TARGET", "CHANGE", "REASON", "FROM")
		for _, l := range page.Data {
			t.row(l.At.UTC().Format(time.RFC3339), l.Actor, l.Act, l.Target, changeText(l.Before, l.After), l.Reason, l.Address)
		}
		return t.render("")
	}, func() []string {
		targets := make([]string, len(page.Data))
		for i, l := range page.Data {
			targets[i] = l.Target
		}
		return targets
	})
}

// auditPage follows the trail, which the admin listener serves, to its end.
func auditPage(ctx context.Context, call *caller, query url.Values) (api.AuditPage, error) {
	page, _, err := listAllOf[api.AuditLine](ctx, call, act{path: "/admin/v1/audit", admin: true, query: query})
	return page, err
}

// changeText says in a line what an act changed: the names that have another value now. What
// has come or gone as a whole is told by its act.
func changeText(before, after json.RawMessage) string {
	var was, is map[string]json.RawMessage
	if json.Unmarshal(before, &was) != nil || json.Unmarshal(after, &is) != nil || was == nil || is == nil {
		return ""
	}
	var parts []string
	for name, now := range is {
		if old, there := was[name]; there && string(old) != string(now) {
			parts = append(parts, name+" "+string(old)+" → "+string(now))
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
