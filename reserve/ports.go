package reserve

import (
	"context"
	"time"
)

// LeaseID names a lease of the store; 0 is none.
type LeaseID int64

// RefKind says which family of keys a Ref belongs to.
type RefKind uint8

// The families of keys (DESIGN.md section 3), what in a Ref names one of them, and what its
// Value is. Those up to RefBlock are the catalogue's.
const (
	RefCatalog  RefKind = iota + 1 // –: Seq
	RefLimit                       // Limit: *limits.Limit
	RefOverride                    // Limit, Scope ("" for everyone): *limits.Override
	RefFile                        // –: *limits.File
	RefPlan                        // Scope: *limits.SubjectPlan
	RefBlock                       // Scope: *limits.Block
	RefSlot                        // Limit, Scope, N: *Slot
	RefHold                        // ID: *Slot, the stand-in for a slot of a reservation that takes none
	RefOpen                        // ID: *Record
	RefEnded                       // ID: *Record
	RefUsage                       // Scope (limits.AllScope and Limit for one shared by all): Counts
	RefReplay                      // ID, a digest of tenant, principal, route and key: *Replay
	RefTicket                      // Limit, Scope, N (its rank): *Ticket, a caller waiting in line
	RefTrail                       // N, its rank: *Note
	RefRollup                      // Limit, N, its hour: *Rollup
	RefTally                       // Limit, N, its hour: *Tally
	RefExceeded                    // Limit, Scope: *Exceeded
	RefWebhook                     // Scope, its id: *Webhook
	RefDelivery                    // Scope, the webhook's id: *Delivery
	RefParcel                      // Scope, the webhook's id, and N: *Parcel
	RefDuty                        // Scope, its name; no Tenant: *Duty
	RefReplica                     // Scope, the replica's id; no Tenant: *Replica
	RefSecret                      // Scope, its name; no Tenant: Secret
)

// Seq is the value of the catalogue key: a counter raised by every change of limits,
// overrides, plans or blocks. Generations are taken from it.
type Seq int64

// Secret is a key shared by all replicas, for cursors and sessions. It does not print.
type Secret []byte

// String hides the secret.
func (Secret) String() string { return "(secret)" }

// Replica is what a live replica tells of itself.
type Replica struct {
	ID, Version, Address string
	Clock                time.Time // its wall clock when it wrote this
}

// Ref names one key without spelling it; only the store knows the spelling.
type Ref struct {
	Tenant string
	Kind   RefKind
	Limit  string
	Scope  string
	N      int64
	ID     ID
}

// Entry is what stands under a key. Mod 0 means nothing does. Values are never changed once
// they are in an Entry: whoever wants another makes another.
type Entry struct {
	Ref         Ref
	Value       any
	Create, Mod int64 // revisions
	Lease       LeaseID
	Fault       error // ErrCorrupt or ErrNewer: Value is nil, the key is read-only, its slot counts as taken
}

// Cond is how a Guard compares.
type Cond uint8

// The conditions of guards. An absent key has revision 0 for the first three.
const (
	ModIs       Cond = iota + 1 // mod revision = Rev
	CreateIs                    // create revision = Rev
	CreateIsNot                 // create revision ≠ Rev
	NoneFrom                    // RefTicket only: no ticket of that line has a rank from Rev up to below N
)

// Guard is one comparison a write depends on. One of many tickets (NoneFrom) costs by the
// tickets that stand there, so it is for ranges that are thought to be empty; what it is about
// is not read back.
type Guard struct {
	Ref  Ref
	Cond Cond
	Rev  int64
}

// Write puts Value under Ref, or deletes what is there when Value is nil.
// Keep > 0 asks for a lease that lasts at least that long from now; the desk fills in Lease
// before the write is sent. Have is the lease the key hangs on now, kept when it still suits.
// Session asks for this replica's session lease instead.
type Write struct {
	Ref   Ref
	Value any
	Keep  time.Duration
	Grain time.Duration // of the lease's deadline; 0: the wheel's own
	Have  LeaseID
	Lease LeaseID

	Session bool
}

// AnyCatalog is the Catalog of a group that holds under every catalogue.
const AnyCatalog = int64(-1)

// Group is one all-or-nothing change: its own nested transaction. No two groups of a batch
// may name the same key, not even one that reads and one that writes: all comparisons of a
// transaction are evaluated before any of its puts.
type Group struct {
	Tenant  string
	Catalog int64 // revision of the catalogue it was decided under, or AnyCatalog
	NoLine  bool  // it holds only while nobody stands in any line of the tenant
	Guards  []Guard
	Writes  []Write
	Reads   []Ref // brought back when a guard fails: what the group lost to
}

// Batch is one transaction. Marker is the create revision of this replica's freshness marker
// that must still stand (0: the batch puts nothing on a lease, nothing is compared).
type Batch struct {
	Marker int64
	Groups []Group
}

// Outcome is what became of one group.
type Outcome struct {
	Committed bool
	Moved     bool    // not committed because the catalogue is another, or, with NoLine, somebody stands in a line
	Seen      []Entry // the group's Reads, when a guard failed
}

// Result is what became of a batch. MarkerGone means nothing at all happened.
type Result struct {
	Rev        int64 // of the store when the batch was applied; the revision of everything it wrote
	MarkerGone bool
	Outcomes   []Outcome // one a group, in order
}

// Loaded is one consistent read.
type Loaded struct {
	Rev     int64
	Entries []Entry // one a ref, in order
}

// Update is what the watched keyspace tells. After a Reset its Entries are everything that
// stands of catalogues, limits, overrides, files, plans, blocks, slots, holds, tickets, webhooks,
// deliveries and replicas. Then comes each
// change of any key, in order of revision; all changes of one revision are in one Update.
type Update struct {
	Rev     int64 // everything up to here has been told
	Reset   bool
	Entries []Entry   // put; with Fault set when the value cannot be read
	Deleted []Deleted // deleted, by a transaction or by the end of a lease
}

// Deleted tells that the key of Ref was deleted at revision Rev.
type Deleted struct {
	Ref Ref
	Rev int64
}

// Store is what the desk needs of the keyspace.
type Store interface {
	// Load reads refs at one revision. fresh asks for a state no older than the call
	// (linearizable); otherwise any recent one will do, since every write is guarded.
	// Errors: ErrUnavailable. Cost: one call whatever the number of refs.
	Load(ctx context.Context, refs []Ref, fresh bool) (Loaded, error)

	// Apply commits b as one transaction, a nested one a group.
	// Errors: ErrUnavailable and *LeaseError (nothing happened), ErrTooBig (nothing happened,
	// send fewer groups), ErrFull (no space: nothing that puts was applied by this answer, but
	// see ErrUnknownOutcome), ErrUnknownOutcome (it may have happened).
	Apply(ctx context.Context, b Batch) (Result, error)

	// Follow tells tell everything (Update.Reset) and then each change, in order, until ctx
	// ends; it starts over by itself, with a Reset, when history was compacted away.
	// It returns only when ctx has ended.
	Follow(ctx context.Context, tell func(Update)) error
}

// Lister reads records in bulk, away from the path of requests.
type Lister interface {
	// Records returns at most max entries of kind RefOpen or RefEnded with an id above after,
	// ascending by id. Errors: ErrUnavailable.
	Records(ctx context.Context, tenant string, kind RefKind, after ID, max int) ([]Entry, error)
	// Usage returns at most max entries of kind RefUsage whose subject's scope sorts after
	// after, ascending; then, past the last subject, none. Counts shared by all are not among
	// them: they are read by their Ref.
	Usage(ctx context.Context, tenant, after string, max int) ([]Entry, error)
	// Trail returns at most max entries of kind RefTrail whose rank is above after, ascending:
	// the latest act first. Errors: ErrUnavailable.
	Trail(ctx context.Context, tenant string, after int64, max int) ([]Entry, error)
	// Hours returns the entries of kind RefRollup or RefTally of one limit whose hour is at
	// least from and below to, ascending, at most max. Errors: ErrUnavailable.
	Hours(ctx context.Context, tenant string, kind RefKind, limit string, from, to int64, max int) ([]Entry, error)
	// Tenants lists the tenants that have any key.
	Tenants(ctx context.Context) ([]string, error)
}

// Historian reads what has happened, away from the path of requests.
type Historian interface {
	// History tells tell each change of the tenant's keys in the revisions above after and up to
	// upTo, as Follow would have told it, until tell returns false. upTo has been reached by the
	// store when it is asked.
	// Errors: *CompactedError when some of it is not kept any more; ErrUnavailable.
	History(ctx context.Context, tenant string, after, upTo int64, tell func(Update) bool) error
}

// Leaser hands out shared leases (the wheel).
type Leaser interface {
	// Lease returns a lease that ends no sooner than keep from now; have is kept when it suits.
	Lease(ctx context.Context, keep, grain time.Duration, have LeaseID) (LeaseID, error)
	// Marker is the create revision of this replica's freshness marker.
	Marker(ctx context.Context) (int64, error)
	// Gone says that a put on id found no such lease; 0: the marker was gone.
	Gone(id LeaseID)
}

// Sessions is the one lease of this replica that is kept alive. Tickets hang on it and nothing
// else does: a replica that is dead or asleep loses its place in every line, and no slot.
type Sessions interface {
	// Session is a lease that stands as far as anybody knows. Errors: ErrUnavailable, ErrFull.
	Session(ctx context.Context) (LeaseID, error)
	// Stands asks the store whether id is that lease and has not ended. Errors: ErrUnavailable,
	// it cannot be learnt.
	Stands(ctx context.Context, id LeaseID) (bool, error)
	// Ended says that a put on id found no such lease; 0: it may be gone.
	Ended(id LeaseID)
}
