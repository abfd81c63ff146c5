package events

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

// Type says what happened.
type Type uint8

// The types, in the order of API.md section 8. Gap is no event of a tenant: it says that what
// happened after a reader's position is not known any more.
const (
	Created Type = iota + 1
	Extended
	Committed
	Released
	Expired
	Forced
	Refused
	LimitCreated
	LimitChanged
	LimitDeleted
	LimitExceeded
	WaiterJoined
	WaiterLeft
	Gap
)

var typeNames = [...]string{
	Created: "reservation.created", Extended: "reservation.extended", Committed: "reservation.committed",
	Released: "reservation.released", Expired: "reservation.expired", Forced: "reservation.forced",
	Refused: "check.refused", LimitCreated: "limit.created", LimitChanged: "limit.changed",
	LimitDeleted: "limit.deleted", LimitExceeded: "limit.exceeded",
	WaiterJoined: "waiter.joined", WaiterLeft: "waiter.left", Gap: "gap",
}

// String is the type's word in the API.
func (t Type) String() string {
	if int(t) < len(typeNames) {
		return typeNames[t]
	}
	return "unknown"
}

// ParseType is the inverse of String; ok is false for a word that names no type of event.
func ParseType(word string) (t Type, ok bool) {
	for t = Created; t < Gap; t++ {
		if typeNames[t] == word {
			return t, true
		}
	}
	return 0, false
}

// Types are all types of events, in order.
func Types() []Type {
	all := make([]Type, 0, Gap-Created)
	for t := Created; t < Gap; t++ {
		all = append(all, t)
	}
	return all
}

// Whole is the Index of a position after everything that happened at its revision. It is above
// what one transaction can hold.
const Whole = 999_999

// Pos is the place of an event in its tenant's stream: the revision of the store it happened at,
// and its number within that revision and tenant, from 0. As an id it is revision.index.
type Pos struct {
	Rev   int64
	Index int
}

// String is the position as it stands in id and in Last-Event-ID.
func (p Pos) String() string {
	return strconv.FormatInt(p.Rev, 10) + "." + strconv.Itoa(p.Index)
}

// ErrBadPos is returned by ParsePos for text that is no position.
var ErrBadPos = errors.New("events: an event id is revision.index, such as 1874.0")

// ParsePos reads what String wrote, and nothing else.
func ParsePos(s string) (p Pos, err error) {
	rev, index, found := strings.Cut(s, ".")
	if p.Rev, err = strconv.ParseInt(rev, 10, 64); err != nil || !found || p.Rev < 0 {
		return Pos{}, ErrBadPos
	}
	if p.Index, err = strconv.Atoi(index); err != nil || p.Index < 0 || p.Index > Whole || p.String() != s {
		return Pos{}, ErrBadPos
	}
	return p, nil
}

// before reports whether p comes before q in a stream.
func (p Pos) before(q Pos) bool { return p.Rev < q.Rev || p.Rev == q.Rev && p.Index < q.Index }

// Event is one thing that happened in a tenant. Which of its parts are there follows from its
// type. It is never changed; only what is looked up about it is added once it is known.
type Event struct {
	Pos
	Tenant string
	Type   Type
	At     time.Time // by the clock of who wrote it; of a deletion, when it was heard; zero: not known

	ID     reserve.ID      // reservation.*; waiter.*: of the reservation it is to become, zero when that is not known
	Fence  int64           // reservation.*
	Slot   *reserve.Slot   // reservation.extended
	Places []reserve.Place // reservation.extended: of the slots that were put

	LimitID  string           // limit.*, waiter.*, check.refused
	Scope    string           // limit.exceeded, waiter.*; limit.changed by an override: whose, "" for everyone
	Limit    *limits.Limit    // limit.created, limit.changed: as it stands now; nil: by an override
	Override *limits.Override // limit.changed by an override; nil when that has ended
	After    Pos              // gap: the position asked for

	Ticket   *reserve.Ticket   // waiter.*; nil: left, and who it was is not known
	Granted  bool              // waiter.left: with a reservation
	Exceeded *reserve.Exceeded // limit.exceeded; nil: it cannot be read
	Refusal  *reserve.Refusal  // check.refused
	aside    int64             // check.refused: its number at this replica; it has no position

	record atomic.Pointer[reserve.Record] // of a reservation
	once   sync.Once
	frame  []byte
}

// Record is the reservation an event is about; nil when there is none or it was not found any
// more.
func (e *Event) Record() *reserve.Record {
	if r := e.record.Load(); r != nobody {
		return r
	}
	return nil
}

// nobody stands for a record that was looked for and is not there.
var nobody = new(reserve.Record)

// Who is the subject an event is about and the principal that acted for it, as far as there is
// one.
func (e *Event) Who() (subject limits.Subject, principal string) {
	if r := e.Record(); r != nil {
		return r.Subject, r.Principal
	}
	switch {
	case e.Refusal != nil:
		return e.Refusal.Subject, e.Refusal.Principal
	case e.Ticket != nil:
		return e.Ticket.Subject, e.Ticket.Principal
	}
	return subjectOf(e.scope()), ""
}

func (e *Event) scope() string {
	if e.Type == Extended && len(e.Places) > 0 {
		return e.Places[0].Scope
	}
	return e.Scope
}

// Local reports whether the event was told by this replica alone. It has no position, so nobody
// resumes after it.
func (e *Event) Local() bool { return e.aside != 0 }

// subjectOf is whose scope it is; zero for one that all share.
func subjectOf(scope string) limits.Subject {
	kind, id, one := strings.Cut(scope, "/")
	if !one {
		return limits.Subject{}
	}
	return limits.Subject{Kind: kind, ID: id}
}

// Limits are the ids of the limits an event is about, each once.
func (e *Event) Limits() []string {
	if e.LimitID != "" {
		return []string{e.LimitID}
	}
	var ids []string
	add := func(id string) {
		for _, known := range ids {
			if known == id {
				return
			}
		}
		ids = append(ids, id)
	}
	if r := e.Record(); r != nil {
		for i := range r.Places {
			add(r.Places[i].Limit)
		}
		for i := range r.Charges {
			add(r.Charges[i].Limit)
		}
	} else {
		for i := range e.Places {
			add(e.Places[i].Limit)
		}
	}
	return ids
}

// Frame is the event as encode writes it. It is written once, whoever reads it: all readers are
// given the same bytes, which are not theirs to change.
func (e *Event) Frame(encode func(*Event) []byte) []byte {
	e.once.Do(func() { e.frame = encode(e) })
	return e.frame
}
