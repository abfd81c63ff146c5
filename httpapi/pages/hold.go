package pages

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/web"
)

// holdBody is one hold.
type holdBody struct {
	ID, State, Ended, CLI string
	Level                 web.Level
	Facts                 web.Facts
	Steps                 []web.Step
	Force                 *forceBody // nil: it is over, or not theirs to force
}

// theHold is the hold that the path names, as it stands.
func (p *Pages) theHold(ctx context.Context, v *visit) (reserve.Reservation, error) {
	id, err := reserve.ParseID(v.r.PathValue("id"))
	if err != nil {
		return reserve.Reservation{}, reserve.ErrNotFound
	}
	return p.Service.Get(ctx, reserve.HoldRef{ID: id, By: v.caller()})
}

// hold shows one hold, and after its end how it ended, as long as that is kept.
func (p *Pages) hold(ctx context.Context, v *visit) (web.View, error) {
	h, err := p.theHold(ctx, v)
	if err != nil {
		return web.View{}, err
	}
	id := h.ID.String()
	b := holdBody{ID: id, CLI: "holdfast holds get " + id, Facts: p.holdFacts(v, &h), Steps: holdSteps(v, &h)}
	b.State, b.Level = stateWords(h.State)
	if h.State == reserve.Held {
		if v.who.Has(auth.HoldsForce) {
			form := p.forceBody(v, &h)
			b.Force = &form
		} else {
			v.needs = auth.HoldsForce
		}
	} else if b.Ended, err = p.endWords(ctx, v, &h); err != nil {
		return web.View{}, err
	}
	return web.View{
		Page: "hold", Title: shortID(id), Section: "holds", Body: b, Tables: []*web.Table{p.placesTable(&h)},
		Fields: []web.Field{
			{Name: "ends", Title: "Ends", Kind: web.Until, Cell: web.In(h.Expires, v.now)},
			{Name: "beat", Title: "Last heartbeat", Kind: web.Since, Cell: beatCell(&h, v.now)},
		},
		Still: h.State != reserve.Held,
	}, nil
}

func (p *Pages) holdFacts(v *visit, h *reserve.Reservation) web.Facts {
	facts := web.Facts{
		{Title: "Subject", Kind: web.Link, Cell: p.subjectCell(h.Subject)},
		{Title: "Action", Kind: web.Text, Cell: web.Cell{Text: string(h.Action)}},
		{Title: "Owner", Kind: web.Link, Cell: ownerCell(h.Owner)},
		{Title: "Host / process", Kind: web.Text, Cell: web.Cell{Text: hostWords(h.Owner)}},
		{Title: "Made by", Kind: web.Text, Cell: web.Cell{Text: principalWords(h.Principal)}},
		{Title: "Cost", Kind: web.Num, Cell: web.Cell{Text: strconv.FormatInt(h.Cost, 10)}},
		{Title: "Fence", Kind: web.Code, Cell: web.Cell{Text: strconv.FormatInt(h.Fence, 10)}},
	}
	if h.State == reserve.Held {
		facts = append(facts,
			web.Fact{Title: "Ends", Kind: web.Until, Cell: web.In(h.Expires, v.now), Name: "ends"},
			web.Fact{Title: "Last heartbeat", Kind: web.Since, Cell: beatCell(h, v.now), Name: "beat"},
			web.Fact{Title: "Time to live", Kind: web.Text, Cell: web.Cell{Text: web.Age(h.HoldTTL)}})
	} else {
		facts = append(facts,
			web.Fact{Title: "Charged", Kind: web.Num, Cell: web.Cell{Text: strconv.FormatInt(h.Charged, 10)}},
			web.Fact{Title: "Refunded", Kind: web.Num, Cell: web.Cell{Text: strconv.FormatInt(h.Refunded, 10)}})
		if h.Note != "" {
			facts = append(facts, web.Fact{Title: "Reason", Kind: web.Text, Cell: web.Cell{Text: h.Note}})
		}
	}
	if len(h.Labels) > 0 {
		facts = append(facts, web.Fact{Title: "Labels", Kind: web.Text, Cell: web.Cell{Text: labelWords(h.Labels)}})
	}
	return facts
}

func holdSteps(v *visit, h *reserve.Reservation) []web.Step {
	steps := []web.Step{{Kind: web.Since, Cell: web.Ago(h.CreatedAt, v.now), What: "Reserved"}}
	switch {
	case h.State != reserve.Held:
		what, level := stateWords(h.State)
		if who := principalWords(h.EndedBy); who != "" {
			what += " by " + who
		}
		return append(steps, web.Step{Kind: web.Since, Cell: web.Ago(h.EndedAt, v.now), What: upper(what), Level: level})
	case h.Beats == 0:
		steps = append(steps, web.Step{Kind: web.Text, Cell: web.Cell{Text: "so far"}, What: "No heartbeat", Level: web.Warn})
	default:
		steps = append(steps, web.Step{Kind: web.Since, Cell: web.Ago(h.LastBeat, v.now), What: count(int(h.Beats), "heartbeat", "heartbeats") + ", the last"})
	}
	return append(steps, web.Step{Kind: web.Until, Cell: web.In(h.Expires, v.now), What: "Ends by itself"})
}

func upper(s string) string {
	if s == "" || s[0] < 'a' || s[0] > 'z' {
		return s
	}
	return string(s[0]-'a'+'A') + s[1:]
}

func (p *Pages) placesTable(h *reserve.Reservation) *web.Table {
	t := &web.Table{
		Name: "places", Caption: "Limits that this hold occupies or is charged to", Empty: "It is charged to no limit.",
		Columns: []web.Column{{Title: "Limit", Kind: web.Link, Main: true}, {Title: "For", Kind: web.Link}, {Title: "Slot", Kind: web.Num}, {Title: "Charge", Kind: web.Num}},
	}
	for _, at := range h.Places {
		t.Rows = append(t.Rows, web.Row{Key: "slot " + at.Limit, Cells: []web.Cell{
			{Text: at.Limit, Href: p.Prefix + limitPath(at.Limit)}, p.forCell(at.Scope), {Text: strconv.FormatInt(at.N, 10)}, {},
		}})
	}
	for _, c := range h.Charges {
		t.Rows = append(t.Rows, web.Row{Key: "charge " + c.Limit, Cells: []web.Cell{
			{Text: c.Limit, Href: p.Prefix + limitPath(c.Limit)}, p.forCell(c.Scope), {}, {Text: strconv.FormatInt(c.Cost, 10)},
		}})
	}
	return t
}

// endWords says how a hold ended, and who has its slot now.
func (p *Pages) endWords(ctx context.Context, v *visit, h *reserve.Reservation) (string, error) {
	what, _ := stateWords(h.State)
	said := fmt.Sprintf("%s at %s", upper(what), h.EndedAt.UTC().Format("15:04:05 UTC, 2 January"))
	if h.State == reserve.Expired {
		said += ", never released"
	}
	if len(h.Places) == 0 {
		return said + ".", nil
	}
	at := h.Places[0]
	now, err := p.Service.List(ctx, reserve.Query{Tenant: v.who.Tenant, Limit: at.Limit, Max: maxHolds})
	if err != nil {
		return "", err
	}
	for i := range now {
		if slices.Contains(now[i].Places, at) && !now[i].CreatedAt.Before(h.EndedAt.Add(-time.Second)) {
			return fmt.Sprintf("%s; slot %d of %s was given to %s %s later.", said, at.N, at.Limit, shortID(now[i].ID.String()), web.Age(now[i].CreatedAt.Sub(h.EndedAt))), nil
		}
	}
	return fmt.Sprintf("%s; slot %d of %s is free, or has been used and given back since.", said, at.N, at.Limit), nil
}
