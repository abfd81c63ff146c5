package catalogue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
)

// Imported says what an import did: ids, in the order of the file.
type Imported struct{ Created, Changed []string }

// Import is Apply for a server's start, where replicas that start together must not be in each
// other's way: when others changed the limits meanwhile it looks again, up to importTries times.
// It deletes nothing. rev is the revision of the catalogue.
// Errors: as Apply.
func (e *Editor) Import(ctx context.Context, tenant string, f File, by string) (done Imported, rev int64, err error) {
	var diff Diff
	for range importTries {
		if diff, err = e.Apply(ctx, tenant, f, by); !errors.Is(err, ErrChanged) {
			break
		}
	}
	for _, l := range diff.Create {
		done.Created = append(done.Created, l.ID)
	}
	for _, c := range diff.Change {
		done.Changed = append(done.Changed, c.New.ID)
	}
	return done, diff.Revision, err
}

const importTries = 10

// importable are the limits of a file as they would be stored, if all are right. A pause that
// has run out since the file was written is over.
func importable(ls []limits.Limit, source string, now time.Time) ([]limits.Limit, error) {
	if len(ls) > limits.MaxLimits {
		return nil, fmt.Errorf("%w: %d limits", ErrTooMany, limits.MaxLimits)
	}
	var faults []limits.Fault
	first := map[string]int{}
	all := make([]limits.Limit, len(ls))
	for i, l := range ls {
		l.Source = source
		l.Paused = l.Paused && (l.PausedUntil.IsZero() || stored(l.PausedUntil).After(now))
		l = normal(l)
		under := fmt.Sprintf("/limits/%d", i)
		if invalid, ok := errors.AsType[*limits.InvalidError](l.Validate()); ok {
			for _, f := range invalid.Faults {
				faults = append(faults, limits.Fault{Field: under + f.Field, Reason: f.Reason})
			}
		}
		if before, twice := first[l.ID]; twice {
			faults = append(faults, limits.Fault{Field: under + "/id", Reason: fmt.Sprintf("is that of /limits/%d", before)})
		} else {
			first[l.ID] = i
		}
		all[i] = l
	}
	if len(faults) > 0 {
		return nil, &limits.InvalidError{Faults: faults}
	}
	return all, nil
}
