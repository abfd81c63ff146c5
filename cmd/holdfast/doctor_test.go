package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/integration/etcdtest"
)

// examined is what doctor says of a server: the exit code and all it wrote.
func examined(t *testing.T, ahead time.Duration, token string, args ...string) (code int, said string) {
	t.Helper()
	var out strings.Builder
	a := newApp([]string{"HOLDFAST_TOKEN=" + token, "HOME=" + t.TempDir()}, strings.NewReader(""), &out, &out)
	a.now = func() time.Time { return time.Now().Add(ahead) }
	root := a.root()
	root.SetArgs(append([]string{"doctor", "--timeout", "20s"}, args...))
	err := root.ExecuteContext(t.Context())
	return a.finish(t.Context(), err), out.String()
}

// Issue 8: doctor finds each of ten planted faults, says which it is, and what to do.
func TestDoctor_FindsPlantedFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts several servers")
	}
	t.Parallel()
	dir := t.TempDir()
	signer, err := auth.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	keys, file := filepath.Join(dir, "jwks.json"), filepath.Join(dir, "limits.yaml")
	limits := "limits:\n- {id: exports, name: Exports, subjectKind: user, action: export, amount: 1, window: concurrent}\n"
	if err := errors.Join(os.WriteFile(keys, signer.JWKS(), 0o600), os.WriteFile(file, []byte(limits), 0o600)); err != nil {
		t.Fatal(err)
	}
	trust := []string{"--jwks-file", keys, "--jwt-issuer", "me", "--jwt-audience", "holdfast"}
	mint := func(change func(*auth.Claims), ago time.Duration) string {
		t.Helper()
		c := auth.Claims{Issuer: "me", Audience: "holdfast", Subject: "root", Scope: "admin", TTL: time.Hour}
		change(&c)
		token, err := signer.Mint(c, time.Now().Add(-ago))
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	good := mint(func(*auth.Claims) {}, 0)

	etcd := etcdtest.Start(t, etcdtest.Listen(), etcdtest.NoFsync(), etcdtest.MaxTxnOps(128), etcdtest.Quota(16<<20))
	s, err := startServe([]string{"HOME=" + dir}, filepath.Join(dir, "state"), append([]string{"--etcd-endpoints", etcd.Endpoint(), "--limits-file", file}, trust...)...)
	if err != nil {
		t.Fatal(err)
	}
	defer s.stop()
	bare, err := startServe([]string{"HOME=" + dir}, filepath.Join(dir, "bare"), trust...)
	if err != nil {
		t.Fatal(err)
	}
	defer bare.stop()
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	open := filepath.Join(dir, "open")
	if err := os.Mkdir(open, 0o755); err != nil {
		t.Fatal(err)
	}
	to := []string{"--server", s.run.URL, "--admin-server", s.run.AdminURL}
	if code, said := examined(t, 0, good, to...); code != exitDone {
		t.Fatalf("without a fault: exit %d, want 0:\n%s", code, said)
	}
	const free = "127.0.0.1:1" // nobody listens there
	for _, c := range []struct {
		name  string
		ahead time.Duration
		token string
		args  []string
		plant func()
		code  int
		fault string // the line that fails
		tells string
	}{
		{name: "the server is away", token: good, args: []string{"--server", "http://" + free}, code: exitUnavailable, fault: "reach", tells: "no answer"},
		{name: "https to a server that speaks http", token: good, args: []string{"--server", strings.Replace(s.run.URL, "http", "https", 1)}, code: exitUnavailable, fault: "reach", tells: "HTTPS"},
		{name: "another server", token: good, args: []string{"--server", other.URL}, code: exitUnavailable, fault: "reach", tells: "no Holdfast answer"},
		{name: "an expired token", token: mint(func(*auth.Claims) {}, 2*time.Hour), args: to, code: exitDenied, fault: "auth", tells: "expired"},
		{name: "a token for others", token: mint(func(c *auth.Claims) { c.Audience = "others" }, 0), args: to, code: exitDenied, fault: "auth", tells: "aud"},
		{name: "a clock that is off", ahead: time.Hour, token: good, args: to, code: exitFailed, fault: "clock", tells: "1h0m"},
		{name: "no limits", token: good, args: []string{"--server", bare.run.URL, "--admin-server", bare.run.AdminURL}, code: exitFailed, fault: "limits", tells: "none"},
		{name: "the admin listener is away", token: good, args: []string{"--server", s.run.URL, "--admin-server", "http://" + free}, code: exitUnavailable, fault: "admin", tells: "no answer"},
		{name: "a folder that others can read", token: good, args: append([]string{"--folder", open}, to...), code: exitFailed, fault: "folder", tells: "open to others"},
		{name: "a full store", token: good, args: to, code: exitFailed, fault: "space", tells: "NOSPACE", plant: func() { fill(t, etcd) }},
		{name: "etcd is away", token: good, args: to, code: exitUnavailable, fault: "etcd", tells: "not ok", plant: etcd.Stop},
	} {
		if c.plant != nil {
			c.plant()
		}
		code, said := examined(t, c.ahead, c.token, c.args...)
		first := ""
		for line := range strings.Lines(said) {
			if strings.HasPrefix(line, "FAIL") && first == "" {
				first = line
			}
		}
		if code != c.code || !strings.Contains(first, c.fault) || !strings.Contains(said, c.tells) || !strings.Contains(said, ":  ") {
			t.Errorf("%s: exit %d and %q, want exit %d and %s failing with %q and a way out; it said\n%s", c.name, code, first, c.code, c.fault, c.tells, said)
		}
	}
}

// fill writes until etcd raises its alarm.
func fill(t *testing.T, s *etcdtest.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), generous)
	defer cancel()
	value := strings.Repeat("x", 1<<20)
	for range 64 {
		if _, err := s.Client().Put(ctx, "elsewhere/fill", value); err != nil {
			return
		}
	}
	t.Fatal("64 MiB were written into a store of 16")
}

// A member that is away is told while the others go on.
func TestDoctor_FindsAMemberThatIsAway(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a cluster")
	}
	t.Parallel()
	cluster := etcdtest.Three(t, etcdtest.NoFsync(), etcdtest.MaxTxnOps(128))
	dir := t.TempDir()
	flags, token := trusting(t, dir)
	var endpoints []string
	for i := range etcdtest.Members {
		endpoints = append(endpoints, cluster.Member(i).Endpoint())
	}
	s, err := startServe([]string{"HOME=" + dir}, filepath.Join(dir, "state"), append([]string{"--etcd-endpoints", strings.Join(endpoints, ","), "--unmatched", "allow"}, flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	defer s.stop()
	to := []string{"--server", s.run.URL, "--admin-server", s.run.AdminURL}
	if code, said := examined(t, 0, token, to...); code != exitDone || !strings.Contains(said, "(leader)") {
		t.Fatalf("with all three: exit %d, want 0 and who leads:\n%s", code, said)
	}
	cluster.Stop((cluster.Leader(t) + 1) % etcdtest.Members)
	code, said := examined(t, 0, token, to...)
	if code != exitFailed || !strings.Contains(said, "does not answer") {
		t.Errorf("with one away: exit %d, want 1 and which:\n%s", code, said)
	}
}
