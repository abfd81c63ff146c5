package limits

import "time"

// Bounds of what a tenant may define. Sizes are bytes unless the name says otherwise.
const (
	MaxMatching  = 20            // limits that may match one request
	MaxLimits    = 5_000         // limits of a tenant
	MaxOverrides = 100_000       // overrides of a tenant
	MaxAmount    = 1_000_000_000 // units, of a limit, an override or a cost

	MaxPlans        = 200     // plans of a tenant
	MaxPlanAmounts  = 20_000  // amounts in all plans of a tenant
	MaxSubjectPlans = 100_000 // subjects of a tenant that have a plan

	MaxKind        = 32
	MaxSubjectID   = 255
	MaxAction      = 128
	MaxLimitID     = 63
	MaxName        = 128  // characters
	MaxDescription = 1024 // characters
	MaxReason      = 512  // of a pause, an override or a block

	MaxSchedules = 16  // of a limit
	MaxCron      = 128 // of a schedule
	MaxZone      = 64

	MaxLabels     = 16
	MaxLabelKey   = 64
	MaxLabelValue = 256

	MinTTL        = 2 * time.Second // etcd silently raises anything shorter to this
	MaxTTLBound   = time.Hour
	DefaultTTL    = 5 * time.Minute
	DefaultMaxTTL = MaxTTLBound

	// MaxRefillTime bounds how long an empty bucket takes to be full again.
	MaxRefillTime = 10 * 365 * 24 * time.Hour
)

// Any stands for every kind of subject, or every action.
const Any = "*"
