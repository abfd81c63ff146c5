package api

// WebhookRequest is the body of POST /v1/webhooks. Without events every type is sent, but
// check.refused, which has no place in the stream. Without a secret one is made.
type WebhookRequest struct {
	URL    string   `json:"url" rule:"required"`
	Events []string `json:"events,omitempty" rule:"max=16"`
	Secret string   `json:"secret,omitempty"`
}

// RotateRequest is the body of POST /v1/webhooks/{id}/rotate. Without a secret one is made.
type RotateRequest struct {
	Secret string `json:"secret,omitempty"`
}

// Webhook is one webhook. Its secret is told when it is made or rotated, and never again.
type Webhook struct {
	ID             string   `json:"id"`
	URL            string   `json:"url"`
	Events         []string `json:"events"` // types; none: every type
	Secret         string   `json:"secret,omitempty"`
	OldSecretUntil *Time    `json:"oldSecretUntil,omitempty"` // deliveries are signed with the secret before, too
	CreatedAt      Time     `json:"createdAt"`
	CreatedBy      string   `json:"createdBy"`
	Delivery       Delivery `json:"delivery"`
}

// Delivery is how far a webhook is.
type Delivery struct {
	Queued     int64  `json:"queued"`   // events that wait
	Accepted   int64  `json:"accepted"` // events
	Failed     int64  `json:"failed"`   // attempts
	Dropped    int64  `json:"dropped"`  // events given up
	Gaps       int64  `json:"gaps"`     // times events before were not known any more
	AcceptedAt *Time  `json:"acceptedAt,omitempty"`
	FailedAt   *Time  `json:"failedAt,omitempty"`
	Status     int64  `json:"status,omitempty"`  // of the last answer
	Trouble    string `json:"trouble,omitempty"` // of the last attempt: status, redirect, timeout, address or network
}

// WebhookPage is the answer of GET /v1/webhooks: all there are.
type WebhookPage = Page[Webhook]
