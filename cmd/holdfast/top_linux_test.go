package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-dev/holdfast/api"
)

// topRun is `holdfast top` on a terminal of its own.
type topRun struct {
	*execRun
	keys, screen *os.File
	before       *unix.Termios
}

// onTop starts top on a terminal of 110 by 26.
func (r *execRig) onTop(args ...string) *topRun {
	r.t.Helper()
	keys, screen := openPTY(r.t)
	if err := unix.IoctlSetWinsize(int(screen.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: 110, Row: 26}); err != nil {
		r.t.Fatal(err)
	}
	before, err := unix.IoctlGetTermios(int(screen.Fd()), unix.TCGETS)
	if err != nil {
		r.t.Fatal(err)
	}
	p := &topRun{execRun: &execRun{cmd: exec.Command("holdfast", append([]string{"top", "--every", "200ms"}, args...)...)}, keys: keys, screen: screen, before: before}
	p.cmd.Env = append(r.env, "NO_COLOR=1", "TERM=xterm")
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = screen, screen, screen
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := p.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	var reader sync.WaitGroup
	reader.Go(func() { _, _ = io.Copy(&p.out, keys) }) // ends when nobody has the terminal open
	p.wait = sync.OnceValue(func() int {
		_ = p.cmd.Wait()
		return statusOf(p.cmd.ProcessState.Sys()).code
	})
	r.t.Cleanup(func() { p.kill(); _ = screen.Close(); _ = keys.Close(); reader.Wait() })
	return p
}

var escapes = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`)

// frame is the last whole screen that was drawn, as text.
func (p *topRun) frame() string {
	frames := strings.Split(p.out.String(), "\x1b[H")
	for i := len(frames) - 1; i > 0; i-- {
		if whole, _, ok := strings.Cut(frames[i], "\x1b[J"); ok {
			return strings.ReplaceAll(escapes.ReplaceAllString(whole, ""), "\r\n", "\n")
		}
	}
	return ""
}

func (p *topRun) press(t *testing.T, keys string) {
	t.Helper()
	if _, err := p.keys.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// shows waits until the screen has all of some words, and none of those that begin with "!".
func (p *topRun) shows(t *testing.T, words ...string) string {
	t.Helper()
	until(t, func() bool {
		frame := p.frame()
		for _, w := range words {
			if without, not := strings.CutPrefix(w, "!"); strings.Contains(frame, without) == not {
				return false
			}
		}
		return frame != ""
	}, func() string { return fmt.Sprintf("the screen shows %q; it shows:\n%s", words, p.frame()) })
	return p.frame()
}

// restored checks that the terminal is as it was, with its own screen and its cursor.
func (p *topRun) restored(t *testing.T) {
	t.Helper()
	after, err := unix.IoctlGetTermios(int(p.screen.Fd()), unix.TCGETS)
	if err != nil || *after != *p.before {
		t.Errorf("the terminal is left as %+v, %v; it was %+v", after, err, p.before)
	}
	p.says(t, "\x1b[?25h\x1b[?1049l")
}

// busy is a server with both of its slots held and a caller in line.
func busy(t *testing.T) (r *execRig, held [2]api.Reservation) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "limits.yaml")
	text := "limits:\n- {id: press, name: Press, subjectKind: user, action: job, amount: 2, window: concurrent, share: all}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, call := setupDev(t, "--memory", "--limits", file)
	r = &execRig{t: t, call: call, gate: newGate(t, s.run.URL), dir: dir}
	r.env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir, "HOLDFAST_URL="+r.gate.url, "HOLDFAST_ADMIN_URL="+s.run.AdminURL, "HOLDFAST_TOKEN="+s.run.Token)
	ask := func(user, owner string) api.ReserveRequest {
		ttl := int64(600)
		return api.ReserveRequest{Action: "job", Subject: &api.Subject{Kind: "user", ID: user}, TTLSeconds: &ttl, Owner: &api.Owner{Name: owner, Host: "w7"}}
	}
	for i, user := range []string{"ada", "bob"} {
		if _, err := call.do(t.Context(), act{method: http.MethodPost, path: "/v1/reservations", body: ask(user, "report-"+user), into: &held[i]}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, leave := context.WithCancel(t.Context())
	var waiter sync.WaitGroup
	waiter.Go(func() {
		one, wait := inLine(ask("eve", "report-eve"), 50*time.Second)
		_, _ = call.once(ctx, act{method: http.MethodPost, path: "/v1/reservations", body: one, wait: wait})
	})
	t.Cleanup(func() { leave(); waiter.Wait() })
	return r, held
}

// CLI.md section 2: saturation, holders, waiters, a filter, force with its dialogue, keys shown.
func TestTop_OnATerminal(t *testing.T) {
	t.Parallel()
	r, held := busy(t)
	p := r.onTop()
	first := p.shows(t, "1 full   2 held   1 wait", "press  all      2 of 2  [####################]  1", held[0].ID, held[1].ID,
		"report-ada@w7", "wtr_", "> "+held[0].ID, keysHelp)
	p.press(t, "/bob\r")
	p.shows(t, "filter: bob", held[1].ID, "!"+held[0].ID, "!wtr_")
	p.press(t, "/\x15\r")
	p.shows(t, held[0].ID, "!filter: bob")
	p.press(t, "\x1b[B") // down
	p.shows(t, "> "+held[1].ID)
	p.press(t, "k")
	p.shows(t, "> "+held[0].ID)
	p.press(t, "x")
	p.shows(t, "reason, for the audit trail and the worker: _")
	p.press(t, "\r") // no reason, no end
	p.press(t, "machine is gone\r")
	asked := p.shows(t, "reason: machine is gone", "End it? [y/N]", held[0].ID)
	p.press(t, "n")
	p.shows(t, "nothing was done", keysHelp)
	p.press(t, "xmachine is gone\ry")
	p.shows(t, held[0].ID+" is ended", "eve", "0 wait") // whose turn it was
	got := r.get(held[0].ID)
	if got.State != api.StateForced || got.Note != "machine is gone" {
		t.Errorf("the hold: got %s with note %q, want it ended by force for that reason", got.State, got.Note)
	}
	r.gate.mode.Store(gateAway)
	p.shows(t, "STALE for", held[1].ID)
	r.gate.mode.Store(gateOpen)
	p.shows(t, "!STALE for", held[1].ID)
	p.press(t, " ")
	p.shows(t, "stopped; space goes on")
	p.press(t, "q")
	p.expect(t, 0)
	p.restored(t)
	if *update {
		recordTop(t, first, asked)
	}
}

// However it ends, the terminal is as it was.
func TestTop_GivesTheTerminalBack(t *testing.T) {
	t.Parallel()
	r, _ := busy(t)
	p := r.onTop()
	p.shows(t, "2 held")
	p.signal(t, syscall.SIGTERM)
	p.expect(t, 128+int(syscall.SIGTERM))
	p.restored(t)
	p = r.onTop("--filter", "eve")
	p.shows(t, "filter: eve", "0 held   1 wait")
	p.press(t, "\x03") // Ctrl-C
	p.expect(t, 0)
	p.restored(t)
}

// Off a terminal it is one look, as text or for a program; without a server it says so.
func TestTop_OffATerminal(t *testing.T) {
	t.Parallel()
	r, held := busy(t)
	run := func(args ...string) (string, int) {
		cmd := exec.Command("holdfast", append([]string{"top"}, args...)...)
		cmd.Env = r.env
		out, _ := cmd.Output()
		return string(out), cmd.ProcessState.ExitCode()
	}
	text, code := run()
	if code != 0 || strings.Contains(text, "\x1b") || !strings.Contains(text, "2 of 2") || !strings.Contains(text, held[1].ID) {
		t.Errorf("top: exit %d, %q", code, text)
	}
	if text, code = run("-o", "name", "--filter", "bob"); code != 0 || text != held[1].ID+"\n" {
		t.Errorf("top -o name: exit %d, %q, want %s alone", code, text, held[1].ID)
	}
	if text, code = run("-o", "json"); code != 0 || !strings.Contains(text, `"amount": 2`) {
		t.Errorf("top -o json: exit %d, %q", code, text)
	}
	if _, code = run("--every", "1ms"); code != exitUsage {
		t.Errorf("top --every 1ms: exit %d, want %d", code, exitUsage)
	}
	r.gate.mode.Store(gateAway)
	if text, code = run("--timeout", "1s"); code != exitUnavailable {
		t.Errorf("top without a server: exit %d, %q, want %d", code, text, exitUnavailable)
	}
}

// recordTop writes the capture in docs, of the screens as they were drawn.
func recordTop(t *testing.T, screens ...string) {
	t.Helper()
	text := "# The live view\n\n`holdfast top` watches what is full, who holds and who waits. Off a terminal, or with `-o`, it is shown once.\n\n" +
		"| key | does |\n|---|---|\n| `j` `k`, arrows | choose a hold |\n| `/` | filter: only rows in which the text stands; empty for all |\n" +
		"| `x` | end the chosen hold by force: it is read anew and shown, a reason is asked for, and only the hold that was shown is ended |\n" +
		"| space | stop looking, and go on |\n| `q`, Ctrl-C | end |\n\n" +
		"When the server does not answer, what was seen last stays on the screen under `STALE`, with how old it is and why. " +
		"Why there is no library behind it: [ADR 25](adr/0025-live-view-without-a-library.md).\n\n" +
		"What follows was on a terminal of 110 by 26, recorded by `go test -run TestTop_OnATerminal ./cmd/holdfast -update`: two slots of `press` held, and one caller in line.\n"
	for _, s := range screens {
		var lines []string
		for line := range strings.SplitSeq(s, "\n") {
			lines = append(lines, strings.TrimRight(line, " "))
		}
		text += "\n```text\n" + strings.Join(lines, "\n") + "\n```\n"
		if len(screens) > 1 && s == screens[0] {
			text += "\nAfter `x` and a reason:\n"
		}
	}
	if err := os.WriteFile(filepath.Join("..", "..", "docs", "top.md"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
