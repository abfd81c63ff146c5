package client_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/client/holdfasttest"
)

// asked is one request of a Wait.
type asked struct {
	key  string
	wait *int64
}

// lineOf is a stub of a server that keeps a line for checks; answered decides the nth request.
func lineOf(t *testing.T, all *[]asked, answered func(n int, r *http.Request, wait time.Duration) (*http.Response, error)) *client.Client {
	t.Helper()
	return stubbed(t, func(r *http.Request) (*http.Response, error) {
		var body api.CheckRequest
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.URL.Path != "/v1/checks" || body.Mode != api.ModeConsume {
			t.Errorf("%s %+v, %v", r.URL.Path, body, err)
			return nil, err
		}
		*all = append(*all, asked{r.Header.Get("Idempotency-Key"), body.WaitSeconds})
		wait := time.Duration(0)
		if body.WaitSeconds != nil {
			wait = time.Duration(*body.WaitSeconds) * time.Second
		}
		return answered(len(*all), r, wait)
	})
}

var full = api.CheckAnswer{Mode: api.ModeConsume, DecidedBy: "exports", Code: api.NoFreeSlot}

// API.md section 6: Wait stands in the server's line, in slices under one key, and does not poll.
func TestWait_ServerKeepsTheLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var all []asked
		c := lineOf(t, &all, func(n int, _ *http.Request, wait time.Duration) (*http.Response, error) {
			if n == 5 {
				time.Sleep(wait / 2)
				return answer(200, nil, api.CheckAnswer{Mode: api.ModeConsume, Allowed: true}), nil
			}
			time.Sleep(wait)
			return answer(200, nil, full), nil
		})
		began := time.Now()
		wantErr(t, "Wait", c.Wait(t.Context(), client.Request{Action: "export"}), nil)
		if took := time.Since(began); len(all) != 5 || took > 212*time.Second {
			t.Errorf("%d requests in %v, want 5 in three slices of a minute and a half", len(all), took)
		}
		for i, a := range all {
			if a.key != all[0].key || (a.wait == nil) != (i == 0) || i > 0 && *a.wait != 60 {
				t.Errorf("request %d: %+v, want key %s and, after the first, 60 s", i, a, all[0].key)
			}
		}
	})
}

// A deadline: the server answers before it, so that no place is left behind.
func TestWait_EndsItsLastSliceItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var all []asked
		c := lineOf(t, &all, func(_ int, r *http.Request, wait time.Duration) (*http.Response, error) {
			time.Sleep(wait)
			if err := r.Context().Err(); err != nil && wait > 0 {
				t.Errorf("hung up while it stood in line for %v", wait)
			}
			return answer(200, nil, full), nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second+500*time.Millisecond)
		defer cancel()
		wantErr(t, "Wait", c.Wait(ctx, client.Request{Action: "export"}), client.ErrNoFreeSlot)
		if len(all) < 3 || *all[1].wait != 60 || *all[2].wait < 29 || *all[2].wait > 30 {
			t.Errorf("asked %+v, want at once, for 60 s, and for the rest", all)
		}
	})
}

// Who goes away in between leaves the line: its place would hold up others for 10 s.
func TestWait_WhoStopsWaitingLeavesTheLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var all []asked
		c := lineOf(t, &all, func(n int, r *http.Request, _ time.Duration) (*http.Response, error) {
			if n == 2 {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return answer(200, nil, full), nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Second, cancel)
		wantErr(t, "Wait", c.Wait(ctx, client.Request{Action: "export"}), context.Canceled)
		c.Close() // waits for what is done on the side
		if len(all) != 3 || all[2].wait == nil || *all[2].wait != 0 || all[2].key != all[1].key {
			t.Errorf("asked %+v, want a last request that leaves", all)
		}
	})
}

// Wait and Reserve stand in one line, in the order they came, whoever asks more often.
func TestWait_AndReserveAreServedInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, s *holdfasttest.Server) {
		c := s.Client("u1")
		first := reserve(t, c, client.Request{Action: "export", TTL: 5 * time.Minute})
		names := []string{"wait 1", "reserve 1", "wait 2", "reserve 2"}
		began, served := time.Now(), make(map[string]time.Duration)
		var mu sync.Mutex
		got := func(name string) {
			mu.Lock()
			defer mu.Unlock()
			served[name] = time.Since(began)
		}
		var all sync.WaitGroup
		for _, name := range names {
			all.Go(func() {
				if strings.HasPrefix(name, "wait") {
					if err := c.Wait(t.Context(), client.Request{Action: "export"}); err != nil {
						t.Errorf("Wait: %v", err)
					}
					got(name)
					return
				}
				h, err := c.Reserve(t.Context(), waiting(30*time.Second, 5*time.Minute))
				if err != nil {
					t.Errorf("Reserve: %v", err)
					return
				}
				got(name)
				time.Sleep(2 * time.Second) // who comes next is told by the clock
				wantErr(t, "Release", h.Release(t.Context()), nil)
			})
			time.Sleep(3 * time.Second)
		}
		time.Sleep(70 * time.Second) // each comes back for its place
		wantErr(t, "Release", first.Release(t.Context()), nil)
		all.Wait()
		// A check takes no slot, so the reserve behind it may go in the same instant.
		for i := range names[1:] {
			if before, after := names[i], names[i+1]; served[before] > served[after] || i == 1 && served[before] == served[after] {
				t.Errorf("%s was served after %v, %s after %v", before, served[before], after, served[after])
			}
		}
	}, exports(1))
}
