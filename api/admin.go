package api

import "encoding/json"

// ForceReleaseRequest is the body of POST /admin/v1/reservations/{id}/force-release.
type ForceReleaseRequest struct {
	Reason              string `json:"reason" rule:"required"` // up to 512 bytes
	Fence               int64  `json:"fence" rule:"required,min=1"`
	BlockSubjectSeconds *int64 `json:"blockSubjectSeconds,omitempty" rule:"min=1,max=2592000"`
}

// AuditLine is one act of an administrator. Before and After hold what the act changed, as
// objects; null where there was, or is, nothing to tell.
type AuditLine struct {
	At        Time            `json:"at"`
	Actor     string          `json:"actor"` // kind:id
	Act       string          `json:"act"`
	Target    string          `json:"target"`
	Before    json.RawMessage `json:"before"`
	After     json.RawMessage `json:"after"`
	Reason    string          `json:"reason"`
	Address   string          `json:"address"`
	RequestID string          `json:"requestId"`
}

// AuditPage is the answer of GET /admin/v1/audit, the latest first.
type AuditPage = Page[AuditLine]

// VerifyAnswer is the answer of GET /admin/v1/verify. Drift is how many counts differ from
// what the records say; it must be 0.
type VerifyAnswer struct {
	Drift    int64            `json:"drift"`
	Checked  map[string]int64 `json:"checked"` // by family: slots, records, counts …
	Findings []Finding        `json:"findings"`
}

// Finding is one thing verify found wrong.
type Finding struct {
	Kind   string `json:"kind"`
	Where  string `json:"where"` // limit, reservation or subject it is about
	Detail string `json:"detail"`
}

// ConfigAnswer is the answer of GET /admin/v1/config: every setting in force, by name.
type ConfigAnswer struct {
	Data []Setting `json:"data"`
}

// Setting is one setting in force. Value is masked for a secret.
type Setting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Origin string `json:"origin"` // flag, env, file, context or default
}

// ClusterAnswer is the answer of GET /admin/v1/cluster.
type ClusterAnswer struct {
	Mode        string   `json:"mode"` // embedded, memory or external
	Revision    int64    `json:"revision"`
	Alarms      []string `json:"alarms"`
	QuotaBytes  int64    `json:"quotaBytes,omitempty"`
	UsedBytes   int64    `json:"usedBytes"` // in use, not the size of the file
	FileBytes   int64    `json:"fileBytes"`
	Members     []Member `json:"members,omitempty"`     // of etcd, by name; absent: not known
	LeasesAlive *int64   `json:"leasesAlive,omitempty"` // all of the store's, whoever's they are; absent: not known
}

// Member is one member of etcd as this replica sees it.
type Member struct {
	Name      string `json:"name"`
	Leader    bool   `json:"leader"`
	Answers   *bool  `json:"answers,omitempty"`   // to this replica, now; absent: it does not ask that one
	Revision  int64  `json:"revision,omitempty"`  // of its own copy; 0: not told
	FileBytes int64  `json:"fileBytes,omitempty"` // of its own copy; 0: not told
}

// JanitorAnswer is the answer of POST /admin/v1/janitor/{job}/run.
type JanitorAnswer struct {
	Job    string `json:"job"`
	Swept  int64  `json:"swept"`
	TookMs int64  `json:"tookMs"`
	More   bool   `json:"more"` // the batch was full: run it again
}

// LoginLink is the answer of POST /admin/v1/login-links. Path is on the admin listener.
type LoginLink struct {
	Path             string `json:"path"`
	ExpiresAt        Time   `json:"expiresAt"`
	ExpiresInSeconds int64  `json:"expiresInSeconds"`
}

// ClockRequest is the body of POST /admin/v1/clock: 1 second to 400 days.
type ClockRequest struct {
	AdvanceSeconds int64 `json:"advanceSeconds" rule:"required,min=1,max=34560000"`
}

// ClockAnswer says what the windows' clock reads now.
type ClockAnswer struct {
	Now Time `json:"now"`
}

// Version is the answer of GET /version.
type Version struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Go      string `json:"go"`
	Etcd    string `json:"etcd"`
}

// Health is the answer of GET /livez and GET /readyz; Checks are there with ?verbose.
type Health struct {
	Status string        `json:"status"` // ok, or unavailable
	Checks []HealthCheck `json:"checks,omitempty"`
}

// HealthCheck is one part of readiness.
type HealthCheck struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
}

// KeySet is the answer of GET /.well-known/jwks.json (RFC 7517), public keys alone.
type KeySet struct {
	Keys []Key `json:"keys"`
}

// Key is one public key. Which of Curve, X, Y, N and E it has follows from Type.
type Key struct {
	Type  string `json:"kty"`
	ID    string `json:"kid"`
	Use   string `json:"use,omitempty"`
	Alg   string `json:"alg"`
	Curve string `json:"crv,omitempty"`
	X     string `json:"x,omitempty"`
	Y     string `json:"y,omitempty"`
	N     string `json:"n,omitempty"`
	E     string `json:"e,omitempty"`
}
