package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/api"
)

// errEnough ends a stream that has shown as much as was asked for.
var errEnough = errors.New("enough")

// eventFlags narrow down what is shown.
type eventFlags struct {
	types          []string
	limit, subject string
	after          string
	count          int
}

func (f *eventFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.limit, "limit", "", "only what is about the limit `ID`")
	cmd.Flags().StringVar(&f.subject, "subject", "", "only what is about `KIND:ID`")
	cmd.Flags().StringVar(&f.after, "after", "", "begin after the event `ID` instead of now")
	cmd.Flags().IntVar(&f.count, "count", 0, "end after `N` of them; 0: never")
}

func (f *eventFlags) query() url.Values {
	q := url.Values{}
	for name, value := range map[string]string{"type": strings.Join(f.types, ","), "limit": f.limit, "subject": f.subject} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q
}

func (a *app) eventsCommand() *cobra.Command {
	var f eventFlags
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show what happens, as it happens",
		Long: "Show what happens, as it happens: one line each, or with -o json one JSON object a line. Each is\n" +
			"shown once and in order; a stream that was cut goes on where it stopped. Without the scope\n" +
			"holds:read you see your own alone.",
		Example: "  holdfast events\n" +
			"  holdfast events --type reservation.expired,reservation.forced -o json\n" +
			"  holdfast events --limit exports --subject user:u_42\n" +
			"  holdfast events --after 1874.0 --count 10     # what came after an event you saw",
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.showEvents(cmd.Context(), f, func(_ context.Context, _ *caller, e api.Event) error {
				_, err := fmt.Fprintln(a.stdout, eventLine(e))
				return err
			})
		},
	}
	f.register(cmd)
	cmd.Flags().StringSliceVar(&f.types, "type", nil, "only these `TYPES`, separated by commas")
	return cmd
}

// showEvents reads the stream and shows each event as the form asks; line is for people.
func (a *app) showEvents(ctx context.Context, f eventFlags, line func(context.Context, *caller, api.Event) error) error {
	call, err := a.caller()
	if err != nil {
		return err
	}
	if f.count < 0 {
		return usage("--count must not be below 0").next("without an end", "leave --count out")
	}
	left := f.count
	err = call.events(ctx, f.query(), f.after, func(e api.Event) error {
		if err := a.showEvent(ctx, call, e, line); err != nil {
			return err
		}
		if left--; left == 0 {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

func (a *app) showEvent(ctx context.Context, call *caller, e api.Event, line func(context.Context, *caller, api.Event) error) error {
	switch a.client.Output {
	case "json":
		encoder := json.NewEncoder(a.stdout)
		encoder.SetEscapeHTML(false)
		return encoder.Encode(e)
	case "yaml":
		text, err := toYAML(e)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.stdout, "---\n%s", text)
		return err
	case "name":
		_, err := fmt.Fprintln(a.stdout, e.ID)
		return err
	default:
		return line(ctx, call, e)
	}
}

// holdTypes are the events of holds, with the word each has in holds watch.
var holdTypes = []string{
	"reservation.created", "reservation.extended", "reservation.committed", "reservation.released", "reservation.expired", "reservation.forced",
}

func (a *app) watchCommand() *cobra.Command {
	f := eventFlags{types: holdTypes}
	owner := ""
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Show holds as they begin and end, and what comes free",
		Example: "  holdfast holds watch\n" +
			"  holdfast holds watch --limit exports\n" +
			"  holdfast holds watch --subject user:u_42 -o json",
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.showEvents(cmd.Context(), f, func(ctx context.Context, call *caller, e api.Event) error {
				if owner != "" && (e.Owner == nil || e.Owner.Name != owner) {
					return nil
				}
				return a.watchLine(ctx, call, e)
			})
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&owner, "owner", "", "only holds of the owner `NAME`")
	return cmd
}

// watchLine shows what became of a hold, and when it ended how much of its limits is used now
// (CLI.md section 4).
func (a *app) watchLine(ctx context.Context, call *caller, e api.Event) error {
	_, word, _ := strings.Cut(e.Type, ".")
	if e.Type == "gap" {
		word = e.Type
	}
	at := clockOf(e.At)
	if _, err := fmt.Fprintf(a.stdout, "%s  %-9s %s\n", at, word, printable(aboutEvent(e))); err != nil {
		return err
	}
	if len(e.Slots) == 0 || e.Subject == nil || !slices.Contains(holdTypes[2:], e.Type) {
		return nil
	}
	var view api.SubjectView
	path := "/v1/subjects/" + url.PathEscape(e.Subject.Kind) + "/" + url.PathEscape(e.Subject.ID)
	if _, err := call.do(ctx, act{method: http.MethodGet, path: path, into: &view}); err != nil {
		a.detail("how much is used now is not known: %v", err)
		return nil
	}
	for _, v := range view.Limits {
		if !slices.ContainsFunc(e.Slots, func(s api.Slot) bool { return s.Limit == v.ID }) {
			continue
		}
		amount := number(v.Amount)
		if v.Unlimited {
			amount = "unlimited"
		}
		line := fmt.Sprintf("%s  %-9s %s  %s  %s of %s", at, "free", v.ID, e.Subject.Kind+":"+e.Subject.ID, number(v.Used), amount)
		if _, err := fmt.Fprintln(a.stdout, printable(line)); err != nil {
			return err
		}
	}
	return nil
}
