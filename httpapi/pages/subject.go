package pages

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/web"
)

// subjectBody is one subject: the page that support is sent.
type subjectBody struct {
	Name    string
	Blocked string
	Unblock string
	CLI     string
	Facts   web.Facts
	Line    string
}

// subjectPage is everything that touches a subject.
func (p *Pages) subjectPage(ctx context.Context, v *visit) (web.View, error) {
	s, err := v.subject()
	if err != nil {
		return web.View{}, err
	}
	verdicts, err := p.Service.Usage(ctx, v.who.Tenant, s)
	if err != nil {
		return web.View{}, err
	}
	holds, err := p.Service.List(ctx, reserve.Query{Tenant: v.who.Tenant, Subject: s, Max: maxRows})
	if err != nil {
		return web.View{}, err
	}
	waits, err := p.waitersTable(ctx, v, reserve.WaiterQuery{Tenant: v.who.Tenant, Subject: s, Max: maxRows}, v.who.Has(auth.HoldsForce))
	if err != nil {
		return web.View{}, err
	}
	b := subjectBody{
		Name: s.String(), CLI: "holdfast holds --subject " + s.String(), Facts: p.planFacts(v, s), Line: p.Prefix + "/waiting?subject=" + urlValue(s.String()),
	}
	if block, blocked := p.Service.Catalog(v.who.Tenant).Block(s); blocked {
		b.Blocked = "Refused every new grant until " + clockWords(block.Until, v.windows) + ", by " + principalWords(block.By) + ": " + orNothing(block.Reason)
		if v.who.Has(auth.HoldsForce) {
			b.Unblock = p.Prefix + subjectPath(s) + "/unblock"
		}
	}
	return web.View{Page: "subject", Title: s.String(), Section: "holds", Body: b, Tables: []*web.Table{
		p.verdictsTable(v, verdicts, holds), p.holdsTable("holds", v, holds, false), waits, p.givenTable(v, s, verdicts), p.refusedTable(v, s),
	}}, nil
}

// refusedTable is what this replica refused a subject lately, and why.
func (p *Pages) refusedTable(v *visit, s limits.Subject) *web.Table {
	t := &web.Table{
		Name: "refusals", Caption: "Refused lately by this replica, the latest first", Empty: "This replica refused it nothing lately.",
		Columns: []web.Column{
			{Title: "Ago", Kind: web.Since},
			{Title: "Action", Kind: web.Text},
			{Title: "Decided by", Kind: web.Link},
			{Title: "Why", Kind: web.Text},
			{Title: "Cost", Kind: web.Num},
			{Title: "Times", Kind: web.Num},
		},
	}
	for _, r := range p.Service.Refusals(v.who.Tenant, s) {
		by := web.Cell{Text: r.Limit}
		if r.Limit != "" {
			by.Href = p.Prefix + limitPath(r.Limit)
		}
		t.Rows = append(t.Rows, web.Row{Key: strconv.FormatInt(r.At.UnixNano(), 36) + " " + r.Limit, Cells: []web.Cell{
			web.Ago(r.At, v.now), {Text: string(r.Action)}, by, {Text: whyWords(&r)}, {Text: strconv.FormatInt(r.Cost, 10)}, {Text: strconv.FormatInt(r.Count, 10)},
		}})
	}
	return t
}

// whyWords are the reason of a refusal.
func whyWords(r *reserve.Refusal) string {
	switch {
	case r.Limit == "":
		return "the subject is blocked"
	case r.LineFull:
		return "nobody more could stand in line"
	case r.Why == reserve.NeverFits:
		return "it can never fit"
	case r.Why == reserve.Paused:
		return "the limit is paused"
	case r.Why == reserve.NoSlot:
		return "no free slot"
	default:
		return "used up"
	}
}

// planFacts are the plan of a subject and what it grants.
func (p *Pages) planFacts(v *visit, s limits.Subject) web.Facts {
	cat := p.Service.Catalog(v.who.Tenant)
	given, ok := cat.SubjectPlan(s)
	if !ok {
		return nil
	}
	facts := web.Facts{
		{Title: "Plan", Kind: web.Text, Cell: web.Cell{Text: given.Plan}},
		{Title: "Given by", Kind: web.Text, Cell: web.Cell{Text: given.By}},
		{Title: "Given", Kind: web.Since, Cell: web.Ago(given.CreatedAt, v.windows)},
	}
	if f := cat.File(); f != nil {
		amounts := f.Plans[given.Plan]
		for _, id := range slices.Sorted(maps.Keys(amounts)) {
			words := "unlimited"
			if !amounts[id].Unlimited {
				words = strconv.FormatInt(amounts[id].Amount, 10)
			}
			facts = append(facts, web.Fact{Title: id, Kind: web.Text, Cell: web.Cell{Text: words}})
		}
	}
	return facts
}

// givenTable is the overrides that are in force for a subject: its own, and those for everyone.
func (p *Pages) givenTable(v *visit, s limits.Subject, verdicts []reserve.Verdict) *web.Table {
	t := &web.Table{
		Name: "overrides", Caption: "Overrides in force", Empty: "There are no overrides.",
		Columns: []web.Column{
			{Title: "Limit", Kind: web.Link, Main: true},
			{Title: "For", Kind: web.Text},
			{Title: "Amount", Kind: web.Text},
			{Title: "Ends", Kind: web.Until},
			{Title: "By", Kind: web.Text},
			{Title: "Reason", Kind: web.Text},
		},
	}
	for i := range verdicts {
		o := verdicts[i].Rule.Override
		if o == nil {
			continue
		}
		whom, amount := "everyone", "unlimited"
		if o.Subject == s {
			whom = "this subject"
		}
		if !o.Unlimited {
			amount = strconv.FormatInt(o.Amount, 10) + " instead of " + strconv.FormatInt(verdicts[i].Rule.Limit.Amount, 10)
		}
		t.Rows = append(t.Rows, web.Row{Key: o.Limit, Cells: []web.Cell{
			{Text: o.Limit, Href: p.Prefix + limitPath(o.Limit)}, {Text: whom}, {Text: amount}, web.In(o.Until, v.windows), {Text: o.By}, {Text: o.Reason},
		}})
	}
	return t
}

func (p *Pages) verdictsTable(v *visit, verdicts []reserve.Verdict, holds []reserve.Reservation) *web.Table {
	t := &web.Table{
		Name: "limits", Caption: "Limits that count this subject", Empty: "No limit counts this subject.",
		Columns: []web.Column{
			{Title: "Limit", Kind: web.Link, Main: true},
			{Title: "Allows", Kind: web.Text},
			{Title: "Used / amount", Kind: web.Meter},
			{Title: "Resets", Kind: web.Until},
			{Title: "State", Kind: web.Text},
		},
	}
	for i := range verdicts {
		u := &use{rule: verdicts[i].Rule, scope: verdicts[i].Scope, verdict: &verdicts[i]}
		u.sawHolds(holds, v.now)
		state := p.stateOf(v, u)
		t.Rows = append(t.Rows, web.Row{Key: u.rule.ID, Level: state.Level, Cells: []web.Cell{
			{Text: u.rule.ID, Href: p.Prefix + limitPath(u.rule.ID)}, {Text: limitWords(u.rule.Limit)}, usedCell(u, state.Level), web.In(verdicts[i].ResetsAt, v.windows), state,
		}})
	}
	return t
}

// unblockForm asks before a block ends.
func (p *Pages) unblockForm(_ context.Context, v *visit) (web.View, error) {
	s, err := v.subject()
	if err != nil {
		return web.View{}, err
	}
	if _, blocked := p.Service.Catalog(v.who.Tenant).Block(s); !blocked {
		return web.View{}, &formFault{status: http.StatusConflict, says: []string{"The block has ended already."}}
	}
	made := p.ask(v, askBody{
		Back: p.Prefix + subjectPath(s), Heading: "Lift the block of " + s.String() + "?", Button: "Lift it", WithReason: true,
		Effect: "The subject is granted again at once, within its limits.",
	})
	made.Section = "holds"
	return made, nil
}

func (p *Pages) unblock(ctx context.Context, v *visit) (string, error) {
	s, err := v.subject()
	if err != nil {
		return "", err
	}
	reason := v.form("reason")
	if !readableReason(reason) {
		return "", errReason
	}
	rev, err := p.edits(v, reason).Unblock(ctx, v.who.Tenant, s)
	return subjectPath(s) + "?done=unblocked", p.reached(ctx, rev, err)
}
