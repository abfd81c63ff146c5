package catalogue

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

// Create makes a limit; its id is made from the name when it has none. by is who is noted
// down. It returns the limit as it stands, and its revision. A limit of an id that was deleted
// before has a greater generation: nothing counted under the old one counts for it.
// Errors: *limits.InvalidError, *ExistsError, ErrTooMany.
func (e *Editor) Create(ctx context.Context, tenant string, l limits.Limit, by string) (limits.Limit, int64, error) {
	now := e.now()
	if err := checkPause(l, limits.Limit{}, now); err != nil {
		return limits.Limit{}, 0, err
	}
	l = normal(l)
	if err := l.Validate(); err != nil {
		return limits.Limit{}, 0, err
	}
	if e.limitsOf(tenant) >= limits.MaxLimits {
		return limits.Limit{}, 0, fmt.Errorf("%w: %d limits", ErrTooMany, limits.MaxLimits)
	}
	ref := limitRef(tenant, l.ID)
	var made limits.Limit
	d, err := e.run(ctx, tenant, []reserve.Ref{ref}, func(at standing) ([]reserve.Write, bool, error) {
		if at.entries[0].Mod != 0 {
			return nil, false, &ExistsError{ID: l.ID}
		}
		made = fresh(l, at.seq+1, now, by)
		return writeLimit(ref, made), true, nil
	})
	if err != nil {
		return limits.Limit{}, 0, err
	}
	made.Revision = d.rev
	return made, d.rev, nil
}

// writeLimit puts a copy of l, which nobody changes any more.
func writeLimit(ref reserve.Ref, l limits.Limit) []reserve.Write {
	return []reserve.Write{{Ref: ref, Value: &l}}
}

// fresh is l as a new limit.
func fresh(l limits.Limit, seq int64, now time.Time, by string) limits.Limit {
	l.Generation, l.CreatedAt, l.UpdatedAt, l.UpdatedBy, l.Revision = seq, now, now, by, 0
	if l.Source == "" {
		l.Source = "api"
	}
	l.Turn = l.TurnAt(now)
	return l
}

// Change makes of a limit what fn makes of it; fn may be called several times, and what it
// says of the id, the generation, the revision and the instants does not count. ifRevision is
// the revision the caller has seen, 0 for any. A change of counting window gives a new
// generation. When fn changes nothing, nothing is written.
// It returns the limit as it stands, and the revision of the catalogue.
// Errors: those of fn, ErrNotFound, *ChangedError, *limits.InvalidError, *limits.FixedError.
func (e *Editor) Change(
	ctx context.Context, tenant, id string, ifRevision int64, by string,
	fn func(old limits.Limit) (limits.Limit, error),
) (limits.Limit, int64, error) {
	now, ref := e.now(), limitRef(tenant, id)
	var next limits.Limit
	d, err := e.run(ctx, tenant, []reserve.Ref{ref}, func(at standing) ([]reserve.Write, bool, error) {
		old, err := limitIn(at.entries[0], ifRevision)
		if err != nil {
			return nil, false, err
		}
		asked := old
		asked.Labels = maps.Clone(old.Labels)
		if asked, err = fn(asked); err != nil {
			return nil, false, err
		}
		next, err = changed(old, asked, at.seq+1, now, by)
		return writeLimit(ref, next), err == nil && !sameLimit(next, old), err
	})
	if err != nil {
		return limits.Limit{}, 0, err
	}
	if d.changed {
		next.Revision = d.rev
	}
	return next, d.rev, nil
}

// changed is what becomes of old when asked is asked for: old itself when that is the same.
func changed(old, asked limits.Limit, seq int64, now time.Time, by string) (limits.Limit, error) {
	asked.ID, asked.Generation, asked.Revision = old.ID, old.Generation, old.Revision
	asked.CreatedAt, asked.UpdatedAt, asked.UpdatedBy = old.CreatedAt, old.UpdatedAt, old.UpdatedBy
	asked.Turn = old.Turn
	if !slices.Equal(asked.Schedules, old.Schedules) {
		asked.Turn = asked.TurnAt(now)
	}
	if asked.Source == "" {
		asked.Source = old.Source
	}
	if err := checkPause(asked, old, now); err != nil {
		return old, err
	}
	next := normal(asked)
	if err := next.Validate(); err != nil {
		return old, err
	}
	if err := limits.CheckChange(old, next); err != nil {
		return old, err
	}
	if sameLimit(next, old) {
		return old, nil
	}
	if limits.StartsAnew(old, next) {
		next.Generation = seq
	}
	next.UpdatedAt, next.UpdatedBy = now, by
	return next, nil
}

// normal is l with its defaults, and in the form in which it comes back from the store. Its
// labels are its own.
func normal(l limits.Limit) limits.Limit {
	l = l.WithDefaults()
	l.PausedUntil = stored(l.PausedUntil)
	l.Labels = maps.Clone(l.Labels)
	if len(l.Labels) == 0 {
		l.Labels = nil
	}
	if l.Schedules = slices.Clone(l.Schedules); len(l.Schedules) == 0 {
		l.Schedules = nil
	}
	return l
}

// checkPause refuses a pause that would end before it began. One that was there before and has
// run out meanwhile is about to be ended; it does not stand in the way of other changes.
func checkPause(next, old limits.Limit, now time.Time) error {
	until := stored(next.PausedUntil)
	if !next.Paused || until.IsZero() || until.After(now) || until.Equal(stored(old.PausedUntil)) {
		return nil
	}
	return &limits.InvalidError{Faults: []limits.Fault{{Field: "/pausedUntil", Reason: "must be in the future"}}}
}

// limitIn is the limit that stands in entry, if its revision is that one or any will do (0).
// Its Revision is filled in.
func limitIn(entry reserve.Entry, ifRevision int64) (limits.Limit, error) {
	if err := found(entry, ifRevision); err != nil {
		return limits.Limit{}, err
	}
	if entry.Fault != nil {
		return limits.Limit{}, fmt.Errorf("catalogue: limit %s: %w", entry.Ref.Limit, entry.Fault)
	}
	l := *entry.Value.(*limits.Limit)
	l.Revision = entry.Mod
	return l, nil
}

// found reports that nothing stands in entry, or something else than the caller has seen.
func found(entry reserve.Entry, ifRevision int64) error {
	switch {
	case entry.Mod == 0:
		return ErrNotFound
	case ifRevision != 0 && ifRevision != entry.Mod:
		return &ChangedError{Revision: entry.Mod}
	}
	return nil
}

// Reset makes the counts of a limit start anew, by a new generation; its holds stay. reason is
// checked, and kept in the note of an editor made by As. It returns the new generation and the revision,
// which is the limit's too.
// Errors: ErrNotFound, *limits.InvalidError for the reason.
func (e *Editor) Reset(ctx context.Context, tenant, id, by, reason string) (seq, rev int64, err error) {
	if err := (limits.Override{Reason: reason}).Validate(); err != nil {
		return 0, 0, err
	}
	now, ref := e.now(), limitRef(tenant, id)
	d, err := e.run(ctx, tenant, []reserve.Ref{ref}, func(at standing) ([]reserve.Write, bool, error) {
		l, err := limitIn(at.entries[0], 0)
		if err != nil {
			return nil, false, err
		}
		l.Generation, l.UpdatedAt, l.UpdatedBy = at.seq+1, now, by
		return writeLimit(ref, l), true, nil
	})
	return d.seq, d.rev, err
}

// NextSeq raises the counter and nothing else: a generation for the counts of one subject,
// greater than any before. rev is the catalogue's revision.
func (e *Editor) NextSeq(ctx context.Context, tenant string) (seq, rev int64, err error) {
	d, err := e.run(ctx, tenant, nil, func(standing) ([]reserve.Write, bool, error) { return nil, true, nil })
	return d.seq, d.rev, err
}

// limitsOf is how many limits the tenant has, as far as this replica knows.
func (e *Editor) limitsOf(tenant string) int {
	if c := e.cfg.Catalog(tenant); c != nil {
		return len(c.Limits())
	}
	return 0
}
