package main

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/limits"
)

// asked is what reserve and check are told on the command line.
type asked struct {
	action  string
	subject *api.Subject
	ttl     time.Duration
	wait    time.Duration
	cost    int64
	owner   string
	labels  []string
}

// words is the request as it would be typed again.
func (q asked) words() string {
	if q.subject == nil {
		return quoted(q.action)
	}
	return quoted(q.action) + " " + quoted(q.subject.Kind+":"+q.subject.ID)
}

// quoted keeps one word one word in a shell.
func quoted(word string) string {
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:/@+%", r)
	}) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// subjectArg reads kind:id.
func subjectArg(text string) (*api.Subject, error) {
	s, err := limits.ParseSubject(text)
	if err != nil {
		return nil, usage("%q is no subject%s", text, why(err)).next("written as", "kind:id, for example user:u_42")
	}
	return &api.Subject{Kind: s.Kind, ID: s.ID}, nil
}

// why is what is wrong with a value, for the end of a sentence.
func why(err error) string {
	bad, ok := errors.AsType[*limits.InvalidError](err)
	if !ok || len(bad.Faults) == 0 {
		return ": " + err.Error()
	}
	return ": it " + bad.Faults[0].Reason
}

func (q *asked) take(args []string) (err error) {
	q.action = args[0]
	if len(args) > 1 {
		q.subject, err = subjectArg(args[1])
	}
	return err
}

// wholeSeconds turns a length of time into the seconds of the wire, rounded up.
func wholeSeconds(d time.Duration) *int64 {
	n := int64((d + time.Second - 1) / time.Second)
	return &n
}

func (q asked) request(flags interface{ Changed(string) bool }) (api.ReserveRequest, error) {
	r := api.ReserveRequest{Subject: q.subject, Action: q.action, Owner: &api.Owner{Name: q.owner}}
	if host, err := os.Hostname(); err == nil {
		r.Owner.Host = host
	}
	if flags.Changed("cost") {
		r.Cost = &q.cost
	}
	if flags.Changed("ttl") {
		r.TTLSeconds = wholeSeconds(q.ttl)
	}
	for _, pair := range q.labels {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return r, usage("--label %q is no key=value", pair).next("for example", "--label job=991")
		}
		if r.Labels == nil {
			r.Labels = map[string]string{}
		}
		r.Labels[key] = value
	}
	return r, nil
}

func (a *app) reserveCommand() *cobra.Command {
	var q asked
	cmd := &cobra.Command{
		Use:   "reserve ACTION [SUBJECT]",
		Short: "Take a slot and hold it until it is released, committed, or expires",
		Example: "  holdfast reserve export                             # for the token's own subject\n" +
			"  holdfast reserve export user:u_42 --ttl 10m\n" +
			"  holdfast reserve export user:u_42 --wait 2m         # wait for one\n" +
			"  id=$(holdfast reserve export -o name)               # for a script",
		Args: args(cobra.RangeArgs(1, 2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := q.take(args); err != nil {
				return err
			}
			if q.wait < 0 {
				return usage("--wait must not be below 0").next("for example", "--wait 2m")
			}
			return a.reserve(cmd.Context(), q, cmd.Flags())
		},
	}
	flags := cmd.Flags()
	flags.DurationVar(&q.wait, "wait", 0, "wait up to `TIME` for a free slot (default: refuse at once)")
	flags.DurationVar(&q.ttl, "ttl", 0, "hold it for `TIME` (default: the limit's, else 5m)")
	flags.Int64Var(&q.cost, "cost", 1, "charge `N` to counting limits")
	flags.StringVar(&q.owner, "owner", "cli", "`NAME` of who works under it")
	flags.StringArrayVar(&q.labels, "label", nil, "remember `KEY=VALUE` with it (may be repeated)")
	return cmd
}

func (a *app) reserve(ctx context.Context, q asked, flags interface{ Changed(string) bool }) error {
	body, err := q.request(flags)
	if err != nil {
		return err
	}
	call, err := a.caller()
	if err != nil {
		return err
	}
	var made api.Reservation
	one := act{method: http.MethodPost, path: "/v1/reservations", body: body, key: newKey(), into: &made}
	got, err := a.untilFree(ctx, call, one, q)
	if err != nil {
		return a.refused(err, q)
	}
	if got.replayed {
		a.detail("the first answer was lost; this is the same hold")
	}
	err = a.emit(made, func() string { return holdTable([]api.Reservation{made}, got.at).render("") }, func() []string { return []string{made.ID} })
	a.say("keep it:  holdfast extend %s\ndone:     holdfast commit %s", made.ID, made.ID)
	return err
}

// Pauses between two tries of --wait. A slot that is released says so to nobody, so it is
// asked for more often than the next expiry would tell.
const (
	leastPause   = 250 * time.Millisecond
	longestPause = 2 * time.Second
)

// untilFree sends the act once, to hear how things stand, and then waits in line for --wait, in
// as many calls as that takes; while the server is away it tries again.
func (a *app) untilFree(ctx context.Context, call *caller, one act, q asked) (reply, error) {
	deadline := a.now().Add(q.wait)
	var told struct {
		news string
		at   time.Time
	}
	for pause := leastPause; ; pause = min(2*pause, longestPause) {
		got, err := call.do(ctx, one)
		left := deadline.Sub(a.now())
		if err != nil && ctx.Err() != nil {
			call.leaveLine(ctx, one)
		}
		if err == nil || left <= 0 || ctx.Err() != nil || !mayPass(err) {
			return got, err
		}
		if now, news := a.now(), waitNews(err); news != told.news || now.Sub(told.at) >= saidAgain {
			told.news, told.at = news, now
			a.say("waiting up to %s: %s", short(left), printable(a.explain(err).what))
		}
		if body, ok := one.body.(api.ReserveRequest); ok {
			one.body, one.wait = inLine(body, left)
		}
		if !sleep(ctx, min(max(left, leastPause), jitter(beforeLine(err, pause)))) {
			call.leaveLine(ctx, one)
			return got, ctx.Err()
		}
	}
}

// saidAgain is how often a wait says that it goes on when nothing is new. The sentences count
// down, so they are not what is compared.
const saidAgain = 30 * time.Second

// waitNews is what a waiting caller wants to hear of: another code, or another holder.
func waitNews(err error) string {
	problem, ok := errors.AsType[*api.Problem](err)
	if !ok {
		return "away"
	}
	ids := make([]string, 0, len(problem.Holders)+1)
	for _, h := range problem.Holders {
		ids = append(ids, h.ID)
	}
	slices.Sort(ids)
	return strings.Join(append(ids, string(problem.Code)), " ")
}

// mayPass reports whether waiting may change the answer.
func mayPass(err error) bool {
	if _, away := errors.AsType[*unreachable](err); away {
		return true
	}
	problem, ok := errors.AsType[*api.Problem](err)
	return ok && problem.Code != api.WaitCancelled && (problem.Code == api.IdempotencyInFlight || problem.Status == http.StatusTooManyRequests || problem.Status == http.StatusServiceUnavailable)
}

// beforeLine is when to take a place in line: at once, but the server is to be left alone for a
// moment when it is away or the line is full.
func beforeLine(err error, pause time.Duration) time.Duration {
	if problem, ok := errors.AsType[*api.Problem](err); ok && problem.Status == http.StatusTooManyRequests && problem.Code != api.LineFull {
		return leastPause
	}
	return nextTry(err, pause)
}

// nextTry is when to ask again: what the server said, but not longer than pause for a slot.
func nextTry(err error, pause time.Duration) time.Duration {
	problem, ok := errors.AsType[*api.Problem](err)
	if !ok {
		return pause
	}
	wait := retryAfter(problem)
	if wait == 0 || problem.Code == api.NoFreeSlot && wait > pause {
		wait = pause
	}
	return max(wait, leastPause)
}

// refused turns a refusal into the table of who holds the slots and the two ways on.
func (a *app) refused(err error, q asked) error {
	problem, ok := errors.AsType[*api.Problem](err)
	if !ok {
		return err
	}
	if a.asJSON && problem.Status == http.StatusTooManyRequests {
		if err := a.emit(problem, nil, nil); err != nil {
			return err
		}
	}
	failed := a.explainProblem(problem)
	if problem.Code != api.NoFreeSlot {
		return failed
	}
	failed.hints = nil
	if len(problem.Holders) > 0 {
		failed.table = holdersTable(problem.Holders).render("  ")
	}
	failed.next("wait for one", "holdfast reserve "+q.words()+" --wait 2m")
	if len(problem.Holders) > 0 {
		failed.next("free one", "holdfast release "+problem.Holders[0].ID)
	}
	return failed
}

// of makes the path of a reservation; the id is escaped, whatever was typed.
func of(id, verb string) string {
	path := "/v1/reservations/" + url.PathEscape(id)
	if verb != "" {
		path += "/" + verb
	}
	return path
}
