package main

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/api"
)

// maxRows bounds how much of a list is fetched and shown.
const maxRows = 10_000

func (a *app) holdsCommand() *cobra.Command {
	query := map[string]*string{}
	list := func(cmd *cobra.Command, _ []string) error { return a.listHolds(cmd.Context(), query) }
	cmd := &cobra.Command{
		Use:   "holds",
		Short: "Show who holds what (the same as holds ls)",
		Example: "  holdfast holds\n" +
			"  holdfast holds --limit exports --sort expiring\n" +
			"  holdfast holds get rsv_06C8Q4M2",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return noCommand(cmd, args)
			}
			return list(cmd, args)
		},
	}
	ls := &cobra.Command{
		Use: "ls", Short: "Show who holds what",
		Example: "  holdfast holds ls --subject user:u_42\n  holdfast holds ls -o name | xargs -n1 holdfast release",
		Args:    args(cobra.NoArgs), RunE: list,
	}
	get := &cobra.Command{
		Use: "get ID", Short: "Show one reservation, held or ended",
		Example: "  holdfast holds get rsv_06C8Q4M2 -o json",
		Args:    args(cobra.ExactArgs(1)),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.getHold(cmd.Context(), args[0]) },
	}
	for _, c := range []*cobra.Command{cmd, ls} {
		for name, help := range map[string]string{
			"limit": "only holds under the limit `ID`", "subject": "only holds of `KIND:ID`", "owner": "only holds of the owner `NAME`",
			"host": "only holds of owners on `HOST`", "action": "only holds for `ACTION`",
			"state": "holds in `STATE`: held, committed, released, expired or forced", "sort": "`ORDER`: oldest, expiring or newest",
		} {
			if query[name] == nil {
				query[name] = new(string)
			}
			c.Flags().StringVar(query[name], name, "", help)
		}
	}
	cmd.AddCommand(ls, get, a.watchCommand())
	return cmd
}

func (a *app) listHolds(ctx context.Context, query map[string]*string) error {
	values := url.Values{}
	for name, value := range query {
		if *value != "" {
			values.Set(name, *value)
		}
	}
	call, err := a.caller()
	if err != nil {
		return err
	}
	page, at, err := listAll[api.Reservation](ctx, call, "/v1/reservations", values)
	if err != nil {
		return err
	}
	if limit := *query["limit"]; len(page.Data) == 0 && limit != "" {
		// A limit that is not there holds nothing either: say which it is.
		if _, _, err := getLimit(ctx, call, limit); err != nil && exitOf(ctx, err) == exitNotFound {
			return err
		}
	}
	if len(page.Data) == 0 {
		a.say("nobody holds anything here")
	}
	return a.emit(page, func() string {
		if len(page.Data) == 0 {
			return ""
		}
		return holdTable(page.Data, at).render("")
	}, func() []string {
		ids := make([]string, len(page.Data))
		for i, hold := range page.Data {
			ids[i] = hold.ID
		}
		return ids
	})
}

// listAll follows a list to its end, or to maxRows. at is the server's clock at the last page.
func listAll[T any](ctx context.Context, call *caller, path string, query url.Values) (all api.Page[T], at time.Time, err error) {
	return listAllOf[T](ctx, call, act{path: path, query: query})
}

// listAllOf is listAll for a list that needs more than a path and a query.
func listAllOf[T any](ctx context.Context, call *caller, one act) (all api.Page[T], at time.Time, err error) {
	one.method = http.MethodGet
	one.query.Set("pageSize", "500")
	all.Data = []T{}
	for {
		var page api.Page[T]
		one.into = &page
		got, err := call.do(ctx, one)
		if err != nil {
			return all, at, err
		}
		all.Data, at = append(all.Data, page.Data...), got.at
		all.NextCursor = page.NextCursor
		if page.NextCursor == nil {
			return all, at, nil
		}
		if len(all.Data) >= maxRows {
			call.app.say("there are more than %d; narrow it down", maxRows)
			return all, at, nil
		}
		one.query.Set("cursor", *page.NextCursor)
	}
}

func (a *app) getHold(ctx context.Context, id string) error {
	call, err := a.caller()
	if err != nil {
		return err
	}
	var hold api.Reservation
	got, err := call.do(ctx, act{method: http.MethodGet, path: of(id, ""), into: &hold})
	if err != nil {
		return err
	}
	return a.emit(hold, func() string { return holdText(hold, got.at) }, func() []string { return []string{hold.ID} })
}

// holdText shows one reservation, and when it has ended how.
func holdText(h api.Reservation, at time.Time) string {
	text := holdTable([]api.Reservation{h}, at).render("")
	if h.State == api.StateHeld || h.EndedAt == nil {
		return text
	}
	figure := func(n *int64) string {
		if n == nil {
			return ""
		}
		return number(*n)
	}
	t := newTable("ENDED", "AT", "AGO", "BY", "CHARGED", "REFUNDED", "NOTE")
	t.row(h.State, h.EndedAt.UTC().Format(time.RFC3339), short(at.Sub(h.EndedAt.Time)), h.EndedBy, figure(h.Charged), figure(h.Refunded), h.Note)
	return text + t.render("")
}

// holdTable shows reservations as they stand at the server's instant at. The time left is the
// server's own figure, so that a wrong clock here changes nothing.
func holdTable(holds []api.Reservation, at time.Time) *table {
	t := newTable("HOLD", "OWNER", "SINCE", "EXPIRES", "HEARTBEAT", "SUBJECT", "ACTION", "LIMIT", "FENCE")
	for _, h := range holds {
		expires, beat := h.State, "none yet"
		if h.TTLSeconds != nil && h.State == api.StateHeld {
			expires = "in " + seconds(*h.TTLSeconds)
		}
		if h.State != api.StateHeld {
			beat = ""
		} else if h.LastHeartbeatAt != nil {
			beat = short(at.Sub(h.LastHeartbeatAt.Time)) + " ago"
		}
		t.row(h.ID, ownerAt(h.Owner), short(at.Sub(h.CreatedAt.Time)), expires, beat, h.Subject.Kind+":"+h.Subject.ID, h.Action, slots(h), number(h.Fence))
	}
	return t
}

// slots names the limits a hold is under, with the slot it has there.
func slots(h api.Reservation) string {
	names := make([]string, len(h.Slots))
	for i, s := range h.Slots {
		names[i] = s.Limit + "/" + number(s.Slot)
	}
	return strings.Join(names, ",")
}
