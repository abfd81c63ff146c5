package main

import (
	"os"
	"os/exec"
	"testing"
)

// exec is killed between the start of the command and the line that tells the guard of its group:
// what the command has started is found by its mark.
func TestGuard_EndsWhatItWasNotToldOf(t *testing.T) {
	t.Parallel()
	const mark = "rsv_astray"
	cmd := exec.CommandContext(t.Context(), "sleep", "600")
	cmd.Env = append(os.Environ(), markName+"="+mark)
	other := exec.CommandContext(t.Context(), "sleep", "600")
	for _, c := range []*exec.Cmd{cmd, other} {
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
	}
	var w watch
	w.hear("starts " + mark)
	w.endAll()
	if err := cmd.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("the command that was being started ended with %v, want it killed", err)
	}
	if !runs(other.Process.Pid) {
		t.Error("a process without the mark was killed")
	}
	if err := other.Process.Kill(); err == nil {
		_ = other.Wait()
	}
}
