package holdfasttest_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/client/holdfasttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The server as most will use it: over a socket, by its URL and a token.
func TestServer_OverASocket(t *testing.T) {
	t.Parallel()
	s := holdfasttest.New(t, holdfasttest.Concurrent("exports", "export", 1), holdfasttest.Counting("calls", "call", 2, "day"))
	c, err := client.New(client.Config{URL: s.URL(), TokenSource: client.StaticToken(s.Token("u_42"))})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	h, err := c.Reserve(t.Context(), client.Request{Action: "export"})
	if err != nil {
		t.Fatal(err)
	}
	if live := s.Holds(); len(live) != 1 || live[0].ID != h.ID() || live[0].Subject != (api.Subject{Kind: "user", ID: "u_42"}) {
		t.Errorf("live: %+v", live)
	}
	if err := h.Commit(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := c.Consume(t.Context(), client.Request{Action: "call", Cost: 2}); err != nil || s.Used("calls", "u_42") != 2 {
		t.Errorf("Consume: %v, used %d", err, s.Used("calls", "u_42"))
	}
	s.Away(100 * time.Millisecond) // an act outlasts it
	if _, err := c.Consume(t.Context(), client.Request{Action: "call"}); !errors.Is(err, client.ErrQuota) {
		t.Errorf("after it was away: %v, want the refusal", err)
	}
	if got := s.Reservation(h.ID()).State; got != api.StateCommitted {
		t.Errorf("it is %s", got)
	}
}

func TestServer_ExpiresNow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := holdfasttest.New(t, holdfasttest.Concurrent("exports", "export", 1), holdfasttest.Counting("calls", "call", 5, "day"))
		c := s.Client("u_42")
		for _, action := range []string{"export", "call"} { // one with a slot, one without
			h, err := c.Reserve(t.Context(), client.Request{Action: action, TTL: time.Hour})
			if err != nil {
				t.Fatalf("Reserve %s: %v", action, err)
			}
			s.ExpireNow(h.ID())
			if got := s.Reservation(h.ID()); got.State != api.StateExpired || len(s.Holds()) != 0 {
				t.Errorf("after ExpireNow the %s is %s, %d live", action, got.State, len(s.Holds()))
			}
			s.ExpireNow(h.ID()) // again is harmless
			if err := h.Verify(t.Context()); !errors.Is(err, client.ErrHoldLost) {
				t.Errorf("the client's next word of the %s: %v", action, err)
			}
		}
	})
}

func TestServer_ClockOfWindows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		noon := time.Date(2027, 2, 28, 12, 0, 0, 0, time.UTC)
		s := holdfasttest.New(t, holdfasttest.Counting("calls", "call", 1, "month"), holdfasttest.ClockAt(noon))
		c := s.Client("u_42")
		one := client.Request{Action: "call"}
		step := func(want error) {
			t.Helper()
			if _, err := c.Consume(t.Context(), one); !errors.Is(err, want) || want == nil && err != nil {
				t.Errorf("at %v: %v, want %v", s.Now(), err, want)
			}
		}
		step(nil)
		step(client.ErrQuota)
		s.Advance(13 * time.Hour) // the first of March
		step(nil)
		s.SetClock(noon) // set back, it re-opens nothing
		step(client.ErrQuota)
		s.SetClock(noon.AddDate(0, 2, 0))
		step(nil)
	})
}

func TestServer_LosesAnswersAndIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := holdfasttest.New(t, holdfasttest.Concurrent("exports", "export", 2))
		ask := func(path string) error {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://any"+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+s.Token("u_42"))
			resp, err := s.Transport().RoundTrip(r)
			if err == nil {
				_ = resp.Body.Close()
			}
			return err
		}
		s.LoseAnswers(1, "/reservations")
		for i, c := range []struct {
			path string
			cut  bool
		}{{"/livez", false}, {"/v1/reservations", true}, {"/v1/reservations", false}} {
			if err := ask(c.path); (err != nil) != c.cut {
				t.Errorf("call %d of %s: %v, want it cut: %v", i, c.path, err, c.cut)
			}
		}
		s.Away(3 * time.Second)
		time.Sleep(2900 * time.Millisecond)
		if err := ask("/livez"); err == nil {
			t.Error("it answered while it was away")
		}
		time.Sleep(200 * time.Millisecond)
		if err := ask("/livez"); err != nil {
			t.Errorf("it is away still: %v", err)
		}
		if got := s.Calls(); len(got) != 5 || got[1] != (holdfasttest.Call{Method: "GET", Path: "/v1/reservations"}) {
			t.Errorf("the calls: %+v", got)
		}
	})
}

// A limit can be put in the place of another, and a token be of any kind and scope.
func TestServer_SetLimitAndTokens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := holdfasttest.New(t)
		gpu := api.LimitInput{ID: "gpu", Name: "gpu", SubjectKind: "team", Action: "train", Amount: 0, Window: "concurrent"}
		if got := s.SetLimit(gpu); got.Amount != 0 {
			t.Errorf("made %+v", got)
		}
		gpu.Amount = 1
		if got := s.SetLimit(gpu); got.Amount != 1 {
			t.Errorf("changed to %+v", got)
		}
		team := api.Subject{Kind: "team", ID: "vision"}
		c, err := client.New(client.Config{Transport: s.Transport(), TokenSource: client.StaticToken(s.TokenFor(team, time.Minute, "holds:read", "act-for"))})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		h, err := c.Reserve(ctx, client.Request{Action: "train", Subject: team})
		if err != nil {
			t.Fatal(err)
		}
		s.ForceRelease(h.ID(), "maintenance")
		if got := s.Reservation(h.ID()); got.State != api.StateForced || got.Note != "maintenance" {
			t.Errorf("forced: %+v", got)
		}
	})
}
