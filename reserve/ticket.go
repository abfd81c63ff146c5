package reserve

import (
	"time"

	"github.com/holdfast-dev/holdfast/limits"
)

// Ticket is the value of a ticket key: a caller that waits in line. It hangs on the session
// lease of the replica that the caller waits at.
type Ticket struct {
	ID        ID     // of the reservation it will become; names the waiter
	Replica   string // where the caller waits
	Subject   limits.Subject
	Action    limits.Action
	Cost      int64
	Principal string
	Owner     Owner
	Since     time.Time // when it joined a line, wall clock, to the millisecond
	Until     time.Time // when its caller gives up, or, when that one is away, the place is lost
	Away      bool      // its caller hung up; the place is kept for a repeat under the same key
	Keyed     bool      // made under an Idempotency-Key
	Body      [16]byte  // digest of the request, when keyed
}
