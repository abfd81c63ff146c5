package client_test

import (
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/client/holdfasttest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if scratch != "" {
			_ = os.RemoveAll(scratch)
		}
		os.Exit(code)
	}))
}

// inBubble runs f with a server of its own in fake time: the real handlers, no socket.
func inBubble(t *testing.T, f func(t *testing.T, s *holdfasttest.Server), opts ...holdfasttest.Option) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f(t, holdfasttest.New(t, opts...))
	})
}

// exports is the sample limit: amount at once for each user.
func exports(amount int64) holdfasttest.Option {
	return holdfasttest.Concurrent("exports", "export", amount)
}

var export = client.Request{Action: "export", TTL: 30 * time.Second}

// with is a client of the user u1 with a changed config.
func with(t *testing.T, s *holdfasttest.Server, change func(*client.Config)) *client.Client {
	t.Helper()
	cfg := client.Config{URL: "http://holdfast.test", Transport: s.Transport(), TokenSource: client.StaticToken(s.Token("u1"))}
	change(&cfg)
	c, err := client.New(cfg)
	if err != nil {
		t.Fatalf("New(%+v): %v", cfg, err)
	}
	t.Cleanup(c.Close)
	return c
}

// reserve fails the test when it is refused.
func reserve(t *testing.T, c *client.Client, r client.Request) *client.Hold {
	t.Helper()
	h, err := c.Reserve(t.Context(), r)
	if err != nil {
		t.Fatalf("Reserve(%+v): %v", r, err)
	}
	return h
}

func wantErr(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) || want == nil && got != nil {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// wantHolds fails the test unless so many holds live on the server.
func wantHolds(t *testing.T, s *holdfasttest.Server, want int) []api.Reservation {
	t.Helper()
	holds := s.Holds()
	if len(holds) != want {
		t.Fatalf("%d holds live, want %d: %+v", len(holds), want, holds)
	}
	return holds
}

// calls is how many requests of a path came.
func calls(s *holdfasttest.Server, path string) (n int) {
	for _, c := range s.Calls() {
		if c.Path == path {
			n++
		}
	}
	return n
}
