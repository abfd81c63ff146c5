package storetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/reserve"
)

// toldWithin is how long a case waits to be told what has happened. Nothing is wrong with a
// store that takes a second; one that takes this long never will.
const toldWithin = 30 * time.Second

// listener is one Follow, and the picture that its updates make.
type listener struct {
	t       *testing.T
	updates chan reserve.Update
	last    int64 // revision told so far
	resets  int
	stands  map[reserve.Ref]reserve.Entry
	changes []revision        // since the first Reset
	gone    []reserve.Deleted // in order
}

// revision is one revision as it was told, and how much of it.
type revision struct {
	rev           int64
	puts, deletes int
}

// follow starts to follow and returns when the first Reset has been told.
func (b *bench) follow() *listener {
	b.t.Helper()
	l := &listener{t: b.t, updates: make(chan reserve.Update), stands: map[reserve.Ref]reserve.Entry{}}
	// The test's own context ends before its cleanup, which is to see whether Follow outlasted it.
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.t.Context()))
	ended := make(chan error, 1)
	go func() {
		ended <- b.Store.Follow(ctx, func(u reserve.Update) {
			select {
			case l.updates <- u:
			case <-ctx.Done():
			}
		})
	}()
	b.t.Cleanup(func() {
		select {
		case err := <-ended:
			b.t.Errorf("Follow returned by itself, with %v", err)
		default:
		}
		cancel()
		select {
		case <-ended:
		case <-time.After(toldWithin):
			b.t.Errorf("Follow still runs %v after its context has ended", toldWithin)
		}
	})
	l.await("the first Reset", func() bool { return l.resets > 0 })
	return l
}

// await takes updates until enough holds.
func (l *listener) await(what string, enough func() bool) {
	l.t.Helper()
	deadline := time.NewTimer(toldWithin)
	defer deadline.Stop()
	for !enough() {
		select {
		case u := <-l.updates:
			l.take(u)
		case <-deadline.C:
			l.t.Fatalf("%v have passed without %s; told up to revision %d: %+v", toldWithin, what, l.last, l.stands)
		}
	}
}

// awaitRev takes updates until everything up to rev has been told.
func (l *listener) awaitRev(rev int64) {
	l.t.Helper()
	l.await(fmt.Sprintf("revision %d", rev), func() bool { return l.last >= rev })
}

// deletedSoon takes updates for a moment, or until all refs have been deleted, and returns
// what deletions of refs it was told.
func (l *listener) deletedSoon(refs []reserve.Ref) []reserve.Deleted {
	l.t.Helper()
	moment := time.NewTimer(100 * time.Millisecond)
	defer moment.Stop()
	for {
		var told []reserve.Deleted
		for _, d := range l.gone {
			if slices.Contains(refs, d.Ref) {
				told = append(told, d)
			}
		}
		if len(told) >= len(refs) {
			return told
		}
		select {
		case u := <-l.updates:
			l.take(u)
		case <-moment.C:
			return told
		}
	}
}

// take checks u against what was told before and changes the picture.
func (l *listener) take(u reserve.Update) {
	l.t.Helper()
	if u.Reset {
		l.reset(u)
		return
	}
	if l.resets == 0 {
		l.t.Fatalf("told before a Reset: %+v", u)
	}
	if u.Rev < l.last {
		l.t.Fatalf("told of revision %d after %d", u.Rev, l.last)
	}
	for _, e := range u.Entries {
		l.note(u, e.Ref, e.Mod).puts++
		if had := l.stands[e.Ref]; had.Mod < e.Mod {
			l.stands[e.Ref] = e
		}
	}
	for _, d := range u.Deleted {
		l.note(u, d.Ref, d.Rev).deletes++
		l.gone = append(l.gone, d)
		if had := l.stands[d.Ref]; had.Mod < d.Rev {
			delete(l.stands, d.Ref)
		}
	}
	l.last = u.Rev
}

// note counts a change at rev. All changes of one revision come in one update, so none may be
// of a revision that was told before, or is yet to be told.
func (l *listener) note(u reserve.Update, ref reserve.Ref, rev int64) *revision {
	l.t.Helper()
	if rev <= l.last || rev > u.Rev {
		l.t.Fatalf("told of %+v at revision %d in an update of (%d, %d]", ref, rev, l.last, u.Rev)
	}
	for i := len(l.changes) - 1; i >= 0 && l.changes[i].rev >= rev; i-- {
		if l.changes[i].rev == rev {
			return &l.changes[i]
		}
	}
	l.changes = append(l.changes, revision{rev: rev})
	return &l.changes[len(l.changes)-1]
}

func (l *listener) reset(u reserve.Update) {
	l.t.Helper()
	if u.Rev < l.last || len(u.Deleted) > 0 {
		l.t.Fatalf("Reset after revision %d: %+v", l.last, u)
	}
	clear(l.stands)
	for _, e := range u.Entries {
		if !followed(e.Ref.Kind) || e.Mod == 0 || e.Mod > u.Rev {
			l.t.Fatalf("Reset at %d tells of %+v", u.Rev, e)
		}
		if _, twice := l.stands[e.Ref]; twice {
			l.t.Fatalf("Reset tells of %+v twice", e.Ref)
		}
		l.stands[e.Ref] = e
	}
	l.resets++
	l.last = u.Rev
}

// followed reports whether a Reset tells of keys of that kind.
func followed(kind reserve.RefKind) bool {
	switch kind {
	case reserve.RefCatalog, reserve.RefLimit, reserve.RefOverride, reserve.RefFile, reserve.RefPlan, reserve.RefBlock,
		reserve.RefSlot, reserve.RefHold, reserve.RefTicket, reserve.RefReplica, reserve.RefWebhook, reserve.RefDelivery:
		return true
	case reserve.RefOpen, reserve.RefEnded, reserve.RefUsage, reserve.RefReplay, reserve.RefSecret,
		reserve.RefTrail, reserve.RefRollup, reserve.RefTally, reserve.RefExceeded, reserve.RefParcel, reserve.RefDuty:
	}
	return false
}
