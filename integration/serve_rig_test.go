package integration

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/auth"
)

// fleet is replicas as processes on an etcd outside of them, which trust one another's tokens.
type fleet struct {
	t     testing.TB
	dirs  []string
	flags []string
	at    []*caller // administrators, by replica
}

// newFleet makes the folders and keys of replicas on the given endpoints; nothing runs yet.
func newFleet(t testing.TB, replicas int, endpoints ...string) *fleet {
	t.Helper()
	signer, err := auth.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	keys := filepath.Join(dir, "jwks.json")
	err = os.WriteFile(keys, signer.JWKS(), 0o600)
	f := &fleet{t: t, dirs: make([]string, replicas), at: make([]*caller, replicas)}
	for i := range f.dirs {
		f.dirs[i] = filepath.Join(dir, fmt.Sprint("replica-", i))
		err = errors.Join(err, os.MkdirAll(f.dirs[i], 0o700), os.WriteFile(filepath.Join(f.dirs[i], "key.pem"), signer.PEM(), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	f.flags = []string{
		"--etcd-endpoints", strings.Join(endpoints, ","), "--log-level", "error",
		"--jwks-file", keys, "--jwt-issuer", "holdfast-dev", "--jwt-audience", "holdfast",
	}
	return f
}

// startAll launches every replica.
func (f *fleet) startAll() *fleet {
	f.t.Helper()
	for i := range f.at {
		f.at[i] = f.launch(i)
	}
	return f
}

// launch starts replica i and waits until it serves. The test's cleanup kills it.
func (f *fleet) launch(i int) *caller {
	f.t.Helper()
	args := append([]string{"serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir", f.dirs[i]}, f.flags...)
	p, err := start(f.dirs[i], nil, args...)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(p.kill)
	s := &server{process: p, dir: f.dirs[i]}
	for began := time.Now(); ; until(f.t, time.Now().Add(20*time.Millisecond)) {
		data, err := os.ReadFile(filepath.Join(f.dirs[i], "serve.json"))
		if err == nil && json.Unmarshal(data, &s.run) == nil && s.run.PID == p.cmd.Process.Pid {
			break
		}
		select {
		case <-p.ended:
			f.t.Fatalf("replica %d ended:\n%s", i, &p.out)
		default:
		}
		if time.Since(began) > generous {
			f.t.Fatalf("replica %d did not start within %s:\n%s", i, generous, &p.out)
		}
	}
	token, err := s.token(auth.Claims{Subject: "root", Scope: "admin"})
	if err != nil {
		f.t.Fatal(err)
	}
	return callerOf(f.t, s, token)
}

// metric sums a metric of the server over its labels; one that is not there is an error.
func (c *caller) metric(name string) (sum float64) {
	c.t.Helper()
	resp, err := c.http.Get(c.s.run.AdminURL + "/metrics")
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	found := false
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		line := lines.Text()
		if rest, ok := strings.CutPrefix(line, name); ok && (rest[0] == ' ' || rest[0] == '{') {
			n, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
			if err != nil {
				c.t.Fatalf("%s: %v", line, err)
			}
			found, sum = true, sum+n
		}
	}
	if !found {
		c.t.Fatalf("there is no metric %s", name)
	}
	return sum
}
