package reserve

import "time"

// Webhook is the value of a webhook's key: where events of its tenant are sent, and which.
type Webhook struct {
	URL      string
	Events   []string // words of types; none: every type that has a position
	Secret   Secret   // what deliveries are signed with
	Previous Secret   // they are signed with it, too, until PreviousUntil; nil: none
	Until    time.Time
	At       time.Time
	By       string // kind:id
}

// Delivery is how far a webhook is: what it was told of, what waits, and how it went. It is
// written by the replica that has the duty.
type Delivery struct {
	Rev         int64 // events up to here are in the outbox, or were sent, or are not for it
	Index       int64
	First, Next int64 // parcels of the outbox have ranks from First up to below Next; some are gone
	Queued      int64 // events in them

	Accepted, Failed, Dropped, Gaps int64 // deliveries that were accepted, attempts that were not, events given up, gaps told

	AcceptedAt, FailedAt time.Time // the last
	Status               int64     // HTTP status of the last answer; 0: there was none
	Trouble              string    // of the last attempt; "": it was accepted
}

// Parcel is the value of a key of the outbox: events that wait for their delivery, in order.
type Parcel struct{ Events []Letter }

// Letter is one event on its way to a webhook.
type Letter struct {
	ID     string // of the event; names the delivery, whatever it is tried
	Type   string
	At     time.Time // when it was put into the outbox
	Limits []string  // ids; events of one limit are delivered in order
	Body   []byte    // JSON, as it is sent
}

// Bounds of a parcel.
const (
	MaxLetters      = 64   // of a parcel
	MaxLetterLimits = 4096 // of a letter
)

// Duty is the value of a duty's key: which replica has it. It hangs on that one's session.
type Duty struct {
	Replica string
	Since   time.Time
}

// WebhookView is a webhook and how far it is, for whoever lists them.
type WebhookView struct {
	ID string
	Webhook
	Delivery Delivery
}
