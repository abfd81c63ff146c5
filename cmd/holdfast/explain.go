package main

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

// explain turns any error into what a person reads: the sentence, and what to do next.
func (a *app) explain(err error) *failure {
	if ready, ok := errors.AsType[*failure](err); ok {
		return ready
	}
	if lost, ok := errors.AsType[*unreachable](err); ok {
		failed := fail(exitUnavailable, "%w", lost)
		if lost.sent {
			failed.what += " (it may have been done all the same)"
		}
		return failed.next("is it running?", "holdfast doctor").next("start one", "holdfast dev").next("name another", "--server URL")
	}
	if problem, ok := errors.AsType[*api.Problem](err); ok {
		return a.explainProblem(problem)
	}
	return fail(exitFailed, "%w", err).next("help", "holdfast --help")
}

// explainProblem says what a problem document says, with the next step of its code.
func (a *app) explainProblem(p *api.Problem) *failure {
	failed := &failure{exit: exitByCode[p.Code], what: sentence(p), cause: p}
	if len(p.Errors) > 0 {
		failed.what = strings.TrimSuffix(failed.what, "; see errors") // they follow here
	}
	for _, fault := range p.Errors {
		failed.what += "; " + strings.TrimPrefix(a.asTyped(fault.Pointer)+" ", " ") + fault.Detail
	}
	for _, action := range p.Actions {
		failed.next("did you mean", "the action "+action)
	}
	if p.Code == api.Unauthenticated && a.signsIn.origin != "" {
		failed.what += " (the token came from " + a.signsIn.origin + ")"
		if a.signsIn.origin == "HOLDFAST_TOKEN" && a.signsIn.renewable {
			failed.next("renew it", `export HOLDFAST_TOKEN="$(holdfast token)"`).
				next("or use the context's", "unset HOLDFAST_TOKEN")
		}
	}
	if step, ok := nextSteps[p.Code]; ok {
		failed.next(step.label, a.filled(step.do, p))
	}
	if p.RetryAfterSeconds != nil {
		failed.next("try again in", seconds(*p.RetryAfterSeconds))
	}
	if p.Status >= 500 && p.RequestID != "" {
		failed.next("in the server's log", "request "+p.RequestID)
	}
	if len(failed.hints) == 0 {
		failed.next("each request", "repeat with -v").next("help", "repeat with --help")
	}
	return failed
}

// sentence is the title of a problem and its detail, unless one says the other.
func sentence(p *api.Problem) string {
	title := strings.ToLower(p.Title)
	switch {
	case p.Detail == "" && title == "":
		return string(p.Code)
	case p.Detail == "":
		return title
	case title == "" || strings.HasPrefix(strings.ToLower(p.Detail), title):
		return strings.TrimSuffix(p.Detail, ".")
	default:
		return title + ": " + strings.TrimSuffix(p.Detail, ".")
	}
}

// nextSteps is what to do about a code that says nothing about it by itself.
var nextSteps = map[api.Code]hint{
	api.Unauthenticated:    {"who am I?", "holdfast token inspect"},
	api.Forbidden:          {"what may I do?", "holdfast token inspect"},
	api.NotFound:           {"what is there", "holdfast holds, holdfast limits ls"},
	api.HoldLost:           {"stop the work", "the slot may be another's by now"},
	api.AlreadySettled:     {"how it ended", "holdfast holds get ID"},
	api.FenceDiffers:       {"look again", "holdfast holds get ID"},
	api.PreconditionFailed: {"look again", "holdfast limits get ID, then repeat"},
	api.LimitExists:        {"change it", "holdfast limits edit ID"},
	api.NeverFits:          {"the limit", "holdfast limits get ID"},
	api.NoMatchingLimit:    {"the limits", "holdfast limits ls"},
	api.LimitPaused:        {"go on", "holdfast limits resume ID"},
	api.SubjectBlocked:     {"lift it", "holdfast limits unblock SUBJECT"},
	api.QuotaExceeded:      {"more for a while", "holdfast limits override ID SUBJECT --amount N --for 1h"},
	api.StoreUnavailable:   {"look at", "holdfast doctor"},
	api.StorageFull:        {"make room", "holdfast release ID; then look at holdfast doctor"},
	api.ClockSkew:          {"look at", "holdfast doctor"},
	api.Overage:            {"room for more", "holdfast limits ls"},
	api.TooManyLimits:      {"which match", "holdfast limits ls"},
	api.WindowFixed:        {"instead", "make a limit of another name and delete this one"},
	api.InvalidValue:       {"help", "repeat with --help"},
}

// holdersTable shows who holds the slots, as a refusal tells it.
func holdersTable(holders []api.Holder) *table {
	t := newTable("HOLD", "OWNER", "SINCE", "EXPIRES", "HEARTBEAT")
	for _, h := range holders {
		beat := "none yet"
		if h.HeartbeatAgoSeconds != nil {
			beat = seconds(*h.HeartbeatAgoSeconds) + " ago"
		}
		t.row(h.ID, ownerAt(h.Owner), seconds(h.HeldSeconds), "in "+seconds(h.ExpiresInSeconds), beat)
	}
	return t
}

// owner is who works under a hold: a name and a host.
func owner(o api.Owner) string {
	return strings.TrimSpace(o.Name + "  " + o.Host)
}

// ownerAt is an owner as one word of a table: name@host, or the one of them there is.
func ownerAt(o api.Owner) string {
	if o.Name == "" || o.Host == "" {
		return o.Name + o.Host
	}
	return o.Name + "@" + o.Host
}

// seconds is a length of time as people write it: 45s, 3m50s, 1h2m, 3d4h.
func seconds(n int64) string { return short(time.Duration(n) * time.Second) }

// short is a length of time in at most two parts, without those that are zero at its end. What
// is left out is rounded down: a wait that is told in full seconds is told below an hour.
func short(d time.Duration) string {
	d = max(d, 0).Round(time.Second)
	const day = 24 * time.Hour
	if d >= 2*day {
		s := strconv.FormatInt(int64(d/day), 10) + "d"
		if hours := int64(d % day / time.Hour); hours > 0 {
			s += strconv.FormatInt(hours, 10) + "h"
		}
		return s
	}
	if d >= time.Hour {
		d = d.Truncate(time.Minute)
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func number(n int64) string { return strconv.FormatInt(n, 10) }
