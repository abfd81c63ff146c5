package memory

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/reserve"
)

// maxBehind is how many revisions are kept for a follower that lags; one further behind starts
// over with a Reset, as if history had been compacted.
const maxBehind = 1 << 16

// maxHistory is how many revisions are kept for History although everybody was told.
const maxHistory = 1 << 14

// feed is the history that followers have not been told yet, and somewhat more for History.
type feed struct {
	followers []*follower
	log       []logged // revisions first, first+1, … without a gap
	first     int64
	compacted int64 // revisions up to here are not kept
}

// logged is one revision and when it was made.
type logged struct {
	update reserve.Update
	at     time.Time
}

// follower is one Follow that is under way.
type follower struct {
	view *View
	next int64         // revision it is to be told next; 0: everything, by a Reset
	wake chan struct{} // of one place: something may have changed
}

func (f *feed) followed() bool { return len(f.followers) > 0 }

// add keeps u for the followers and wakes them.
func (f *feed) add(u reserve.Update, now func() time.Time) {
	if !f.followed() {
		return
	}
	if len(f.log) == 0 {
		f.first, f.compacted = u.Rev, u.Rev-1
	}
	f.log = append(f.log, logged{update: u, at: now()})
	if len(f.log) > maxBehind {
		f.drop(len(f.log) - maxBehind/2)
	}
	f.wakeAll()
}

func (f *feed) wakeAll() {
	for _, fo := range f.followers {
		fo.poke()
	}
}

func (fo *follower) poke() {
	select {
	case fo.wake <- struct{}{}:
	default: // it is going to look anyway
	}
}

// compact makes every follower start over.
func (f *feed) compact() {
	f.drop(len(f.log))
	for _, fo := range f.followers {
		fo.next = 0
	}
	f.wakeAll()
}

// drop forgets the n oldest revisions. What is left moves to the front, so that forgotten
// values are free.
func (f *feed) drop(n int) {
	f.log = slices.Delete(f.log, 0, n)
	f.first += int64(n)
	f.compacted = max(f.compacted, f.first-1)
}

// trim forgets what all followers have been told and History need not tell, once it is most of
// the log.
func (f *feed) trim() {
	told := max(0, len(f.log)-maxHistory)
	for _, fo := range f.followers {
		if fo.next != 0 {
			told = min(told, int(fo.next-f.first))
		}
	}
	if told > len(f.log)/2 {
		f.drop(told)
	}
}

// Follow is reserve.Store's. Each Update is one revision. It is told no sooner than the view's
// lag after the revision was made, and not at all while the view is down. Leases that come due
// meanwhile are ended.
func (v *View) Follow(ctx context.Context, tell func(reserve.Update)) error {
	fo := &follower{view: v, wake: make(chan struct{}, 1)}
	v.keys.join(fo)
	defer v.keys.leave(fo)
	for ctx.Err() == nil {
		u, wait, ok := v.keys.next(fo)
		if ok {
			tell(u)
			continue
		}
		fo.rest(ctx, wait)
	}
	return ctx.Err()
}

// rest waits until something may have changed; wait bounds it when it is above 0.
func (fo *follower) rest(ctx context.Context, wait time.Duration) {
	var due <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
	case <-fo.wake:
	case <-due:
	}
}

func (k *keyspace) join(fo *follower) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.feed.followers = append(k.feed.followers, fo)
}

func (k *keyspace) leave(fo *follower) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f := &k.feed
	f.followers = slices.DeleteFunc(f.followers, func(other *follower) bool { return other == fo })
	if !f.followed() {
		f.drop(len(f.log))
	}
}

// next is what fo is told now. When there is nothing, wait is how long that is certain, unless
// it is woken before; 0: for ever.
func (k *keyspace) next(fo *follower) (u reserve.Update, wait time.Duration, ok bool) {
	down, lag := fo.view.hindrance()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tick()
	now, f := k.now(), &k.feed
	if !k.due.IsZero() {
		wait = atLeastATick(k.due.Sub(now))
	}
	switch {
	case down || lag < 0:
		return u, wait, false
	case fo.next == 0 || fo.next < f.first && fo.next <= k.rev:
		fo.next = k.rev + 1
		return reserve.Update{Rev: k.rev, Reset: true, Entries: k.followed()}, 0, true
	case fo.next > k.rev:
		return u, wait, false
	}
	l := &f.log[fo.next-f.first]
	if late := l.at.Add(lag).Sub(now); late > 0 {
		if wait == 0 || late < wait {
			wait = atLeastATick(late)
		}
		return u, wait, false
	}
	u = l.update
	fo.next++
	f.trim()
	return u, 0, true
}

// atLeastATick keeps a follower of a clock that is moved by hand from spinning.
func atLeastATick(d time.Duration) time.Duration { return max(d, time.Millisecond) }

// followed is everything a Reset tells, in a fixed order.
func (k *keyspace) followed() []reserve.Entry {
	var entries []reserve.Entry
	for ref, it := range k.items {
		if isFollowed(ref.Kind) {
			entries = append(entries, it.Entry)
		}
	}
	slices.SortFunc(entries, func(a, b reserve.Entry) int { return compareRefs(a.Ref, b.Ref) })
	return entries
}

func isFollowed(kind reserve.RefKind) bool {
	switch kind {
	case reserve.RefCatalog, reserve.RefLimit, reserve.RefOverride, reserve.RefFile, reserve.RefPlan, reserve.RefBlock,
		reserve.RefSlot, reserve.RefHold, reserve.RefTicket, reserve.RefReplica, reserve.RefWebhook, reserve.RefDelivery:
		return true
	case reserve.RefOpen, reserve.RefEnded, reserve.RefUsage, reserve.RefReplay, reserve.RefSecret,
		reserve.RefTrail, reserve.RefRollup, reserve.RefTally, reserve.RefExceeded, reserve.RefParcel, reserve.RefDuty:
	}
	return false
}
