package integration

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

// Cases that stop and start the server: each has a server and a folder of its own.

// on is the same tale at a server that was started again. Its token is good: the key was kept.
func (k *tale) on(s *server) {
	k.caller = callerOf(k.t, s, k.token)
}

func alone(t *testing.T, name string) (*tale, *server) {
	t.Helper()
	s := dev(t)
	return &tale{caller: s.admin(t), id: "u1", action: name}, s
}

func TestCase_O03_ARollingUpgradeHandsEveryoneANewBudget(t *testing.T) {
	t.Parallel()
	sameHour(t)
	k, s := alone(t, "o03c")
	k.limit(`{"name":"o03-c","subjectKind":"user","action":"o03c","amount":10,"window":"hour"}`)
	k.limit(`{"name":"o03-r","subjectKind":"user","action":"o03r","amount":10,"window":"hour","rolling":true}`)
	actions := map[string]string{"o03c": "o03-c", "o03r": "o03-r"}
	consume := func(action string) func() api.CheckAnswer {
		one := *k
		one.action = action
		return func() api.CheckAnswer { return one.consume(1) }
	}
	for action := range actions {
		is(t, action+": allowed of 4", k.allowed(4, consume(action)), 4)
	}
	resets := k.used("o03-c", "user", "u1").ResetsAt
	for range 3 { // three servers in the case, one after the other; here one, three times (several: issue 7)
		s.stop(t)
		s = s.again(t)
		k.on(s)
	}
	for action, limit := range actions {
		is(t, action+": allowed of 8", k.allowed(8, consume(action)), 6)
		is(t, limit+": used", k.usedOf(limit), 10)
	}
	if got := k.used("o03-c", "user", "u1").ResetsAt; got == nil || resets == nil || !got.Equal(resets.Time) {
		t.Errorf("resetsAt: %v, want %v as before the restart", got, resets)
	}
}

func TestCase_O06_TheOldHolderStillWrites(t *testing.T) {
	t.Parallel()
	k, s := alone(t, "o06")
	k.limit(`{"name":"o06","subjectKind":"user","action":"o06","amount":1,"window":"concurrent"}`)
	a := k.granted(3)
	until(t, time.Now().Add(4500*time.Millisecond))
	b := k.granted(60)
	if b.Fence <= a.Fence {
		t.Errorf("fence %d after %d", b.Fence, a.Fence)
	}
	for verb, body := range map[string]string{"extend": `{"ttlSeconds":60}`, "commit": `{}`, "release": `{}`} {
		is(t, verb+" of A: reason", refusal(t, k.act(a.ID, verb, body), api.HoldLost).Reason, "expired")
	}
	k.holdsAre(b.ID)
	k.act(b.ID, "release", "")

	pairs, last := 1000, b.Fence
	if testing.Short() {
		pairs = 100
	}
	for n := range pairs {
		if n == pairs/2 {
			s.stop(t)
			k.on(s.again(t))
		}
		hold := k.granted(60)
		if hold.Fence <= last {
			t.Fatalf("pair %d: fence %d after %d", n, hold.Fence, last)
		}
		last = hold.Fence
		read[api.Reservation](t, k.act(hold.ID, "release", ""), http.StatusOK)
	}
}

func TestCase_O20_SavingTheSettingsFreesTheLock(t *testing.T) {
	t.Parallel()
	k, s := alone(t, "o20")
	k.limit(`{"name":"o20","subjectKind":"user","action":"o20","amount":1,"window":"concurrent"}`)
	hold := k.granted(600)
	still := func(after string) {
		t.Helper()
		is(t, after+": another is allowed", k.reserve(60).Allowed, false)
		k.holdsAre(hold.ID)
	}
	read[api.Limit](t, k.edit("o20", `{"name":"o20b"}`), http.StatusOK)
	still("a new name")
	own := k.send(http.MethodGet, "/v1/limits/o20", "")
	read[api.Limit](t, k.edit("o20", string(own.body)), http.StatusOK)
	still("its own body")
	refusal(t, k.edit("o20", `{"window":"minute"}`), api.WindowFixed)
	still("another window")
	if r := k.edit("o20", `{"rolling":true}`); r.status != 422 && r.status != 409 {
		t.Errorf("%s, want 422 or 409", r)
	}
	still("rolling")
	s.stop(t) // the server has no reload: its settings are read at start
	k.on(s.again(t))
	still("a restart")
	read[api.Reservation](t, k.act(hold.ID, "extend", `{"ttlSeconds":600}`), http.StatusOK)
}

func TestCase_O23_TheStoreOnlyGrows(t *testing.T) {
	t.Skip("issue 7: 20,000 subjects; in small, on etcd itself: TestCalls_LeasesAreSharedAndNothingIsLeft")
}

func TestCase_O24_StartStopStart(t *testing.T) {
	t.Parallel()
	k, s := alone(t, "o24")
	k.limit(`{"name":"o24","subjectKind":"user","action":"o24","amount":1,"window":"concurrent"}`)
	hold := k.granted(3600)
	times := 20
	if testing.Short() {
		times = 3
	}
	for n := range times {
		s.stop(t)
		began := time.Now()
		s = s.again(t)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("start %d took %s, want 10 s at most", n+1, took)
		}
		k.on(s)
		is(t, fmt.Sprintf("start %d: allowed", n+1), k.reserve(3600).Allowed, false)
	}
	k.holdsAre(hold.ID)
	onLoopback(t, s.cmd.Process.Pid)
}

// onLoopback looks at all sockets that a process listens on, etcd's among them.
func onLoopback(t *testing.T, pid int) {
	t.Helper()
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	files, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		t.Skip("there is no /proc here to see the sockets in")
	}
	own := map[string]bool{}
	for _, f := range files {
		if link, err := os.Readlink(filepath.Join(proc, "fd", f.Name())); err == nil && strings.HasPrefix(link, "socket:[") {
			own[strings.Trim(link, "socket:[]")] = true
		}
	}
	listening := 0
	for _, table := range []string{"tcp", "tcp6"} {
		data, _ := os.ReadFile(filepath.Join(proc, "net", table)) // no IPv6, no table
		for line := range strings.Lines(string(data)) {
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != "0A" || !own[f[9]] {
				continue
			}
			listening++
			if address, _, _ := strings.Cut(f[1], ":"); table == "tcp" && address != "0100007F" || table == "tcp6" && address != "00000000000000000000000001000000" {
				t.Errorf("it listens on %s (%s), which is not loopback", f[1], table)
			}
		}
	}
	if listening < 2 {
		t.Errorf("%d listening sockets were found, want the API and the admin door at least", listening)
	}
}

func TestCase_O29_StoppedInTheMiddleOfAYes(t *testing.T) {
	t.Parallel()
	k, s := alone(t, "o29")
	k.limit(`{"name":"o29","subjectKind":"user","action":"o29","amount":10000,"window":"concurrent"}`)
	var told answers
	told.ids, told.enough = map[string]bool{}, make(chan struct{})
	var callers sync.WaitGroup
	for n := range 100 {
		callers.Go(func() { told.gather(t, k, n) })
	}
	<-told.enough
	stopped := time.Now()
	if err := s.signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	code, err := s.wait(generous)
	if err != nil || code != 0 {
		t.Errorf("after SIGTERM: exit %d, %v, want 0; it said:\n%s", code, err, &s.out)
	}
	if took := time.Since(stopped); took > 10*time.Second {
		t.Errorf("it took %s to stop, want 10 s at most", took)
	}
	if c, err := net.DialTimeout("tcp", strings.TrimPrefix(s.run.URL, "http://"), time.Second); err == nil {
		_ = c.Close()
		t.Error("a new connection was accepted after the stop")
	}
	callers.Wait()
	cut := slices.DeleteFunc(slices.Clone(told.lost), func(sent time.Time) bool { return sent.After(stopped) })
	t.Logf("%d holds were answered; %d calls had no answer, %d of them sent before the signal", len(told.ids), len(told.lost), len(cut))
	is(t, "calls sent before the signal that had no answer", len(cut), 0)

	k.on(s.again(t))
	unknown := 0
	for _, hold := range every[api.Reservation](k.caller, "/v1/reservations?pageSize=500&limit=o29") {
		if !told.ids[hold.ID] {
			unknown++
		}
		delete(told.ids, hold.ID)
	}
	is(t, "holds that were answered and are gone", len(told.ids), 0)
	if unknown > len(told.lost) {
		t.Errorf("%d holds are known to nobody, %d calls had no answer", unknown, len(told.lost))
	}
}

// answers are what the callers of O29 were told.
type answers struct {
	mu     sync.Mutex
	ids    map[string]bool // held
	lost   []time.Time     // when calls that ended without an answer were sent
	enough chan struct{}   // closed when the load is well under way
}

// gather reserves until the server says no more. To be refused a connection is an answer.
func (a *answers) gather(t *testing.T, k *tale, n int) {
	body := fmt.Sprintf(`{"subject":{"kind":"user","id":"u%d"},"action":"o29","ttlSeconds":3600}`, n)
	for {
		sent := time.Now()
		r, err := k.try(t.Context(), http.MethodPost, "/v1/reservations", body)
		a.mu.Lock()
		switch {
		case err != nil && strings.Contains(err.Error(), "the answer was cut"):
			t.Error(err)
		case err != nil && !errors.Is(err, syscall.ECONNREFUSED):
			a.lost = append(a.lost, sent)
		case err == nil && r.status == http.StatusCreated:
			hold, _ := decoded[api.Reservation](r)
			if a.ids[hold.ID] = true; len(a.ids) == 500 {
				close(a.enough)
			}
		case err == nil && r.status != http.StatusServiceUnavailable:
			t.Errorf("%s, want 201, or 503 while it stops", r)
		}
		a.mu.Unlock()
		if err != nil || r.status != http.StatusCreated {
			return
		}
	}
}
