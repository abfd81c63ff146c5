//go:build unix

package integration

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	holdfast "github.com/holdfast-dev/holdfast/client"
)

// Issue 4, "Shown by" 3: loss across processes, by the Go client. A worker that is cut off stops
// before its slot is given on. One that is paused, or whose hold is forced away, cannot: there
// the fence is what refuses its late writes.

// longEnv runs what is shown at full length: 100 runs of each loss, 10 minutes of heartbeats.
const longEnv = "HOLDFAST_TEST_LONG"

func long() bool { return os.Getenv(longEnv) != "" }

const lossTTL = 3 * time.Second

// lossRig is a server with one slot a user, and a resource.
type lossRig struct {
	*server
	admin    *caller
	resource *resource
	next     *holdfast.Client
}

func setupLoss(t *testing.T) *lossRig {
	t.Helper()
	notInShort(t)
	t.Parallel()
	r := &lossRig{server: dev(t), resource: newResource(t)}
	r.admin = r.server.admin(t)
	r.admin.limit(`{"name":"loss","subjectKind":"user","action":"loss","amount":1,"window":"concurrent"}`)
	r.dial(t)
	return r
}

// dial makes the client of those who come after, straight to the server.
func (r *lossRig) dial(t *testing.T) {
	t.Helper()
	next, err := holdfast.New(holdfast.Config{URL: r.run.URL, TokenSource: holdfast.StaticToken(r.run.Token)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(next.Close)
	r.next = next
}

// rounds splits the runs into rounds: one worker process each.
func rounds(most int) (sizes []int) {
	left := 3
	if long() {
		left = 100
	}
	for ; left > 0; left -= most {
		sizes = append(sizes, min(left, most))
	}
	return sizes
}

// begin starts a worker process with n holds, and returns when all of them work.
func (r *lossRig) begin(t *testing.T, round, n int) (l *losers, held []lossReport, barriers []*barrier) {
	t.Helper()
	o := lossOrders{Token: r.run.Token, Resource: r.resource.URL, TTL: lossTTL}
	for i := range n {
		b := newBarrier(t, r.run.URL)
		barriers = append(barriers, b)
		o.Runs = append(o.Runs, lossRun{URL: b.URL, User: fmt.Sprintf("u%d-%d", round, i)})
	}
	l = startLosers(t, o)
	for _, run := range o.Runs {
		h := heard(t, l.held[run.User], "a hold of "+run.User)
		for r.resource.writes(h.ID) == 0 {
			until(t, time.Now().Add(5*time.Millisecond))
		}
		held = append(held, h)
	}
	return l, held, barriers
}

// follow has the next holder of each slot come, write and stay.
func (r *lossRig) follow(t *testing.T, held []lossReport) {
	t.Helper()
	var all sync.WaitGroup
	for _, h := range held {
		all.Go(func() {
			ask := holdfast.Request{Action: "loss", Subject: api.Subject{Kind: "user", ID: h.User}, TTL: time.Minute, Wait: generous}
			next, err := r.next.Reserve(t.Context(), ask)
			if err != nil {
				t.Errorf("the next holder of %s: %v", h.User, err)
				return
			}
			if next.Slot() != h.Slot || next.Fence() <= h.Fence {
				t.Errorf("%s: slot %d with fence %d after slot %d with fence %d", h.User, next.Slot(), next.Fence(), h.Slot, h.Fence)
			}
			r.resource.write(lossWrite{h.User, next.ID(), next.Slot(), next.Fence()}, true)
		})
	}
	all.Wait()
}

// distances compares when each context ended with when the server ended the hold: before that
// it gives the slot to nobody.
type distances struct {
	expired, released int
	least             time.Duration // of those that expired
	below             int           // so many below the margin
}

func (d *distances) add(t *testing.T, r *lossRig, l *losers, h lossReport) {
	t.Helper()
	const margin = time.Second // of a TTL up to 20 s
	ended := time.Unix(0, heard(t, l.gone[h.User], "the end of the work of "+h.User).At)
	old := read[api.Reservation](t, r.admin.send(http.MethodGet, "/v1/reservations/"+h.ID, ""), http.StatusOK)
	if old.EndedAt == nil {
		t.Errorf("%s is %s after another has its slot", h.ID, old.State)
		return
	}
	distance := old.EndedAt.Sub(ended)
	if old.State == api.StateReleased { // by the worker itself, whose answers alone were lost
		d.released++
		return
	}
	if distance <= 0 || old.State != api.StateExpired {
		t.Errorf("%s: the server ended the hold (%s) %s after the context ended", h.User, old.State, distance)
	}
	if d.expired++; d.expired == 1 || distance < d.least {
		d.least = distance
	}
	if distance < margin {
		d.below++
	}
}

func (d *distances) String() string {
	return fmt.Sprintf("%d holds expired, the smallest distance is %s (%d below the margin of 1s); %d were given back by the worker after its context had ended",
		d.expired, d.least.Round(time.Millisecond), d.below, d.released)
}

// A worker that is cut off, in three ways.
func TestLoss_CutOff(t *testing.T) {
	r := setupLoss(t)
	var d distances
	for round, n := range rounds(25) {
		l, held, barriers := r.begin(t, round, n)
		for i, b := range barriers { // some at once, some a little later: at any moment between two beats
			until(t, time.Now().Add(time.Duration(i%5)*10*time.Millisecond))
			b.mode.Store([]int32{cutOff, swallow, loseReply}[i%3])
		}
		r.follow(t, held)
		for _, h := range held {
			d.add(t, r, l, h)
		}
	}
	t.Logf("cut off: %s", &d)
}

// The server is killed, and with it the worker's way to it; it comes back on its data, and the
// worker does not hear of it.
func TestLoss_ServerRestarts(t *testing.T) {
	r := setupLoss(t)
	var d distances
	for round, n := range rounds(10) {
		l, held, barriers := r.begin(t, round, n)
		for _, b := range barriers {
			b.mode.Store(cutOff)
		}
		r.kill()
		r.server = r.again(t, "--listen", strings.TrimPrefix(r.run.URL, "http://"))
		r.admin.s = r.server
		r.dial(t)
		r.follow(t, held)
		for _, h := range held {
			d.add(t, r, l, h)
		}
	}
	t.Logf("restart: %s", &d)
}

// The worker is stopped in mid-work and goes on when another has its slot.
func TestLoss_Paused(t *testing.T) {
	r := setupLoss(t)
	runs := 0
	for round, n := range rounds(25) {
		runs += n
		l, held, _ := r.begin(t, round, n)
		if err := l.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		r.follow(t, held)
		if err := l.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		r.allGone(t, l, held)
	}
	r.verdict(t, "paused", runs)
}

// The hold is forced away while the worker works; it hears of it at its next beat.
func TestLoss_ForcedAway(t *testing.T) {
	r := setupLoss(t)
	runs := 0
	for round, n := range rounds(25) {
		runs += n
		l, held, _ := r.begin(t, round, n)
		for _, h := range held {
			body := fmt.Sprintf(`{"reason":"for a test","fence":%d}`, h.Fence)
			read[api.Reservation](t, r.admin.post("/admin/v1/reservations/"+h.ID+"/force-release", body), http.StatusOK)
			r.follow(t, []lossReport{h})
		}
		r.allGone(t, l, held)
	}
	r.verdict(t, "forced away", runs)
}

// allGone waits until every worker has heard that its hold is lost, and has stopped.
func (r *lossRig) allGone(t *testing.T, l *losers, held []lossReport) {
	t.Helper()
	for _, h := range held {
		heard(t, l.gone[h.User], "the end of the work of "+h.User)
	}
	<-l.done
}

// enoughRuns is how many it takes to say that a rig is too tame: about two in three come late.
const enoughRuns = 20

// verdict is what the resource says: with the check nothing late got in, and nothing rightful was
// refused; without it something did, or the rig is too tame.
func (r *lossRig) verdict(t *testing.T, what string, runs int) {
	t.Helper()
	c := r.resource.counts()
	if c.refused != c.late || c.wronged > 0 {
		t.Errorf("%s: of %d late writes the check refused %d, and %d rightful ones", what, c.late, c.refused, c.wronged)
	}
	if c.late == 0 && runs >= enoughRuns {
		t.Errorf("%s: no write came late in %d runs: the rig is too tame", what, runs)
	}
	t.Logf("%s: %d runs, %d late writes: without a check all got in, the check refused %d and no rightful one", what, runs, c.late, c.refused)
}
