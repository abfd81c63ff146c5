package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-dev/holdfast/api"
)

// runs reports whether a process is there and has not ended.
func runs(pid int) bool {
	state, _ := status(pid)
	return state != 0 && state != 'Z' && state != 'X'
}

// twoDeep is a command with a grandchild that would outlive it.
const twoDeep = `echo $$ > child; sh -c 'trap "" HUP INT TERM; echo $$ > grandchild; while :; do sleep 0.1; done' & wait`

// FAULTS row 5: exec is killed without a word. The command dies with it, the guard ends what it
// started, and the slot is free at most T + 1 s after the last extend.
func TestExec_KilledOutright(t *testing.T) {
	t.Parallel()
	r := setupExec(t, 1)
	p := r.job(quick, "sh", "-c", twoDeep)
	child, grandchild := r.pid("child"), r.pid("grandchild")
	hold := r.only()
	p.signal(t, syscall.SIGKILL)
	r.ends(child, "the command")
	r.ends(grandchild, "the grandchild")
	until(t, func() bool { return r.get(hold.ID).State == api.StateExpired }, func() string { return "the hold expires" })
	ended := r.get(hold.ID)
	last := ended.CreatedAt
	if ended.LastHeartbeatAt != nil {
		last = *ended.LastHeartbeatAt
	}
	t.Logf("TTL 6 s: the slot was free %s after the last extend", ended.EndedAt.Sub(last.Time))
}

// FAULTS rows 3 and 6, for a worker: exec is stopped past its deadline. The guard stops the
// group before the slot can be given on, and exec says so when it goes on.
func TestExec_StoppedPastTheDeadline(t *testing.T) {
	t.Parallel()
	r := setupExec(t, 1)
	p := r.job(wide, "sh", "-c", `trap "" TERM; `+twoDeep)
	child, grandchild := r.pid("child"), r.pid("grandchild")
	hold := r.only()
	p.signal(t, syscall.SIGSTOP)
	r.ends(child, "the command")
	r.ends(grandchild, "the grandchild")
	if got := r.get(hold.ID).State; got != api.StateHeld {
		t.Errorf("the command has just ended: got a hold that is %s, want %s", got, api.StateHeld)
	}
	until(t, func() bool { return r.get(hold.ID).State == api.StateExpired }, func() string { return "the hold expires" })
	p.signal(t, syscall.SIGCONT)
	p.expect(t, exitLost)
	p.says(t, "hold lost")
}

// Nested runs share nothing: a killed outer one takes the inner one with it, and both slots come
// free.
func TestExec_NestedAndKilled(t *testing.T) {
	t.Parallel()
	r := setupExec(t, 2)
	inner := "holdfast exec job user:u2 " + strings.Join(quick, " ") + " -- sh -c '" + strings.ReplaceAll(twoDeep, "'", `'\''`) + "'"
	p := r.job(append([]string{"--pass-token"}, quick...), "sh", "-c", inner)
	child, grandchild := r.pid("child"), r.pid("grandchild")
	if held := r.holds(api.StateHeld); len(held) != 2 {
		t.Fatalf("got %d holds, want 2", len(held))
	}
	p.signal(t, syscall.SIGKILL)
	r.ends(child, "the inner command")
	r.ends(grandchild, "what it started")
	until(t, func() bool { return len(r.holds(api.StateHeld)) == 0 }, func() string { return "both holds end" })
}

// A guard that is killed is missed, and nothing else happens.
func TestExec_WithoutItsGuard(t *testing.T) {
	t.Parallel()
	r := setupExec(t, 1)
	p := r.job(quick, "sh", "-c", `echo $PPID > exec; while ! [ -e go ]; do sleep 0.05; done; exit 6`)
	parent := r.pid("exec")
	guard := guardOf(t, parent)
	if err := syscall.Kill(guard, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.says(t, "guard process is gone")
	r.touch("go")
	p.expect(t, 6)
}

// Without a guard the command itself still dies with exec: the kernel sees to it.
func TestExec_KilledOutrightWithoutItsGuard(t *testing.T) {
	t.Parallel()
	r := setupExec(t, 1)
	p := r.job(quick, "sh", "-c", `trap "" HUP INT TERM; echo $$ > child; while :; do sleep 0.1; done`)
	child := r.pid("child")
	if err := syscall.Kill(guardOf(t, p.cmd.Process.Pid), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.says(t, "guard process is gone")
	p.signal(t, syscall.SIGKILL)
	r.ends(child, "the command")
}

// API.md section 5: a pause of the limit refuses new grants; a hold is extended and committed
// all the same.
func TestExec_KeepsItsHoldUnderAPause(t *testing.T) {
	t.Parallel()
	r := setupExec(t, 1)
	p := r.job(quick, "sh", "-c", `echo $$ > pid; while ! [ -e go ]; do sleep 0.05; done`)
	r.pid("pid")
	hold := r.only()
	if err := r.call.app.patchLimit(t.Context(), "jobs", map[string]any{"paused": true}); err != nil {
		t.Fatal(err)
	}
	extended := func() bool { now := r.get(hold.ID); return now.LastHeartbeatAt != nil }
	until(t, extended, func() string { return "it is extended" })
	r.touch("go")
	p.expect(t, 0)
	if _, err := r.call.do(t.Context(), act{method: http.MethodGet, path: of(hold.ID, ""), into: &hold}); err != nil || hold.State != api.StateCommitted {
		t.Errorf("the hold: got %s, %v, want %s", hold.State, err, api.StateCommitted)
	}
}

// guardOf finds the guard among the children of an exec.
func guardOf(t *testing.T, parent int) (guard int) {
	t.Helper()
	until(t, func() bool {
		for _, pid := range childrenOf(parent) {
			line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
			if err == nil && strings.Contains(string(line), guardName) {
				guard = pid
			}
		}
		return guard != 0
	}, func() string { return "exec has a guard" })
	return guard
}

func childrenOf(parent int) (pids []int) {
	tasks, err := filepath.Glob("/proc/" + strconv.Itoa(parent) + "/task/*/children")
	if err != nil {
		return nil
	}
	for _, name := range tasks {
		text, _ := os.ReadFile(name) // a thread that has ended has none
		for _, field := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
