package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/client"
)

// The same promises against the program itself: a process, over sockets, in real time.

// generous is a liveness deadline, far beyond what anything here takes on a busy machine.
const generous = 2 * time.Minute

// build makes the program once, when a test first needs it.
func build(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds and runs the program")
	}
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// scratch is where the program is built; TestMain removes it. "": it was not.
var scratch string

var built = sync.OnceValues(func() (_ string, err error) {
	if scratch, err = os.MkdirTemp("", "holdfast-client-"); err != nil {
		return "", err
	}
	path := filepath.Join(scratch, "holdfast")
	if out, err := exec.Command("go", "build", "-o", path, "../cmd/holdfast").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// program is a `holdfast dev` that is ready.
type program struct {
	cmd   *exec.Cmd
	ended chan struct{}
	run   struct {
		URL, AdminURL, Token string
		PID                  int
	}
}

// launch runs `holdfast dev` on a folder and an address; port 0 is a free one.
func launch(t *testing.T, dir, listen string) *program {
	t.Helper()
	p := &program{cmd: exec.Command(build(t), "dev", "--listen", listen, "--admin-listen", "127.0.0.1:0", "--data-dir", dir), ended: make(chan struct{})}
	p.cmd.Env = []string{"HOME=" + dir + ".home", "XDG_CONFIG_HOME=" + dir + ".home", "PATH=" + os.Getenv("PATH"), "TMPDIR=" + t.TempDir()}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = p.cmd.Wait(); close(p.ended) }()
	t.Cleanup(p.kill)
	ticker, limit := time.NewTicker(20*time.Millisecond), time.NewTimer(generous)
	defer ticker.Stop()
	defer limit.Stop()
	for {
		data, err := os.ReadFile(filepath.Join(dir, "dev.json"))
		if err == nil && json.Unmarshal(data, &p.run) == nil && p.run.PID == p.cmd.Process.Pid {
			return p
		}
		select {
		case <-ticker.C:
		case <-p.ended:
			t.Fatal("holdfast dev ended before it was ready")
		case <-limit.C:
			t.Fatal("holdfast dev was not ready in time")
		}
	}
}

// kill is kill -9, of this process id alone.
func (p *program) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// dial is a client of a URL for a token.
func dial(t *testing.T, url, token string) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{URL: url, TokenSource: client.StaticToken(token)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// as is export for a user of a test's own: the token of a development server may act for all.
func as(user string, ttl, wait time.Duration) client.Request {
	return client.Request{Action: "export", Subject: api.Subject{Kind: "user", ID: user}, TTL: ttl, Wait: wait}
}

// FAULTS section 2 rows 1, 2 and 15: the server is away at the start, is killed in mid-work, and
// comes back on its data.
func TestBinary_ServerAwayAtStartAndKilledInMidWork(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	first := launch(t, dir, "127.0.0.1:0")
	url, token := first.run.URL, first.run.Token
	first.kill()

	c := dial(t, url, token)
	granted := make(chan *client.Hold, 1)
	go func() {
		h, err := c.Reserve(t.Context(), as("u1", time.Minute, generous))
		if err != nil {
			t.Errorf("Reserve begun without a server: %v", err)
		}
		granted <- h
	}()
	address := url[len("http://"):]
	second := launch(t, dir, address)
	h := <-granted
	if h == nil {
		t.FailNow()
	}
	second.kill()
	third := launch(t, dir, address)
	if err := h.Verify(t.Context()); err != nil || h.State() != client.Held {
		t.Errorf("after kill -9 and a start: %v, %v, want the hold to live on", err, h.State())
	}
	third.kill()
	if err := h.Release(t.Context()); !errors.Is(err, client.ErrUnavailable) {
		t.Errorf("Release without a server: %v, want it told in time", err)
	}
}

// FAULTS section 2 row 6, issue 4 "Shown by" 3: a worker that is cut off stops before the slot is
// given on, by the margin at least; its fence is behind.
func TestBinary_CutOffWorkerStopsFirst(t *testing.T) {
	t.Parallel()
	p := launch(t, filepath.Join(t.TempDir(), "data"), "127.0.0.1:0")
	r := newRelay(t, p.run.URL[len("http://"):])
	behind, direct := dial(t, "http://"+r.Addr().String(), p.run.Token), dial(t, p.run.URL, p.run.Token)
	const ttl = 4 * time.Second
	var all []*client.Hold
	for range 3 {
		all = append(all, reserve(t, behind, as("u1", ttl, 0)))
	}
	ends := make([]time.Time, len(all))
	var waited sync.WaitGroup
	for i, h := range all {
		waited.Go(func() { <-h.Context().Done(); ends[i] = time.Now() })
	}
	r.cut.Store(true)
	next := reserve(t, direct, as("u1", ttl, generous))
	given := time.Now()
	waited.Wait()
	if !errors.Is(context.Cause(all[next.Slot()].Context()), client.ErrHoldLost) {
		t.Errorf("the context of slot %d ended by %v", next.Slot(), context.Cause(all[next.Slot()].Context()))
	}
	distance := given.Sub(ends[next.Slot()])
	t.Logf("the work stopped %v before the slot was given on", distance)
	// The margin is 1 s; what is left of it after a scheduler that is busy elsewhere is asked.
	if distance <= 0 || next.Fence() <= all[next.Slot()].Fence() {
		t.Errorf("the work stopped %v before the slot was given on; fences %d, then %d", distance, all[next.Slot()].Fence(), next.Fence())
	}
	wantErr(t, "Release", next.Release(t.Context()), nil)
}

// Issue 4, "Bad input and trouble": a panic, a forced hold, settling after Close, and no server at
// all under the policy Allow. After each of them every slot is free.
func TestBinary_EveryWayToEnd(t *testing.T) {
	t.Parallel()
	p := launch(t, filepath.Join(t.TempDir(), "data"), "127.0.0.1:0")
	c := dial(t, p.run.URL, p.run.Token)
	ask := as("ends", 4*time.Second, 0)
	func() {
		defer func() {
			if got := recover(); got != "of the work" {
				t.Errorf("the panic that goes on: %v", got)
			}
		}()
		_ = c.Do(t.Context(), ask, func(context.Context, *client.Hold) error { panic("of the work") })
	}()
	var all []*client.Hold
	for range 3 { // as many as there are
		all = append(all, reserve(t, c, ask))
	}
	p.force(t, all[0])
	select {
	case <-all[0].Lost():
	case <-time.After(generous):
		t.Fatal("a forced hold is held still")
	}
	var lost *client.LostError
	if !errors.As(context.Cause(all[0].Context()), &lost) || lost.Reason != "forced" || lost.Note != "for a test" {
		t.Errorf("a forced hold: the context ended by %v", context.Cause(all[0].Context()))
	}
	c.Close()
	wantErr(t, "Release after Close", all[1].Release(t.Context()), nil)
	wantErr(t, "Commit after Close", all[2].Commit(t.Context()), nil)
	wantErr(t, "Release of the forced one", all[0].Release(t.Context()), client.ErrHoldLost)
	other, err := client.New(client.Config{URL: p.run.URL, TokenSource: client.StaticToken(p.run.Token), Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	var last *client.Hold
	for range 3 {
		last = reserve(t, other, as("ends", time.Minute, 0))
	}

	p.kill()
	wantErr(t, "Release without a server", last.Release(t.Context()), client.ErrUnavailable)
	var said strings.Builder
	loose, err := client.New(client.Config{
		URL: p.run.URL, TokenSource: client.StaticToken(p.run.Token), Timeout: time.Second,
		OnUnavailable: client.Allow, Log: slog.New(slog.NewTextHandler(&said, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	worked := false
	err = loose.Do(t.Context(), ask, func(_ context.Context, h *client.Hold) error { worked = !h.Guarded(); return nil })
	loose.Close()
	if err != nil || !worked || loose.Stats().Allowed != 1 || !strings.Contains(said.String(), "allowed without a server") {
		t.Errorf("without a server, under Allow: %v, worked: %t, %+v, it logged %q", err, worked, loose.Stats(), said.String())
	}
}

// force ends a hold as an administrator does.
func (p *program) force(t *testing.T, h *client.Hold) {
	t.Helper()
	body := fmt.Sprintf(`{"reason":"for a test","fence":%d}`, h.Fence())
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.run.AdminURL+"/admin/v1/reservations/"+h.ID()+"/force-release", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+p.run.Token)
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("force-release: %s", resp.Status)
	}
}

// Issue 4, "Bad input and trouble": a proxy that drops answers only. No second hold for one act,
// and nothing outlives its TTL.
func TestBinary_ProxyThatDropsAnswers(t *testing.T) {
	t.Parallel()
	p := launch(t, filepath.Join(t.TempDir(), "data"), "127.0.0.1:0")
	to, err := url.Parse(p.run.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	defer transport.CloseIdleConnections()
	proxy.Transport = transport
	proxy.ModifyResponse = func(*http.Response) error {
		if rand.IntN(10) < 3 {
			return errors.New("dropped")
		}
		return nil
	}
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	front := httptest.NewServer(proxy)
	defer front.Close()
	lossy, direct := dial(t, front.URL, p.run.Token), dial(t, p.run.URL, p.run.Token)
	var workers sync.WaitGroup
	for range 3 { // as many as there are slots: a second hold for one act would find none
		workers.Go(func() {
			for range 15 {
				err := lossy.Do(t.Context(), as("u1", 5*time.Second, generous), func(context.Context, *client.Hold) error { return nil })
				if err != nil && !errors.Is(err, client.ErrUnavailable) {
					t.Errorf("Do: %v", err)
				}
			}
		})
	}
	workers.Wait()
	lossy.Close()
	for range 3 { // every slot is free, now or by its TTL
		h := reserve(t, direct, as("u1", time.Minute, generous))
		defer func() { _ = h.Release(context.Background()) }()
	}
}
