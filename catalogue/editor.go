package catalogue

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

// What an edit can be refused for, beside *limits.InvalidError, *limits.FixedError and the
// errors of the store. Nothing happened.
var (
	ErrNotFound = errors.New("catalogue: no such limit, override or block")
	ErrExists   = errors.New("catalogue: the limit is there already")       // *ExistsError says which
	ErrChanged  = errors.New("catalogue: the limit was changed since")      // *ChangedError says to what revision
	ErrTooMany  = errors.New("catalogue: the tenant has as many as it may") // limits.MaxLimits, limits.MaxOverrides
)

// ExistsError names the limit that is there already.
type ExistsError struct{ ID string }

func (e *ExistsError) Error() string { return fmt.Sprintf("%v: %s", ErrExists, e.ID) }

// Is makes an ExistsError an ErrExists.
func (e *ExistsError) Is(target error) bool { return target == ErrExists }

// ChangedError says at which revision the limit stands.
type ChangedError struct{ Revision int64 }

func (e *ChangedError) Error() string { return fmt.Sprintf("%v: revision %d", ErrChanged, e.Revision) }

// Is makes a ChangedError an ErrChanged.
func (e *ChangedError) Is(target error) bool { return target == ErrChanged }

// MaxBlock is the longest block. A longer one would outlast the longest lease (40 days).
const MaxBlock = 30 * 24 * time.Hour

// Config of an Editor. Store, Leases and Now are required.
type Config struct {
	Store  reserve.Store
	Leases reserve.Leaser   // for blocks, which end by a lease
	Now    func() time.Time // the clock of windows: untils are judged by it

	// Catalog is what this replica knows of a tenant, such as reserve.Service.Catalog. It may be
	// behind. nil, or a nil answer: Delete leaves overrides alone and nobody counts up to
	// limits.MaxLimits; for start-up, before anything is followed.
	Catalog func(tenant string) *limits.Catalog
}

// Editor edits catalogues. Safe for concurrent use, and beside other replicas' editors.
//
// Every edit is decided on a fresh read, is one guarded transaction, and is tried again when
// another edit came between, up to about twenty times and until the deadline of its context
// (at most 5 s). It runs on when the caller's context is cancelled, so that nothing stays
// half known.
//
// Errors of the store, for all methods: reserve.ErrUnavailable, ErrFull and ErrContended,
// nothing happened; ErrUnknownOutcome, it may have happened; ErrCorrupt and ErrNewer, a value
// that the edit needs cannot be read, nothing happened.
// Cost: a read and a transaction, a revision, for each try.
type Editor struct {
	cfg  Config
	note *reserve.Note // of whom it edits for; nil: nothing is noted
}

// New returns an Editor, or all that is wrong with cfg, joined.
func New(cfg Config) (*Editor, error) {
	var faults []error
	need := func(is bool, field string) {
		if !is {
			faults = append(faults, fmt.Errorf("catalogue: Config.%s is required", field))
		}
	}
	need(cfg.Store != nil, "Store")
	need(cfg.Leases != nil, "Leases")
	need(cfg.Now != nil, "Now")
	if cfg.Catalog == nil {
		cfg.Catalog = func(string) *limits.Catalog { return nil }
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return &Editor{cfg: cfg}, nil
}

// now is one reading of the clock, as it is stored: UTC, to the millisecond.
func (e *Editor) now() time.Time { return stored(e.cfg.Now()) }

// stored is t as it comes back from the store.
func stored(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Millisecond) // drops the monotonic reading too
}

func limitRef(tenant, id string) reserve.Ref {
	return reserve.Ref{Tenant: tenant, Kind: reserve.RefLimit, Limit: id}
}

func overrideRef(tenant, limit string, s limits.Subject) reserve.Ref {
	ref := reserve.Ref{Tenant: tenant, Kind: reserve.RefOverride, Limit: limit}
	if !s.IsZero() {
		ref.Scope = s.Scope()
	}
	return ref
}

func blockRef(tenant string, s limits.Subject) reserve.Ref {
	return reserve.Ref{Tenant: tenant, Kind: reserve.RefBlock, Scope: s.Scope()}
}
