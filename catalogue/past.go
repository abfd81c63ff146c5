package catalogue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

// EndPast removes the overrides and ends the pauses of c whose end is not after now, and applies
// the turns of schedules that have come, in one transaction when it fits. Whoever sees it first does it: when the catalogue has moved past c
// nothing is done, changed is 0, and the caller looks again once it knows more. rev is the
// revision of the catalogue afterwards, as far as this call knows.
//
// Errors: the store's; after ErrUnknownOutcome the caller does the same as after any other:
// it looks again. Cost: nothing but a look when nothing has passed.
func (e *Editor) EndPast(ctx context.Context, tenant string, c *limits.Catalog, now time.Time) (changed int, rev int64, err error) {
	writes := pastWrites(tenant, c, now)
	if len(writes) == 0 {
		return 0, c.Revision(), nil
	}
	if err := ctx.Err(); err != nil {
		return 0, c.Revision(), fmt.Errorf("%w: %w", reserve.ErrUnavailable, err)
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	at := standing{rev: c.Revision(), seq: c.Seq()}
	most := manyWrites
	for len(writes) > 0 {
		n := min(len(writes), most)
		rev, err := e.send(ctx, tenant, at, writes[:n])
		switch {
		case errors.Is(err, reserve.ErrTooBig) && most > 1:
			most = n / 2
			continue
		case errors.Is(err, errAgain): // another was first
			return changed, at.rev, nil
		case err != nil:
			return changed, at.rev, err
		}
		// What stands is known without a read: what stood, and this change of ours.
		at = standing{rev: rev, seq: at.seq + 1}
		changed, writes = changed+n, writes[n:]
	}
	return changed, at.rev, nil
}

// pastWrites ends what has an end that is not after now.
func pastWrites(tenant string, c *limits.Catalog, now time.Time) []reserve.Write {
	if end, ok := c.NextEnd(time.Time{}); !ok || end.After(now) {
		return nil
	}
	past := func(until time.Time) bool { return !until.IsZero() && !until.After(now) }
	var writes []reserve.Write
	for _, l := range c.Limits() {
		next := *l
		next.Revision = 0
		if l.Paused && past(l.PausedUntil) {
			next.Paused, next.PauseReason, next.PausedUntil = false, "", time.Time{}
			next.UpdatedAt = stored(now) // by whom stays: who set the pause set its end
		}
		if past(l.Turn.Next) {
			next.Turn = l.TurnAt(now) // turns that nobody was there for are passed over
		}
		if !sameLimit(next, *l) {
			writes = append(writes, reserve.Write{Ref: limitRef(tenant, l.ID), Value: &next})
		}
	}
	for _, o := range c.AllOverrides() {
		if past(o.Until) {
			writes = append(writes, reserve.Write{Ref: overrideRef(tenant, o.Limit, o.Subject)})
		}
	}
	return writes
}
