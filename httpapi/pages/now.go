package pages

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/web"
	"github.com/holdfast-dev/holdfast/windows"
)

// soon is how close an end is that Right now warns of; shownSoon how many it names.
const (
	soon      = 30 * time.Second
	shownSoon = 5
)

// countOf names whose count one limit is.
type countOf struct{ limit, scope string }

// use is how one limit stands for one scope.
type use struct {
	rule    limits.Rule
	scope   string
	verdict *reserve.Verdict
	oldest  *reserve.Reservation
	newest  time.Time // when the last slot was taken
	held    int       // holds
	silent  int       // of them with a heartbeat that is late
	waiting int
}

// saw takes in one hold of the limit and scope.
func (u *use) saw(h *reserve.Reservation, now time.Time) {
	if u.held++; silent(h, now) {
		u.silent++
	}
	if u.oldest == nil || h.CreatedAt.Before(u.oldest.CreatedAt) {
		u.oldest = h
	}
	if h.CreatedAt.After(u.newest) {
		u.newest = h.CreatedAt
	}
}

// sawHolds takes in those of holds that are of the limit and scope.
func (u *use) sawHolds(holds []reserve.Reservation, now time.Time) {
	for i := range holds {
		for _, at := range holds[i].Places {
			if at.Limit == u.rule.ID && at.Scope == u.scope {
				u.saw(&holds[i], now)
			}
		}
	}
}

// rank orders what is wrong before what is not.
func (u *use) rank() int {
	switch {
	case u.full() && !u.rule.Paused:
		return 0
	case u.rule.Paused:
		return 1
	case u.rule.Override != nil:
		return 2
	case u.verdict != nil && u.verdict.Used > 0:
		return 3
	}
	return 4
}

// fullness is the part of the amount that is used, of those that are in use.
func (u *use) fullness() float64 {
	if u.verdict == nil || u.rule.Unlimited || u.rule.Amount == 0 {
		return 0
	}
	return float64(u.verdict.Used) / float64(u.rule.Amount)
}

func (u *use) full() bool {
	return u.verdict != nil && !u.rule.Unlimited && u.verdict.Remaining == 0 && u.rule.Enabled
}

// rightNow answers "is anything wrong?", worst first.
func (p *Pages) rightNow(ctx context.Context, v *visit) (web.View, error) {
	holds, err := p.Service.List(ctx, reserve.Query{Tenant: v.who.Tenant, Max: maxLooked})
	if err != nil {
		return web.View{}, err
	}
	uses, err := p.uses(ctx, v, holds)
	if err != nil {
		return web.View{}, err
	}
	view := web.View{Page: "now", Title: "Right now", Section: "now"}
	no := p.refusals(ctx, v)
	view.Fields = p.nowFields(v, uses, holds, no)
	view.Tables = []*web.Table{p.limitsTable(v, uses, no), p.expiringTable(v, holds), p.silentTable(v, holds)}
	return view, nil
}

// uses is every limit with every scope that has use of it, worst first.
func (p *Pages) uses(ctx context.Context, v *visit, holds []reserve.Reservation) ([]*use, error) {
	cat := p.Service.Catalog(v.who.Tenant)
	by := map[countOf]*use{}
	var all []*use
	for _, l := range cat.Limits() {
		if !l.Enabled {
			continue
		}
		vs, err := p.Service.UsageOf(ctx, v.who.Tenant, l.ID, "", maxRows)
		if err != nil {
			return nil, err
		}
		for i := range vs {
			u := &use{rule: vs[i].Rule, scope: vs[i].Scope, verdict: &vs[i].Verdict}
			by[countOf{l.ID, u.scope}] = u
			all = append(all, u)
		}
		if len(vs) == 0 {
			all = append(all, &use{rule: cat.Rule(l, limits.Subject{})})
		}
	}
	for i := range holds {
		h := &holds[i]
		for _, at := range h.Places {
			u := by[countOf{at.Limit, at.Scope}]
			if u == nil {
				continue
			}
			u.saw(h, v.now)
		}
	}
	lines, _ := p.Service.Lines(v.who.Tenant, maxLooked)
	for i := range lines {
		if u := by[countOf{lines[i].Limit, lines[i].Scope}]; u != nil {
			u.waiting = lines[i].Waiting
		}
	}
	slices.SortStableFunc(all, func(a, b *use) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(b.waiting, a.waiting), cmp.Compare(b.fullness(), a.fullness()), cmp.Compare(a.rule.ID, b.rule.ID), cmp.Compare(a.scope, b.scope))
	})
	return all, nil
}

func (p *Pages) nowFields(v *visit, uses []*use, holds []reserve.Reservation, no *refused) []web.Field {
	full, soonEnds := 0, 0
	paused, overridden := map[string]bool{}, map[string]bool{}
	for _, u := range uses {
		if u.full() && !u.rule.Paused {
			full++
		}
		if u.rule.Paused {
			paused[u.rule.ID] = true
		}
		if u.rule.Override != nil {
			overridden[u.rule.ID] = true
		}
	}
	late := 0
	for i := range holds {
		if holds[i].Left < soon {
			soonEnds++
		}
		if silent(&holds[i], v.now) {
			late++
		}
	}
	_, waits := p.Service.Lines(v.who.Tenant, 1)
	waiting := number("waiting", "waiting", waits, web.Warn)
	waiting.Kind, waiting.Href = web.Link, p.Prefix+"/waiting"
	held := strconv.Itoa(len(holds))
	if len(holds) == maxLooked {
		held += " or more"
	}
	return []web.Field{
		number("full", "saturated", full, web.Bad),
		number("paused", "paused", len(paused), web.Warn),
		number("overridden", "override", len(overridden), web.Note),
		waiting,
		{Name: "holds", Title: "holds", Kind: web.Link, Cell: web.Cell{Text: held, Href: p.Prefix + "/holds"}},
		number("silent", "silent", late, web.Warn),
		number("soon", "expire < 30 s", soonEnds, web.Note),
		{Name: "refused", Title: "refused lately", Kind: web.Spark, Cell: web.Cell{Text: strconv.FormatInt(no.lately, 10), Ref: sparks(no.hours)}},
	}
}

// number is a sum that has a colour when there is any.
func number(name, title string, n int, level web.Level) web.Field {
	if n == 0 {
		level = web.Plain
	}
	return web.Field{Name: name, Title: title, Kind: web.Num, Cell: web.Cell{Text: strconv.Itoa(n), Level: level}}
}

// lineOf leads to those who wait for a limit, for the subject of the row.
func (p *Pages) lineOf(u *use) string {
	to := p.Prefix + "/waiting?limit=" + urlValue(u.rule.ID)
	if s, ok := scopeSubject(u.scope); ok {
		to += "&subject=" + urlValue(s.String())
	}
	return to
}

func (p *Pages) limitsTable(v *visit, uses []*use, no *refused) *web.Table {
	t := &web.Table{
		Name: "limits", Caption: "Limits in use, worst first",
		Columns: []web.Column{
			{Title: "Limit", Kind: web.Link, Main: true},
			{Title: "For", Kind: web.Link},
			{Title: "Held / amount", Kind: web.Meter},
			{Title: "State", Kind: web.Text},
			{Title: "Waiting", Kind: web.Link},
			{Title: "Refused lately", Kind: web.Num},
			{Title: "Oldest hold", Kind: web.Since},
			{Title: "By", Kind: web.Link},
		},
		Empty: "There are no limits yet. Make one: holdfast limits create --help",
	}
	for _, u := range uses[:min(len(uses), maxRows)] {
		state := p.stateOf(v, u)
		row := web.Row{Key: u.rule.ID + " " + u.scope, Level: state.Level, Cells: []web.Cell{
			{Text: u.rule.ID, Href: p.limitOf(u)}, p.usesFor(u), usedCell(u, state.Level), state, {}, {}, {}, {},
		}}
		if u.waiting > 0 {
			row.Cells[4] = web.Cell{Text: strconv.Itoa(u.waiting), Href: p.lineOf(u), Level: web.Warn}
		}
		if n := no.of(u.rule.ID, u.scope); n > 0 {
			row.Cells[5].Text = strconv.FormatInt(n, 10)
		}
		if u.oldest != nil {
			row.Cells[6] = web.Ago(u.oldest.CreatedAt, v.now)
			row.Cells[7] = web.Cell{Text: ownerWords(u.oldest.Owner), Href: p.Prefix + holdPath(u.oldest.ID.String())}
			if row.Cells[7].Text == "" {
				row.Cells[7].Text = shortID(u.oldest.ID.String())
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// limitOf leads to a limit, for the subject of the row.
func (p *Pages) limitOf(u *use) string {
	to := p.Prefix + limitPath(u.rule.ID)
	if s, ok := scopeSubject(u.scope); ok {
		to += "?subject=" + urlValue(s.String())
	}
	return to
}

func (p *Pages) usesFor(u *use) web.Cell {
	switch {
	case u.rule.Share == limits.All:
		return web.Cell{Text: "all"}
	case u.scope == "":
		return web.Cell{Text: "nobody yet", Level: web.Faint}
	}
	return p.forCell(u.scope)
}

func usedCell(u *use, level web.Level) web.Cell {
	used := int64(0)
	if u.verdict != nil {
		used = u.verdict.Used
	}
	c := meterCell(used, u.rule)
	if level == web.Bad || level == web.Warn {
		c.Level = level
	}
	return c
}

// stateOf is what there is to say about a limit, the worst of it.
func (p *Pages) stateOf(v *visit, u *use) web.Cell {
	switch {
	case u.rule.Paused:
		text := "paused"
		if u.rule.PauseReason != "" {
			text += ": " + u.rule.PauseReason
		}
		if !u.rule.PausedUntil.IsZero() {
			text += " (until " + clockWords(u.rule.PausedUntil, v.windows) + ")"
		}
		return web.Cell{Text: text, Level: web.Warn}
	case u.verdict != nil && u.verdict.Excess > 0:
		return web.Cell{Text: count(int(u.verdict.Excess), "hold", "holds") + " over the amount; no new ones start", Level: web.Bad}
	case u.full() && u.rule.Window.Kind == windows.Concurrent && !u.newest.IsZero():
		text := "full since " + clockWords(u.newest, v.now)
		if u.silent > 0 {
			text += "; " + strconv.Itoa(u.silent) + " of " + count(u.held, "holder", "holders") + " silent"
		}
		return web.Cell{Text: text, Level: web.Bad}
	case u.full() && !u.verdict.ResetsAt.IsZero():
		return web.Cell{Text: "used up until " + clockWords(u.verdict.ResetsAt, v.windows), Level: web.Bad}
	case u.full():
		return web.Cell{Text: "full", Level: web.Bad}
	case u.rule.Override != nil && u.rule.Override.Until.IsZero():
		return web.Cell{Text: "override without end", Level: web.Note}
	case u.rule.Override != nil:
		return web.Cell{Text: "override until " + clockWords(u.rule.Override.Until, v.windows), Level: web.Note}
	}
	return web.Cell{}
}

// clockWords is an instant near now: the time of day, and the day when it is another one.
func clockWords(at, now time.Time) string {
	at, now = at.UTC(), now.UTC()
	if at.YearDay() == now.YearDay() && at.Year() == now.Year() {
		return at.Format("15:04 UTC")
	}
	return at.Format("2 Jan 15:04 UTC")
}
