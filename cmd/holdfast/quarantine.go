package main

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"
)

// quarantineEvery is how often the end of a quarantine is looked for, and its beginning: an etcd
// of others can be restored while this replica runs.
const quarantineEvery = time.Second

// quarantine follows whether the store is in quarantine after a restore. How long it lasts is
// etcd's to say (the key is on a lease), whose clock is nobody's wall clock and which is never
// early. A look that fails changes nothing.
type quarantine struct {
	ask func(context.Context) (bool, error)
	log *slog.Logger
	on  atomic.Bool
}

// look is one look. Errors: of ask.
func (q *quarantine) look(ctx context.Context) error {
	on, err := q.ask(ctx)
	if err != nil {
		return err
	}
	switch was := q.on.Swap(on); {
	case on && !was:
		q.log.Warn("the store was restored from a backup: no hold is begun until those that are not in it have surely run out")
	case was && !on:
		q.log.Info("the quarantine is over")
	}
	return nil
}

// run looks until ctx ends.
func (q *quarantine) run(ctx context.Context) error {
	return every(ctx, quarantineEvery, func() {
		if err := q.look(ctx); err != nil && !errors.Is(err, context.Canceled) {
			q.log.Debug("whether the store is in quarantine cannot be told now", "error", err)
		}
	})
}
