//go:build unix

package integration

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	holdfast "github.com/holdfast-dev/holdfast/client"
)

// API.md section 6: callers in Python and in Go stand in one line, in the order
// they came. One that hangs up, or stops waiting, leaves it, and holds up nobody for good.
func TestLine_ClientsAreServedInOrder(t *testing.T) {
	notInShort(t)
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	s := dev(t)
	admin := s.admin(t)
	admin.limit(`{"name":"press","subjectKind":"user","action":"press","amount":1,"window":"concurrent"}`)
	c, err := holdfast.New(holdfast.Config{URL: s.run.URL, TokenSource: holdfast.StaticToken(s.run.Token)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	ask := holdfast.Request{Action: "press", Subject: api.Subject{Kind: "user", ID: "u1"}, TTL: 30 * time.Second, Wait: generous}
	first, err := c.Reserve(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var served []string
	serve := func(name string) {
		mu.Lock()
		defer mu.Unlock()
		served = append(served, name)
	}
	var all sync.WaitGroup
	line := func() int { return len(every[api.Waiter](admin, "/v1/waiters?pageSize=500")) }
	awaitLine := func(n int) {
		t.Helper()
		for end := time.Now().Add(generous); line() != n; until(t, time.Now().Add(20*time.Millisecond)) {
			if time.Now().After(end) {
				t.Fatalf("%d stand in line, want %d", line(), n)
			}
		}
	}
	stand := func(n int, wait func()) {
		t.Helper()
		all.Go(wait)
		awaitLine(n)
	}
	inPython := func() *exec.Cmd {
		// It tells while it holds the slot, and is told that it was heard: then it gives it up.
		cmd := exec.Command(python, "-c", `
import sys, holdfast
with holdfast.Client(*sys.argv[1:3]).hold("press", "user:u1", wait=60):
    print("held", flush=True)
    sys.stdin.readline()
`, s.run.URL, s.run.Token)
		cmd.Dir = "../clients/python"
		dieWithParent(cmd)
		return cmd
	}
	runPython := func(name string) func() {
		return func() {
			cmd := inPython()
			out, err := cmd.StdoutPipe()
			in, err2 := cmd.StdinPipe()
			if err = errors.Join(err, err2, cmd.Start()); err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			if _, err := out.Read(make([]byte, 5)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			serve(name)
			_, _ = in.Write([]byte("heard\n"))
			if err := cmd.Wait(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	runGo := func(name string) func() {
		return func() {
			err := c.Do(t.Context(), ask, func(context.Context, *holdfast.Hold) error { serve(name); return nil })
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	leaving, leave := context.WithCancel(t.Context())
	dying := inPython()
	stand(1, func() {
		if err := c.Wait(leaving, ask); !errors.Is(err, context.Canceled) {
			t.Errorf("Wait that was cancelled: %v", err)
		}
	})
	stand(2, runPython("python 1"))
	stand(3, runGo("go 1"))
	stand(4, func() { _ = dying.Run() })
	stand(5, runPython("python 2"))
	stand(6, func() { // a check takes no slot: it is told and goes
		if err := c.Wait(t.Context(), ask); err != nil {
			t.Errorf("Wait: %v", err)
		}
		serve("go wait")
	})
	stand(7, runGo("go 2"))
	leave()
	awaitLine(6) // the one that stopped waiting has left
	if err := dying.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := first.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if len(served) == 5 {
		slices.Sort(served[3:]) // who is behind a check goes with it, since it takes no slot: either may be heard first
	}
	if want := []string{"python 1", "go 1", "python 2", "go 2", "go wait"}; !slices.Equal(served, want) {
		t.Errorf("served %v, want %v", served, want)
	}
	if n := line(); n != 0 {
		t.Errorf("%d stand in line when all were served", n)
	}
}
