package lease

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// What a caller can act on. Whatever the wheel failed to do, nothing has happened to the
// caller's own keys; at worst a lease that nobody uses runs out.
var (
	// ErrUnavailable: etcd gave no lease or no marker in time. Try again later.
	ErrUnavailable = errors.New("etcd is unavailable")
	// ErrFull: etcd has no space left and refuses new leases. Such an error is ErrUnavailable too.
	ErrFull = errors.New("etcd has no space left")
	// ErrTooLong: more than MaxKeep was asked for. A shorter lease would break the promise.
	ErrTooLong = errors.New("longer than a lease may last")
)

// translate puts what etcd answered to op into words.
func translate(op string, err error) error {
	switch {
	case errors.Is(err, rpctypes.ErrNoSpace):
		return fmt.Errorf("lease: %s: %w: %w", op, ErrUnavailable, ErrFull)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("lease: %s: %w: no answer in time", op, ErrUnavailable)
	case errors.Is(err, rpctypes.ErrNoLeader):
		return fmt.Errorf("lease: %s: %w: it has no leader", op, ErrUnavailable)
	case errors.Is(err, rpctypes.ErrTooManyRequests):
		return fmt.Errorf("lease: %s: %w: it is overloaded", op, ErrUnavailable)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("lease: %s: %w: %w", op, ErrUnavailable, context.Canceled)
	default:
		return fmt.Errorf("lease: %s: %w: %w", op, ErrUnavailable, err)
	}
}

// gaveUp is the error of a caller whose context ended while it waited for others.
func gaveUp(ctx context.Context) error {
	return fmt.Errorf("lease: %w: gave up waiting: %w", ErrUnavailable, context.Cause(ctx))
}
