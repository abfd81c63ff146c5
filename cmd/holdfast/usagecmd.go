package main

import (
	"context"
	"encoding/csv"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/api"
)

// Bounds of usage's table.
const (
	barWidth    = 20             // characters of the longest bar
	byDayBeyond = 48 * time.Hour // a longer time is told by day unless --step says otherwise
)

func (a *app) usageCommand() *cobra.Command {
	var limit, subject, step string
	var since time.Duration
	var asCSV bool
	cmd := &cobra.Command{
		Use:   "usage",
		Short: "Show what limits did, by hour or day",
		Long: "Show how many reservations began, were refused and ended how, for each limit by hour or by day\n" +
			"(UTC). Hours are kept for 32 days, by subject for 7. Without the scope holds:read: your own.",
		Example: "  holdfast usage\n" +
			"  holdfast usage --limit exports --since 168h\n" +
			"  holdfast usage --subject user:u_42 --step hour\n" +
			"  holdfast usage --since 720h --csv >usage.csv",
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if since <= 0 {
				return usage("--since must be above 0").next("for example", "--since 24h")
			}
			if step == "" {
				if step = "hour"; since > byDayBeyond {
					step = "day"
				}
			}
			query := url.Values{"step": {step}, "from": {a.now().Add(-since).UTC().Format(time.RFC3339Nano)}}
			if limit != "" {
				query.Set("limit", limit)
			}
			if subject != "" {
				s, err := subjectArg(subject)
				if err != nil {
					return err
				}
				query.Set("subject", s.Kind+":"+s.ID)
			}
			return a.showUsage(cmd.Context(), query, limit, asCSV)
		},
	}
	cmd.Flags().StringVar(&limit, "limit", "", "only the limit `ID`")
	cmd.Flags().StringVar(&subject, "subject", "", "only what `KIND:ID` did")
	cmd.Flags().DurationVar(&since, "since", 24*time.Hour, "of the last `TIME`")
	cmd.Flags().StringVar(&step, "step", "", "`STEP` is hour or day; unless given, day beyond 48 hours")
	cmd.Flags().BoolVar(&asCSV, "csv", false, "as comma-separated values, with a header")
	return cmd
}

func (a *app) showUsage(ctx context.Context, query url.Values, limit string, asCSV bool) error {
	call, err := a.caller()
	if err != nil {
		return err
	}
	all, err := usageHistory(ctx, call, query)
	if err != nil {
		if limit != "" {
			return meantLimit(ctx, call, limit, err)
		}
		return err
	}
	if all.Complete != nil && !*all.Complete {
		a.say("more subjects came than are told apart: figures may be too low")
	}
	if asCSV {
		return a.usageCSV(all.Data)
	}
	if len(all.Data) == 0 {
		a.say("nothing was done in that time")
	}
	return a.emit(all, func() string {
		if len(all.Data) == 0 {
			return ""
		}
		return usageTable(all.Data).render("")
	}, func() []string {
		var names []string
		for _, u := range all.Data {
			if len(names) == 0 || names[len(names)-1] != u.Limit {
				names = append(names, u.Limit)
			}
		}
		return names
	})
}

// usageHistory follows the list to its end, or to maxRows. It is complete only if every page is.
func usageHistory(ctx context.Context, call *caller, query url.Values) (all api.UsageHistory, err error) {
	query.Set("pageSize", "500")
	all.Data = []api.Usage{}
	for {
		var page api.UsageHistory
		if _, err := call.do(ctx, act{method: http.MethodGet, path: "/v1/usage", query: query, into: &page}); err != nil {
			return all, err
		}
		all.Data, all.NextCursor = append(all.Data, page.Data...), page.NextCursor
		if all.Complete == nil || page.Complete != nil && !*page.Complete {
			all.Complete = page.Complete
		}
		if page.NextCursor == nil {
			return all, nil
		}
		if len(all.Data) >= maxRows {
			call.app.say("there are more than %d; narrow it down", maxRows)
			return all, nil
		}
		query.Set("cursor", *page.NextCursor)
	}
}

// usageTable shows each row with a bar for what began, against the most of any row of its limit.
func usageTable(rows []api.Usage) *table {
	most := map[string]int64{}
	for _, u := range rows {
		most[u.Limit] = max(most[u.Limit], u.Started)
	}
	t := newTable("LIMIT", "FROM", "STARTED", "", "REFUSED", "COMMITTED", "RELEASED", "EXPIRED", "FORCED", "CHARGED")
	for _, u := range rows {
		from := u.From.UTC().Format("2006-01-02 15:04")
		if u.To.Sub(u.From.Time) >= 24*time.Hour {
			from = u.From.UTC().Format(time.DateOnly)
		}
		t.row(u.Limit, from, number(u.Started), bar(u.Started, most[u.Limit]), number(u.Refused), number(u.Committed),
			number(u.Released), number(u.Expired), number(u.Forced), number(u.Charged))
	}
	return t
}

// bar is n of most; what is not nothing is seen.
func bar(n, most int64) string {
	if n <= 0 || most <= 0 {
		return ""
	}
	width := int(float64(n) / float64(most) * barWidth)
	return strings.Repeat("█", max(1, min(width, barWidth)))
}

func (a *app) usageCSV(rows []api.Usage) error {
	out := csv.NewWriter(a.stdout)
	_ = out.Write([]string{"limit", "from", "to", "started", "refused", "committed", "released", "expired", "forced", "charged"}) // Error tells
	for _, u := range rows {
		_ = out.Write([]string{
			u.Limit, u.From.UTC().Format(time.RFC3339), u.To.UTC().Format(time.RFC3339), number(u.Started), number(u.Refused), number(u.Committed),
			number(u.Released), number(u.Expired), number(u.Forced), number(u.Charged),
		})
	}
	out.Flush()
	return out.Error()
}
