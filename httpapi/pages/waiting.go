package pages

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/web"
)

// maxWaiters is how many of those who wait one page shows.
const maxWaiters = 500

// waitingBody is what the page of waiters needs beside its tables.
type waitingBody struct {
	Limit, Subject string
	Clear          string
	Ask            *dialogBody
}

// dialogBody is the form that a row's own link opens as a dialog; without script the link leads
// to the same form as a page of its own.
type dialogBody struct{ Heading, Effect, Button string }

var cancelDialog = dialogBody{
	Heading: "Cancel this wait?", Button: "Cancel the wait",
	Effect: "Its caller is refused with wait-cancelled now, and those behind it move up. Whoever asks again stands at the end.",
}

func waiterPath(id reserve.ID) string { return "/waiting/" + reserve.WaiterID(id) + "/cancel" }

// waiting shows who stands in line for what, the longest wait first.
func (p *Pages) waiting(ctx context.Context, v *visit) (web.View, error) {
	q := reserve.WaiterQuery{Tenant: v.who.Tenant, Limit: v.query("limit"), Max: maxWaiters}
	b := waitingBody{Limit: q.Limit, Subject: v.query("subject")}
	var err error
	if b.Subject != "" {
		if q.Subject, err = limits.ParseSubject(b.Subject); err != nil {
			return web.View{}, wrong("A subject is written kind:id, such as user:u_42.")
		}
	}
	if after := v.query("after"); after != "" {
		if q.After, err = readPosition(after); err != nil {
			return web.View{}, wrong("This page of the list cannot be found; start at its beginning.")
		}
	}
	if b.Limit+b.Subject != "" {
		b.Clear = p.Prefix + "/waiting"
	}
	mayCancel := v.who.Has(auth.HoldsForce)
	if mayCancel {
		b.Ask = &cancelDialog
	} else {
		v.needs = auth.HoldsForce
	}
	waiters, err := p.waitersTable(ctx, v, q, mayCancel)
	if err != nil {
		return web.View{}, err
	}
	lines, fields, err := p.linesTable(ctx, v, q)
	if err != nil {
		return web.View{}, err
	}
	return web.View{Page: "waiting", Title: "Waiting", Section: "waiting", Fields: fields, Tables: []*web.Table{lines, waiters}, Body: b}, nil
}

// linesTable is one row for each line, with what holds it up.
func (p *Pages) linesTable(ctx context.Context, v *visit, q reserve.WaiterQuery) (*web.Table, []web.Field, error) {
	t := &web.Table{
		Name: "lines", Caption: "Lines, the longest wait first", Empty: "Nobody waits.",
		Columns: []web.Column{
			{Title: "Limit", Kind: web.Link, Main: true},
			{Title: "For", Kind: web.Link},
			{Title: "Waiting", Kind: web.Num},
			{Title: "Longest wait", Kind: web.Since},
			{Title: "Next turn", Kind: web.Until},
			{Title: "Held / amount", Kind: web.Meter},
			{Title: "Held up by", Kind: web.Link},
		},
	}
	lines, all := p.Service.Lines(v.who.Tenant, maxRows)
	fields := []web.Field{
		{Name: "waiting", Title: "waiting", Kind: web.Num, Cell: web.Cell{Text: strconv.Itoa(all)}},
		{Name: "lines", Title: "in lines", Kind: web.Num, Cell: web.Cell{Text: strconv.Itoa(len(lines))}},
	}
	if len(lines) == 0 {
		return t, fields, nil
	}
	holds, err := p.Service.List(ctx, reserve.Query{Tenant: v.who.Tenant, Max: maxLooked})
	if err != nil {
		return nil, nil, err
	}
	uses, err := p.uses(ctx, v, holds)
	if err != nil {
		return nil, nil, err
	}
	by := map[countOf]*use{}
	for _, u := range uses {
		by[countOf{u.rule.ID, u.scope}] = u
	}
	for i := range lines {
		l := &lines[i]
		if q.Limit != "" && q.Limit != l.Limit || !q.Subject.IsZero() && q.Subject.Scope() != l.Scope && l.Scope != limits.AllScope {
			continue
		}
		u := by[countOf{l.Limit, l.Scope}]
		row := web.Row{Key: l.Limit + " " + l.Scope, Cells: []web.Cell{
			{Text: l.Limit, Href: p.Prefix + limitPath(l.Limit)},
			p.forCell(l.Scope),
			{Text: strconv.Itoa(l.Waiting)},
			web.Ago(l.Since, v.now), turnCell(l.Estimate, v.now),
			{},
			{},
		}}
		if u != nil {
			row.Cells[0].Href = p.limitOf(u)
			row.Cells[5] = usedCell(u, web.Plain)
			row.Cells[6] = p.heldUpBy(u)
			row.Level = row.Cells[6].Level
		}
		t.Rows = append(t.Rows, row)
	}
	return t, fields, nil
}

// heldUpBy says why a line does not move.
func (p *Pages) heldUpBy(u *use) web.Cell {
	to := p.Prefix + "/holds?sort=silent&limit=" + urlValue(u.rule.ID)
	if s, ok := scopeSubject(u.scope); ok {
		to += "&subject=" + urlValue(s.String())
	}
	switch {
	case u.rule.Paused:
		return web.Cell{Text: "the limit is paused", Href: p.Prefix + limitPath(u.rule.ID), Level: web.Warn}
	case u.silent == 1:
		return web.Cell{Text: "1 of " + count(u.held, "holder is", "holders is") + " silent", Href: to, Level: web.Bad}
	case u.silent > 1:
		return web.Cell{Text: strconv.Itoa(u.silent) + " of " + count(u.held, "holder are", "holders are") + " silent", Href: to, Level: web.Bad}
	case u.held > 0:
		return web.Cell{Text: count(u.held, "holder at work", "holders at work"), Href: to}
	}
	return web.Cell{}
}

// turnCell is about when a turn comes.
func turnCell(estimate time.Duration, now time.Time) web.Cell {
	if estimate < 0 {
		return web.Cell{Text: "nobody can tell", Level: web.Faint}
	}
	return web.In(now.Add(estimate).Round(time.Second), now)
}

// waitersTable is those who wait, the one that came first first.
func (p *Pages) waitersTable(ctx context.Context, v *visit, q reserve.WaiterQuery, cancels bool) (*web.Table, error) {
	t := &web.Table{
		Name: "waiters", Caption: "Who waits, the longest first", Empty: "Nobody waits.",
		Columns: []web.Column{
			{Title: "Place", Kind: web.Num},
			{Title: "Limit", Kind: web.Link},
			{Title: "Subject", Kind: web.Link},
			{Title: "Owner", Kind: web.Link},
			{Title: "Action", Kind: web.Text},
			{Title: "Waits", Kind: web.Since},
			{Title: "Turn", Kind: web.Until},
			{Title: "Gives up", Kind: web.Until},
		},
	}
	if cancels {
		t.Columns = append(t.Columns, web.Column{Title: "Act", Kind: web.Act})
	}
	all, err := p.Service.Waiters(ctx, q)
	if err != nil {
		return nil, err
	}
	for i := range all {
		w := &all[i]
		place := web.Cell{Text: strconv.Itoa(w.Place)}
		owner := ownerCell(w.Owner)
		if w.Away {
			owner.Text = strings.TrimSpace(owner.Text + " (hung up)")
		}
		row := web.Row{Key: reserve.WaiterID(w.ID), Cells: []web.Cell{
			place,
			{Text: w.Limit, Href: p.Prefix + limitPath(w.Limit)},
			p.subjectCell(w.Subject), owner,
			{Text: string(w.Action)},
			web.Ago(w.Since, v.now), turnCell(w.Estimate, v.now), web.In(w.Until, v.now),
		}}
		if cancels {
			row.Cells = append(row.Cells, web.Cell{Text: "Cancel…", Href: p.Prefix + waiterPath(w.ID), Ref: waiterWords(w)})
		}
		t.Rows = append(t.Rows, row)
	}
	if len(all) == maxWaiters {
		next := v.r.URL.Query()
		next.Set("after", positionText(all[len(all)-1].Position()))
		t.More = p.Prefix + query("/waiting", next)
	}
	return t, nil
}

// waiterWords tell one waiter from the others.
func waiterWords(w *reserve.Waiter) string {
	words := []string{w.Limit, w.Subject.String(), "place " + strconv.Itoa(w.Place)}
	if who := ownerWords(w.Owner); who != "" {
		words = append(words, who)
	}
	return strings.Join(words, " · ")
}

var errWaitOver = &formFault{status: http.StatusConflict, says: []string{"This wait has ended meanwhile; nothing was cancelled."}}

// theWaiter is the one that the path names.
func (p *Pages) theWaiter(ctx context.Context, v *visit) (*reserve.Waiter, error) {
	id, err := reserve.ParseWaiterID(v.r.PathValue("id"))
	if err != nil {
		return nil, errNothing
	}
	all, err := p.Service.Waiters(ctx, reserve.WaiterQuery{Tenant: v.who.Tenant, ID: id, Max: 1})
	if err == nil && len(all) == 0 {
		err = errWaitOver
	}
	if err != nil {
		return nil, err
	}
	return &all[0], nil
}

// cancelForm asks before a wait is ended.
func (p *Pages) cancelForm(ctx context.Context, v *visit) (web.View, error) {
	w, err := p.theWaiter(ctx, v)
	if err != nil {
		return web.View{}, err
	}
	made := p.ask(v, askBody{
		Back: p.Prefix + "/waiting", Heading: cancelDialog.Heading, Button: cancelDialog.Button, WithReason: true, Danger: true,
		What: waiterWords(w), Effect: cancelDialog.Effect,
	})
	made.Section = "waiting"
	return made, nil
}

func (p *Pages) cancelWait(ctx context.Context, v *visit) (string, error) {
	id, err := reserve.ParseWaiterID(v.r.PathValue("id"))
	if err != nil {
		return "", errNothing
	}
	reason := v.form("reason")
	if !readableReason(reason) {
		return "", errReason
	}
	note := p.note(v, reason)
	err = p.Service.Cancel(ctx, reserve.HoldRef{ID: id, By: v.caller()}, &note)
	if errors.Is(err, reserve.ErrNotFound) {
		return "", errWaitOver
	}
	return "/waiting?" + url.Values{"done": {"cancelled"}}.Encode(), err
}
