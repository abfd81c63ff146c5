package pages

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/catalogue"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/web"
	"github.com/holdfast-dev/holdfast/windows"
)

// sourcePage is where a limit made or changed here comes from.
const sourcePage = "page"

// limitsBody is the list of limits beside its table.
type limitsBody struct{ New string }

// limitList is every limit, by id.
func (p *Pages) limitList(_ context.Context, v *visit) (web.View, error) {
	cat := p.Service.Catalog(v.who.Tenant)
	t := &web.Table{
		Name: "limits", Caption: "Every limit", Empty: "There are no limits yet.",
		Columns: []web.Column{
			{Title: "Limit", Kind: web.Link, Main: true},
			{Title: "Allows", Kind: web.Text},
			{Title: "State", Kind: web.Text},
			{Title: "Overrides", Kind: web.Num},
			{Title: "Source", Kind: web.Text},
			{Title: "Changed", Kind: web.Since},
			{Title: "By", Kind: web.Text},
		},
	}
	for _, l := range cat.Limits() {
		state := p.limitState(v, cat, l)
		over := ""
		if n := len(cat.Overrides(l.ID)); n > 0 {
			over = strconv.Itoa(n)
		}
		t.Rows = append(t.Rows, web.Row{Key: l.ID, Level: state.Level, Cells: []web.Cell{
			{Text: l.ID, Href: p.Prefix + limitPath(l.ID)},
			{Text: limitWords(l)},
			state,
			{Text: over},
			{Text: l.Source},
			web.Ago(l.UpdatedAt, v.windows),
			{Text: l.UpdatedBy},
		}})
	}
	b := limitsBody{}
	if v.who.Has(auth.LimitsWrite) {
		b.New = p.Prefix + "/limits/new"
	} else {
		v.needs = auth.LimitsWrite
	}
	return web.View{Page: "limits", Title: "Limits", Section: "limits", Tables: []*web.Table{t}, Body: b}, nil
}

// limitState is what there is to say about a limit without looking at its use.
func (p *Pages) limitState(v *visit, cat *limits.Catalog, l *limits.Limit) web.Cell {
	if !l.Enabled {
		return web.Cell{Text: "not enforced", Level: web.Faint}
	}
	if state := p.stateOf(v, &use{rule: cat.Rule(l, limits.Subject{})}); state.Text != "" {
		return state
	}
	return web.Cell{Text: "in force", Level: web.Good}
}

// limitBody is one limit.
type limitBody struct {
	ID, Name, Sentence, Description, State string
	Level                                  web.Level
	Facts                                  web.Facts
	Acts                                   []link
	Subject                                string // that the page is narrowed to; "": everybody
	All                                    string // the page without it
	Holds                                  string // the holds of it
	Line                                   string // those who wait for it
	Usage                                  *usageBody
}

// link leads to an act; the form there asks first.
type link struct {
	Text, Href string
	Danger     bool
}

// theLimit is the limit that the path names, as this replica knows it.
func (p *Pages) theLimit(v *visit) (*limits.Limit, error) {
	l, ok := p.Service.Catalog(v.who.Tenant).Limit(v.r.PathValue("id"))
	if !ok {
		return nil, &formFault{status: http.StatusNotFound, says: []string{"There is no such limit."}}
	}
	return l, nil
}

// limit shows one limit: who holds what of it, and how it came to be what it is.
func (p *Pages) limit(ctx context.Context, v *visit) (web.View, error) {
	l, err := p.theLimit(v)
	if err != nil {
		return web.View{}, err
	}
	cat := p.Service.Catalog(v.who.Tenant)
	state := p.limitState(v, cat, l)
	b := limitBody{
		ID: l.ID, Name: l.Name, Sentence: limitWords(l), Description: l.Description, State: state.Text, Level: state.Level,
		Facts: p.limitFacts(v, cat, l), All: p.Prefix + limitPath(l.ID), Holds: p.Prefix + "/holds?limit=" + l.ID, Line: p.Prefix + "/waiting?limit=" + l.ID,
	}
	if v.who.Has(auth.LimitsWrite) {
		b.Acts = p.limitActs(cat, l)
	} else {
		v.needs = auth.LimitsWrite
	}
	q := reserve.Query{Tenant: v.who.Tenant, Limit: l.ID, Max: maxLooked}
	if text := v.query("subject"); text != "" {
		if q.Subject, err = limits.ParseSubject(text); err != nil {
			return web.View{}, wrong("A subject is written kind:id, such as user:u_42.")
		}
		b.Subject = q.Subject.String()
		b.Holds += "&subject=" + urlValue(b.Subject)
		b.Line += "&subject=" + urlValue(b.Subject)
	}
	view := web.View{Page: "limit", Title: l.ID, Section: "limits"}
	if v.who.Has(auth.HoldsRead) {
		by, err := p.usedBy(ctx, v, l, q.Subject)
		if err != nil {
			return web.View{}, err
		}
		holds, err := p.Service.List(ctx, q)
		if err != nil {
			return web.View{}, err
		}
		waits, err := p.waitersTable(ctx, v, reserve.WaiterQuery{Tenant: v.who.Tenant, Limit: l.ID, Subject: q.Subject, Max: maxRows}, v.who.Has(auth.HoldsForce))
		if err != nil {
			return web.View{}, err
		}
		view.Tables = append(view.Tables, by, p.holdsTable("holds", v, holds[:min(len(holds), maxRows)], false), waits)
		if !v.follows { // what is drawn stands still
			if b.Usage, err = p.usage(ctx, v, l, q.Subject, int64(len(holds))); err != nil {
				return web.View{}, err
			}
		}
	}
	if over := p.overridesTable(v, cat, l); len(over.Rows) > 0 {
		view.Tables = append(view.Tables, over)
	}
	if v.who.Has(auth.AuditRead) {
		trail, err := p.trailTable(ctx, v, reserve.TrailQuery{Tenant: v.who.Tenant, Target: l.ID, Max: shownActs})
		if err != nil {
			return web.View{}, err
		}
		view.Tables = append(view.Tables, trail)
	}
	view.Body = b
	return view, nil
}

// shownActs is how many lines of the trail another page shows.
const shownActs = 10

func (p *Pages) limitFacts(v *visit, cat *limits.Catalog, l *limits.Limit) web.Facts {
	rule := cat.Rule(l, limits.Subject{})
	amount := strconv.FormatInt(rule.Amount, 10)
	if rule.Unlimited {
		amount = "unlimited"
	}
	facts := web.Facts{{Title: "Amount now", Kind: web.Text, Cell: web.Cell{Text: amount}}}
	if o := rule.Override; o != nil {
		words := fmt.Sprintf("instead of %d, by %s", l.Amount, o.By)
		if o.Reason != "" {
			words += ": " + o.Reason
		}
		facts = append(facts, web.Fact{Title: "Override", Kind: web.Text, Cell: web.Cell{Text: words, Level: web.Note}})
		if !o.Until.IsZero() {
			facts = append(facts, web.Fact{Title: "Override ends", Kind: web.Until, Cell: web.In(o.Until, v.windows)})
		}
	}
	facts = append(facts,
		web.Fact{Title: "Counts", Kind: web.Text, Cell: web.Cell{Text: kindWords(l) + ", action " + string(l.Action)}},
		web.Fact{Title: "When a hold expires", Kind: web.Text, Cell: web.Cell{Text: "its charges are " + map[limits.OnExpiry]string{limits.RefundOnExpiry: "refunded", limits.ChargeOnExpiry: "kept"}[l.OnExpiry]}},
		web.Fact{Title: "Time to live", Kind: web.Text, Cell: web.Cell{Text: fmt.Sprintf("%d s, at most %d s", int64(l.TTL/time.Second), int64(l.MaxTTL/time.Second))}},
		web.Fact{Title: "Source", Kind: web.Text, Cell: web.Cell{Text: l.Source}},
		web.Fact{Title: "Changed", Kind: web.Since, Cell: web.Ago(l.UpdatedAt, v.windows)},
		web.Fact{Title: "Changed by", Kind: web.Text, Cell: web.Cell{Text: l.UpdatedBy}},
		web.Fact{Title: "ETag", Kind: web.Code, Cell: web.Cell{Text: strconv.Quote(strconv.FormatInt(l.Revision, 10))}})
	if len(l.Labels) > 0 {
		facts = append(facts, web.Fact{Title: "Labels", Kind: web.Text, Cell: web.Cell{Text: labelWords(l.Labels)}})
	}
	return facts
}

func kindWords(l *limits.Limit) string {
	kind := l.SubjectKind
	if kind == limits.Any {
		kind = "subject"
	}
	if l.Share == limits.All {
		return "every " + kind + " together"
	}
	return "each " + kind + " by itself"
}

func (p *Pages) limitActs(cat *limits.Catalog, l *limits.Limit) []link {
	at := p.Prefix + limitPath(l.ID)
	acts := []link{{Text: "Change amount…", Href: at + "/amount"}}
	if _, over := cat.Override(l.ID, limits.Subject{}); over {
		acts = append(acts, link{Text: "End the override…", Href: at + "/override/end"})
	}
	if l.Paused {
		acts = append(acts, link{Text: "Resume…", Href: at + "/resume"})
	} else {
		acts = append(acts, link{Text: "Pause…", Href: at + "/pause", Danger: true})
	}
	acts = append(acts, link{Text: "Edit", Href: at + "/edit"})
	if l.Enabled {
		return append(acts, link{Text: "Disable…", Href: at + "/disable", Danger: true})
	}
	return append(acts, link{Text: "Enable…", Href: at + "/enable"})
}

// usedBy is the use of a limit by subject, the most used first.
func (p *Pages) usedBy(ctx context.Context, v *visit, l *limits.Limit, only limits.Subject) (*web.Table, error) {
	t := &web.Table{
		Name: "used", Caption: "Use by subject", Empty: "Nobody uses it now.",
		Columns: []web.Column{{Title: "For", Kind: web.Link, Main: true}, {Title: "Held / amount", Kind: web.Meter}, {Title: "Resets", Kind: web.Until}},
	}
	if l.Window.Kind != windows.Concurrent {
		t.Columns[1].Title = "Used / amount"
	}
	all, err := p.Service.UsageOf(ctx, v.who.Tenant, l.ID, "", maxRows)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b reserve.ScopeUsage) int { return cmp.Compare(b.Used, a.Used) })
	for i := range all {
		u := &all[i]
		if only != (limits.Subject{}) && u.Scope != only.Scope() && u.Scope != limits.AllScope {
			continue
		}
		cell := meterCell(u.Used, u.Rule)
		level := web.Plain
		if !u.Rule.Unlimited && u.Remaining == 0 {
			level = web.Bad
		}
		cell.Level = level
		t.Rows = append(t.Rows, web.Row{Key: u.Scope, Level: level, Cells: []web.Cell{p.forCell(u.Scope), cell, web.In(u.ResetsAt, v.windows)}})
	}
	return t, nil
}

func (p *Pages) overridesTable(v *visit, cat *limits.Catalog, l *limits.Limit) *web.Table {
	t := &web.Table{
		Name: "overrides", Caption: "Overrides in force", Empty: "There are no overrides.",
		Columns: []web.Column{{Title: "For", Kind: web.Link}, {Title: "Amount", Kind: web.Text}, {Title: "Ends", Kind: web.Until}, {Title: "By", Kind: web.Text}, {Title: "Reason", Kind: web.Text}},
	}
	all := cat.Overrides(l.ID)
	for _, o := range all[:min(len(all), maxRows)] {
		whom, amount := web.Cell{Text: "everyone"}, "unlimited"
		if !o.Subject.IsZero() {
			whom = p.subjectCell(o.Subject)
		}
		if !o.Unlimited {
			amount = strconv.FormatInt(o.Amount, 10)
		}
		t.Rows = append(t.Rows, web.Row{Key: o.Subject.String(), Cells: []web.Cell{whom, {Text: amount}, web.In(o.Until, v.windows), {Text: o.By}, {Text: o.Reason}}})
	}
	return t
}

// edits is the editor for whoever visits: what it does goes into the trail.
func (p *Pages) edits(v *visit, reason string) *catalogue.Editor {
	return p.Editor.As(p.note(v, reason))
}

// reached waits until this replica knows of an edit: whoever made it reads it back.
func (p *Pages) reached(ctx context.Context, rev int64, err error) error {
	if err != nil {
		return err
	}
	if err := p.Service.Reached(ctx, rev); err != nil {
		return fmt.Errorf("%w: edited, but not seen here yet: %w", reserve.ErrUnknownOutcome, err)
	}
	return nil
}

// changeLimit changes the limit of the path, if it is what the form was made of.
func (p *Pages) changeLimit(ctx context.Context, v *visit, reason string, change func(*limits.Limit)) (string, error) {
	id := v.r.PathValue("id")
	seen, err := v.seen()
	if err != nil {
		return "", err
	}
	_, rev, err := p.edits(v, reason).Change(ctx, v.who.Tenant, id, seen, v.by(), func(l limits.Limit) (limits.Limit, error) {
		change(&l)
		l.Source = sourcePage
		return l, nil
	})
	return limitPath(id), p.reached(ctx, rev, err)
}

// seen is the revision that the form was made of.
func (v *visit) seen() (int64, error) {
	rev, err := strconv.ParseInt(v.form("seen"), 10, 64)
	if err != nil || rev < 1 {
		return 0, wrong("The form does not say which version it changes; open it again.")
	}
	return rev, nil
}

// lasting reads how long something is to last; zero: without end.
func (v *visit) lasting() (time.Duration, error) {
	if v.form("last") != "some" {
		return 0, nil
	}
	unit, known := map[string]time.Duration{"minutes": time.Minute, "hours": time.Hour, "days": 24 * time.Hour}[v.form("unit")]
	n, err := strconv.ParseInt(v.form("for"), 10, 32)
	if !known || err != nil || n < 1 || time.Duration(n) > longest/unit {
		return 0, wrong("It must last a whole number of minutes, hours or days, up to 400 days.")
	}
	return time.Duration(n) * unit, nil
}

// longest is how far an end may be away.
const longest = 400 * 24 * time.Hour

func readableReason(reason string) bool { return readable(reason) && len(reason) <= limits.MaxReason }

var errReason = wrong("Say why, in up to " + strconv.Itoa(limits.MaxReason) + " bytes of readable text: it goes into the trail, and to those who are refused.")
