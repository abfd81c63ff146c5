package reserve

import (
	"errors"
	"fmt"
	"time"
)

// What can go wrong. A refusal is not among them: that is a Decision.
var (
	ErrNotFound        = errors.New("reserve: no such reservation")                     // unknown, or not the caller's to see
	ErrForbidden       = errors.New("reserve: not the caller's to act on")              // seen, but not theirs
	ErrMismatch        = errors.New("reserve: same key, other request")                 // idempotency-mismatch
	ErrInFlight        = errors.New("reserve: the same key is being worked on")         // idempotency-in-flight
	ErrFenced          = errors.New("reserve: the fence named is not the live one")     // fence-differs
	ErrContended       = errors.New("reserve: lost the race too often")                 // nothing happened
	ErrUnavailable     = errors.New("reserve: the store cannot be reached")             // nothing happened
	ErrOverloaded      = errors.New("reserve: too much is waiting already")             // nothing happened
	ErrDraining        = errors.New("reserve: shutting down")                           // nothing happened
	ErrUnknownOutcome  = errors.New("reserve: sent, but the answer is not known")       // may have happened
	ErrFull            = errors.New("reserve: the store has no space")                  // nothing happened
	ErrQuarantine      = errors.New("reserve: in quarantine after a restore")           // nothing happened
	ErrClockSkew       = errors.New("reserve: this clock cannot be trusted now")        // nothing happened
	ErrTooBig          = errors.New("reserve: too many operations for one transaction") // nothing happened
	ErrTooManyWebhooks = errors.New("reserve: as many webhooks as there may be")        // nothing happened
	ErrWaitCancelled   = errors.New("reserve: somebody ended the wait")                 // wait-cancelled
	ErrCorrupt         = errors.New("reserve: a stored value cannot be read")
	ErrNewer           = errors.New("reserve: a stored value is of a newer version")
)

// LineFullError says that nobody may join the line any more; the refusal that was to be waited
// out comes with it.
type LineFullError struct{ Decision Decision }

func (e *LineFullError) Error() string { return "reserve: the line is full" }

// LeaseError says that a put named a lease that is no more; nothing happened.
// ID is 0 when the store did not tell which.
type LeaseError struct{ ID LeaseID }

func (e *LeaseError) Error() string { return fmt.Sprintf("reserve: lease %x is gone", int64(e.ID)) }

// CompactedError says that history up to and including Rev is not kept any more.
type CompactedError struct{ Rev int64 }

func (e *CompactedError) Error() string {
	return fmt.Sprintf("reserve: history is not kept up to revision %d", e.Rev)
}

// LostError says that a hold has ended, how, and when.
type LostError struct{ Record Record }

func (e *LostError) Error() string {
	return fmt.Sprintf("reserve: hold ended (%s) at %s", e.Record.State, e.Record.EndedAt.Format(time.RFC3339))
}

// SettledError says that a reservation was settled another way before.
type SettledError struct{ Record Record }

func (e *SettledError) Error() string {
	return fmt.Sprintf("reserve: already settled (%s)", e.Record.State)
}

// OverageError says that a commit above its estimate was refused; the hold stays held.
type OverageError struct {
	Limit     string
	Asked     int64 // cost of the commit
	Remaining int64 // what the limit has left beyond the estimate
}

func (e *OverageError) Error() string {
	return fmt.Sprintf("reserve: %s has no room for a cost of %d", e.Limit, e.Asked)
}

// NoLimitError says that no limit matches, and which actions come near.
type NoLimitError struct{ Nearest []string }

func (e *NoLimitError) Error() string { return "reserve: no limit matches" }

// TooManyLimitsError says how many limits match, above the bound.
type TooManyLimitsError struct{ Matching int }

func (e *TooManyLimitsError) Error() string {
	return fmt.Sprintf("reserve: %d limits match", e.Matching)
}

// TTLError says that a ttl is above what the limits allow.
type TTLError struct{ Max time.Duration }

func (e *TTLError) Error() string {
	return fmt.Sprintf("reserve: the ttl may be at most %s here", e.Max)
}
