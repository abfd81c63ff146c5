package api

// Code names one kind of refusal or error. Clients act on it, not on the status.
type Code string

// The codes of API.md section 7, by status.
const (
	InvalidBody   Code = "invalid-body" // 400
	InvalidQuery  Code = "invalid-query"
	InvalidHeader Code = "invalid-header"
	InvalidCursor Code = "invalid-cursor"

	Unauthenticated      Code = "unauthenticated"        // 401
	Forbidden            Code = "forbidden"              // 403
	NotFound             Code = "not-found"              // 404
	MethodNotAllowed     Code = "method-not-allowed"     // 405
	BodyTooLarge         Code = "body-too-large"         // 413
	UnsupportedMediaType Code = "unsupported-media-type" // 415

	AlreadySettled      Code = "already-settled" // 409
	IdempotencyInFlight Code = "idempotency-in-flight"
	LimitExists         Code = "limit-exists"
	Overage             Code = "overage"
	FenceDiffers        Code = "fence-differs"

	HoldLost      Code = "hold-lost" // 410
	CursorExpired Code = "cursor-expired"

	PreconditionFailed   Code = "precondition-failed"   // 412
	PreconditionRequired Code = "precondition-required" // 428

	InvalidValue        Code = "invalid-value" // 422
	NeverFits           Code = "never-fits"
	NoMatchingLimit     Code = "no-matching-limit"
	TooManyLimits       Code = "too-many-limits"
	WindowFixed         Code = "window-fixed"
	IdempotencyMismatch Code = "idempotency-mismatch"

	NoFreeSlot     Code = "no-free-slot" // 429
	QuotaExceeded  Code = "quota-exceeded"
	LimitPaused    Code = "limit-paused"
	SubjectBlocked Code = "subject-blocked"
	LineFull       Code = "line-full"
	WaitCancelled  Code = "wait-cancelled"
	SlowDown       Code = "slow-down"

	Internal Code = "internal" // 500

	StoreUnavailable Code = "store-unavailable" // 503: nothing happened
	OutcomeUnknown   Code = "outcome-unknown"   // 503: may have happened, repeat with the same key
	Contended        Code = "contended"         // 503, as all below: nothing happened
	Overloaded       Code = "overloaded"
	Draining         Code = "draining"
	ClockSkew        Code = "clock-skew"
	StorageFull      Code = "storage-full"
	Quarantine       Code = "quarantine"
)

// codeRow is what is constant for one code.
type codeRow struct {
	code   Code
	status int
	title  string
}

// codeTable is the one place that maps codes to statuses and titles.
var codeTable = [...]codeRow{
	{InvalidBody, 400, "Invalid body"},
	{InvalidQuery, 400, "Invalid query parameter"},
	{InvalidHeader, 400, "Invalid header"},
	{InvalidCursor, 400, "Invalid cursor"},
	{Unauthenticated, 401, "Not authenticated"},
	{Forbidden, 403, "Not allowed"},
	{NotFound, 404, "Not found"},
	{MethodNotAllowed, 405, "Method not allowed"},
	{BodyTooLarge, 413, "Body too large"},
	{UnsupportedMediaType, 415, "Unsupported media type"},
	{AlreadySettled, 409, "Already settled"},
	{IdempotencyInFlight, 409, "Same key still running"},
	{LimitExists, 409, "Limit exists"},
	{Overage, 409, "Cost above the estimate"},
	{FenceDiffers, 409, "Fence differs"},
	{HoldLost, 410, "Hold lost"},
	{CursorExpired, 410, "Cursor expired"},
	{PreconditionFailed, 412, "Changed meanwhile"},
	{PreconditionRequired, 428, "If-Match required"},
	{InvalidValue, 422, "Invalid value"},
	{NeverFits, 422, "Can never fit"},
	{NoMatchingLimit, 422, "No matching limit"},
	{TooManyLimits, 422, "Too many limits"},
	{WindowFixed, 422, "Window is fixed"},
	{IdempotencyMismatch, 422, "Same key, other request"},
	{NoFreeSlot, 429, "No free slot"},
	{QuotaExceeded, 429, "Quota exceeded"},
	{LimitPaused, 429, "Limit paused"},
	{SubjectBlocked, 429, "Subject blocked"},
	{LineFull, 429, "Line full"},
	{WaitCancelled, 429, "Wait cancelled"},
	{SlowDown, 429, "Slow down"},
	{Internal, 500, "Internal error"},
	{StoreUnavailable, 503, "Store unavailable"},
	{OutcomeUnknown, 503, "Outcome unknown"},
	{Contended, 503, "Contended"},
	{Overloaded, 503, "Overloaded"},
	{Draining, 503, "Shutting down"},
	{ClockSkew, 503, "Clock not trusted"},
	{StorageFull, 503, "Storage full"},
	{Quarantine, 503, "In quarantine after a restore"},
}

// codeIndex finds a code's row in codeTable.
var codeIndex = func() map[Code]int {
	index := make(map[Code]int, len(codeTable))
	for i, row := range codeTable {
		index[row.code] = i
	}
	return index
}()

// Codes lists every code, by the order of the table.
func Codes() []Code {
	all := make([]Code, len(codeTable))
	for i, row := range codeTable {
		all[i] = row.code
	}
	return all
}

// Known reports whether c is in the table.
func (c Code) Known() bool { _, ok := codeIndex[c]; return ok }

// Status is the HTTP status of c; 500 for a code that is not known.
func (c Code) Status() int { return c.row().status }

// Title is the constant title of c; that of Internal for a code that is not known.
func (c Code) Title() string { return c.row().title }

// TypeURI is the problem type of c, a page of the documentation.
func (c Code) TypeURI() string { return problemTypes + string(c.row().code) }

// RetryAfter reports whether an answer with c carries Retry-After: where its status lets it.
// A refusal without an end (a pause, a full total) has none all the same.
func (c Code) RetryAfter() bool { s := c.Status(); return s == 429 || s == 503 }

func (c Code) row() codeRow {
	i, ok := codeIndex[c]
	if !ok {
		i = codeIndex[Internal]
	}
	return codeTable[i]
}

// problemTypes is where the pages of the problem types stand.
const problemTypes = "https://holdfast.dev/problems/"
