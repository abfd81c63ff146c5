package integration

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

// What goes wrong when a server is started, and what a restart must keep.

// fails starts `holdfast dev` with what cannot work and gives its exit code, what it said, and
// how long that took beyond the time a process takes to start on this machine now.
func fails(t *testing.T, args ...string) (code int, said string, took time.Duration) {
	t.Helper()
	run := func(args ...string) (*process, int, time.Duration) {
		began := time.Now()
		p, err := start(t.TempDir(), nil, args...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.kill)
		code, err := p.wait(generous)
		if err != nil {
			t.Fatal(err)
		}
		return p, code, time.Since(began)
	}
	_, _, usual := run("version")
	p, code, all := run(append([]string{"dev"}, args...)...)
	return code, p.out.String(), all - usual
}

func mentions(t *testing.T, said string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(said, w) {
			t.Errorf("it does not say %q:\n%s", w, said)
		}
	}
}

// DESIGN.md section 9: a folder in use is told with whose it is, within two seconds.
func TestTrouble_FolderInUse(t *testing.T) {
	t.Parallel()
	s := dev(t)
	code, said, took := fails(t, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir", s.dir)
	is(t, "exit", code, 1)
	mentions(t, said, s.dir, "process "+strconv.Itoa(s.cmd.Process.Pid), "--data-dir")
	if took > 2*time.Second {
		t.Errorf("it took %s to say so, want 2 s at most", took)
	}
	if r := s.admin(t).post("/v1/reservations", `{"action":"export"}`); r.status != http.StatusCreated {
		t.Errorf("the first server afterwards: %s", r)
	}
}

func TestTrouble_PortInUse(t *testing.T) {
	t.Parallel()
	s := dev(t)
	for flag, url := range map[string]string{"--listen": s.run.URL, "--admin-listen": s.run.AdminURL} {
		other := map[string]string{"--listen": "--admin-listen", "--admin-listen": "--listen"}[flag]
		address := strings.TrimPrefix(url, "http://")
		dir := filepath.Join(t.TempDir(), "data")
		code, said, _ := fails(t, flag, address, other, "127.0.0.1:0", "--data-dir", dir)
		is(t, flag+": exit", code, 1)
		mentions(t, said, address, flag+" 127.0.0.1:0")
	}
}

// FAULTS row 53 for the whole folder: damaged state is told and never deleted, and what is put
// back is served again.
func TestTrouble_DamagedFolder(t *testing.T) {
	t.Parallel()
	s := dev(t)
	c := s.admin(t)
	hold := read[api.Reservation](t, c.post("/v1/reservations", `{"action":"export","ttlSeconds":3600}`), http.StatusCreated)
	s.stop(t)
	logs, err := filepath.Glob(filepath.Join(s.dir, "etcd", "member", "wal", "*.wal"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("no write-ahead log in %s: %v", s.dir, err)
	}
	for name, file := range map[string]string{"the database": filepath.Join(s.dir, "etcd", "member", "snap", "db"), "the log": logs[0]} {
		good, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		spoilt := slices.Clone(good)
		for i := range min(len(spoilt), 16<<10) {
			spoilt[i] ^= 0x5a
		}
		if err := os.WriteFile(file, spoilt, 0o600); err != nil {
			t.Fatal(err)
		}
		before := prints(t, s.dir)
		code, said, _ := fails(t, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir", s.dir)
		is(t, name+": exit", code, 69)
		mentions(t, said, s.dir, "nothing was deleted", "backup")
		after := prints(t, s.dir)
		for path := range before {
			if after[path] == "" {
				t.Errorf("%s damaged: %s is gone after the start", name, path)
			}
		}
		// etcd may set a damaged log aside under another name, but what was in it is there.
		if !slices.Contains(slices.Collect(maps.Values(after)), before[file]) {
			t.Errorf("%s damaged: what was in %s is nowhere after the start", name, file)
		}
		if err := os.WriteFile(file, good, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s = s.again(t)
	is(t, "the hold afterwards", get[api.Reservation](callerOf(t, s, c.token), "/v1/reservations/"+hold.ID).State, api.StateHeld)
}

// prints are the fingerprints of all files of a folder, but for the lock, which is written to.
func prints(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "lock" {
			return err
		}
		data, err := os.ReadFile(path)
		out[path] = fmt.Sprintf("%d %x", len(data), sha256.Sum256(data))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// K04, FAULTS row 15: a clean restart keeps holds, slots, fences, counts, keys and endings.
func TestTrouble_RestartKeepsEverything(t *testing.T) {
	t.Parallel()
	sameHour(t)
	s := dev(t)
	c := s.admin(t)
	c.limit(`{"name":"k-slots","subjectKind":"user","action":"k","amount":2,"window":"concurrent"}`)
	c.limit(`{"name":"k-hour","subjectKind":"user","action":"k","amount":100,"window":"hour"}`)
	c.limit(`{"name":"k-day","subjectKind":"user","action":"k","amount":100,"window":"day","rolling":true}`)
	c.limit(`{"name":"k-all","subjectKind":"user","action":"k","amount":100,"window":"total","share":"all"}`)
	const body = `{"subject":{"kind":"user","id":"u"},"action":"k","cost":7,"ttlSeconds":600}`
	first := read[api.Reservation](t, c.post("/v1/reservations", body, "Idempotency-Key", "once"), http.StatusCreated)
	gone := read[api.Reservation](t, c.post("/v1/reservations", body), http.StatusCreated)
	read[api.Reservation](t, c.act(gone.ID, "commit", `{"cost":5}`), http.StatusOK)
	rev := c.revision()
	before := c.subject("user", "u")

	s.stop(t)
	s = s.again(t)
	c = callerOf(t, s, c.token)
	if now := c.revision(); now < rev {
		t.Errorf("revision %d after %d", now, rev)
	}
	after := c.subject("user", "u")
	for i, v := range before.Limits {
		if got := after.Limits[i]; got.ID != v.ID || got.Used != v.Used || got.Amount != v.Amount {
			t.Errorf("after the restart %+v, want %+v", got, v)
		}
	}
	if len(after.Holds) != 1 || after.Holds[0].ID != first.ID || after.Holds[0].Fence != first.Fence || !slices.Equal(after.Holds[0].Slots, first.Slots) {
		t.Errorf("holds after the restart: %+v, want %+v", after.Holds, first)
	}
	r := c.post("/v1/reservations", body, "Idempotency-Key", "once")
	is(t, "the hold of the key", read[api.Reservation](t, r, http.StatusCreated).ID, first.ID)
	is(t, "Idempotent-Replayed", r.header.Get("Idempotent-Replayed"), "true")
	is(t, "the ended one", get[api.Reservation](c, "/v1/reservations/"+gone.ID).State, api.StateCommitted)
	next := read[api.Reservation](t, c.post("/v1/reservations", body), http.StatusCreated)
	if !slices.Equal(next.Slots, gone.Slots) || next.Fence <= gone.Fence {
		t.Errorf("the next holder of slot %v has fence %d, want above %d", next.Slots, next.Fence, gone.Fence)
	}
	refusal(t, c.post("/v1/reservations", body), api.NoFreeSlot)
	c.noDrift()
}
