package store

import (
	"context"
	"time"
)

// The watch tells of a revision when a key of ours changed in it. Whoever read the store at a
// revision made by somebody else would wait for ever to be told of it; so a fresh read that is
// ahead of the watch makes it ask etcd how far it is. The same question finds a watch that has
// gone silent.
const (
	nudgeAfter  = 5 * time.Millisecond   // news mostly comes by itself within this
	nudgeAtMost = 500 * time.Millisecond // between two questions; doubled up to this
	silentAfter = 5 * time.Second        // without any answer, although there is news: begin anew
	checkEvery  = 10 * time.Second       // nobody reads: look for news ourselves
)

// catchUp makes every follower that is behind rev ask for news, also one that is still to
// begin. It does not wait.
func (s *Store) catchUp(rev int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read = max(s.read, rev)
	for f := range s.followers {
		f.want(rev)
	}
}

func (f *follower) want(rev int64) {
	if rev <= f.told.Load() {
		return
	}
	for {
		wanted := f.wanted.Load()
		if rev <= wanted {
			return // one is under way
		}
		if f.wanted.CompareAndSwap(wanted, rev) {
			break
		}
	}
	select {
	case f.wake <- struct{}{}:
	default: // it will look at wanted anyway
	}
}

// nudge keeps the watch up with what was read, until ctx ends or the watch is found silent,
// which it ends with cancel. ctx is made of the watch's own: etcd's client finds the stream to
// ask on by what the context carries.
func (f *follower) nudge(ctx context.Context, cancel context.CancelCauseFunc) {
	check := time.NewTicker(checkEvery)
	defer check.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.wake:
		case <-check.C:
			// No answer says nothing about the watch; it is the next one that does.
			_, _ = f.store.Load(ctx, nil, true)
		}
		if !f.reach(ctx) {
			cancel(errSilent)
			return
		}
	}
}

// reach asks for news until the watch has told what is wanted. It returns false when the watch
// has not said a word for silentAfter. While tell is at work, it is not the watch that is late.
func (f *follower) reach(ctx context.Context) bool {
	goal, heard, silent := f.wanted.Load(), f.heard.Load(), time.Duration(0)
	for wait := nudgeAfter; ; wait = min(2*wait, nudgeAtMost) {
		f.rest(ctx, wait, goal)
		told, wanted := f.told.Load(), f.wanted.Load()
		switch now := f.heard.Load(); {
		case ctx.Err() != nil || told >= wanted:
			return true
		case told >= goal: // what is wanted now is news again, and is given its own time to come
			goal, heard, silent = wanted, now, 0
			wait = nudgeAfter / 2 // doubled before it is used
			continue
		case now != heard || f.busy.Load():
			heard, silent = now, 0
		default:
			if silent += wait; silent >= silentAfter {
				return false
			}
		}
		f.ask(ctx)
	}
}

// rest waits for d, or until more is wanted while goal has been told already.
func (f *follower) rest(ctx context.Context, d time.Duration, goal int64) {
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			return
		case <-f.wake:
			if f.told.Load() >= goal {
				return
			}
		}
	}
}

// ask requests an answer that tells how far the watch is. etcd leaves the request unanswered
// while the watch is catching up, so it is repeated.
func (f *follower) ask(ctx context.Context) {
	ctx, cancel := f.store.call(ctx)
	defer cancel()
	err := f.store.watcher.RequestProgress(ctx)
	f.store.metrics.count("progress", err)
}
