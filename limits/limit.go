package limits

import (
	"time"

	"github.com/holdfast-dev/holdfast/windows"
)

// Subject is who a limit counts: a kind and an id, compared byte for byte.
type Subject struct{ Kind, ID string }

// Action is what kind of work is asked for.
type Action string

// Share says whose use a limit adds up.
type Share uint8

const (
	Each Share = iota // every subject has its own count
	All               // one count for all subjects
)

// OnExpiry says what an expired hold does to its charges; a release always refunds.
type OnExpiry uint8

const (
	RefundOnExpiry OnExpiry = iota
	ChargeOnExpiry
)

// Overage says what a commit above its estimate does.
type Overage uint8

const (
	RecordOverage Overage = iota // charged even past the amount
	RejectOverage                // refused, the hold stays held
)

// Limit is a named rule: at most Amount per Window for each subject, or for all of them.
// Once in a Catalog it is never changed.
type Limit struct {
	ID, Name, Description string
	SubjectKind           string // "*" for any
	Action                Action // "*" for any
	Amount                int64
	Window                windows.Window
	Share                 Share
	OnExpiry              OnExpiry
	Overage               Overage
	TTL, MaxTTL           time.Duration // whole seconds
	Enabled               bool
	Shadow                bool // judged, counted and told, but refuses nothing: "enforce": false
	Paused                bool
	PauseReason           string
	PausedUntil           time.Time // zero: without end
	Labels                map[string]string
	Schedules             []Schedule // nil: none

	Turn                 Turn  // what the schedules have made of the amount
	Generation           int64 // counts and charges of another generation are nothing
	Revision             int64 // of the store; the ETag
	CreatedAt, UpdatedAt time.Time
	UpdatedBy, Source    string // Source: api, file or page
}

// Override is a temporary amount, for one subject or, with a zero Subject, for everyone.
type Override struct {
	Limit     string
	Subject   Subject
	Amount    int64
	Unlimited bool
	Until     time.Time // zero: without end
	Reason    string
	By        string
	CreatedAt time.Time
}

// Block refuses one subject every new grant until it ends.
type Block struct {
	Subject Subject
	Until   time.Time
	Reason  string
	By      string
}

// Rule is a limit as it applies to one subject: its amount after overrides.
type Rule struct {
	*Limit
	Amount    int64 // in force: override, else plan, else schedule, else the limit's own; NoCeiling when Unlimited
	Unlimited bool
	Override  *Override // nil when none applies
	Plan      string    // whose amount it is; "" when no plan's
}

// AllScope is the scope of a limit that has one count for all subjects.
const AllScope = "_"

// NoCeiling stands for the amount of an unlimited override.
const NoCeiling = int64(1) << 53

// Scope is the subject as part of a key: kind, a slash, the raw id.
// A kind has no slash, so distinct subjects have distinct scopes.
func (s Subject) Scope() string { return s.Kind + "/" + s.ID }

// Ceiling is how many slots may be given out under the rule: its amount, or no end of them
// where the limit only shadows.
func (r Rule) Ceiling() int64 {
	if r.Shadow {
		return NoCeiling
	}
	return r.Amount
}

// Scope is whose count the rule adds to when s asks.
func (r Rule) Scope(s Subject) string {
	if r.Share == All {
		return AllScope
	}
	return s.Scope()
}
