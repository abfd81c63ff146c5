package api

// The modes of a check.
const (
	ModeConsume = "consume" // the default
	ModePreview = "preview"
	ModeReserve = "reserve"
)

// CheckRequest is the body of POST /v1/checks.
type CheckRequest struct {
	Subject     *Subject          `json:"subject,omitempty"` // default: the caller's own
	Action      string            `json:"action" rule:"required"`
	Mode        string            `json:"mode,omitempty" rule:"enum=consume|preview|reserve"`
	Cost        *int64            `json:"cost,omitempty" rule:"min=0,max=1000000000"` // default 1
	TTLSeconds  *int64            `json:"ttlSeconds,omitempty" rule:"min=2,max=3600"`
	WaitSeconds *int64            `json:"waitSeconds,omitempty" rule:"min=0,max=60"`
	Owner       *Owner            `json:"owner,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
}

// ReserveRequest is the body of POST /v1/reservations: a check without its mode.
type ReserveRequest struct {
	Subject     *Subject          `json:"subject,omitempty"`
	Action      string            `json:"action" rule:"required"`
	Cost        *int64            `json:"cost,omitempty" rule:"min=0,max=1000000000"`
	TTLSeconds  *int64            `json:"ttlSeconds,omitempty" rule:"min=2,max=3600"`
	WaitSeconds *int64            `json:"waitSeconds,omitempty" rule:"min=0,max=60"`
	Owner       *Owner            `json:"owner,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
}

// Verdict is one limit's part of an answer. Used and Remaining are after the decision.
type Verdict struct {
	ID                string `json:"id"`
	Window            string `json:"window"`
	Rolling           bool   `json:"rolling,omitempty"`
	Amount            int64  `json:"amount"` // in force; null on the wire when Unlimited
	Used              int64  `json:"used"`
	Remaining         int64  `json:"remaining"` // never below 0; null on the wire when Unlimited
	Allowed           bool   `json:"allowed"`
	Unlimited         bool   `json:"unlimited,omitempty"`
	Paused            bool   `json:"paused,omitempty"`
	Shadow            bool   `json:"shadow,omitempty"` // not enforced: it refuses nothing, whatever Allowed says
	NeverFits         bool   `json:"neverFits,omitempty"`
	Excess            int64  `json:"excess,omitempty"`  // held above a lowered amount
	Waiting           int64  `json:"waiting,omitempty"` // callers in line
	ResetsAt          *Time  `json:"resetsAt,omitempty"`
	ResetsInSeconds   *int64 `json:"resetsInSeconds,omitempty"`
	RetryAfterSeconds *int64 `json:"retryAfterSeconds,omitempty"` // of this limit alone
	RetryAfterMs      *int64 `json:"retryAfterMs,omitempty"`
}

// Holder is one live hold as a refusal shows it.
type Holder struct {
	ID                  string   `json:"id"`
	Limit               string   `json:"limit,omitempty"`
	Subject             *Subject `json:"subject,omitempty"`
	Slot                int64    `json:"slot"`
	Owner               Owner    `json:"owner"`
	HeldSeconds         int64    `json:"heldSeconds"`
	ExpiresInSeconds    int64    `json:"expiresInSeconds"`
	HeartbeatAgoSeconds *int64   `json:"heartbeatAgoSeconds,omitempty"` // absent: none yet
}

// CheckAnswer is the answer of POST /v1/checks whenever it could be decided, yes or no.
// From Code on, the fields belong to a refusal.
type CheckAnswer struct {
	Allowed           bool         `json:"allowed"`
	Mode              string       `json:"mode"`
	Reservation       *Reservation `json:"reservation,omitempty"` // mode reserve, allowed
	Limits            []Verdict    `json:"limits"`
	Code              Code         `json:"code,omitempty"`      // what POST /v1/reservations would say
	Detail            string       `json:"detail,omitempty"`    // a sentence a person can act on
	DecidedBy         string       `json:"decidedBy,omitempty"` // absent for a block, which no limit decides
	Reason            string       `json:"reason,omitempty"`    // of a pause or a block
	NeverFits         bool         `json:"neverFits,omitempty"`
	RetryAfterSeconds *int64       `json:"retryAfterSeconds,omitempty"`
	RetryAfterMs      *int64       `json:"retryAfterMs,omitempty"`
	ResetsAt          *Time        `json:"resetsAt,omitempty"`
	ResetsInSeconds   *int64       `json:"resetsInSeconds,omitempty"`
	Waiting           int64        `json:"waiting,omitempty"`
	Holders           []Holder     `json:"holders,omitempty"`
}
