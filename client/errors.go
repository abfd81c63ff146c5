package client

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

// What an error of this package is, for errors.Is. Anything else the server said is an
// *api.Problem, for errors.As.
var (
	ErrNoFreeSlot   = errors.New("holdfast: no free slot")       // also: the line is full, the wait was cancelled
	ErrQuota        = errors.New("holdfast: quota exceeded")     // a counting limit has no room now
	ErrPaused       = errors.New("holdfast: paused")             // the limit is, or the subject is blocked
	ErrNeverFits    = errors.New("holdfast: can never fit")      // waiting would not help
	ErrHoldLost     = errors.New("holdfast: hold lost")          // stop the work; *LostError says how
	ErrUnauthorized = errors.New("holdfast: not authorized")     // no token, a refused one, or not yours to do
	ErrUnavailable  = errors.New("holdfast: server unavailable") // no answer in time; it may have happened
)

// errClosed is why a closed client does nothing more. It is ErrUnavailable.
var errClosed = fmt.Errorf("%w: the client is closed", ErrUnavailable)

// Refusal says that a limit said not now. It is one of ErrNoFreeSlot, ErrQuota, ErrPaused and
// ErrNeverFits.
type Refusal struct {
	Code       api.Code
	Action     string
	DecidedBy  string        // the strictest limit that refuses; "" for a blocked subject
	Detail     string        // a sentence a person can act on
	RetryAfter time.Duration // 0: nothing to wait for, or nobody knows
	Waiting    int64         // callers in line
	Limits     []api.Verdict // every limit that was judged
	Holders    []api.Holder  // who holds the slots, as far as the token may know

	RateLimit, RateLimitPolicy string // the answer's headers of these names, to pass on
}

func (r *Refusal) Error() string {
	if r.Detail == "" {
		return "holdfast: " + string(r.Code)
	}
	return "holdfast: " + string(r.Code) + ": " + r.Detail
}

// Is tells which of this package's errors r is.
func (r *Refusal) Is(target error) bool { return target == r.kind() }

func (r *Refusal) kind() error {
	switch r.Code {
	case api.NeverFits:
		return ErrNeverFits
	case api.LimitPaused, api.SubjectBlocked:
		return ErrPaused
	case api.QuotaExceeded:
		return ErrQuota
	}
	return ErrNoFreeSlot
}

// hopeless reports whether waiting changes nothing that anybody knows of: what can never fit,
// what comes back at no known time, a wait that somebody cancelled.
func (r *Refusal) hopeless() bool {
	switch r.Code {
	case api.NeverFits, api.WaitCancelled:
		return true
	case api.NoFreeSlot, api.LineFull:
		return false // a release may come at any moment
	}
	return r.RetryAfter <= 0
}

// LostError says that a hold is gone, and how. It is ErrHoldLost.
type LostError struct {
	ID     string
	Reason string    // expired, released, committed, forced: the server's word; else one of the Lost constants
	By     string    // who ended it, when the server said so
	Note   string    // what they said
	At     time.Time // when, by the server's clock; zero: not known
}

// How a hold is lost without a word of the server's.
const (
	LostDeadline = "deadline" // no extend succeeded in time: the server may give the slot on
	LostUnknown  = "unknown"  // the server does not know it
	LostClosed   = "closed"   // Client.Close: nobody extends it any more
)

func (e *LostError) Error() string {
	text := fmt.Sprintf("%v: %s (%s)", ErrHoldLost, e.ID, e.Reason)
	if e.By != "" {
		text += " by " + e.By
	}
	if e.Note != "" {
		text += ": " + e.Note
	}
	return text
}

// Is makes a LostError an ErrHoldLost.
func (e *LostError) Is(target error) bool { return target == ErrHoldLost }

// lostBy is the LostError of a problem that says a hold is gone; nil for any other.
func lostBy(id string, p *api.Problem) *LostError {
	if p == nil {
		return nil
	}
	switch p.Code {
	case api.HoldLost:
		lost := &LostError{ID: id, Reason: p.Reason, By: p.By, Note: p.Note}
		if p.At != nil {
			lost.At = p.At.Time
		}
		return lost
	case api.NotFound: // a holder that gets 404 for an id it held treats it as lost
		return &LostError{ID: id, Reason: LostUnknown}
	}
	return nil
}

// problemError is what a caller gets for an answer that is neither success nor refusal.
func problemError(p *api.Problem) error {
	switch p.Code {
	case api.Unauthenticated, api.Forbidden:
		return fmt.Errorf("%w: %w", ErrUnauthorized, p)
	}
	return fmt.Errorf("holdfast: %w", p)
}
