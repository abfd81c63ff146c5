package store

import (
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

// What a ticket has beside the rest.
const (
	ticketAway = 1 << iota
	ticketKeyed
	ticketOwner
	ticketParts = 1<<iota - 1
)

func ticketPartsOf(t *reserve.Ticket) (parts byte) {
	if t.Away {
		parts |= ticketAway
	}
	if t.Keyed {
		parts |= ticketKeyed
	}
	if t.Owner != (reserve.Owner{}) {
		parts |= ticketOwner
	}
	return parts
}

func (e *encoder) ticket(t *reserve.Ticket) {
	parts := ticketPartsOf(t)
	e.b = append(append(e.b, version, parts), t.ID[:]...)
	e.text(t.Replica)
	e.subject(t.Subject)
	e.text(string(t.Action))
	e.unsigned(t.Cost)
	e.text(t.Principal)
	e.time(t.Since)
	e.signed(t.Until.UnixMilli() - t.Since.UnixMilli())
	if t.Keyed {
		e.b = append(e.b, t.Body[:]...)
	} else if t.Body != [16]byte{} {
		e.fail("body of a ticket without a key", t.Body)
	}
	if parts&ticketOwner != 0 {
		e.owner(&t.Owner)
	}
}

func (d *decoder) ticket() *reserve.Ticket {
	parts := d.byte()
	t := &reserve.Ticket{
		ID: d.digest(), Replica: d.text(),
		Away: parts&ticketAway != 0, Keyed: parts&ticketKeyed != 0,
	}
	kind, id, found := strings.Cut(d.text(), "/")
	d.bad = d.bad || !found
	t.Subject = limits.Subject{Kind: kind, ID: id}
	t.Action, t.Cost, t.Principal = limits.Action(d.text()), d.unsigned(), d.text()
	since := d.signed()
	t.Since = time.UnixMilli(since).UTC()
	t.Until = time.UnixMilli(since + d.signed()).UTC()
	if t.Keyed {
		t.Body = d.digest()
	}
	if parts&ticketOwner != 0 {
		t.Owner = d.owner()
	}
	if parts > ticketParts || parts != ticketPartsOf(t) {
		d.bad = true
	}
	return t
}
