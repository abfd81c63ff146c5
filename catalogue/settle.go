package catalogue

import (
	"errors"
	"maps"
	"reflect"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

// attempt is a transaction that was sent and whose answer is not known.
type attempt struct {
	at     standing
	writes []reserve.Write
	cause  error // is reserve.ErrUnknownOutcome
}

var (
	errNever = errors.New("catalogue: it did not happen and cannot any more")
	errOpen  = errors.New("catalogue: it has not happened yet")
)

// settle tells from a later read what became of a. It compares the catalogue's revision, so
// once the catalogue has moved it either did so itself or never will.
//
// Errors: errOpen, errNever (also for no attempt at all), reserve.ErrUnknownOutcome when
// others' edits hide the answer, which they cannot when a leaves a note.
func (a *attempt) settle(now standing) (done, error) {
	switch {
	case a == nil:
		return done{}, errNever
	case now.rev == a.at.rev:
		return done{}, errOpen
	case a.noteRef() != nil && now.note.Mod != 0: // nobody else writes a note of that rank
		return done{rev: now.note.Mod, seq: a.at.seq + 1, changed: true}, nil
	case a.noteRef() != nil:
		return done{}, errNever
	case len(a.writes) == 0:
		return done{}, errNever // it was only to raise the counter: once more does no harm
	}
	rev, stands := a.stands(now)
	switch {
	case stands && now.seq > a.at.seq:
		return done{rev: rev, seq: a.at.seq + 1, changed: true}, nil
	case now.seq == a.at.seq+1:
		return done{}, errNever // there was one edit since, and it was not this one
	case a.untouched(now):
		return done{}, errNever
	}
	return done{}, a.cause
}

// noteRef is the key of the note that a puts; nil when it puts none.
func (a *attempt) noteRef() *reserve.Ref {
	if a == nil {
		return nil
	}
	for i := range a.writes {
		if a.writes[i].Ref.Kind == reserve.RefTrail {
			return &a.writes[i].Ref
		}
	}
	return nil
}

// stands reports whether all that a was to write stands as it wrote it, and since when. An
// edit of another's that is the same in every field, the generation and the instant included,
// may pass for it.
func (a *attempt) stands(now standing) (rev int64, ok bool) {
	for _, w := range a.writes {
		e, found := entryOf(now, w.Ref)
		if !found || !sameValue(e.Value, w.Value) || w.Value == nil && e.Mod != 0 {
			return 0, false
		}
		rev = max(rev, e.Mod)
	}
	if rev == 0 {
		rev = now.rev // only deletions, which leave no revision behind
	}
	return rev, true
}

// untouched reports whether a key that a was to write has stood still since it was read.
func (a *attempt) untouched(now standing) bool {
	for _, w := range a.writes {
		if e, ok := entryOf(now, w.Ref); ok && e.Mod != 0 && e.Mod <= a.at.rev {
			return true
		}
	}
	return false
}

func entryOf(at standing, ref reserve.Ref) (reserve.Entry, bool) {
	for _, e := range at.entries {
		if e.Ref == ref {
			return e, true
		}
	}
	return reserve.Entry{}, false
}

// sameValue compares two values of the catalogue as they are stored.
func sameValue(a, b any) bool {
	switch a := a.(type) {
	case *limits.Limit:
		b, ok := b.(*limits.Limit)
		return ok && sameLimit(*a, *b)
	case *limits.Override:
		b, ok := b.(*limits.Override)
		return ok && plainOverride(*a) == plainOverride(*b)
	case *limits.File:
		b, ok := b.(*limits.File)
		return ok && a.Digest == b.Digest && a.By == b.By && stored(a.At).Equal(stored(b.At)) && reflect.DeepEqual(a.Plans, b.Plans)
	case *limits.SubjectPlan:
		b, ok := b.(*limits.SubjectPlan)
		return ok && plainSubjectPlan(*a) == plainSubjectPlan(*b)
	case *limits.Block:
		b, ok := b.(*limits.Block)
		return ok && plainBlock(*a) == plainBlock(*b)
	}
	return a == nil && b == nil
}

// sameLimit compares everything but Revision, which is its key's.
func sameLimit(a, b limits.Limit) bool {
	if !maps.Equal(a.Labels, b.Labels) {
		return false
	}
	return reflect.DeepEqual(plainLimit(a), plainLimit(b))
}

func plainLimit(l limits.Limit) limits.Limit {
	l.Labels, l.Revision = nil, 0
	l.PausedUntil, l.CreatedAt, l.UpdatedAt = stored(l.PausedUntil), stored(l.CreatedAt), stored(l.UpdatedAt)
	l.Turn.At, l.Turn.Next = stored(l.Turn.At), stored(l.Turn.Next)
	return l
}

func plainOverride(o limits.Override) limits.Override {
	o.Until, o.CreatedAt = stored(o.Until), stored(o.CreatedAt)
	return o
}

func plainSubjectPlan(p limits.SubjectPlan) limits.SubjectPlan {
	p.CreatedAt = stored(p.CreatedAt)
	return p
}

func plainBlock(b limits.Block) limits.Block {
	b.Until = stored(b.Until)
	return b
}
