package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"github.com/holdfast-dev/holdfast/api"
)

// openPTY makes a terminal of our own: what is written to the first is typed on the second.
func openPTY(t *testing.T) (keys, screen *os.File) {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminal can be made here: %v", err)
	}
	var number, unlock int32
	for request, arg := range map[uintptr]*int32{syscall.TIOCGPTN: &number, syscall.TIOCSPTLCK: &unlock} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, keys.Fd(), request, uintptr(unsafe.Pointer(arg))); errno != 0 {
			t.Skipf("no terminal can be made here: %v", errno)
		}
	}
	screen, err = os.OpenFile("/dev/pts/"+strconv.Itoa(int(number)), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminal can be made here: %v", err)
	}
	return keys, screen
}

// onTerminal runs a shell's worth of exec on a terminal, as the session's leader.
func (r *execRig) onTerminal(argv ...string) (*execRun, *os.File) {
	r.t.Helper()
	keys, screen := openPTY(r.t)
	args := append([]string{"exec", "job", "user:u1", "-v"}, quick...)
	p := &execRun{cmd: exec.Command("holdfast", append(append(args, "--"), argv...)...)}
	p.cmd.Dir, p.cmd.Env = r.dir, r.env
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = screen, screen, screen
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := p.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	_ = screen.Close() // theirs is open
	var reader sync.WaitGroup
	reader.Go(func() { _, _ = io.Copy(&p.out, keys) }) // ends with the last process on the terminal
	p.wait = sync.OnceValue(func() int {
		_ = p.cmd.Wait()
		return statusOf(p.cmd.ProcessState.Sys()).code
	})
	r.t.Cleanup(func() { p.kill(); _ = keys.Close(); reader.Wait() })
	return p, keys
}

// counting counts the signals it gets, and ends at QUIT.
const counting = `n=0; trap 'n=$((n+1)); echo "int $n"' INT; trap 'echo "ends with $n"; exit 8' QUIT
	trap 'echo usr1' USR1; echo $$ > pid; echo ready; while :; do sleep 0.05; done`

// CLI.md section 3: with a terminal the command stays in our group, so that Ctrl-C reaches it as
// it reaches us, once; a signal to us alone is passed on all the same.
func TestExec_OnATerminal(t *testing.T) {
	t.Parallel()
	r := setupExec(t, 1)
	p, keys := r.onTerminal("sh", "-c", counting)
	p.says(t, "ready")
	pid := r.pid("pid")
	if _, pgid := status(pid); pgid != p.cmd.Process.Pid {
		t.Errorf("the command is in group %d, want that of exec, %d", pgid, p.cmd.Process.Pid)
	}
	for n := 1; n <= 3; n++ {
		if n == 2 {
			p.signal(t, syscall.SIGINT) // to exec alone
		} else {
			if _, err := keys.WriteString("\x03"); err != nil { // Ctrl-C
				t.Fatal(err)
			}
			// Two of a kind that wait for a process are one: exec has to be past the first.
			p.saysTimes(t, "the command has it already", (n+1)/2)
		}
		p.says(t, fmt.Sprintf("int %d\r", n))
	}
	p.signal(t, syscall.SIGUSR1)
	p.says(t, "usr1")
	if _, err := keys.WriteString("\x1c"); err != nil { // Ctrl-\
		t.Fatal(err)
	}
	p.expect(t, 8)
	p.says(t, "ends with 3")
}

// What is left behind on a terminal is known by its mark; nobody else in the group is touched.
func TestExec_OnATerminalStopsOnlyItsOwn(t *testing.T) {
	t.Parallel()
	r := setupExec(t, 1)
	p, _ := r.onTerminal("sh", "-c", `sh -c 'trap "" HUP TERM; echo $$ > left; while :; do sleep 0.05; done' & while ! [ -s left ]; do sleep 0.01; done; exit 3`)
	left := r.pid("left")
	p.expect(t, 3)
	if runs(left) {
		t.Error("what the command left behind runs after exec has ended")
	}
	if held := r.holds(api.StateHeld); len(held) != 0 {
		t.Errorf("got %d holds, want none", len(held))
	}
}

// Killed outright on a terminal, exec leaves nothing running either.
func TestExec_OnATerminalKilledOutright(t *testing.T) {
	t.Parallel()
	r := setupExec(t, 1)
	p, _ := r.onTerminal("sh", "-c", twoDeep)
	child, grandchild := r.pid("child"), r.pid("grandchild")
	p.signal(t, syscall.SIGKILL)
	r.ends(child, "the command")
	r.ends(grandchild, "the grandchild")
}
