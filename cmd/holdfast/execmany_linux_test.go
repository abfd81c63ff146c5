package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

// A command that says when it began and when it ended, by the machine's clock. It is one
// process that stamps and one that works.
const stamped = `f=$STAMPS/$$; date +%s%N > $f; sleep 0.$((RANDOM_PART)); date +%s%N >> $f`

// overloaded is what is allowed beyond the promise where server, runs and other tests share two
// cores; the log has the figure itself.
const overloaded = 5 * time.Second

// longEnv runs what is shown at full length.
const longEnv = "HOLDFAST_TEST_LONG"

// Issue 4, "Shown by" 2: many runs of exec on a limit of 3, one of them killed outright every second. Never
// more than 3 commands run at once, and every slot is back within T + 1 s.
func TestExec_ManyAtOnceWithKills(t *testing.T) {
	t.Parallel()
	const atOnce, ttl = 3, 6 * time.Second
	n := 20
	if os.Getenv(longEnv) != "" {
		n = 200
	}
	r := setupExec(t, atOnce)
	stamps := filepath.Join(r.dir, "stamps")
	if err := os.Mkdir(stamps, 0o700); err != nil {
		t.Fatal(err)
	}
	r.env = append(r.env, "STAMPS="+stamps)
	m := &manyRuns{rig: r, live: map[*execRun]bool{}, codes: map[int]int{}, killed: map[int]int64{}, kills: map[bool]int{}}
	flags := append([]string{"--wait", "20m"}, quick...)
	slots := make(chan struct{}, 24) // so many wait at a time: the rest of the machine is others'
	var all sync.WaitGroup
	stop := make(chan struct{})
	var killer sync.WaitGroup
	killer.Go(func() { m.killEach(time.Second, stop) })
	for range n {
		slots <- struct{}{}
		script := strings.ReplaceAll(stamped, "$((RANDOM_PART))", fmt.Sprint(1+rand.IntN(8)))
		all.Go(func() {
			defer func() { <-slots }()
			p, err := r.begin(flags, "sh", "-c", script)
			if err != nil {
				t.Error(err)
				return
			}
			m.add(p)
			m.count(p, p.wait())
		})
	}
	all.Wait()
	close(stop)
	killer.Wait()
	m.atMost(t, atOnce)
	until(t, func() bool { return len(r.holds(api.StateHeld)) == 0 }, func() string { return "every slot is back" })
	m.back(t, ttl)
	t.Logf("%d runs, killed outright: %d at work, %d in line; exit codes: %v", n, m.kills[true], m.kills[false], m.codes)
}

// manyRuns are the runs under way, and what became of the others.
type manyRuns struct {
	rig    *execRig
	mu     sync.Mutex
	live   map[*execRun]bool
	codes  map[int]int   // how many ended with each exit code
	killed map[int]int64 // by pid of a command whose exec was killed: when it was seen to be gone
	kills  map[bool]int  // by whether something ran under it
}

func (m *manyRuns) add(p *execRun) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.live[p] = true
}

func (m *manyRuns) count(p *execRun, code int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.live, p)
	m.codes[code]++
	if code != exitDone && code != 128+int(syscall.SIGKILL) {
		m.rig.t.Errorf("a run ended with %d:\n%s", code, p.err.String())
	}
}

// killEach kills a run every so often, now and then one whose command runs, and notes
// when its command was gone.
func (m *manyRuns) killEach(every time.Duration, stop <-chan struct{}) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for turn := 0; ; turn++ {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		p := m.victim(turn%6 == 0)
		if p == nil || p.cmd.Process.Signal(syscall.SIGSTOP) != nil {
			continue // it has ended
		}
		commands := childrenOf(p.cmd.Process.Pid) // and, stopped, it starts no more
		_ = p.cmd.Process.Kill()
		m.mu.Lock()
		m.kills[len(commands) > 0]++
		m.mu.Unlock()
		for _, pid := range commands {
			m.rig.ends(pid, "the command of a killed exec")
			m.mu.Lock()
			m.killed[pid] = time.Now().UnixNano()
			m.mu.Unlock()
		}
	}
}

// victim is a run, in random order; one that has children if it is to be busy.
func (m *manyRuns) victim(busy bool) *execRun {
	m.mu.Lock()
	defer m.mu.Unlock()
	for p := range m.live {
		if !busy || len(childrenOf(p.cmd.Process.Pid)) > 0 {
			return p
		}
	}
	return nil
}

// atMost looks through the stamps: how many commands ran at once.
func (m *manyRuns) atMost(t *testing.T, most int) {
	t.Helper()
	type edge struct {
		at    int64
		delta int
	}
	var edges []edge
	files, err := filepath.Glob(filepath.Join(m.rig.dir, "stamps", "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no stamps: %v", err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var pid int
		var from, to int64
		_, _ = fmt.Sscan(filepath.Base(name), &pid)
		switch fields, _ := fmt.Sscan(string(text), &from, &to); {
		case fields == 0:
			continue // killed before its first stamp was written
		case fields == 1:
			if to = m.killed[pid]; to == 0 {
				t.Errorf("command %d has no second stamp, and its exec was not killed", pid)
			}
		}
		edges = append(edges, edge{from, 1}, edge{to, -1})
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.delta, b.delta)) })
	now, peak := 0, 0
	for _, e := range edges {
		now += e.delta
		peak = max(peak, now)
	}
	if peak > most {
		t.Errorf("%d commands ran at once, want at most %d", peak, most)
	}
	t.Logf("%d commands were started, at most %d ran at once", len(files), peak)
}

// back looks at the holds that nobody gave back: each ended at most T + 1 s after its last
// extend, by the server's own clock.
func (m *manyRuns) back(t *testing.T, ttl time.Duration) {
	t.Helper()
	var latest time.Duration
	for _, h := range m.rig.holds(api.StateExpired) {
		last := h.CreatedAt
		if h.LastHeartbeatAt != nil {
			last = *h.LastHeartbeatAt
		}
		latest = max(latest, h.EndedAt.Sub(last.Time))
	}
	if most := ttl + time.Second + overloaded; latest > most {
		t.Errorf("a slot was back %s after the last extend, want at most %s", latest, most)
	}
	t.Logf("TTL %s: the latest slot was back %s after the last extend (promised: %s)", ttl, latest, ttl+time.Second)
}
