package store

import (
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-dev/holdfast/reserve"
)

// class is what an error of etcd says about a write.
type class uint8

const (
	unknown   class = iota // it may have happened
	refused                // nothing happened
	leaseGone              // nothing happened: a put named a lease that is no more
	wrong                  // nothing happened: no right program sends this
	tooMany                // nothing happened: more operations than the server takes
	tooLarge               // nothing happened: more bytes than the server takes
	noSpace                // it may have happened, although the answer sounds otherwise
	compacted              // reads and watches only: that revision is history
)

// classes are the answers whose class is not that of their code. Everything that is neither
// here nor in codeClasses may have happened: a time-out, a leader that changed or is missing,
// a lost connection, a stopped server. A connection that was dead before sending cannot be
// told from one that died after.
//
// No space: of 1,092 writes answered so, 189 had been committed, since the server applies
// first and then finds that the quota is crossed.
var classes = map[string]class{
	rpctypes.ErrLeaseNotFound.Error():   leaseGone,
	rpctypes.ErrTooManyOps.Error():      tooMany,
	rpctypes.ErrRequestTooLarge.Error(): tooLarge,
	rpctypes.ErrTooManyRequests.Error(): refused, // of code ResourceExhausted
	rpctypes.ErrNoSpace.Error():         noSpace, // of the same code
	rpctypes.ErrCompacted.Error():       compacted,
	rpctypes.ErrEmptyKey.Error():        wrong,
	rpctypes.ErrDuplicateKey.Error():    wrong,
}

// codeClasses are the gRPC codes that say, whatever the text, that the request was not taken
// (DESIGN.md section 4).
var codeClasses = map[codes.Code]class{
	codes.InvalidArgument:  refused,
	codes.PermissionDenied: refused,
}

func classify(err error) class {
	err = rpctypes.Error(err) // a status with a text of etcd's becomes an EtcdError
	var known rpctypes.EtcdError
	if errors.As(err, &known) {
		if c, ok := classes[known.Error()]; ok {
			return c
		}
		return codeClasses[known.Code()]
	}
	if s, ok := status.FromError(err); ok {
		return codeClasses[s.Code()]
	}
	return unknown
}

// applyError translates an answer to b, which was sent and used so many operations.
func (s *Store) applyError(err error, b *reserve.Batch, used int) error {
	switch classify(err) {
	case leaseGone:
		return &reserve.LeaseError{ID: onlyLease(b)}
	case wrong:
		return fmt.Errorf("store: apply: wrong batch: %w", err)
	case tooMany:
		s.tooManyOps(used)
		return fmt.Errorf("store: apply: %w: %w", reserve.ErrTooBig, err)
	case tooLarge:
		return fmt.Errorf("store: apply: %w: %w", reserve.ErrTooBig, err)
	case noSpace:
		return fmt.Errorf("store: apply: %w: %w: %w", reserve.ErrFull, reserve.ErrUnknownOutcome, err)
	case refused:
		return fmt.Errorf("store: apply: %w: %w", reserve.ErrUnavailable, err)
	}
	if !writes(b) {
		return fmt.Errorf("store: apply: %w: %w", reserve.ErrUnavailable, err)
	}
	return fmt.Errorf("store: apply: %w: %w", reserve.ErrUnknownOutcome, err)
}

// onlyLease is the lease that the puts of b name if they name just one; 0 otherwise, as etcd
// does not say which was gone.
func onlyLease(b *reserve.Batch) (id reserve.LeaseID) {
	for i := range b.Groups {
		for j := range b.Groups[i].Writes {
			w := &b.Groups[i].Writes[j]
			switch {
			case w.Value == nil || w.Lease == 0 || w.Lease == id:
			case id != 0:
				return 0
			default:
				id = w.Lease
			}
		}
	}
	return id
}

func writes(b *reserve.Batch) bool {
	for i := range b.Groups {
		if len(b.Groups[i].Writes) > 0 {
			return true
		}
	}
	return false
}

// readError translates an answer to a read: whatever it was, nothing happened.
func readError(what string, err error) error {
	return fmt.Errorf("store: %s: %w: %w", what, reserve.ErrUnavailable, err)
}
