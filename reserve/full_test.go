package reserve_test

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
)

func TestTrouble_ForceWithBlockInAFullStore(t *testing.T) {
	inBubble(t, []limits.Limit{slots("exports", 1)}, func(r *rig) {
		a := r.granted(ask(u42, 1, time.Minute))
		r.store.SetFull(true, 3)
		_, err := r.Force(r.ctx(), tenant, a.ID, a.Fence, "ops", "stuck", 10*time.Minute, nil)
		r.store.SetFull(false, 0)
		if _, d, rerr := r.Reserve(r.ctx(), ask(u42, 1, time.Minute)); err == nil && rerr == nil && d.Allowed {
			t.Errorf("force with a block was answered %v, and the subject is granted at once", err)
		}
	})
}
