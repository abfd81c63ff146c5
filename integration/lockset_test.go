package integration

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/integration/judge"
)

// FAULTS row 6, GUARANTEES 6, the lock-set checker: workers read a set, add to it and write it
// back while they hold a slot. Some sleep past their hold and write all the same. The set that
// checks fences loses nothing; the one that does not must lose, or the rig is too tame.
func TestLockSet_OnlyTheFenceSavesTheSet(t *testing.T) {
	const amount, sleepers, ttl = 2, 4, 2
	rig := &setRig{c: dev(t).admin(t), fenced: judge.Set{Fenced: true}, awake: make(chan struct{})}
	rig.c.limit(fmt.Sprintf(`{"name":"set","subjectKind":"user","action":"set","amount":%d,"window":"concurrent"}`, amount))
	ctx, cancel := context.WithTimeout(t.Context(), generous)
	defer cancel()
	var asleep, all sync.WaitGroup
	for n := range sleepers {
		asleep.Go(func() { rig.turn(ctx, t, fmt.Sprintf("sleeper-%d", n), ttl, true) })
	}
	for n := range sleepers {
		all.Go(func() {
			for turn := 0; ctx.Err() == nil; turn++ {
				select {
				case <-rig.awake:
					return
				default:
					rig.turn(ctx, t, fmt.Sprintf("worker-%d-%d", n, turn), ttl, false)
				}
			}
		})
	}
	asleep.Wait()
	close(rig.awake)
	all.Wait()
	if lost := rig.fenced.Lost(); len(lost) > 0 {
		t.Errorf("the set that checks fences has lost %v", lost)
	}
	taken, refused := rig.fenced.Counts()
	if open := rig.open.Lost(); len(open) == 0 || refused == 0 || taken == 0 {
		t.Errorf("the set that does not check lost %v, the other refused %d of %d writes: too tame to show anything", open, refused, taken+refused)
	}
	open, _ := rig.open.Counts()
	t.Logf("without the fence %d of %d writes were lost; with it none of %d, and %d late acts were refused", len(rig.open.Lost()), open, taken, refused)
}

type setRig struct {
	c            *caller
	open, fenced judge.Set
	awake        chan struct{} // no sleeper sleeps any longer
}

// turn is one hold. Who sleeps writes after somebody who has come later has written in its slot.
func (r *setRig) turn(ctx context.Context, t *testing.T, name string, ttl int, sleeps bool) {
	hold, err := r.reserve(ctx, name, ttl)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	slot, fence := hold.Slots[0].Slot, hold.Fence
	old, _ := r.open.Read(slot, fence)
	checked, ok := r.fenced.Read(slot, fence)
	for sleeps && r.open.Newest(slot) <= fence {
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			t.Errorf("%s: nobody came after it: %v", name, err)
			return
		}
	}
	r.open.Write(slot, fence, old, name)
	wrote := ok && r.fenced.Write(slot, fence, checked, name)
	if sleeps && wrote {
		t.Errorf("%s wrote with fence %d in slot %d after %d had", name, fence, slot, r.fenced.Newest(slot))
	}
	path := "/v1/reservations/" + hold.ID + "/release"
	if got, err := r.c.try(ctx, http.MethodPost, path, ""); err != nil || got.status != http.StatusOK && got.status != http.StatusGone {
		t.Errorf("%s: %v, %v, want 200 or 410", name, got, err)
	}
}

// reserve asks until there is a slot.
func (r *setRig) reserve(ctx context.Context, name string, ttl int) (hold api.Reservation, err error) {
	body := fmt.Sprintf(`{"subject":{"kind":"user","id":"u"},"action":"set","ttlSeconds":%d,"waitSeconds":10}`, ttl)
	for try := 0; ; try++ {
		got, err := r.c.try(ctx, http.MethodPost, "/v1/reservations", body, "Idempotency-Key", fmt.Sprintf("%s-%d", name, try))
		switch {
		case err != nil:
			return hold, err
		case got.status == http.StatusCreated:
			return decoded[api.Reservation](got)
		case got.status != http.StatusTooManyRequests:
			return hold, fmt.Errorf("%s, want 201 or 429", got)
		}
	}
}
