package store

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-dev/holdfast/reserve"
)

// Pauses between two beginnings of the watch: doubled from the least to the most, each made
// longer or shorter by up to a half. A watch that told something begins at the least again.
const (
	leastPause = 50 * time.Millisecond
	mostPause  = 2 * time.Second
)

// createWithin bounds the creation of a watch, for which clientv3 would wait for ever.
const createWithin = 10 * time.Second

var (
	errSilent = errors.New("the watch tells nothing although there is news")
	errClosed = errors.New("the watch was closed")
)

// Follow is reserve.Store's. tell is called by one goroutine, and everything waits for it.
//
// Cost: reading everything of catalogues, limits, overrides, blocks, slots, holds, tickets and replicas
// at each beginning; then one decoded value for each change of ours, and nothing for keys this
// version does not know.
func (s *Store) Follow(ctx context.Context, tell func(reserve.Update)) error {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval, pause.Multiplier = leastPause, mostPause, 2
	for {
		well, err := s.followOnce(ctx, tell)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if well {
			pause.Reset()
		}
		rest := pause.NextBackOff()
		s.cfg.Log.Warn("the watch begins anew", "cause", err, "in", rest)
		if !sleep(ctx, rest) {
			return ctx.Err()
		}
	}
}

// followOnce reads everything and watches from there, until something goes wrong. well says
// that the watch told something.
func (s *Store) followOnce(ctx context.Context, tell func(reserve.Update)) (well bool, err error) {
	p, err := s.picture(ctx)
	if err != nil {
		return false, err
	}
	s.metrics.resets.Inc()
	f := &follower{store: s, tell: tell, wake: make(chan struct{}, 1), tenants: p.tenants}
	s.join(f)
	defer s.leave(f)
	f.hand(reserve.Update{Rev: p.rev, Reset: true, Entries: p.entries})
	err = f.watch(ctx)
	return f.heard.Load() > 0, err
}

// follower is one Follow between two resets.
type follower struct {
	store *Store
	tell  func(reserve.Update)

	told   atomic.Int64 // everything up to this revision has been told
	heard  atomic.Int64 // answers of the watch so far
	busy   atomic.Bool  // tell is at work
	wanted atomic.Int64 // somebody has read this revision
	wake   chan struct{}

	mu      sync.Mutex
	tenants map[string]struct{}
	last    string // tenant of the last change
}

func (s *Store) join(f *follower) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.followers[f] = struct{}{}
	f.want(s.read)
}

func (s *Store) leave(f *follower) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.followers, f)
}

// watch tells each change after f.told. It returns when the watch has ended, and never nil.
//
// Fragments are not asked for: clientv3 would put them together again before we see them, and
// without them an answer of etcd holds whole revisions only. So a revision is never told in
// two parts, of which the second would be dropped as old.
func (f *follower) watch(ctx context.Context) error {
	// On a member without a leader the watch ends with an error, rather than staying silent.
	ctx, cancel := context.WithCancelCause(clientv3.WithRequireLeader(ctx))
	defer cancel(nil)
	root := f.store.keys.root
	creation := time.AfterFunc(createWithin, func() { cancel(errSilent) })
	answers := f.store.watcher.Watch(ctx, root, clientv3.WithRange(end(root)),
		clientv3.WithRev(f.told.Load()+1), clientv3.WithProgressNotify())
	creation.Stop()

	var nudging sync.WaitGroup
	defer nudging.Wait()
	nudgeCtx, stop := context.WithCancel(ctx)
	defer stop()
	nudging.Go(func() { f.nudge(nudgeCtx, cancel) })
	for a := range answers {
		if err := a.Err(); err != nil {
			return err
		}
		f.heard.Add(1)
		f.take(&a)
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return errClosed
}

// take tells what one answer of the watch brought. Events are in order of revision. What is at
// or below the cursor was told before: etcd has sent such (#15271, #20221).
//
// The revision in the answer's header is not used unless it is a progress answer: while the
// watch catches up it runs ahead of the events.
func (f *follower) take(a *clientv3.WatchResponse) {
	events := a.Events
	for len(events) > 0 {
		rev, n := events[0].Kv.ModRevision, 1
		for n < len(events) && events[n].Kv.ModRevision == rev {
			n++
		}
		if rev > f.told.Load() {
			f.hand(f.store.update(rev, events[:n], f.meet))
		}
		events = events[n:]
	}
	if rev := a.Header.GetRevision(); a.IsProgressNotify() && rev > f.told.Load() {
		f.hand(reserve.Update{Rev: rev})
	}
}

// update is all changes of one revision; meet hears of their tenants. Keys are read first, so
// that values nobody here can use cost nothing.
func (s *Store) update(rev int64, events []*clientv3.Event, meet func(tenant string)) reserve.Update {
	u := reserve.Update{Rev: rev}
	for _, ev := range events {
		r, ok := s.keys.parse(ev.Kv.Key)
		if !ok {
			continue
		}
		meet(r.Tenant)
		if ev.Type == clientv3.EventTypeDelete {
			u.Deleted = append(u.Deleted, reserve.Deleted{Ref: r, Rev: rev})
			continue
		}
		if u.Entries == nil {
			u.Entries = make([]reserve.Entry, 0, len(events))
		}
		u.Entries = append(u.Entries, s.entry(r, ev.Kv))
	}
	return u
}

// hand tells u and moves the cursor after that, not before: who waits for a revision must find
// that it has been told.
func (f *follower) hand(u reserve.Update) {
	f.busy.Store(true)
	f.tell(u)
	f.busy.Store(false)
	f.told.Store(u.Rev)
	f.store.metrics.told.Set(float64(u.Rev))
}

// meet remembers a tenant. Changes come in runs of one.
func (f *follower) meet(tenant string) {
	if tenant == f.last || tenant == "" {
		return
	}
	f.last = tenant
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tenants[tenant] = struct{}{}
}

// sleep reports whether d has passed, false when ctx ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
