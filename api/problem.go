package api

// ProblemType is the media type of a problem document.
const ProblemType = "application/problem+json"

// Problem is a refusal or an error (RFC 9457). Type to Detail are in each; the rest
// is there when the code needs it.
type Problem struct {
	Type      string `json:"type"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Code      Code   `json:"code"`
	Detail    string `json:"detail"` // a sentence a person can act on
	Instance  string `json:"instance,omitempty"`
	RequestID string `json:"requestId,omitempty"`

	Errors    []Fault `json:"errors,omitempty"`    // invalid-body, invalid-value
	Parameter string  `json:"parameter,omitempty"` // invalid-query
	Header    string  `json:"header,omitempty"`    // invalid-header

	DecidedBy         string    `json:"decidedBy,omitempty"`
	Amount            *int64    `json:"amount,omitempty"`
	Used              *int64    `json:"used,omitempty"`
	Waiting           *int64    `json:"waiting,omitempty"` // callers in line
	NeverFits         bool      `json:"neverFits,omitempty"`
	RetryAfterSeconds *int64    `json:"retryAfterSeconds,omitempty"`
	RetryAfterMs      *int64    `json:"retryAfterMs,omitempty"`
	ResetsAt          *Time     `json:"resetsAt,omitempty"`
	ResetsInSeconds   *int64    `json:"resetsInSeconds,omitempty"`
	Limits            []Verdict `json:"limits,omitempty"`
	Holders           []Holder  `json:"holders,omitempty"`

	Reason      string       `json:"reason,omitempty"` // hold-lost: how it ended; a pause's or a block's reason
	At          *Time        `json:"at,omitempty"`     // when it ended
	By          string       `json:"by,omitempty"`     // who ended it
	Note        string       `json:"note,omitempty"`   // what they said
	Reservation *Reservation `json:"reservation,omitempty"`

	Actions       []string `json:"actions,omitempty"`       // no-matching-limit: the nearest
	Matching      int64    `json:"matching,omitempty"`      // too-many-limits: how many
	MaxTTLSeconds *int64   `json:"maxTtlSeconds,omitempty"` // a ttl above what the limits allow
	Remaining     *int64   `json:"remaining,omitempty"`     // overage: what is left beyond the estimate
	Revision      *int64   `json:"revision,omitempty"`      // precondition-failed: the present one
	Scope         string   `json:"scope,omitempty"`         // forbidden: the scope that is missing
}

// Fault is one thing wrong with a body, and where: Pointer is a JSON pointer (RFC 6901), ""
// for the body as a whole.
type Fault struct {
	Pointer string `json:"pointer"`
	Detail  string `json:"detail"`
}

// NewProblem is the problem document of c with its constant members filled in.
func NewProblem(c Code, detail string) Problem {
	row := c.row()
	return Problem{Type: c.TypeURI(), Title: row.title, Status: row.status, Code: row.code, Detail: detail}
}

// Error makes a Problem an error for clients.
func (p *Problem) Error() string {
	if p.Detail == "" {
		return string(p.Code)
	}
	return string(p.Code) + ": " + p.Detail
}
