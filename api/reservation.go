package api

// The states of a reservation.
const (
	StateHeld      = "held"
	StateCommitted = "committed"
	StateReleased  = "released"
	StateExpired   = "expired"
	StateForced    = "forced"
)

// Slot is one place taken under a concurrent limit, numbered from 0.
type Slot struct {
	Limit string `json:"limit"`
	Slot  int64  `json:"slot"`
}

// Reservation is a reservation as it stands. While held it has an expiry and the time left,
// rounded down; once ended it has its end and what became of its cost.
type Reservation struct {
	ID               string            `json:"id"`
	State            string            `json:"state"`
	Subject          Subject           `json:"subject"`
	Action           string            `json:"action"`
	Cost             int64             `json:"cost"`
	Slots            []Slot            `json:"slots"`
	Fence            int64             `json:"fence"` // per slot, a later one is greater
	CreatedAt        Time              `json:"createdAt"`
	ExpiresAt        *Time             `json:"expiresAt,omitempty"`        // held
	TTLSeconds       *int64            `json:"ttlSeconds,omitempty"`       // held
	HeartbeatSeconds *int64            `json:"heartbeatSeconds,omitempty"` // held: extend this often
	LastHeartbeatAt  *Time             `json:"lastHeartbeatAt,omitempty"`  // absent: none yet
	EndedAt          *Time             `json:"endedAt,omitempty"`
	EndedBy          string            `json:"endedBy,omitempty"`
	Note             string            `json:"note,omitempty"`     // reason of a release or a force-release
	Charged          *int64            `json:"charged,omitempty"`  // ended
	Refunded         *int64            `json:"refunded,omitempty"` // ended
	Owner            Owner             `json:"owner"`
	Labels           map[string]string `json:"labels"`
	Limits           []Verdict         `json:"limits"`
}

// ReservationPage is the answer of GET /v1/reservations.
type ReservationPage = Page[Reservation]

// ExtendRequest is the body of extend. Absent: the present ttl, counted from now.
type ExtendRequest struct {
	TTLSeconds *int64 `json:"ttlSeconds,omitempty" rule:"min=2,max=3600"`
}

// CommitRequest is the body of commit. Absent: the estimate.
type CommitRequest struct {
	Cost *int64 `json:"cost,omitempty" rule:"min=0,max=1000000000"`
}

// ReleaseRequest is the body of release.
type ReleaseRequest struct {
	Reason string `json:"reason,omitempty"` // up to 512 bytes
}

// MaxHeartbeats is how many ids one call of POST /v1/heartbeats may name.
const MaxHeartbeats = 500

// HeartbeatRequest is the body of POST /v1/heartbeats.
type HeartbeatRequest struct {
	IDs        []string `json:"ids" rule:"required,max=500"` // up to MaxHeartbeats
	TTLSeconds *int64   `json:"ttlSeconds,omitempty" rule:"min=2,max=3600"`
}

// HeartbeatAnswer is the answer of POST /v1/heartbeats, one result an id, in order.
type HeartbeatAnswer struct {
	Results []HeartbeatResult `json:"results"`
}

// HeartbeatResult is what became of one id: a new expiry, or a problem.
type HeartbeatResult struct {
	ID         string   `json:"id"`
	OK         bool     `json:"ok"`
	ExpiresAt  *Time    `json:"expiresAt,omitempty"`
	TTLSeconds *int64   `json:"ttlSeconds,omitempty"`
	Problem    *Problem `json:"problem,omitempty"`
}

// FenceRequest is the body of POST /v1/fences/verify.
type FenceRequest struct {
	Limit   string  `json:"limit" rule:"required"`
	Subject Subject `json:"subject" rule:"required"`
	Slot    int64   `json:"slot" rule:"required,min=0,max=1000000000"`
	Fence   int64   `json:"fence" rule:"required,min=1"`
}

// FenceAnswer says whether the fence is the live one of its slot.
type FenceAnswer struct {
	Current bool `json:"current"`
}
