package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/api"
)

// Do reserves, works, and settles: nil from work commits, an error releases, a panic releases
// and goes on. The context of work ends with ctx, and before the server can give the slot on;
// then context.Cause is ErrHoldLost.
//
// Errors: those of Reserve, when work never began; that of work, as it is; ErrHoldLost, with
// that of work, when the hold was lost before work returned; those of Commit. A commit above the
// estimate that a limit refuses is made at the estimate, and the refusal returned.
func (c *Client) Do(ctx context.Context, r Request, work func(ctx context.Context, h *Hold) error) error {
	h, err := c.Reserve(ctx, r)
	if err != nil {
		return err
	}
	settled := false
	defer func() {
		if !settled { // a panic, or runtime.Goexit
			h.release(ctx)
		}
	}()
	inner, cancel := h.Within(ctx)
	defer cancel()
	err = work(inner, h)
	settled = true
	if lost := h.Err(); lost != nil {
		_ = h.Release(ctx) // tells what we know: it is lost
		return lostWith(lost, err)
	}
	if err != nil {
		h.release(ctx)
		return err
	}
	return h.commit(ctx)
}

// release gives the hold back; when that fails, its TTL does.
func (h *Hold) release(ctx context.Context) {
	if err := h.Release(ctx); err != nil {
		h.c.log.Warn("a hold was not released; its slot comes free by its TTL", "hold", h.id, "cause", err)
	}
}

// commit charges what the work cost, or the estimate where more is refused.
func (h *Hold) commit(ctx context.Context) error {
	err := h.Commit(ctx)
	if p, ok := errors.AsType[*api.Problem](err); ok && p.Code == api.Overage {
		if again := h.finish(ctx, "commit", []byte("{}")); again != nil {
			return errors.Join(err, again)
		}
	}
	return err
}

// lostWith is the loss, and what the work made of it.
func lostWith(lost, err error) error {
	if err == nil || errors.Is(err, ErrHoldLost) {
		return lost
	}
	return fmt.Errorf("%w; the work ended with: %w", lost, err)
}
