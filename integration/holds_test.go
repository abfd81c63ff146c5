//go:build unix

package integration

import (
	"fmt"
	"log/slog"
	"net/http"
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	holdfast "github.com/holdfast-dev/holdfast/client"
)

// Issue 4, "Shown by" 4: one client extends thousands of holds in batches, and loses none while
// others want every processor. The long form is 5,000 holds for ten minutes.
func TestHolds_OneClientKeepsThousands(t *testing.T) {
	notInShort(t)
	t.Parallel()
	holders, ttl, last := 5, 10*time.Second, 12*time.Second
	if long() {
		holders, ttl, last = 50, 30*time.Second, 10*time.Minute
	}
	const each = 100 // holds of one user
	n := holders * each
	s := dev(t)
	admin := s.admin(t)
	admin.limit(fmt.Sprintf(`{"name":"many","subjectKind":"user","action":"many","amount":%d,"window":"concurrent"}`, each))
	var said stream
	c, err := holdfast.New(holdfast.Config{
		URL: s.run.URL, TokenSource: holdfast.StaticToken(s.run.Token), Log: slog.New(slog.NewTextHandler(&said, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if long() { // otherwise the other tests are load enough
		for range 2 * runtime.NumCPU() {
			burn(t)
		}
	}
	var holds sync.Map
	var reserving sync.WaitGroup
	for w := range holders {
		reserving.Go(func() {
			ask := holdfast.Request{Action: "many", Subject: api.Subject{Kind: "user", ID: fmt.Sprintf("m%d", w)}, TTL: ttl}
			for range each {
				h, err := c.Reserve(t.Context(), ask)
				if err != nil {
					t.Errorf("Reserve: %v", err)
					return
				}
				holds.Store(h.ID(), h)
			}
		})
	}
	reserving.Wait()
	before, began, cpu := c.Stats(), time.Now(), cpuTime()
	for time.Since(began) < last && c.Stats().Lost == 0 {
		until(t, time.Now().Add(time.Second))
	}
	after, took, used := c.Stats(), time.Since(began), cpuTime()-cpu
	if after.Lost != 0 || after.Holds != int64(n) {
		t.Errorf("after %s: %+v, want %d held and none lost; the client says:\n%.4000s\nand the server\n%.2000s", took, after, n, said.String(), s.out.String())
	}
	beats := after.Beats - before.Beats
	t.Logf("%d holds with a TTL of %s for %s: %d calls (%.2f a second), %d of them failed, %d holds lost; the client and this test used %.2f %% of a processor",
		n, ttl, took.Round(time.Second), beats, float64(beats)/took.Seconds(), after.FailedBeats-before.FailedBeats, after.Lost, 100*used.Seconds()/took.Seconds())
	eventually(t, admin, http.MethodGet, "/v1/reservations?pageSize=1", "", http.StatusOK) // the store may be slow just now
	for _, h := range every[api.Reservation](admin, "/v1/reservations?pageSize=500&action=many&state=held") {
		one, there := holds.LoadAndDelete(h.ID)
		if !there {
			t.Errorf("the server has %s, which nobody was given", h.ID)
		} else if err := one.(*holdfast.Hold).Err(); err != nil {
			t.Errorf("%s: %v, and the server has it", h.ID, err)
		}
	}
	missing := 0
	holds.Range(func(_, _ any) bool { missing++; return true })
	if missing > 0 {
		t.Errorf("the server does not have %d of %d", missing, n)
	}
	// Each hold alone would need three calls and more a TTL.
	if alone := int64(n) * int64(took/ttl) * 3; beats*20 > alone {
		t.Errorf("%d calls extended %d holds for %s; alone they need %d: want batches", beats, n, took, alone)
	}
	s.kill()
	t.Logf("the server used %s of processor time in all", (s.cmd.ProcessState.UserTime() + s.cmd.ProcessState.SystemTime()).Round(10*time.Millisecond))
}

// burn keeps a processor busy until the test ends.
func burn(t *testing.T) {
	t.Helper()
	cmd := exec.Command("sh", "-c", "while :; do :; done")
	dieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
}
