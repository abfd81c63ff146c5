//go:build unix

package integration

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

// GUARANTEES 6, FAULTS 1.3 "Restore from snapshot": a backup is taken while others work, work
// goes on, the store is lost, the backup is put back.

// quarantined is the quarantine of these tests: as long as their holds.
const quarantined = pausedTTL

// backedUp takes a backup of a running server by the program itself.
func backedUp(t *testing.T, s *server) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "a.backup")
	p, err := start(t.TempDir(), []string{"HOLDFAST_TOKEN=" + s.run.Token}, "backup", file, "--server", s.run.URL, "--admin-server", s.run.AdminURL)
	if err != nil {
		t.Fatal(err)
	}
	if code, err := p.wait(generous); err != nil || code != 0 {
		t.Fatalf("backup: exit %d, %v; it said:\n%s", code, err, &p.out)
	}
	return file
}

// restoredFrom kills the server, as if its disk were lost, and starts one on a new folder made
// of the backup, with the same key, so that tokens stay good.
func restoredFrom(t *testing.T, s *server, file string, quarantine time.Duration) (*server, *caller) {
	t.Helper()
	s.kill()
	dir := filepath.Join(t.TempDir(), "restored")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(filepath.Join(s.dir, "key.pem"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "key.pem"), key, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	p, err := start(t.TempDir(), nil, "restore", file, "--data-dir", dir, "--quarantine", quarantine.String())
	if err != nil {
		t.Fatal(err)
	}
	if code, err := p.wait(generous); err != nil || code != 0 {
		t.Fatalf("restore: exit %d, %v; it said:\n%s", code, err, &p.out)
	}
	again := devIn(t, dir, nil)
	return again, callerOf(t, again, s.run.Token)
}

func TestRestore_HoldsOfTheBackupGoOnAndNothingElseBeginsTooSoon(t *testing.T) {
	t.Parallel()
	s := dev(t)
	c := s.admin(t)
	c.limit(`{"name":"two","subjectKind":"user","action":"two","amount":2,"window":"concurrent"}`)
	const body = `{"action":"two","ttlSeconds":600}`
	first := read[api.Reservation](t, c.post("/v1/reservations", body, "Idempotency-Key", "first"), http.StatusCreated)
	file := backedUp(t, s)
	second := read[api.Reservation](t, c.post("/v1/reservations", body), http.StatusCreated)

	_, c = restoredFrom(t, s, file, time.Hour)
	p := refusal(t, c.post("/v1/reservations", body), api.Quarantine)
	if p.RetryAfterSeconds == nil {
		t.Errorf("%+v says not when to come again", p)
	}
	refusal(t, c.post("/v1/checks", `{"action":"two","mode":"reserve","ttlSeconds":600}`), api.Quarantine)
	is(t, "a preview", c.check(`{"action":"two","mode":"preview"}`).Allowed, true)
	again := read[api.Reservation](t, c.post("/v1/reservations", body, "Idempotency-Key", "first"), http.StatusCreated)
	is(t, "the hold of the key", again.ID, first.ID)
	is(t, "its fence", again.Fence, first.Fence)
	read[api.Reservation](t, c.act(first.ID, "extend", ""), http.StatusOK)
	refusal(t, c.act(second.ID, "extend", ""), api.NotFound)
	read[api.Reservation](t, c.act(first.ID, "release", ""), http.StatusOK)
	c.noDrift()

	// Who says that no worker is left is believed.
	s = dev(t)
	c = s.admin(t)
	c.limit(`{"name":"two","subjectKind":"user","action":"two","amount":2,"window":"concurrent"}`)
	file = backedUp(t, s)
	old := read[api.Reservation](t, c.post("/v1/reservations", body), http.StatusCreated)
	_, c = restoredFrom(t, s, file, 0)
	fresh := read[api.Reservation](t, c.post("/v1/reservations", body), http.StatusCreated)
	if fresh.Slots[0] != old.Slots[0] || fresh.Fence <= old.Fence {
		t.Errorf("after a restore without quarantine %+v, want the slot of %+v and a greater fence", fresh, old)
	}
}

func TestRestore_UnderLoadNoneIsGivenTwiceAndFencesRise(t *testing.T) {
	notInShort(t)
	t.Parallel()
	s := dev(t)
	c := s.admin(t)
	c.limit(`{"name":"pause","subjectKind":"user","action":"pause","amount":3,"window":"concurrent"}`)
	l := newLoad(c)
	l.reach(30)
	file := backedUp(t, s)
	before := len(l.so())
	l.reach(before + 30) // holds begin, are extended, and end that are not in the backup
	l.stop()
	old := l.so()
	_, c = restoredFrom(t, s, file, quarantined)

	kept, lost := 0, 0
	for _, one := range old {
		switch r := c.act(one.hold.ID, "extend", ""); r.status {
		case http.StatusOK:
			kept++
		case http.StatusGone, http.StatusNotFound:
			lost++
		default:
			t.Errorf("a live worker asks: %s, want 200, 410 or 404", r)
		}
	}
	began := time.Now()
	for r := c.post("/v1/checks", `{"action":"pause","mode":"reserve","ttlSeconds":3}`); r.status == http.StatusServiceUnavailable; {
		if p := read[api.Problem](t, r, http.StatusServiceUnavailable); p.Code != api.Quarantine || time.Since(began) > generous {
			t.Fatalf("%s, %s after the start", r, time.Since(began))
		}
		until(t, time.Now().Add(100*time.Millisecond))
		r = c.post("/v1/checks", `{"action":"pause","mode":"reserve","ttlSeconds":3}`)
	}
	l = newLoad(c)
	l.reach(30)
	l.stop()
	all := append(old, l.so()...)
	overlaps(t, all)
	greatest := int64(0)
	for _, one := range old {
		greatest = max(greatest, one.hold.Fence)
	}
	for _, one := range l.so() {
		if one.hold.Fence <= greatest {
			t.Errorf("a fence of %d after the restore, %d before", one.hold.Fence, greatest)
		}
	}
	if lost == 0 {
		t.Error("no hold was lost: too tame to show anything")
	}
	c.noDrift()
	t.Logf("%d grants before the backup, %d after it, %d after the restore; asked after it, %d holds went on and %d were lost", before, len(old)-before, len(l.so()), kept, lost)
}

// load is sixteen workers that reserve, extend once, and give back or abandon.
type load struct {
	t    testing.TB
	mu   sync.Mutex
	all  []certain
	end  chan struct{}
	done sync.WaitGroup
}

func newLoad(c *caller) *load {
	l := &load{t: c.t, end: make(chan struct{})}
	for n := range 16 {
		l.done.Go(func() {
			for {
				select {
				case <-l.end:
					return
				default:
				}
				one, granted, err := holdOnce(c, n)
				if err != nil {
					c.t.Error(fmt.Errorf("worker %d: %w", n, err))
					return
				}
				if granted {
					l.mu.Lock()
					l.all = append(l.all, one)
					l.mu.Unlock()
				}
			}
		})
	}
	return l
}

// reach waits until that many were granted.
func (l *load) reach(n int) {
	l.t.Helper()
	for began := time.Now(); len(l.so()) < n; {
		if time.Since(began) > generous {
			l.t.Fatalf("%d grants within %s, want %d", len(l.so()), generous, n)
		}
		until(l.t, time.Now().Add(20*time.Millisecond))
	}
}

// stop returns when every worker has ended.
func (l *load) stop() {
	close(l.end)
	l.done.Wait()
}

// so is every grant so far.
func (l *load) so() []certain {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]certain{}, l.all...)
}
