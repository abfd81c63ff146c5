package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-dev/holdfast/reserve"
)

// classified is every answer of etcd's key-value, lease and watch services, and every code of
// gRPC, with the class each must have. DESIGN.md section 4: surely not applied are invalid
// argument, lease not found, too many requests and permission denied; nothing else.
var classified = []struct {
	want class
	errs []error
}{
	{leaseGone, []error{rpctypes.ErrGRPCLeaseNotFound}},
	{tooMany, []error{rpctypes.ErrGRPCTooManyOps}},
	{tooLarge, []error{rpctypes.ErrGRPCRequestTooLarge}},
	{noSpace, []error{rpctypes.ErrGRPCNoSpace}},
	{compacted, []error{rpctypes.ErrGRPCCompacted}},
	{wrong, []error{rpctypes.ErrGRPCEmptyKey, rpctypes.ErrGRPCDuplicateKey}},
	{refused, []error{
		rpctypes.ErrGRPCRequestTooManyRequests, rpctypes.ErrGRPCPermissionDenied,
		rpctypes.ErrGRPCKeyNotFound, rpctypes.ErrGRPCValueProvided, rpctypes.ErrGRPCLeaseProvided,
		rpctypes.ErrGRPCInvalidClientAPIVersion, rpctypes.ErrGRPCInvalidSortOption, rpctypes.ErrGRPCUserEmpty,
		rpctypes.ErrGRPCAuthFailed, rpctypes.ErrGRPCPermissionNotGiven, rpctypes.ErrGRPCInvalidAuthMgmt,
		rpctypes.ErrGRPCAuthOldRevision, rpctypes.ErrGRPCRoleEmpty, rpctypes.ErrGRPCMemberBadURLs,
		status.Error(codes.InvalidArgument, "by a proxy"), status.Error(codes.PermissionDenied, "by a proxy"),
	}},
	{unknown, []error{
		rpctypes.ErrGRPCFutureRev, rpctypes.ErrGRPCLeaseExist, rpctypes.ErrGRPCLeaseTTLTooLarge,
		rpctypes.ErrGRPCWatchCanceled, rpctypes.ErrGRPCMemberNotFound, rpctypes.ErrGRPCClusterIDMismatch,
		rpctypes.ErrGRPCUserNotFound, rpctypes.ErrGRPCRoleNotFound, rpctypes.ErrGRPCAuthNotEnabled,
		rpctypes.ErrGRPCInvalidAuthToken, rpctypes.ErrGRPCNoLeader, rpctypes.ErrGRPCNotLeader,
		rpctypes.ErrGRPCLeaderChanged, rpctypes.ErrGRPCNotCapable, rpctypes.ErrGRPCStopped, rpctypes.ErrGRPCTimeout,
		rpctypes.ErrGRPCTimeoutDueToLeaderFail, rpctypes.ErrGRPCTimeoutDueToConnectionLost,
		rpctypes.ErrGRPCTimeoutWaitAppliedIndex, rpctypes.ErrGRPCUnhealthy, rpctypes.ErrGRPCCorrupt,
		rpctypes.ErrGRPCNotSupportedForLearner, rpctypes.ErrGRPCBadLeaderTransferee,
		rpctypes.ErrGRPCClusterVersionUnavailable, rpctypes.ErrGRPCDowngradeInProcess,
		rpctypes.ErrGRPCCanceled, rpctypes.ErrGRPCDeadlineExceeded,
		context.Canceled, context.DeadlineExceeded, io.EOF, errShape, errors.New("anything else"),
		status.Error(codes.OK, "by a proxy"), status.Error(codes.Canceled, "by a proxy"), status.Error(codes.Unknown, "by a proxy"),
		status.Error(codes.DeadlineExceeded, "by a proxy"), status.Error(codes.NotFound, "by a proxy"),
		status.Error(codes.AlreadyExists, "by a proxy"), status.Error(codes.ResourceExhausted, "message too large"),
		status.Error(codes.FailedPrecondition, "by a proxy"), status.Error(codes.Aborted, "by a proxy"),
		status.Error(codes.OutOfRange, "by a proxy"), status.Error(codes.Unimplemented, "by a proxy"),
		status.Error(codes.Internal, "by a proxy"), status.Error(codes.Unavailable, "connection refused"),
		status.Error(codes.DataLoss, "by a proxy"), status.Error(codes.Unauthenticated, "by a proxy"),
		status.Error(codes.Code(99), "by a proxy"),
	}},
}

func TestClassify_EveryAnswer(t *testing.T) {
	t.Parallel()
	for _, c := range classified {
		for _, err := range c.errs {
			if err == nil {
				continue // status.Error of OK is no error
			}
			forms := map[string]error{
				"as gRPC gives it":     err,
				"as the client has it": rpctypes.Error(err),
				"wrapped":              fmt.Errorf("attempt 1: %w", rpctypes.Error(err)),
			}
			if s, ok := status.FromError(err); ok {
				forms["with its code lost"] = status.Error(codes.Unknown, s.Message())
			}
			for form, err := range forms {
				if form == "with its code lost" && (c.want == refused || c.want == unknown) && !errors.As(rpctypes.Error(err), new(rpctypes.EtcdError)) {
					continue // then nothing is left to tell it by
				}
				if got := classify(err); got != c.want {
					t.Errorf("%s, %T %q: got class %q, want %q", form, err, err, outcomes[got], outcomes[c.want])
				}
			}
		}
	}
}

// Each class becomes the error that says what the caller may conclude, and no other.
func TestApplyError_SaysWhatMayHaveHappened(t *testing.T) {
	t.Parallel()
	all := []error{
		reserve.ErrUnavailable, reserve.ErrUnknownOutcome, reserve.ErrTooBig, reserve.ErrFull,
		reserve.ErrContended, reserve.ErrCorrupt, reserve.ErrNewer,
	}
	write := &reserve.Batch{Groups: []reserve.Group{{Writes: []reserve.Write{{}}}}}
	read := &reserve.Batch{Groups: []reserve.Group{{}}}
	for name, c := range map[string]struct {
		err   error
		batch *reserve.Batch
		want  []error
	}{
		"time-out of a write":            {context.DeadlineExceeded, write, []error{reserve.ErrUnknownOutcome}},
		"no leader for a write":          {rpctypes.ErrNoLeader, write, []error{reserve.ErrUnknownOutcome}},
		"time-out of a check":            {context.DeadlineExceeded, read, []error{reserve.ErrUnavailable}},
		"too many requests":              {rpctypes.ErrTooManyRequests, write, []error{reserve.ErrUnavailable}},
		"permission denied":              {rpctypes.ErrPermissionDenied, write, []error{reserve.ErrUnavailable}},
		"no space":                       {rpctypes.ErrNoSpace, write, []error{reserve.ErrFull, reserve.ErrUnknownOutcome}},
		"too many operations":            {rpctypes.ErrTooManyOps, write, []error{reserve.ErrTooBig}},
		"too many bytes":                 {rpctypes.ErrRequestTooLarge, write, []error{reserve.ErrTooBig}},
		"a key twice":                    {rpctypes.ErrDuplicateKey, write, nil},
		"an answer of another shape":     {errShape, write, []error{reserve.ErrUnknownOutcome}},
		"an answer nobody has heard of":  {errors.New("?"), write, []error{reserve.ErrUnknownOutcome}},
		"a lost connection":              {status.Error(codes.Unavailable, "EOF"), write, []error{reserve.ErrUnknownOutcome}},
		"a lease that is gone, no which": {rpctypes.ErrLeaseNotFound, write, nil},
	} {
		s := &Store{}
		s.maxOps.Store(DefaultMaxOps)
		got := s.applyError(c.err, c.batch, 100)
		for _, kind := range all {
			want := false
			for _, w := range c.want {
				want = want || w == kind //nolint:errorlint // two sentinels
			}
			if errors.Is(got, kind) != want {
				t.Errorf("%s: %v is %q: %v, want %v", name, got, kind, !want, want)
			}
		}
		var lease *reserve.LeaseError
		if want := errors.Is(c.err, rpctypes.ErrLeaseNotFound); errors.As(got, &lease) != want {
			t.Errorf("%s: %v is a lease error: %v, want %v", name, got, !want, want)
		}
		if lease == nil && !errors.Is(got, c.err) {
			t.Errorf("%s: %v hides its cause %v", name, got, c.err)
		}
	}
}

// etcd does not say which lease is gone; it is told when only one can be.
func TestApplyError_NamesTheOnlyLease(t *testing.T) {
	t.Parallel()
	put := func(id reserve.LeaseID) reserve.Write { return reserve.Write{Value: sampleSlot, Lease: id} }
	for name, c := range map[string]struct {
		groups [][]reserve.Write
		want   reserve.LeaseID
	}{
		"one":               {[][]reserve.Write{{put(7)}}, 7},
		"one, many times":   {[][]reserve.Write{{put(7), put(0)}, {put(7)}}, 7},
		"two":               {[][]reserve.Write{{put(7)}, {put(8)}}, 0},
		"two, then again":   {[][]reserve.Write{{put(7), put(8), put(7)}}, 0},
		"deletes name none": {[][]reserve.Write{{{Lease: 8}, put(7)}}, 7},
		"none":              {[][]reserve.Write{{put(0)}, nil}, 0},
	} {
		var b reserve.Batch
		for _, ws := range c.groups {
			b.Groups = append(b.Groups, reserve.Group{Writes: ws})
		}
		if got := onlyLease(&b); got != c.want {
			t.Errorf("%s: got %x, want %x", name, got, c.want)
		}
	}
}

func TestMaxOps_IsLearnedDownwards(t *testing.T) {
	t.Parallel()
	s := &Store{}
	s.maxOps.Store(4096)
	for _, c := range []struct{ used, want int }{
		{4000, 2000}, {300, 150}, {3000, 75}, {75, 37}, {37, leastMaxOps}, {5, leastMaxOps}, {10_000, leastMaxOps},
	} {
		if s.tooManyOps(c.used); s.MaxOps() != c.want {
			t.Errorf("after %d operations were too many: got %d, want %d", c.used, s.MaxOps(), c.want)
		}
	}
	small := &Store{}
	small.maxOps.Store(10) // what Config says is believed
	if small.tooManyOps(8); small.MaxOps() != 10 {
		t.Errorf("below the least: got %d, want 10 kept", small.MaxOps())
	}
}
