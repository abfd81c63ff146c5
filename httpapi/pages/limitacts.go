package pages

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/holdfast-dev/holdfast/catalogue"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/web"
	"github.com/holdfast-dev/holdfast/windows"
)

// askBody is a form that says what it does and asks first.
type askBody struct {
	Path, Back, Heading, Effect, Button string
	What                                string // that it is about; "": the heading says it
	Danger                              bool
	Seen, Reason                        string
	WithReason, WithLasting             bool
	For, Unit                           string
	Lasts                               bool
	Faults                              []string
}

// ask makes the page of such a form; what was filled in stays.
func (p *Pages) ask(v *visit, b askBody) web.View {
	b.Path, b.Faults = p.Prefix+v.r.URL.Path[len(p.Prefix):], v.faults
	b.For, b.Unit = "1", "hours"
	if v.r.Method == http.MethodPost {
		b.Reason, b.Lasts = v.form("reason"), v.form("last") == "some"
		if v.form("for") != "" {
			b.For, b.Unit = v.form("for"), v.form("unit")
		}
	}
	return web.View{Page: "ask", Title: b.Heading, Section: "limits", Body: b, Still: true}
}

func revision(l *limits.Limit) string { return strconv.FormatInt(l.Revision, 10) }

// pauseForm asks before a limit is paused.
func (p *Pages) pauseForm(_ context.Context, v *visit) (web.View, error) {
	l, err := p.theLimit(v)
	if err != nil {
		return web.View{}, err
	}
	return p.ask(v, askBody{
		Back: p.Prefix + limitPath(l.ID), Heading: "Pause " + l.ID + "?", Button: "Pause", Danger: true, Seen: revision(l), WithReason: true, WithLasting: true,
		Effect: "Every new grant under it is refused with limit-paused and your reason. What is held stays held.",
	}), nil
}

func (p *Pages) pause(ctx context.Context, v *visit) (string, error) {
	reason := v.form("reason")
	if !readableReason(reason) {
		return "", errReason
	}
	last, err := v.lasting()
	if err != nil {
		return "", err
	}
	to, err := p.changeLimit(ctx, v, reason, func(l *limits.Limit) {
		l.Paused, l.PauseReason, l.PausedUntil = true, reason, time.Time{}
		if last > 0 {
			l.PausedUntil = v.windows.Add(last)
		}
	})
	return to + "?done=paused", err
}

// resumeForm asks before a pause ends.
func (p *Pages) resumeForm(_ context.Context, v *visit) (web.View, error) {
	l, err := p.theLimit(v)
	if err != nil {
		return web.View{}, err
	}
	if !l.Paused {
		return web.View{}, &formFault{status: http.StatusConflict, says: []string{"It is not paused any more."}}
	}
	return p.ask(v, askBody{
		Back: p.Prefix + limitPath(l.ID), Heading: "Resume " + l.ID + "?", Button: "Resume", Seen: revision(l), WithReason: true,
		Effect: "It was paused because: " + orNothing(l.PauseReason) + ". New grants start at once.",
	}), nil
}

func orNothing(s string) string {
	if s == "" {
		return "no reason was given"
	}
	return s
}

func (p *Pages) resume(ctx context.Context, v *visit) (string, error) {
	reason := v.form("reason")
	if !readableReason(reason) {
		return "", errReason
	}
	to, err := p.changeLimit(ctx, v, reason, func(l *limits.Limit) { l.Paused = false })
	return to + "?done=resumed", err
}

// switchForm asks before a limit is enforced no more, or again.
func (p *Pages) switchForm(on bool) view {
	return func(_ context.Context, v *visit) (web.View, error) {
		l, err := p.theLimit(v)
		if err != nil {
			return web.View{}, err
		}
		b := askBody{
			Back: p.Prefix + limitPath(l.ID), Heading: "Disable " + l.ID + "?", Button: "Disable", Danger: true, Seen: revision(l), WithReason: true,
			Effect: "It is not enforced any more: nothing new is counted or refused under it. What is held runs on.",
		}
		if on {
			b.Heading, b.Button, b.Danger = "Enable "+l.ID+"?", "Enable", false
			b.Effect = "It is enforced for every new grant: " + limitWords(l) + "."
		}
		return p.ask(v, b), nil
	}
}

func (p *Pages) switchLimit(on bool) deed {
	return func(ctx context.Context, v *visit) (string, error) {
		reason := v.form("reason")
		if !readableReason(reason) {
			return "", errReason
		}
		to, err := p.changeLimit(ctx, v, reason, func(l *limits.Limit) { l.Enabled = on })
		return to + "?done=changed", err
	}
}

// endForm asks before the override for everyone ends.
func (p *Pages) endForm(_ context.Context, v *visit) (web.View, error) {
	l, err := p.theLimit(v)
	if err != nil {
		return web.View{}, err
	}
	o, ok := p.Service.Catalog(v.who.Tenant).Override(l.ID, limits.Subject{})
	if !ok {
		return web.View{}, &formFault{status: http.StatusConflict, says: []string{"The override has ended already."}}
	}
	amount := "unlimited"
	if !o.Unlimited {
		amount = strconv.FormatInt(o.Amount, 10)
	}
	return p.ask(v, askBody{
		Back: p.Prefix + limitPath(l.ID), Heading: "End the override of " + l.ID + "?", Button: "End it", Seen: revision(l), WithReason: true,
		Effect: fmt.Sprintf("The amount is %s again instead of %s. What is held stays held.", strconv.FormatInt(l.Amount, 10), amount),
	}), nil
}

func (p *Pages) endOverride(ctx context.Context, v *visit) (string, error) {
	reason := v.form("reason")
	if !readableReason(reason) {
		return "", errReason
	}
	id := v.r.PathValue("id")
	rev, err := p.edits(v, reason).DeleteOverride(ctx, v.who.Tenant, id, limits.Subject{})
	return limitPath(id) + "?done=changed", p.reached(ctx, rev, err)
}

// amountBody is the form that changes an amount, for a while or for good.
type amountBody struct {
	Path, Back, ID, Now, Base, Seen, Amount, Reason, Preview string
	For, Unit                                                string
	Good                                                     bool // for good
	Versions                                                 []version
	Faults                                                   []string
}

// version is one field of two versions that do not agree.
type version struct{ Field, Now, Yours string }

// standing names what a form of an amount was made of: the limit and the override for everyone.
func amountSeen(l *limits.Limit, o limits.Override, over bool) string {
	seen := revision(l)
	if over {
		seen += "." + strconv.FormatInt(o.CreatedAt.UnixMilli(), 10) + "." + strconv.FormatInt(o.Amount, 10)
	}
	return seen
}

func (p *Pages) amountForm(ctx context.Context, v *visit) (web.View, error) {
	l, err := p.theLimit(v)
	if err != nil {
		return web.View{}, err
	}
	cat := p.Service.Catalog(v.who.Tenant)
	o, over := cat.Override(l.ID, limits.Subject{})
	rule := cat.Rule(l, limits.Subject{})
	now := strconv.FormatInt(rule.Amount, 10)
	if rule.Unlimited {
		now = "unlimited"
	}
	b := amountBody{
		Path: p.Prefix + limitPath(l.ID) + "/amount", Back: p.Prefix + limitPath(l.ID), ID: l.ID, Now: now, Base: strconv.FormatInt(l.Amount, 10),
		Seen: amountSeen(l, o, over), Amount: v.r.FormValue("amount"), Reason: v.r.FormValue("reason"),
		For: v.r.FormValue("for"), Unit: v.r.FormValue("unit"), Good: v.r.FormValue("last") == "good", Faults: v.faults,
	}
	if b.Amount == "" {
		b.Amount = b.Base
	}
	if b.For == "" {
		b.For, b.Unit = "1", "hours"
	}
	if amount, err := strconv.ParseInt(b.Amount, 10, 64); err == nil && amount >= 0 && amount <= limits.MaxAmount {
		if b.Preview, err = p.amountPreview(ctx, v, l, amount); err != nil {
			return web.View{}, err
		}
	}
	if v.refusal == http.StatusPreconditionFailed {
		b.Versions = []version{{"amount", now, b.Amount}, {"amount without override", b.Base, ""}, {"changed by", l.UpdatedBy, v.by()}}
	}
	return web.View{Page: "amount", Title: "Change the amount of " + l.ID, Section: "limits", Body: b, Still: true}, nil
}

// amountPreview says what a new amount would do to those who hold now.
func (p *Pages) amountPreview(ctx context.Context, v *visit, l *limits.Limit, amount int64) (string, error) {
	if l.Window.Kind != windows.Concurrent || !v.who.Has("holds:read") {
		return "", nil
	}
	all, err := p.Service.UsageOf(ctx, v.who.Tenant, l.ID, "", maxRows)
	if err != nil {
		return "", err
	}
	most, over := int64(0), int64(0)
	for i := range all {
		most = max(most, all[i].Used)
		over += max(0, all[i].Used-amount)
	}
	if over > 0 {
		return fmt.Sprintf("Up to %d are held, new amount %d: %s over. None is cut; new ones wait until fewer are held.", most, amount, count(int(over), "hold", "holds")), nil
	}
	return fmt.Sprintf("Up to %d are held, new amount %d: nobody is over it.", most, amount), nil
}

// changeAmount overrides the amount for everyone until then, or edits the limit for good.
func (p *Pages) changeAmount(ctx context.Context, v *visit) (string, error) {
	l, err := p.theLimit(v)
	if err != nil {
		return "", err
	}
	amount, err := strconv.ParseInt(v.form("amount"), 10, 64)
	if err != nil || amount < 0 || amount > limits.MaxAmount {
		return "", wrong("The amount must be a whole number from 0 to 1000000000.")
	}
	reason := v.form("reason")
	if !readableReason(reason) {
		return "", errReason
	}
	o, over := p.Service.Catalog(v.who.Tenant).Override(l.ID, limits.Subject{})
	if v.form("seen") != amountSeen(l, o, over) {
		return "", errChanged
	}
	to := limitPath(l.ID) + "?done=changed"
	if v.form("last") == "good" {
		_, rev, err := p.edits(v, reason).Change(ctx, v.who.Tenant, l.ID, l.Revision, v.by(), func(l limits.Limit) (limits.Limit, error) {
			l.Amount, l.Source = amount, sourcePage
			return l, nil
		})
		return to, p.reached(ctx, rev, err)
	}
	last, err := v.lasting()
	if err != nil {
		return "", err
	}
	if last == 0 {
		return "", wrong("Say until when, or that it is for good.")
	}
	rev, err := p.edits(v, reason).PutOverrideOver(ctx, v.who.Tenant, limits.Override{
		Limit: l.ID, Amount: amount, Until: v.windows.Add(last), Reason: reason, By: v.by(),
	}, func(l *limits.Limit, before *limits.Override) bool {
		if before == nil {
			return v.form("seen") == amountSeen(l, limits.Override{}, false)
		}
		return v.form("seen") == amountSeen(l, *before, true)
	})
	if errors.Is(err, catalogue.ErrChanged) {
		return "", errChanged // another was faster, here or at another replica
	}
	return to, p.reached(ctx, rev, err)
}

// errChanged: the form was made of a version that stands no more.
var errChanged = &formFault{status: http.StatusPreconditionFailed, says: []string{
	"Somebody changed it while you looked at this form; nothing was done. Below is what stands now and what you asked for: send the form again to have yours.",
}}
