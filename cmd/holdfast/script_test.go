package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScript replays terminal sessions: every verb and every exit code of CLI.md, against a
// real development server on free ports. Each script has a home of its own.
func TestScript(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			home := filepath.Join(env.WorkDir, "home")
			for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "AppData"} {
				env.Setenv(name, home)
			}
			env.Values[devKey{}] = &devServer{}
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"dev": scriptDev, "stopdev": scriptStopDev, "exit": scriptExit, "grab": scriptGrab, "await": scriptAwait, "until": scriptUntil, "url": scriptURL, "cert": scriptCert, "mode": scriptMode,
		},
	})
}

type devKey struct{}

// dev [FLAGS]: start a development server in this process, in ./holdfast-data unless --memory.
func scriptDev(ts *testscript.TestScript, neg bool, args []string) {
	dir := ts.MkAbs("holdfast-data")
	for i, arg := range args {
		if arg == "--memory" {
			dir = ""
		}
		if strings.HasSuffix(arg, ".yaml") {
			args[i] = ts.MkAbs(arg) // this process is in another folder than the script
		}
	}
	if neg {
		ts.Fatalf("dev cannot be negated: run it with exec")
	}
	log, err := os.Create(ts.MkAbs("dev.log"))
	ts.Check(err)
	ts.Defer(func() { _ = log.Close() })
	s, err := startDev(scriptEnv(ts), dir, log, args...)
	ts.Check(err)
	*ts.Value(devKey{}).(*devServer) = *s
	ts.Defer(func() { s.stop() })
	ts.Setenv("DEV_URL", s.run.URL)
	ts.Setenv("DEV_ADMIN_URL", s.run.AdminURL)
	ts.Setenv("DEV_ADDRESS", strings.TrimPrefix(s.run.URL, "http://"))
	ts.Setenv("DEV_TOKEN", s.run.Token)
	ts.Setenv("DEV_DIR", s.folder())
	ts.Check(os.WriteFile(ts.MkAbs("banner"), []byte(s.said), 0o600))
}

// stopdev: stop it as a signal would; it must exit 0.
func scriptStopDev(ts *testscript.TestScript, _ bool, _ []string) {
	if code := ts.Value(devKey{}).(*devServer).stop(); code != exitDone {
		ts.Fatalf("dev exited with %d, want 0", code)
	}
}

// exit CODE ARGS…: run holdfast and expect that exit code. Its output can be looked at.
func scriptExit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: exit CODE ARGS…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec("holdfast", args[1:]...)
	got := 0
	if err != nil {
		exited, ok := err.(interface{ ExitCode() int })
		if !ok {
			ts.Fatalf("holdfast %v: %v", args[1:], err)
		}
		got = exited.ExitCode()
	}
	if got != want {
		ts.Fatalf("holdfast %s: exit %d, want %d", strings.Join(args[1:], " "), got, want)
	}
}

// grab NAME: keep the last stdout, without its end of line, in a variable.
func scriptGrab(ts *testscript.TestScript, _ bool, args []string) {
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

// await FILE: until it is there.
func scriptAwait(ts *testscript.TestScript, _ bool, args []string) {
	deadline := time.NewTimer(generous)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			ts.Fatalf("%s is not there after %s", args[0], generous)
		}
	}
}

// until CODE ARGS…: run holdfast until it exits with that code.
func scriptUntil(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: until CODE ARGS…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	deadline := time.NewTimer(generous)
	defer deadline.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		got := 0
		if err := ts.Exec("holdfast", args[1:]...); err != nil {
			if exited, ok := err.(interface{ ExitCode() int }); ok {
				got = exited.ExitCode()
			}
		}
		if got == want {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			ts.Fatalf("holdfast %s: exit %d after %s, want %d", strings.Join(args[1:], " "), got, generous, want)
		}
	}
}

// url FILE: talk to the server that wrote it.
func scriptURL(ts *testscript.TestScript, _ bool, args []string) {
	var r runFile
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &r))
	ts.Setenv("HOLDFAST_URL", r.URL)
	ts.Setenv("HOLDFAST_ADMIN_URL", r.AdminURL)
}

// cert CERT KEY: make a certificate for 127.0.0.1 that vouches for itself.
func scriptCert(ts *testscript.TestScript, _ bool, args []string) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	ts.Check(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	ts.Check(err)
	key, err := x509.MarshalPKCS8PrivateKey(private)
	ts.Check(err)
	for i, block := range []*pem.Block{{Type: "CERTIFICATE", Bytes: cert}, {Type: "PRIVATE KEY", Bytes: key}} {
		ts.Check(os.WriteFile(ts.MkAbs(args[i]), pem.EncodeToMemory(block), 0o600))
	}
}

// mode FILE BITS: the permissions of a file.
func scriptMode(ts *testscript.TestScript, _ bool, args []string) {
	info, err := os.Stat(ts.MkAbs(args[0]))
	ts.Check(err)
	if got := info.Mode().Perm().String(); got != args[1] {
		ts.Fatalf("%s: mode %s, want %s", args[0], got, args[1])
	}
}

func scriptEnv(ts *testscript.TestScript) []string {
	var env []string
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "AppData", "PATH", "TMPDIR"} {
		env = append(env, name+"="+ts.Getenv(name))
	}
	return env
}
