package integration

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// deploy/systemd: the unit is Type=notify with a watchdog, so the program must say that it
// serves, that it lives, and that it stops.
func TestDeploy_TellsSystemd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	socket := filepath.Join(dir, "n")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	s := devIn(t, filepath.Join(dir, "data"), []string{"NOTIFY_SOCKET=" + socket, "WATCHDOG_USEC=200000"}, "--memory")
	heard := func(want string) {
		t.Helper()
		buf := make([]byte, 256)
		if err := l.SetReadDeadline(time.Now().Add(generous)); err != nil {
			t.Fatal(err)
		}
		for {
			n, err := l.Read(buf)
			if err != nil {
				t.Fatalf("%q was not told: %v", want, err)
			}
			if strings.Contains(string(buf[:n]), want) {
				return
			}
		}
	}
	heard("READY=1")
	heard("WATCHDOG=1")
	heard("WATCHDOG=1")
	if err := s.signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	heard("STOPPING=1")
	if code, err := s.wait(generous); err != nil || code != 0 {
		t.Errorf("after TERM: exit %d, %v, want 0", code, err)
	}
}

func TestDeploy_UnitIsVerified(t *testing.T) {
	t.Parallel()
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze")
	}
	unit := strings.ReplaceAll(document(t, "deploy/systemd/holdfast.service"), "/usr/local/bin/holdfast", "/bin/true")
	path := filepath.Join(t.TempDir(), "holdfast.service")
	if err := os.WriteFile(path, []byte(unit), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(tool, "verify", "--man=no", path).CombinedOutput()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok || strings.Contains(string(out), "holdfast.service") {
		t.Errorf("systemd-analyze verify: %v\n%s", ended, out)
	}
}
