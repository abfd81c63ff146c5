package httpapi

import (
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/windows"
)

// verdictViews are the limits of a decision, by id. Waits count from d.At, the one reading of
// the clock the decision rests on.
func verdictViews(vs []reserve.Verdict, at time.Time) []api.Verdict {
	if len(vs) == 0 {
		return noVerdicts
	}
	views := make([]api.Verdict, len(vs))
	for i := range vs {
		views[i] = verdictView(&vs[i], at)
	}
	return views
}

func verdictView(v *reserve.Verdict, at time.Time) api.Verdict {
	view := api.Verdict{
		ID: v.Rule.ID, Window: v.Rule.Window.Kind.String(), Rolling: v.Rule.Window.Rolling,
		Amount: v.Rule.Amount, Used: v.Used, Remaining: v.Remaining, Allowed: v.Why == reserve.Fits,
		Unlimited: v.Rule.Unlimited, Paused: v.Rule.Paused, Shadow: v.Shadow, NeverFits: v.Why == reserve.NeverFits, Excess: v.Excess,
		Waiting: int64(v.Waiting),
	}
	if !v.ResetsAt.IsZero() {
		view.ResetsAt, view.ResetsInSeconds = api.AtPtr(v.ResetsAt), ptr(secondsUp(v.ResetsAt.Sub(at)))
	}
	if v.Why != reserve.Fits && !v.RetryAt.IsZero() {
		wait := v.RetryAt.Sub(at)
		view.RetryAfterSeconds, view.RetryAfterMs = ptr(secondsUp(wait)), ptr(millisUp(wait))
	}
	return view
}

// refused is what a decision that said no tells, in whatever form it is sent.
type refused struct {
	code    api.Code
	detail  string
	reason  string           // of a pause or a block
	binding *reserve.Verdict // nil for a block
	wait    time.Duration    // 0: nothing to wait for, or nobody knows
	waiting int64            // in the line of the binding limit
	holders []api.Holder
	limits  []api.Verdict
}

// refusedBy reads a refusal: its code, its sentence, its wait. subject is whom it was asked for.
func refusedBy(d *reserve.Decision, subject limits.Subject) refused {
	r := refused{limits: verdictViews(d.Verdicts, d.At), waiting: int64(d.Waiting)}
	if at, ok := d.RetryAt(); ok {
		r.wait = max(at.Sub(d.At), time.Millisecond)
	}
	if d.Block != nil || d.Binding < 0 {
		r.code, r.detail = api.SubjectBlocked, subject.String()+" is blocked"+waitWords(r.wait, "; it ends in %d s")+"."
		if d.Block != nil {
			r.reason = d.Block.Reason
		}
		return r
	}
	r.binding = &d.Verdicts[d.Binding]
	switch r.binding.Why {
	case reserve.NeverFits:
		r.code, r.detail = api.NeverFits, neverDetail(r.binding)
	case reserve.Paused:
		r.code, r.reason = api.LimitPaused, r.binding.Rule.PauseReason
		r.detail = pausedDetail(r.binding, r.wait)
	case reserve.NoSlot:
		r.code, r.detail = api.NoFreeSlot, fullDetail(r.binding, subject, r.wait)
		if r.waiting > 0 && r.binding.Used < r.binding.Rule.Amount {
			r.detail = lineDetail(r.binding, subject, r.waiting)
		}
	default:
		r.code, r.detail = api.QuotaExceeded, usedDetail(r.binding, subject, r.wait)
		if r.waiting > 0 && r.binding.Remaining > 0 {
			r.detail = lineDetail(r.binding, subject, r.waiting)
		}
	}
	return r
}

// problem is the refusal of POST /v1/reservations.
func (r *refused) problem() api.Problem {
	p := api.NewProblem(r.code, r.detail)
	p.Reason, p.Holders, p.Limits = r.reason, r.holders, r.limits
	p.NeverFits = r.code == api.NeverFits
	p.Waiting = ptr(r.waiting)
	if r.wait > 0 {
		p.RetryAfterSeconds, p.RetryAfterMs = ptr(secondsUp(r.wait)), ptr(millisUp(r.wait))
	}
	if r.binding != nil {
		p.DecidedBy, p.Amount, p.Used = r.binding.Rule.ID, ptr(r.binding.Rule.Amount), ptr(r.binding.Used)
		v := r.bindingView()
		p.ResetsAt, p.ResetsInSeconds = v.ResetsAt, v.ResetsInSeconds
	}
	return p
}

// into is the refusal of POST /v1/checks.
func (r *refused) into(a *api.CheckAnswer) {
	a.Code, a.Detail, a.Reason, a.Holders, a.Limits = r.code, r.detail, r.reason, r.holders, r.limits
	a.NeverFits, a.Waiting = r.code == api.NeverFits, r.waiting
	if r.wait > 0 {
		a.RetryAfterSeconds, a.RetryAfterMs = ptr(secondsUp(r.wait)), ptr(millisUp(r.wait))
	}
	if r.binding != nil {
		a.DecidedBy = r.binding.Rule.ID
		v := r.bindingView()
		a.ResetsAt, a.ResetsInSeconds = v.ResetsAt, v.ResetsInSeconds
	}
}

func (r *refused) bindingView() *api.Verdict {
	for i := range r.limits {
		if r.limits[i].ID == r.binding.Rule.ID {
			return &r.limits[i]
		}
	}
	return &api.Verdict{}
}

// whose names whose count a limit is, for a sentence.
func whose(v *reserve.Verdict, subject limits.Subject) string {
	if v.Rule.Share == limits.All {
		return "all"
	}
	return subject.String()
}

// waitWords is format with the wait in whole seconds, or "" when there is none to tell.
func waitWords(wait time.Duration, format string) string {
	if wait <= 0 {
		return ""
	}
	return fmt.Sprintf(format, secondsUp(wait))
}

func fullDetail(v *reserve.Verdict, subject limits.Subject, wait time.Duration) string {
	s := fmt.Sprintf("%s allows %d at once for %s and %d %s held", v.Rule.ID, v.Rule.Amount, whose(v, subject), v.Used, isAre(v.Used))
	if wait <= 0 {
		return s + "; a release frees a slot."
	}
	if v.Used > v.Rule.Amount {
		return s + waitWords(wait, "; enough of them expire in %d s, releases may come sooner.")
	}
	return s + waitWords(wait, "; the earliest expires in %d s, a release may come sooner.")
}

func usedDetail(v *reserve.Verdict, subject limits.Subject, wait time.Duration) string {
	s := fmt.Sprintf("%s allows %s for %s and %d %s used", v.Rule.ID, amountWords(v), whose(v, subject), v.Used, isAre(v.Used))
	if wait <= 0 {
		return s + "; what is used does not come back by itself."
	}
	return s + waitWords(wait, "; this cost fits again in %d s.")
}

// lineDetail is for a limit that has room, which those in line have come for before.
func lineDetail(v *reserve.Verdict, subject limits.Subject, waiting int64) string {
	return fmt.Sprintf("%d %s in line for %s before %s; nobody overtakes. Wait in line too, with waitSeconds.",
		waiting, standStands(waiting), v.Rule.ID, subject)
}

func standStands(n int64) string {
	if n == 1 {
		return "stands"
	}
	return "stand"
}

func pausedDetail(v *reserve.Verdict, wait time.Duration) string {
	s := v.Rule.ID + " is paused"
	if v.Rule.PauseReason != "" {
		s += " (" + v.Rule.PauseReason + ")"
	}
	if wait <= 0 {
		return s + "; it says no end."
	}
	return s + waitWords(wait, "; it resumes in %d s.")
}

func neverDetail(v *reserve.Verdict) string {
	if v.Rule.Amount == 0 {
		return v.Rule.ID + " is closed: its amount is 0. Waiting would not help."
	}
	return fmt.Sprintf("%s allows %s, less than this cost. Waiting would not help.", v.Rule.ID, amountWords(v))
}

// amountWords is the size of a limit in words, such as "100 a rolling day".
func amountWords(v *reserve.Verdict) string {
	w := v.Rule.Window
	switch {
	case w.Kind == windows.Concurrent:
		return fmt.Sprintf("%d at once", v.Rule.Amount)
	case w.Kind == windows.Total:
		return fmt.Sprintf("%d in total", v.Rule.Amount)
	case w.Kind == windows.Bucket:
		return fmt.Sprintf("a burst of %d", v.Rule.Amount)
	case w.Rolling:
		return fmt.Sprintf("%d a rolling %s", v.Rule.Amount, w.Kind)
	}
	return fmt.Sprintf("%d %s %s", v.Rule.Amount, article(w.Kind), w.Kind)
}

func article(k windows.Kind) string {
	if k == windows.Hour {
		return "an"
	}
	return "a"
}

func isAre(n int64) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
