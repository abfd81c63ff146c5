package api

import "encoding/json"

// LimitInput is the body of POST and PUT of a limit, and one entry of a limits file.
// What only reads (revision and the like) is accepted, whatever it is, and ignored, so that
// an answer can be edited and sent back.
type LimitInput struct {
	ID              string            `json:"id,omitempty"`
	Name            string            `json:"name" rule:"required"`
	Description     string            `json:"description,omitempty"`
	SubjectKind     string            `json:"subjectKind" rule:"required"`
	Action          string            `json:"action" rule:"required"`
	Amount          int64             `json:"amount" rule:"required,min=0,max=1000000000"`
	Window          string            `json:"window" rule:"required,enum=second|minute|hour|day|week|month|total|concurrent|bucket"`
	Rolling         bool              `json:"rolling,omitempty"`
	RefillPerSecond *float64          `json:"refillPerSecond,omitempty"` // bucket only, 1e-9..1e9
	Share           string            `json:"share,omitempty" rule:"enum=each|all"`
	OnExpiry        string            `json:"onExpiry,omitempty" rule:"enum=refund|charge"`
	Overage         string            `json:"overage,omitempty" rule:"enum=record|reject"`
	TTLSeconds      *int64            `json:"ttlSeconds,omitempty" rule:"min=2,max=3600"`
	MaxTTLSeconds   *int64            `json:"maxTtlSeconds,omitempty" rule:"min=2,max=3600"`
	Enabled         *bool             `json:"enabled,omitempty"` // default true
	Enforce         *bool             `json:"enforce,omitempty"` // default true
	Paused          bool              `json:"paused,omitempty"`
	PauseReason     string            `json:"pauseReason,omitempty"`
	PausedUntil     *Time             `json:"pausedUntil,omitempty"`
	Labels          map[string]string `json:"labels,omitempty"`
	Schedules       []Schedule        `json:"schedules,omitempty" rule:"max=16"`

	Revision  json.RawMessage `json:"revision,omitempty"`
	CreatedAt json.RawMessage `json:"createdAt,omitempty"`
	UpdatedAt json.RawMessage `json:"updatedAt,omitempty"`
	UpdatedBy json.RawMessage `json:"updatedBy,omitempty"`
	Source    json.RawMessage `json:"source,omitempty"`
	Override  json.RawMessage `json:"override,omitempty"`
	Scheduled json.RawMessage `json:"scheduled,omitempty"`

	NextChanges json.RawMessage `json:"nextChanges,omitempty"`
}

// Schedule sets a limit's amount at the turns that Cron names, on the wall clock of TZ; it
// stays until the next turn of any schedule of the limit.
type Schedule struct {
	Cron   string `json:"cron" rule:"required"` // minute, hour, day of the month, month, day of the week
	TZ     string `json:"tz,omitempty"`         // of the IANA database; default UTC
	Amount int64  `json:"amount" rule:"required,min=0,max=1000000000"`
}

// Limit is a limit as it stands. PATCH merges into this form.
type Limit struct {
	ID              string            `json:"id"`
	Name            string            `json:"name"`
	Description     string            `json:"description,omitempty"`
	SubjectKind     string            `json:"subjectKind"`
	Action          string            `json:"action"`
	Amount          int64             `json:"amount"`
	Window          string            `json:"window"`
	Rolling         bool              `json:"rolling"`
	RefillPerSecond *float64          `json:"refillPerSecond,omitempty"`
	Share           string            `json:"share"`
	OnExpiry        string            `json:"onExpiry"`
	Overage         string            `json:"overage"`
	TTLSeconds      int64             `json:"ttlSeconds"`
	MaxTTLSeconds   int64             `json:"maxTtlSeconds"`
	Enabled         bool              `json:"enabled"`
	Enforce         bool              `json:"enforce"` // false: it refuses nothing
	Paused          bool              `json:"paused"`
	PauseReason     string            `json:"pauseReason,omitempty"`
	PausedUntil     *Time             `json:"pausedUntil,omitempty"`
	Labels          map[string]string `json:"labels"`
	Revision        int64             `json:"revision"` // also the ETag, quoted
	CreatedAt       Time              `json:"createdAt"`
	UpdatedAt       Time              `json:"updatedAt"`
	UpdatedBy       string            `json:"updatedBy"`
	Source          string            `json:"source"`             // api, file or page
	Override        *LimitOverride    `json:"override,omitempty"` // in force for everyone; only reads

	Schedules   []Schedule        `json:"schedules,omitempty"`
	Scheduled   *Scheduled        `json:"scheduled,omitempty"`   // in force in place of amount; only reads
	NextChanges []ScheduledChange `json:"nextChanges,omitempty"` // at most 5; only reads
}

// Scheduled is the amount that a schedule has set.
type Scheduled struct {
	Amount int64 `json:"amount"`
	Since  Time  `json:"since"`
}

// ScheduledChange is an amount that a schedule will set.
type ScheduledChange struct {
	Amount    int64 `json:"amount"`
	At        Time  `json:"at"`
	InSeconds int64 `json:"inSeconds"`
}

// LimitOverride is the override in force for everyone as a limit shows it. Amount is nil when
// unlimited.
type LimitOverride struct {
	Amount *int64 `json:"amount"`
	Until  *Time  `json:"until,omitempty"` // absent: without end
	Reason string `json:"reason,omitempty"`
	By     string `json:"by"`
}

// LimitPage is the answer of GET /v1/limits.
type LimitPage = Page[Limit]

// OverrideInput is the body of PUT of an override. A null amount means unlimited.
type OverrideInput struct {
	Amount Nullable[int64] `json:"amount" rule:"required,min=0,max=1000000000"`
	Until  *Time           `json:"until,omitempty"` // absent: without end
	Reason string          `json:"reason,omitempty"`
}

// Override is an override as it stands, beside the amount it stands in for.
// Current and Override are nil when unlimited.
type Override struct {
	Limit         string   `json:"limit"`
	Subject       *Subject `json:"subject,omitempty"` // absent: for everyone
	Current       *int64   `json:"current"`           // amount in force for whom it is
	Base          int64    `json:"base"`              // the limit's own amount
	Override      *int64   `json:"override"`
	Until         *Time    `json:"until,omitempty"`
	EndsInSeconds *int64   `json:"endsInSeconds,omitempty"`
	Reason        string   `json:"reason,omitempty"`
	By            string   `json:"by"`
	CreatedAt     Time     `json:"createdAt"`
}

// OverridePage is the answer of GET /v1/limits/{id}/overrides.
type OverridePage = Page[Override]

// ResetRequest is the body of POST /v1/limits/{id}/reset. Without a subject every count goes.
type ResetRequest struct {
	Subject *Subject `json:"subject,omitempty"`
	Reason  string   `json:"reason" rule:"required"`
}

// LimitsFile is the form of a limits file, in JSON or in YAML that was turned into JSON.
type LimitsFile struct {
	Limits []LimitInput                     `json:"limits" rule:"required,max=5000"`
	Plans  map[string]map[string]PlanAmount `json:"plans,omitempty"` // by plan, by limit
}

// PlanAmount is the amount a plan gives for one limit; null means unlimited.
type PlanAmount struct {
	Amount Nullable[int64] `json:"amount" rule:"required,min=0,max=1000000000"`
}

// FileAnswer is the answer of POST /v1/limits-file/plan and /apply: what the file changes, or
// has changed.
type FileAnswer struct {
	Create    []string      `json:"create"` // ids, in the order of the file
	Change    []LimitChange `json:"change"`
	Delete    []string      `json:"delete"`
	Unchanged int64         `json:"unchanged"`
	Plans     PlanChanges   `json:"plans"`
	Digest    string        `json:"digest"`         // of the file that was sent: sha256: and hex
	Last      *AppliedFile  `json:"last,omitempty"` // that stood before; absent: none was applied
}

// LimitChange is what of a limit changes, by field.
type LimitChange struct {
	ID   string                 `json:"id"`
	Diff map[string]FieldChange `json:"diff"`
}

// FieldChange is the two values of a field; one that is not there is left out.
type FieldChange struct {
	From json.RawMessage `json:"from,omitempty"`
	To   json.RawMessage `json:"to,omitempty"`
}

// PlanChanges names plans.
type PlanChanges struct {
	Create []string `json:"create"`
	Change []string `json:"change"`
	Delete []string `json:"delete"`
}

// AppliedFile says what limits file was applied last.
type AppliedFile struct {
	Digest string `json:"digest"`
	At     Time   `json:"at"`
	By     string `json:"by"`
}

// SubjectPlanInput is the body of PUT /v1/subjects/{kind}/{id}/plan.
type SubjectPlanInput struct {
	Plan string `json:"plan" rule:"required"`
}

// SubjectPlan is the plan a subject has. Amounts is what the plan grants now, by limit; absent
// when no limits file has a plan of that name any more.
type SubjectPlan struct {
	Subject   Subject               `json:"subject"`
	Plan      string                `json:"plan"`
	Amounts   map[string]PlanAmount `json:"amounts,omitempty"`
	By        string                `json:"by"`
	CreatedAt Time                  `json:"createdAt"`
}
