package reserve_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/store/memory"
)

// grants says whether a batch takes somebody out of a line into a slot.
func grants(b reserve.Batch) bool {
	return slices.ContainsFunc(b.Groups, func(g reserve.Group) bool {
		return slices.ContainsFunc(g.Writes, func(w reserve.Write) bool { return w.Ref.Kind == reserve.RefSlot && w.Value != nil })
	})
}

// The grant to who is next is sent behind the release that it waits for. One that comes before
// it, or whose release fails, is none, and the line goes on.
func TestWait_GrantIsSentBehindTheRelease(t *testing.T) {
	for name, tc := range map[string]struct {
		late   func(grant bool) bool // which of the two comes later to the store
		fail   bool
		within time.Duration
	}{
		"it comes after":    {late: func(grant bool) bool { return grant }, within: away + away/2},
		"it comes before":   {late: func(grant bool) bool { return !grant }, within: 3 * away},
		"the release fails": {late: func(grant bool) bool { return grant }, fail: true, within: 4 * away},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, []limits.Limit{slots("exports", 2)}, func(r *rig) {
				held := r.granted(ask(u42, 1, 2*time.Minute)).ID
				r.granted(ask(u42, 1, 2*time.Minute))
				head := r.waits(r.Service, ask(u42, 1, time.Minute), time.Minute)
				next := r.waits(r.Service, ask(u42, 1, time.Minute), time.Minute)
				var fail atomic.Bool
				fail.Store(tc.fail)
				r.store.View("").SetDelay(away)
				r.store.View("").SetFaults(func(b reserve.Batch) memory.Fault {
					if tc.late(grants(b)) {
						time.Sleep(away / 4)
					}
					if !grants(b) && fail.CompareAndSwap(true, false) {
						return memory.Before
					}
					return 0
				})
				go r.releases(held)
				time.Sleep(tc.within)
				r.want("the head", head, true)
				r.want("the next", next, false)
				r.wantTickets("exports", 1)
			})
		})
	}
}
