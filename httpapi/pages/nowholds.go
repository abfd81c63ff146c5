package pages

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/web"
)

func (p *Pages) expiringTable(v *visit, holds []reserve.Reservation) *web.Table {
	t := p.briefTable("expiring", "Holds that end next unless they are extended", "Nothing is held.", web.Column{Title: "Ends", Kind: web.Until}, web.Column{Title: "Heartbeat", Kind: web.Until})
	ends := byOrder(holds, func(a, b *reserve.Reservation) int { return cmp.Compare(a.Left, b.Left) })
	for _, h := range ends[:min(len(ends), shownSoon)] {
		due := h.LastBeat.Add(h.HoldTTL / 3)
		t.Rows = append(t.Rows, p.briefRow(h, web.In(h.Expires, v.now), dueCell(due, v.now)))
	}
	return t
}

// dueCell is when a heartbeat should come; one that is late says so.
func dueCell(due, now time.Time) web.Cell {
	if !due.After(now) {
		return web.Cell{Text: "late", Level: web.Warn}
	}
	return web.In(due, now)
}

func (p *Pages) silentTable(v *visit, holds []reserve.Reservation) *web.Table {
	t := p.briefTable("silent", "Holds whose heartbeat is late", "Every holder has been heard of in time.", web.Column{Title: "Last heard", Kind: web.Since}, web.Column{Title: "Ends", Kind: web.Until})
	var late []*reserve.Reservation
	for _, h := range byOrder(holds, func(a, b *reserve.Reservation) int { return a.LastBeat.Compare(b.LastBeat) }) {
		if silent(h, v.now) {
			late = append(late, h)
		}
	}
	for _, h := range late[:min(len(late), shownSoon)] {
		beat := web.Cell{Text: "never", Level: web.Warn}
		if h.Beats > 0 {
			beat = web.Ago(h.LastBeat, v.now)
		}
		t.Rows = append(t.Rows, p.briefRow(h, beat, web.In(h.Expires, v.now)))
	}
	return t
}

// silent: a heartbeat is late, which comes at a third of the time to live.
func silent(h *reserve.Reservation, now time.Time) bool { return now.Sub(h.LastBeat) > h.HoldTTL/2 }

func byOrder(holds []reserve.Reservation, order func(a, b *reserve.Reservation) int) []*reserve.Reservation {
	all := make([]*reserve.Reservation, len(holds))
	for i := range holds {
		all[i] = &holds[i]
	}
	slices.SortStableFunc(all, order)
	return all
}

func (p *Pages) briefTable(name, caption, empty string, last ...web.Column) *web.Table {
	return &web.Table{Name: name, Caption: caption, Empty: empty, Columns: append([]web.Column{
		{Title: "Hold", Kind: web.Link, Main: true}, {Title: "Limit", Kind: web.Text}, {Title: "Subject", Kind: web.Link}, {Title: "Owner", Kind: web.Link},
	}, last...)}
}

func (p *Pages) briefRow(h *reserve.Reservation, last ...web.Cell) web.Row {
	id := h.ID.String()
	return web.Row{Key: id, Cells: append([]web.Cell{
		{Text: shortID(id), Href: p.Prefix + holdPath(id)}, {Text: placeWords(h)}, p.subjectCell(h.Subject), ownerCell(h.Owner),
	}, last...)}
}
