package reserve

import (
	"time"

	"github.com/holdfast-dev/holdfast/limits"
)

// Request is one check: consume, preview or reserve.
type Request struct {
	Tenant    string
	Subject   limits.Subject
	Action    limits.Action
	Cost      int64
	TTL       time.Duration // reserve only; 0: the least default of the limits that match
	Wait      time.Duration // for a yes, in line, at most MaxWait; 0: it is refused at once
	Leaves    bool          // and, when it is refused at once, gives up the place that the key still has
	Principal string        // stable identity of the caller (auth.Principal.ID)
	Key       string        // Idempotency-Key; "" for none
	Route     string        // part of the key's scope
	Body      []byte        // what must be the same under the same key
	Owner     Owner
	Labels    map[string]string
}

// Caller says who asks about a hold, and what they may.
type Caller struct {
	Tenant    string
	Principal string
	Sees      func(s limits.Subject, principal string) bool // may know that it exists; nil: everything
	Acts      func(s limits.Subject, principal string) bool // may extend, commit, release it; nil: everything
}

// HoldRef names a reservation for a caller. One the caller may not see is simply not found.
type HoldRef struct {
	ID ID
	By Caller
}

// Reservation is a record as it stands now.
type Reservation struct {
	Record
	Expires  time.Time     // held: wall clock here, counted from before the first call
	Left     time.Duration // held: time left, short rather than long; never negative
	HoldTTL  time.Duration // held: the ttl of the last extend or of the grant
	LastBeat time.Time
	Beats    int64
	Replayed bool // an earlier grant under the same key
}

// Query filters a list of reservations. Zero fields do not filter.
type Query struct {
	Tenant  string
	States  []State // none: Held
	Limit   string
	Subject limits.Subject
	Action  limits.Action
	Owner   string // Owner.Name
	Host    string
	Prefix  string                                        // of the id, the subject, its id, the owner's name or its host
	Visible func(s limits.Subject, principal string) bool // nil: everything
	Sort    Order
	After   Position // last item of the page before; zero: the first page
	Max     int      // at least 1
}

// Order of a list.
type Order uint8

// The orders: oldest first (default), the one that expires first, newest first, and the one
// heard of longest ago first.
const (
	Oldest Order = iota
	Expiring
	Newest
	Silent
)

// Position is where a page ended: the sort key in Unix milliseconds and the id.
type Position struct {
	At int64
	ID ID
}
