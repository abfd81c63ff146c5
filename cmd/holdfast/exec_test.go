//go:build unix

package main

import (
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

// CLI.md section 3: each signal reaches the command, and everything in its group, once.
func TestExec_PassesSignalsOn(t *testing.T) {
	t.Parallel()
	r := setupExec(t, 20)
	for _, s := range []struct {
		signal syscall.Signal
		name   string
	}{
		{syscall.SIGHUP, "HUP"},
		{syscall.SIGINT, "INT"},
		{syscall.SIGQUIT, "QUIT"},
		{syscall.SIGTERM, "TERM"},
		{syscall.SIGUSR1, "USR1"},
		{syscall.SIGUSR2, "USR2"},
		{syscall.SIGWINCH, "WINCH"},
		{syscall.SIGCONT, "CONT"},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			// The inner shell is what a group adds to a child: the outer one waits until it has
			// heard the signal too.
			p := r.job(quick, "sh", "-c", `trap 'echo got; exit 9' `+s.name+`
				sh -c "trap 'echo inner; exit' `+s.name+`; echo ready; while :; do sleep 0.05; done"`)
			p.says(t, "ready")
			p.signal(t, s.signal)
			p.expect(t, 9)
			p.says(t, "inner")
			t.Logf("%-5s to exec: the command got it, its group too; exit %d", s.name, p.wait())
		})
	}
}

// CASES O25: a command that a signal ends shows as a shell would show it.
func TestExec_DeathBySignalIs128AndItsNumber(t *testing.T) {
	t.Parallel()
	r := setupExec(t, 20)
	for _, s := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGSEGV, syscall.SIGPIPE} {
		p := r.job(quick, "sh", "-c", "kill -"+strings.TrimPrefix(signalName(s), "SIG")+" $$")
		p.expect(t, 128+int(s))
		t.Logf("the command dies of %s: exit %d", signalName(s), p.wait())
	}
}

func signalName(s syscall.Signal) string {
	return map[syscall.Signal]string{syscall.SIGKILL: "KILL", syscall.SIGTERM: "TERM", syscall.SIGSEGV: "SEGV", syscall.SIGPIPE: "PIPE"}[s]
}

// CLI.md section 3: what is left of the group is stopped before the slot is given back, and a
// process that does not hear TERM is killed.
func TestExec_StopsWhatIsLeftBehind(t *testing.T) {
	t.Parallel()
	r := setupExec(t, 1)
	p := r.job(quick, "sh", "-c", `sleep 1000 & echo $! > mild
		sh -c 'trap "" TERM; echo $$ > stubborn; while :; do sleep 1; done' & while ! [ -s stubborn ]; do sleep 0.01; done; exit 5`)
	mild, stubborn := r.pid("mild"), r.pid("stubborn")
	p.expect(t, 5)
	for name, pid := range map[string]int{"the mild one": mild, "the stubborn one": stubborn} {
		if runs(pid) {
			t.Errorf("%s runs after exec has ended", name)
		}
	}
	if held := r.holds(api.StateHeld); len(held) != 0 {
		t.Errorf("got %d holds, want none", len(held))
	}
}

// CLI.md section 3: lost by 410: TERM at once, KILL after K, 76.
func TestExec_ForcedAway(t *testing.T) {
	t.Parallel()
	for name, argv := range map[string][]string{
		"a command that ends at TERM":   {"sh", "-c", "echo $$ > pid; exec sleep 1000"},
		"a command that ignores TERM":   {"sh", "-c", `trap "" TERM; echo $$ > pid; while :; do sleep 1; done`},
		"a command that is stopped":     {"sh", "-c", "echo $$ > pid; kill -STOP $$; sleep 1000"},
		"a command that ends with zero": {"sh", "-c", `trap "exit 0" TERM; echo $$ > pid; while :; do sleep 0.05; done`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := setupExec(t, 1)
			p := r.job(quick, argv...)
			pid := r.pid("pid")
			hold := r.only()
			_, err := r.call.do(t.Context(), act{
				method: http.MethodPost, path: "/admin/v1/reservations/" + hold.ID + "/force-release", admin: true,
				body: api.ForceReleaseRequest{Reason: "for a test", Fence: hold.Fence},
			})
			if err != nil {
				t.Fatal(err)
			}
			p.expect(t, exitLost)
			r.ends(pid, "the command")
			p.says(t, "hold lost")
		})
	}
}

// CLI.md section 3: while the server is away exec tries on and says so, and the command has
// ended before the slot can be given on.
func TestExec_ServerAwayUntilTheDeadline(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]int32{"away": gateAway, "answers swallowed": gateSwallow} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := setupExec(t, 1)
			p := r.job(wide, "sh", "-c", `trap "" TERM; echo $$ > pid; while :; do sleep 0.1; done`)
			pid := r.pid("pid")
			hold := r.only()
			r.gate.mode.Store(mode)
			p.says(t, "cannot be extended")
			r.ends(pid, "the command")
			ended := time.Now()
			if now := r.get(hold.ID); now.State != api.StateHeld && now.EndedAt.Before(ended) && now.State != api.StateReleased {
				t.Errorf("the command ended at %s, its hold at %s as %s: want the command first", ended, now.EndedAt, now.State)
			}
			p.expect(t, exitLost)
		})
	}
}

// The server is away for less than the hold lasts: the command never hears of it.
func TestExec_ServerAwayForAWhile(t *testing.T) {
	t.Parallel()
	r := setupExec(t, 1)
	p := r.job([]string{"--ttl", "8s", "--kill-after", "1s", "--margin", "1s"}, "sh", "-c", `while ! [ -e go ]; do sleep 0.05; done; exit 3`)
	until(t, func() bool { return len(r.holds(api.StateHeld)) == 1 }, func() string { return "a hold" })
	hold := r.only()
	r.gate.mode.Store(gateAway)
	p.says(t, "cannot be extended")
	r.gate.mode.Store(gateOpen)
	p.says(t, "is extended again")
	r.touch("go")
	p.expect(t, 3)
	if got := r.get(hold.ID).State; got != api.StateReleased {
		t.Errorf("the hold: got %s, want %s", got, api.StateReleased)
	}
}

// FAULTS row 2: answers are lost on the way; one command gets one hold, and gives it back.
func TestExec_AnswersLostAtStartAndEnd(t *testing.T) {
	t.Parallel()
	r := setupExec(t, 2)
	r.gate.mode.Store(gateSwallow)
	p := r.job(append([]string{"--wait", "60s"}, quick...), "sh", "-c", "while ! [ -e go ]; do sleep 0.05; done")
	until(t, func() bool { return r.gate.lost.Load() > 0 }, func() string { return "an answer is swallowed" })
	r.gate.mode.Store(gateOpen)
	until(t, func() bool { held := r.holds(api.StateHeld); return len(held) == 1 && held[0].LastHeartbeatAt != nil }, func() string { return "it runs" })
	hold := r.only()
	r.gate.mode.Store(gateSwallow)
	r.touch("go")
	until(t, func() bool { return r.get(hold.ID).State == api.StateCommitted }, func() string { return "it is committed" })
	r.gate.mode.Store(gateOpen)
	p.expect(t, 0)
	all := slices.Concat(r.holds(api.StateHeld), r.holds(api.StateCommitted), r.holds(api.StateReleased), r.holds(api.StateExpired))
	if len(all) != 1 {
		t.Errorf("got %d reservations, want one: %v", len(all), all)
	}
}

// The command has ended and the server is away: its own exit code counts, and the hold runs out.
func TestExec_ServerAwayAtTheEnd(t *testing.T) {
	t.Parallel()
	r := setupExec(t, 1)
	p := r.job(quick, "sh", "-c", `echo $$ > pid; while ! [ -e go ]; do sleep 0.05; done; exit 4`)
	r.pid("pid")
	hold := r.only()
	r.gate.mode.Store(gateAway)
	r.touch("go")
	p.expect(t, 4)
	p.says(t, "could not be settled")
	until(t, func() bool { return r.get(hold.ID).State == api.StateExpired }, func() string { return "the hold expires" })
}
