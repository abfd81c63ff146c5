package main

import (
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

// CASES O07: busy, not dead. The command and others want every processor; the hold is extended
// all the same, and nobody else gets the slot. At full length it is 120 s and four busy loops a
// core, as the case tells it.
func TestExec_BusyNotDead(t *testing.T) {
	t.Parallel()
	r := setupExec(t, 1)
	last, loops := 12*time.Second, 2
	if os.Getenv(longEnv) != "" {
		last, loops = 120*time.Second, 4*runtime.NumCPU()
	}
	for range loops {
		loop := exec.Command("sh", "-c", "while :; do :; done")
		if err := loop.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = loop.Process.Kill(); _ = loop.Wait() })
	}
	p := r.job([]string{"--ttl", "15s"}, "sh", "-c", "echo $$ > pid; while ! [ -e go ]; do :; done")
	r.pid("pid")
	hold := r.only()
	var longest time.Duration
	asked, extends, seen := 0, 0, hold.CreatedAt
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for began := time.Now(); time.Since(began) < last; asked++ {
		<-ticker.C
		if other, err := reserveFor(t.Context(), r.call, "job", "u2"); err == nil {
			t.Fatalf("another was granted %s while the command works", other.ID)
		}
		now := r.get(hold.ID)
		if now.State != api.StateHeld {
			t.Fatalf("the hold is %s while the command works:\n%s", now.State, p.err.String())
		}
		if at := now.LastHeartbeatAt; at != nil && at.After(seen.Time) {
			longest, seen = max(longest, at.Sub(seen.Time)), *at
			extends++
		}
	}
	r.touch("go")
	p.expect(t, 0)
	t.Logf("%d loops for %s: another was refused %d times of %d; %d extends, %s between two at most", loops, last, asked, asked, extends, longest)
}
