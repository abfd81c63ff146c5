package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/api"
)

// finding is one line of doctor.
type finding struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Note   bool   `json:"note,omitempty"` // in order, but worth knowing
	Detail string `json:"detail"`
	exit   int
	next   hint
}

func (a *app) doctorCommand() *cobra.Command {
	var folder string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look whether everything is in order: reach, auth, clock, etcd, limits, space, members",
		Long: "Look whether everything is in order, one line each. Exits 0 when it is, else as the first fault would:\n" +
			"69 for a server or store that is away, 4 for a token that is not accepted, 1 for the rest. Space and\n" +
			"members need the admin listener and a token with the scope admin.",
		Example: "  holdfast doctor\n" +
			"  holdfast doctor --server https://holdfast.example --token-file token.txt\n" +
			"  holdfast doctor --folder /var/lib/holdfast    # on the server's own machine",
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.doctor(cmd.Context(), folder) },
	}
	cmd.Flags().StringVar(&folder, "folder", "", "look at the data folder `DIR` of a server on this machine too")
	return cmd
}

func (a *app) doctor(ctx context.Context, folder string) error {
	call, err := a.caller()
	if err != nil {
		return err
	}
	findings := a.examine(ctx, call)
	if folder != "" {
		findings = append(findings, examineFolder(folder))
	}
	names := make([]string, 0, len(findings))
	for _, f := range findings {
		names = append(names, f.Name)
	}
	if err := a.emit(findings, func() string { return a.findingLines(findings) }, func() []string { return names }); err != nil {
		return err
	}
	for _, f := range findings {
		if !f.OK {
			return fail(f.exit, "%s is not in order: %s", f.Name, f.Detail).next(f.next.label, f.next.do)
		}
	}
	return nil
}

func (a *app) findingLines(findings []finding) string {
	t := newTable()
	for _, f := range findings {
		mark := a.paint(green, "ok  ")
		switch {
		case !f.OK:
			mark = a.paint(red, "FAIL")
		case f.Note:
			mark = "note"
		}
		t.rows = append(t.rows, []string{mark, f.Name, printable(f.Detail)})
	}
	return t.render("")
}

// examine asks one thing after the other. Without reach there is nothing else to ask.
func (a *app) examine(ctx context.Context, call *caller) []finding {
	var version api.Version
	got, err := call.do(ctx, act{method: http.MethodGet, path: "/version", open: true, into: &version})
	if err != nil {
		return []finding{{
			Name: "reach", Detail: a.explain(err).what, exit: exitUnavailable,
			next: hint{"start one", "holdfast dev, or holdfast serve --help"},
		}}
	}
	found := []finding{{Name: "reach", OK: true, Detail: fmt.Sprintf("%s runs holdfast %s, etcd %s", call.target.url, version.Version, version.Etcd)}}
	limits, authorised := a.examineAuth(ctx, call)
	found = append(found, authorised, examineClock(got.at, a.now()), a.examineStore(ctx, call), limits)
	return append(found, a.examineAdmin(ctx, call)...)
}

// maxClockOff is how far two clocks may differ before tokens are judged wrongly (API.md 2).
const maxClockOff = 30 * time.Second

func examineClock(theirs, ours time.Time) finding {
	off := theirs.Sub(ours)
	f := finding{Name: "clock", OK: off.Abs() <= maxClockOff, exit: exitFailed, next: hint{"set both clocks", "with NTP; tokens are judged by them"}}
	f.Detail = fmt.Sprintf("the server's differs by %s (Date header, whole seconds)", off.Abs().Round(time.Second))
	return f
}

var storeHint = hint{"look at", "the log of the server, and the disk and the members of its etcd"}

// examineStore asks whether the server could answer from its store now.
func (a *app) examineStore(ctx context.Context, call *caller) finding {
	var health api.Health
	_, err := call.do(ctx, act{method: http.MethodGet, path: "/readyz", query: url.Values{"verbose": {""}}, open: true, also: http.StatusServiceUnavailable, into: &health})
	if err != nil {
		return finding{Name: "etcd", Detail: a.explain(err).what, exit: exitUnavailable, next: storeHint}
	}
	detail := health.Status
	for _, check := range health.Checks {
		detail += "; " + check.Name + " " + map[bool]string{true: "ok", false: "not ok"}[check.OK]
		if check.Detail != "" {
			detail += " (" + check.Detail + ")"
		}
	}
	return finding{Name: "etcd", OK: health.Status == "ok", Detail: detail, exit: exitUnavailable, next: storeHint}
}

// examineAuth shows the token to the server and counts the limits it may see.
func (a *app) examineAuth(ctx context.Context, call *caller) (limits, authorised finding) {
	authorised = finding{Name: "auth", OK: true, Detail: "the token is accepted; it came from " + call.target.from.origin}
	page, _, err := listAll[api.Limit](ctx, call, "/v1/limits", url.Values{})
	problem, told := errors.AsType[*api.Problem](err)
	switch {
	case err == nil:
		limits = finding{Name: "limits", OK: true, Detail: fmt.Sprintf("%d in force", len(page.Data))}
		if len(page.Data) == 0 {
			limits = a.examineNone(ctx, call)
		}
	case told && problem.Code == api.Forbidden:
		limits = finding{Name: "limits", OK: true, Detail: "not this token's to see (scope limits:read)"}
	default:
		why := a.explain(err)
		authorised.OK, authorised.Detail, authorised.exit = false, why.what, exitOf(ctx, err)
		authorised.next = hint{"each request", "repeat with -v"}
		if len(why.hints) > 0 {
			authorised.next = why.hints[0]
		}
		limits = finding{Name: "limits", Detail: "not asked", exit: exitFailed, next: authorised.next}
	}
	return limits, authorised
}

// examineNone asks a server without limits what it does with a check that none matches.
func (a *app) examineNone(ctx context.Context, call *caller) finding {
	f := finding{Name: "limits", exit: exitFailed, Detail: "none: every check is refused", next: hint{"make one", "holdfast limits create --help"}}
	var answer api.CheckAnswer
	_, err := call.do(ctx, act{
		method: http.MethodPost, path: "/v1/checks", repeatable: true, into: &answer,
		body: api.CheckRequest{Action: "doctor", Mode: api.ModePreview},
	})
	if err == nil && answer.Allowed {
		f.OK, f.Note, f.Detail = true, true, "none: everything is allowed (--unmatched allow)"
	}
	return f
}

func (a *app) healthCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "healthcheck",
		Short: "Exit 0 when the server is ready, 69 when it is not; for containers",
		Example: "  holdfast healthcheck --server http://127.0.0.1:7420 --timeout 2s\n" +
			"  holdfast healthcheck --server http://127.0.0.1:2381    # an etcd with --listen-metrics-urls",
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			call, err := a.caller()
			if err != nil {
				return err
			}
			got, err := call.do(cmd.Context(), act{method: http.MethodGet, path: "/readyz", open: true, also: http.StatusServiceUnavailable})
			if err != nil {
				return fail(exitUnavailable, "not ready: %s", a.explain(err).what).next("look at", "holdfast doctor")
			}
			// etcd answers the same question with a status and a word.
			health := api.Health{Status: "ok"}
			if json.Unmarshal(got.raw, &health) != nil && got.status != http.StatusOK {
				health.Status = http.StatusText(got.status)
			}
			if health.Status != "ok" {
				return fail(exitUnavailable, "not ready: %s", health.Status).next("look at", "holdfast doctor")
			}
			return a.emit(health, func() string { return health.Status + "\n" }, func() []string { return []string{health.Status} })
		},
	}
}
