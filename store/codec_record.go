package store

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/windows"
)

// A record is
//
//	1 | state | parts | subject | action | cost | ttl s | created | principal
//	places  n × (limit | scope | slot)
//	charges n × (limit | scope | generation | slice | cost)
//	keyed   body 16
//	owner   name | host | url | pid
//	labels  n × (key | value), ascending
//	end     fence | ended − created | by | note | charged | refunded
//
// where parts says which of the last four are there. The id is the key's and not repeated. The
// subject is written as its scope, kind/id, so that reading needs no text of its own for that;
// elsewhere a scope is one byte when it is the subject's or everyone's.
const (
	partKeyed = 1 << iota
	partOwner
	partLabels
	partEnd
	partsKnown = 1<<iota - 1
)

const (
	scopeOwn   = iota // the record's subject's
	scopeAll          // limits.AllScope
	scopeOther        // spelt out
)

func (e *encoder) record(r *reserve.Record) {
	parts := partsOf(r)
	e.b = append(e.b, version, byte(r.State), parts)
	e.subject(r.Subject)
	e.text(string(r.Action))
	e.unsigned(r.Cost)
	e.seconds(r.TTL)
	e.time(r.CreatedAt)
	e.text(r.Principal)
	e.places(r)
	if parts&partKeyed != 0 {
		e.b = append(e.b, r.Body[:]...)
	} else if r.Body != [16]byte{} {
		e.fail("body of a record without a key", r.Body)
	}
	if parts&partOwner != 0 {
		e.owner(&r.Owner)
	}
	if parts&partLabels != 0 {
		e.labels(r.Labels)
	}
	if parts&partEnd != 0 {
		e.unsigned(r.Fence)
		e.signed(r.EndedAt.UnixMilli() - r.CreatedAt.UnixMilli())
		e.text(r.EndedBy)
		e.text(r.Note)
		e.unsigned(r.Charged)
		e.unsigned(r.Refunded)
	}
}

// partsOf says which parts hold anything. EndedAt is looked at to the millisecond, as it is
// written.
func partsOf(r *reserve.Record) (parts byte) {
	if r.Keyed {
		parts |= partKeyed
	}
	if r.Owner != (reserve.Owner{}) {
		parts |= partOwner
	}
	if len(r.Labels) > 0 {
		parts |= partLabels
	}
	if r.Fence != 0 || r.EndedAt.UnixMilli() != (time.Time{}).UnixMilli() ||
		r.EndedBy != "" || r.Note != "" || r.Charged != 0 || r.Refunded != 0 {
		parts |= partEnd
	}
	return parts
}

func (e *encoder) owner(o *reserve.Owner) {
	e.text(o.Name)
	e.text(o.Host)
	e.text(o.URL)
	e.signed(o.PID)
}

func (d *decoder) owner() reserve.Owner {
	return reserve.Owner{Name: d.text(), Host: d.text(), URL: d.text(), PID: d.signed()}
}

func (e *encoder) subject(s limits.Subject) {
	if strings.Contains(s.Kind, "/") {
		e.fail("kind", s.Kind)
	}
	e.b = binary.AppendUvarint(e.b, uint64(len(s.Kind)+1+len(s.ID)))
	e.b = append(append(append(e.b, s.Kind...), '/'), s.ID...)
}

func (e *encoder) places(r *reserve.Record) {
	e.length(len(r.Places), maxItems)
	for i := range r.Places {
		p := &r.Places[i]
		e.text(p.Limit)
		e.scope(r.Subject, p.Scope)
		e.unsigned(p.N)
	}
	e.length(len(r.Charges), maxItems)
	for i := range r.Charges {
		c := &r.Charges[i]
		e.text(c.Limit)
		e.scope(r.Subject, c.Scope)
		e.unsigned(c.Generation)
		e.signed(int64(c.Slice))
		e.unsigned(c.Cost)
	}
}

func (e *encoder) scope(s limits.Subject, scope string) {
	switch {
	case isScopeOf(s, scope):
		e.b = append(e.b, scopeOwn)
	case scope == limits.AllScope:
		e.b = append(e.b, scopeAll)
	default:
		e.b = append(e.b, scopeOther)
		e.text(scope)
	}
}

// isScopeOf is scope == s.Scope() without making that text.
func isScopeOf(s limits.Subject, scope string) bool {
	k := len(s.Kind)
	return len(scope) == k+1+len(s.ID) && scope[:k] == s.Kind && scope[k] == '/' && scope[k+1:] == s.ID
}

func (e *encoder) labels(labels map[string]string) {
	e.length(len(labels), maxItems)
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		e.text(k)
		e.text(labels[k])
	}
}

func (d *decoder) record(key reserve.ID) *reserve.Record {
	r := &reserve.Record{ID: key, State: d.state()}
	parts := d.byte()
	scope := d.text()
	kind, id, found := strings.Cut(scope, "/")
	d.bad = d.bad || !found
	r.Subject = limits.Subject{Kind: kind, ID: id}
	r.Action = limits.Action(d.text())
	r.Cost = d.unsigned()
	r.TTL = d.seconds()
	r.CreatedAt = d.time()
	r.Principal = d.text()
	d.places(r, scope)
	if r.Keyed = parts&partKeyed != 0; r.Keyed {
		r.Body = d.digest()
	}
	if parts&partOwner != 0 {
		r.Owner = d.owner()
	}
	if parts&partLabels != 0 {
		r.Labels = d.labels()
	}
	if parts&partEnd != 0 {
		r.Fence = d.unsigned()
		r.EndedAt = time.UnixMilli(r.CreatedAt.UnixMilli() + d.signed()).UTC()
		r.EndedBy, r.Note = d.text(), d.text()
		r.Charged, r.Refunded = d.unsigned(), d.unsigned()
	}
	if parts > partsKnown || parts != partsOf(r) { // a part that is there and says nothing
		d.bad = true
	}
	return r
}

func (d *decoder) places(r *reserve.Record, own string) {
	const leastPlace, leastCharge = 3, 5 // bytes: each field's one
	if n := d.length(maxItems, leastPlace); n > 0 {
		r.Places = make([]reserve.Place, n)
		for i := range r.Places {
			p := &r.Places[i]
			p.Limit, p.Scope, p.N = d.text(), d.scope(own), d.unsigned()
		}
	}
	if n := d.length(maxItems, leastCharge); n > 0 {
		r.Charges = make([]reserve.Charge, n)
		for i := range r.Charges {
			c := &r.Charges[i]
			c.Limit, c.Scope, c.Generation = d.text(), d.scope(own), d.unsigned()
			c.Slice, c.Cost = windows.Slice(d.signed()), d.unsigned()
		}
	}
}

func (d *decoder) scope(own string) string {
	switch d.byte() {
	case scopeOwn:
		return own
	case scopeAll:
		return limits.AllScope
	case scopeOther:
		s := d.text()
		d.bad = d.bad || s == limits.AllScope || s == own
		return s
	}
	d.bad = true
	return ""
}

func (d *decoder) labels() map[string]string {
	n := d.length(maxItems, 2)
	labels := make(map[string]string, n)
	last := ""
	for i := range n {
		k := d.text()
		if i > 0 && k <= last {
			d.bad = true
		}
		last, labels[k] = k, d.text()
	}
	return labels
}
