package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/client/holdfasttest"
)

// stub answers every request by itself.
type stub func(r *http.Request) (*http.Response, error)

func (s stub) RoundTrip(r *http.Request) (*http.Response, error) { return s(r) }

// answer is an answer with a JSON body.
func answer(status int, header http.Header, body any) *http.Response {
	encoded, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	if header == nil {
		header = http.Header{}
	}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(bytes.NewReader(encoded))}
}

// stubbed is a client of a stub, in a bubble.
func stubbed(t *testing.T, s stub, change ...func(*client.Config)) *client.Client {
	t.Helper()
	cfg := client.Config{URL: "http://holdfast.test", Transport: s, TokenSource: client.StaticToken("a.b.c")}
	for _, f := range change {
		f(&cfg)
	}
	c, err := client.New(cfg)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(c.Close)
	return c
}

// CASES O18 step 4: whatever Retry-After says, at most ten calls in ten seconds.
func TestRetry_NeverMoreThanTenCallsInTenSeconds(t *testing.T) {
	t.Parallel()
	past := time.Date(1999, 12, 31, 23, 0, 0, 0, time.UTC).Format(http.TimeFormat)
	for name, header := range map[string]http.Header{
		"0": {"Retry-After": {"0"}}, "-1": {"Retry-After": {"-1"}}, "0.493": {"Retry-After": {"0.493"}},
		"a date in the past": {"Retry-After": {past}}, "none": nil,
	} {
		for kind, problem := range map[string]*api.Problem{
			"no free slot":        {Status: 429, Code: api.NoFreeSlot},
			"quota exceeded":      {Status: 429, Code: api.QuotaExceeded, DecidedBy: "calls"},
			"the store is away":   {Status: 503, Code: api.StoreUnavailable},
			"slow down":           {Status: 429, Code: api.SlowDown},
			"the outcome unknown": {Status: 503, Code: api.OutcomeUnknown},
			"somebody else's":     {Status: 429},
		} {
			t.Run(kind+", Retry-After "+name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					var at []time.Time
					c := stubbed(t, func(*http.Request) (*http.Response, error) {
						at = append(at, time.Now())
						return answer(problem.Status, header.Clone(), problem), nil
					}, func(cfg *client.Config) { cfg.Timeout = time.Minute })
					_, err := c.Reserve(t.Context(), waiting(30*time.Second, 2*time.Minute))
					if err == nil {
						t.Fatal("Reserve: granted by a stub that refuses")
					}
					c.Close() // what may have been granted is given back by a call more
					for i := 10; i < len(at); i++ {
						if span := at[i].Sub(at[i-10]); span < 10*time.Second {
							t.Fatalf("calls %d to %d came within %v: %v", i-10, i, span, at)
						}
					}
					if problem.Code == api.NoFreeSlot && len(at) < 40 {
						t.Errorf("only %d calls in 2 min for a slot that may come free", len(at))
					}
				})
			})
		}
	}
}

// The same for a heartbeat: a hold that cannot be extended asks no faster.
func TestRetry_HeartbeatsKeepTheirPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		ttl := int64(30)
		c := stubbed(t, func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/v1/reservations" {
				return answer(201, nil, api.Reservation{ID: "rsv_1", TTLSeconds: &ttl}), nil
			}
			at = append(at, time.Now())
			return answer(503, http.Header{"Retry-After": {"0"}}, api.Problem{Code: api.StoreUnavailable}), nil
		})
		h := reserve(t, c, export)
		<-h.Lost()
		if len(at) < 4 {
			t.Errorf("%d tries to extend before it was lost, want three more at least", len(at)-1)
		}
		for i := 10; i < len(at); i++ {
			if span := at[i].Sub(at[i-10]); span < 10*time.Second {
				t.Errorf("beats %d to %d came within %v", i-10, i, span)
			}
		}
	})
}

// A Retry-After that means something is waited out, with a little at random on top.
func TestRetry_HonoursRetryAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		ttl := int64(30)
		c := stubbed(t, func(r *http.Request) (*http.Response, error) {
			at = append(at, time.Now())
			if len(at) == 1 {
				return answer(503, http.Header{"Retry-After": {"4"}}, api.Problem{Code: api.Draining}), nil
			}
			return answer(201, nil, api.Reservation{ID: "rsv_1", TTLSeconds: &ttl}), nil
		})
		h := reserve(t, c, export)
		if pause := at[1].Sub(at[0]); pause < 4*time.Second || pause > 5*time.Second {
			t.Errorf("asked again after %v, want 4 s and a little", pause)
		}
		c.Close()
		_ = h
	})
}

func TestParseRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 9, 3, 10, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"22": 22 * time.Second, " 1 ": time.Second, "0.493": 493 * time.Millisecond,
		"0": 0, "-1": 0, "": 0, "soon": 0, "NaN": 0, "Inf": 0, "1e300": 0,
		now.Add(time.Minute).Format(http.TimeFormat):  time.Minute,
		now.Add(-time.Minute).Format(http.TimeFormat): 0,
	} {
		if got := client.ParseRetryAfter(text, now); got != want {
			t.Errorf("Retry-After %q: %v, want %v", text, got, want)
		}
	}
}

// FAULTS section 2 rows 1, 2 and 30: answers are lost after the server committed. One act takes
// one slot, under one key.
func TestRetry_AnswerLostTakesOneSlot(t *testing.T) {
	inBubble(t, func(t *testing.T, s *holdfasttest.Server) {
		c := s.Client("u1")
		s.LoseAnswers(2, "/v1/reservations")
		h := reserve(t, c, export)
		seen := s.Calls()
		if len(seen) != 3 || seen[0].Key == "" || seen[0] != seen[1] || seen[1] != seen[2] {
			t.Errorf("the calls: %+v, want three with one key", seen)
		}
		if live := wantHolds(t, s, 1); live[0].ID != h.ID() {
			t.Errorf("%s lives, want %s", live[0].ID, h.ID())
		}
		s.LoseAnswers(1, "/commit")
		wantErr(t, "Commit whose answer was lost", h.Commit(t.Context()), nil)
		wantHolds(t, s, 0)

		s.LoseAnswers(1, "/v1/checks")
		_, err := c.Consume(t.Context(), client.Request{Action: "call", Cost: 4})
		wantErr(t, "Consume", err, nil)
		if got := s.Used("calls", "u1"); got != 4 {
			t.Errorf("used %d, want the 4 once", got)
		}
	}, exports(3), holdfasttest.Counting("calls", "call", 10, "day"))
}

// The same with a third of all answers lost, for long: no second hold for one act, and after it
// all nothing leaks beyond its TTL.
func TestRetry_AThirdOfAllAnswersLost(t *testing.T) {
	inBubble(t, func(t *testing.T, s *holdfasttest.Server) {
		lossy := s.Transport()
		coin := rand.New(rand.NewPCG(7, 7))
		c := with(t, s, func(cfg *client.Config) {
			cfg.Transport = stub(func(r *http.Request) (*http.Response, error) {
				resp, err := lossy.RoundTrip(r)
				if err == nil && coin.IntN(3) == 0 {
					return nil, io.ErrUnexpectedEOF
				}
				return resp, err
			})
		})
		done := 0
		for range 300 {
			err := c.Do(t.Context(), client.Request{Action: "export", TTL: 10 * time.Second, Wait: time.Minute}, func(_ context.Context, h *client.Hold) error {
				if live := s.Holds(); len(live) > 2 { // ours, and one whose release was given up
					t.Fatalf("%d holds for one act: %+v", len(live), live)
				}
				time.Sleep(time.Second)
				done++
				return nil
			})
			if err != nil && !errors.Is(err, client.ErrUnavailable) {
				t.Fatalf("Do: %v", err)
			}
		}
		if done < 300 {
			t.Errorf("%d of 300 worked", done)
		}
		time.Sleep(12 * time.Second)
		wantHolds(t, s, 0)
	}, exports(3))
}
