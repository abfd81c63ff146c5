package api

// Event is one event as GET /v1/events and webhooks tell it. Which fields are there follows from
// the type. New types and fields may come; whoever reads passes over what it does not know.
type Event struct {
	ID   string `json:"id,omitempty"` // revision.index; none of check.refused, which nobody resumes after
	Type string `json:"type"`
	At   *Time  `json:"at,omitempty"` // by the clock of who did it; absent: not known any more

	Subject     *Subject `json:"subject,omitempty"`
	Action      string   `json:"action,omitempty"`
	Limits      []string `json:"limits"`                // ids of the limits it is about
	Reservation string   `json:"reservation,omitempty"` // id

	Waiter string `json:"waiter,omitempty"` // id
	Code   Code   `json:"code,omitempty"`   // check.refused: what it was answered with

	Slots      []Slot            `json:"slots,omitempty"`
	Fence      int64             `json:"fence,omitempty"`
	Cost       *int64            `json:"cost,omitempty"`
	TTLSeconds *int64            `json:"ttlSeconds,omitempty"` // from At; created, extended
	CreatedAt  *Time             `json:"createdAt,omitempty"`
	Owner      *Owner            `json:"owner,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	Charged    *int64            `json:"charged,omitempty"`
	Refunded   *int64            `json:"refunded,omitempty"`
	By         string            `json:"by,omitempty"` // principal
	Note       string            `json:"note,omitempty"`

	Amount   *int64         `json:"amount,omitempty"` // of the limit; exceeded: in force for the subject
	Used     *int64         `json:"used,omitempty"`
	Revision int64          `json:"revision,omitempty"` // of the limit
	Paused   bool           `json:"paused,omitempty"`
	Override *EventOverride `json:"override,omitempty"`

	Refused           *int64 `json:"refused,omitempty"` // check.refused: how many it stands for, itself and those alike that were not told
	RetryAfterSeconds *int64 `json:"retryAfterSeconds,omitempty"`

	After string `json:"after,omitempty"` // gap: the id asked for; what came between is not known any more
}

// EventOverride says that a limit changed for a subject, or by an override for everyone.
type EventOverride struct {
	Amount *int64 `json:"amount"`          // null: unlimited, or ended
	Ended  bool   `json:"ended,omitempty"` // the limit's own amount is in force again
	Until  *Time  `json:"until,omitempty"`
	Reason string `json:"reason,omitempty"`
}
