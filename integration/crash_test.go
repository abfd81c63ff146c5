package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

// FAULTS rows 2 and 15, GUARANTEES 1, 4, 5 and 6: the server is killed by -9 under load, again
// and again on one folder. What was answered stands, what was not answered is told by the same
// request again, no slot has two holders, fences rise, and the store's revision never falls.

const (
	crashes      = 20
	crashWorkers = 8
	crashSlots   = 12 // of each subject
	crashCost    = 3
	crashKeeps   = 5 // holds that a worker has at most

	crashesEnv = "HOLDFAST_TEST_CRASHES" // another number of kills
)

// grant is one reservation as its worker knows it.
type grant struct {
	try, subject   string // try is its Idempotency-Key
	hold           api.Reservation
	sent, answered time.Time
	ending         string // what was asked of it: commit, release, or "" while it is kept
	ended          bool   // and answered
}

func (g *grant) body() string {
	return fmt.Sprintf(`{"subject":{"kind":"user","id":%q},"action":"crash","cost":%d,"ttlSeconds":3600,"labels":{"try":%q}}`, g.subject, crashCost, g.try)
}

// crasher works until its server dies. It knows everything that it was told, and nothing else.
type crasher struct {
	rnd  *rand.Rand
	kept []*grant // held, or with an ending that was not answered
	gone []*grant // ended
	open *grant   // a reserve that was not answered
}

func TestCrash_KilledUnderLoad(t *testing.T) {
	t.Parallel()
	rounds := crashes
	if n, err := strconv.Atoi(os.Getenv(crashesEnv)); err == nil && n > 0 {
		rounds = n
	} else if testing.Short() {
		rounds = 3
	}
	s := dev(t)
	c := s.admin(t)
	c.limit(fmt.Sprintf(`{"name":"crash","subjectKind":"user","action":"crash","amount":%d,"window":"concurrent"}`, crashSlots))
	c.limit(`{"name":"crash-units","subjectKind":"user","action":"crash","amount":1000000,"window":"total","share":"all"}`)
	workers := make([]*crasher, crashWorkers)
	for i := range workers {
		workers[i] = &crasher{rnd: rand.New(rand.NewPCG(55, uint64(i)))}
	}
	var total, unknown int
	for round := range rounds {
		seen := underLoad(t, c, s, workers, round)
		s = s.again(t)
		c = callerOf(t, s, c.token)
		if rev := c.revision(); rev < seen {
			t.Errorf("round %d: revision %d after %d", round, rev, seen)
		}
		unknown += askAgain(t, c, workers)
		audit(t, c, workers)
		if t.Failed() {
			t.Fatalf("round %d of %d", round+1, rounds)
		}
	}
	for _, w := range workers {
		total += len(w.kept) + len(w.gone)
	}
	t.Logf("killed by -9 %d times under load: %d grants, %d outcomes were unknown and asked again, none lost, none given twice", rounds, total, unknown)
	if total == 0 || unknown == 0 {
		t.Errorf("%d grants, %d unknown outcomes: the load was too tame to show anything", total, unknown)
	}
}

// underLoad kills the server while all workers are at work, and gives the highest revision that
// anybody was told.
func underLoad(t *testing.T, c *caller, s *server, workers []*crasher, round int) (seen int64) {
	t.Helper()
	var answers, most atomic.Int64
	fuse := int64(30 + rand.IntN(90))
	blown := make(chan struct{})
	var all sync.WaitGroup
	for n, w := range workers {
		all.Go(func() {
			for step := 0; ; step++ {
				rev, err := w.step(c, fmt.Sprintf("r%d-w%d-%d", round, n, step))
				if err != nil {
					if strings.Contains(err.Error(), "want") {
						t.Error(err)
					}
					return
				}
				for old := most.Load(); rev > old && !most.CompareAndSwap(old, rev); old = most.Load() {
				}
				if answers.Add(1) == fuse {
					close(blown)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	select {
	case <-blown:
		seen = c.revision()
	case <-done:
		t.Error("all workers stopped before the server was killed")
	}
	s.kill()
	<-done
	return max(seen, most.Load())
}

// step reserves or settles once. The error says "want" when an answer was wrong, and anything
// else when there was none: then the worker stops, with the outcome unknown.
func (w *crasher) step(c *caller, try string) (fence int64, err error) {
	if len(w.kept) > 0 && (len(w.kept) >= crashKeeps || w.rnd.IntN(5) < 2) {
		i := w.rnd.IntN(len(w.kept))
		g := w.kept[i]
		g.ending = []string{"commit", "release"}[w.rnd.IntN(2)]
		if err := g.end(c); err != nil {
			return 0, err
		}
		w.kept, w.gone = slices.Delete(w.kept, i, i+1), append(w.gone, g)
		return 0, nil
	}
	g := &grant{try: try, subject: fmt.Sprint("s", w.rnd.IntN(4))}
	w.open = g
	granted, err := g.ask(c)
	if err != nil {
		return 0, err
	}
	if w.open = nil; granted {
		w.kept = append(w.kept, g)
	}
	return g.hold.Fence, nil
}

// ask reserves; false is a refusal.
func (g *grant) ask(c *caller) (granted bool, err error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), generous)
	defer cancel()
	g.sent = time.Now()
	r, err := c.try(ctx, http.MethodPost, "/v1/reservations", g.body(), "Idempotency-Key", g.try)
	g.answered = time.Now()
	switch {
	case err != nil:
		return false, err
	case r.status == http.StatusTooManyRequests:
		return false, nil
	case r.status != http.StatusCreated:
		return false, fmt.Errorf("%s, want 201 or 429", r)
	}
	g.hold, err = decoded[api.Reservation](r)
	return true, err
}

// end settles; asking again gives the same answer.
func (g *grant) end(c *caller) error {
	r, err := c.try(c.t.Context(), http.MethodPost, "/v1/reservations/"+g.hold.ID+"/"+g.ending, "")
	if err != nil {
		return err
	}
	if r.status != http.StatusOK {
		return fmt.Errorf("%s, want 200", r)
	}
	g.ended = true
	return nil
}

// askAgain settles what the crash left unknown: the same request gives the one true outcome.
func askAgain(t *testing.T, c *caller, workers []*crasher) (unknown int) {
	t.Helper()
	for _, w := range workers {
		if g := w.open; g != nil {
			unknown++
			granted, err := g.ask(c)
			if err != nil {
				t.Errorf("try %s again: %v", g.try, err)
			}
			if w.open = nil; granted {
				w.kept = append(w.kept, g)
			}
		}
		for _, g := range slices.Clone(w.kept) {
			if g.ending == "" {
				continue
			}
			unknown++
			if err := g.end(c); err != nil {
				t.Errorf("%s %s again: %v", g.ending, g.hold.ID, err)
			}
			w.kept = slices.DeleteFunc(w.kept, func(x *grant) bool { return x == g })
			w.gone = append(w.gone, g)
		}
	}
	return unknown
}

// audit compares what the server holds with what the workers know.
func audit(t *testing.T, c *caller, workers []*crasher) {
	t.Helper()
	held := map[string]api.Reservation{}
	places := map[string]string{}
	for _, h := range every[api.Reservation](c, "/v1/reservations?pageSize=500&action=crash") {
		held[h.ID] = h
		at := fmt.Sprint(h.Subject.ID, h.Slots)
		if other, taken := places[at]; taken || len(h.Slots) != 1 || h.Slots[0].Slot >= crashSlots {
			t.Errorf("%s holds %s, and so does %q", h.ID, at, other)
		}
		places[at] = h.ID
	}
	var all []*grant
	charged := int64(0)
	for _, w := range workers {
		for _, g := range w.kept {
			h, ok := held[g.hold.ID]
			if !ok || h.Fence != g.hold.Fence || !slices.Equal(h.Slots, g.hold.Slots) {
				t.Errorf("%s was answered with fence %d, slots %v; the server has %+v", g.hold.ID, g.hold.Fence, g.hold.Slots, h)
			}
			delete(held, g.hold.ID)
			charged += crashCost
		}
		for _, g := range w.gone {
			state := get[api.Reservation](c, "/v1/reservations/"+g.hold.ID).State
			if want := map[string]string{"commit": api.StateCommitted, "release": api.StateReleased}[g.ending]; state != want {
				t.Errorf("%s is %s, want %s as was answered", g.hold.ID, state, want)
			}
			if g.ending == "commit" {
				charged += crashCost
			}
		}
		all = append(append(all, w.kept...), w.gone...)
	}
	for id, h := range held {
		t.Errorf("%s is held and nobody was told: %+v", id, h)
	}
	fencesRise(t, all)
	if u := every[api.UsageNow](c, "/v1/usage/now?limit=crash-units"); len(u) != 1 || u[0].Used != charged {
		t.Errorf("crash-units: %+v, want %d used", u, charged)
	}
	c.noDrift()
}

// fencesRise checks, slot by slot, that no fence was given twice and that a grant asked for
// after another's answer has the greater one.
func fencesRise(t *testing.T, all []*grant) {
	t.Helper()
	bySlot := map[string][]*grant{}
	for _, g := range all {
		at := fmt.Sprint(g.subject, g.hold.Slots)
		bySlot[at] = append(bySlot[at], g)
	}
	for at, grants := range bySlot {
		slices.SortFunc(grants, func(x, y *grant) int { return int(x.hold.Fence - y.hold.Fence) })
		latest := time.Time{} // when the last of the greater fences was asked for
		for i := len(grants) - 1; i >= 0; i-- {
			g := grants[i]
			if i > 0 && grants[i-1].hold.Fence == g.hold.Fence {
				t.Errorf("slot %s: fence %d was given to %s and %s", at, g.hold.Fence, g.hold.ID, grants[i-1].hold.ID)
			}
			if !latest.IsZero() && latest.Before(g.sent) {
				t.Errorf("slot %s: %s has fence %d although a greater one was answered before it was asked for", at, g.hold.ID, g.hold.Fence)
			}
			if latest.IsZero() || g.answered.Before(latest) {
				latest = g.answered
			}
		}
	}
}
