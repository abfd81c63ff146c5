package client_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/client"
)

// CASES O08: no extend leaves the client after the release's answer came. One that is still to
// leave, for want of a connection say, is waited for.
func TestHeart_ABeatThatIsStillToLeave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ttl := int64(30)
		var mu sync.Mutex
		var order []string
		note := func(what string) { mu.Lock(); order = append(order, what); mu.Unlock() }
		c := stubbed(t, func(r *http.Request) (*http.Response, error) {
			switch {
			case r.URL.Path == "/v1/reservations":
				return answer(201, nil, api.Reservation{ID: "rsv_1", TTLSeconds: &ttl}), nil
			case strings.HasSuffix(r.URL.Path, "/release"):
				note("release")
				return answer(200, nil, api.Reservation{}), nil
			}
			note("beat begins")
			time.Sleep(3 * time.Second) // a connection is made
			note("beat leaves")
			lost := api.Problem{Code: api.HoldLost, Reason: "released"}
			return answer(200, nil, api.HeartbeatAnswer{Results: []api.HeartbeatResult{{ID: "rsv_1", Problem: &lost}}}), nil
		})
		h := reserve(t, c, export)
		time.Sleep(10500 * time.Millisecond) // the beat is on its way
		wantErr(t, "Release", h.Release(t.Context()), nil)
		c.Close()
		if want := []string{"beat begins", "beat leaves", "release"}; !slices.Equal(order, want) {
			t.Errorf("in this order: %v, want %v", order, want)
		}
		if h.Err() != nil || c.Stats().Lost != 0 {
			t.Errorf("told lost, when it was let go: %v, %+v", h.Err(), c.Stats())
		}
	})
}

// GUARANTEES section 2: three tries, each with its own deadline. A server that takes connections
// and never answers keeps nobody from the deadline, however short the TTL.
func TestHeart_CallsThatHang(t *testing.T) {
	for name, ttl := range map[string]int64{"a short ttl": 5, "the least ttl": 2, "a long ttl": 60} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var tries atomic.Int64
				c := stubbed(t, func(r *http.Request) (*http.Response, error) {
					if r.URL.Path == "/v1/reservations" {
						return answer(201, nil, api.Reservation{ID: "rsv_1", TTLSeconds: &ttl}), nil
					}
					tries.Add(1)
					<-r.Context().Done()
					return nil, r.Context().Err()
				})
				began := time.Now()
				h := reserve(t, c, client.Request{Action: "export", TTL: time.Duration(ttl) * time.Second})
				<-h.Lost()
				length := time.Duration(ttl) * time.Second
				deadline := length - max(time.Second, length/20)
				if took := time.Since(began); took > deadline || took < deadline-50*time.Millisecond {
					t.Errorf("lost after %v, want the deadline %v", took, deadline)
				}
				if n := tries.Load(); n < 2 || ttl > 2 && n < 3 {
					t.Errorf("%d tries", n)
				}
				if !errors.Is(h.Err(), client.ErrHoldLost) {
					t.Errorf("Err: %v", h.Err())
				}
				c.Close() // hangs up
			})
		})
	}
}

// Request.Margin: exec stops its command before the deadline of others.
func TestHold_Margin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ttl := int64(30)
		c := stubbed(t, func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/v1/reservations" {
				return answer(201, nil, api.Reservation{ID: "rsv_1", TTLSeconds: &ttl}), nil
			}
			return nil, errors.New("cut")
		})
		began := time.Now()
		h := reserve(t, c, client.Request{Action: "export", TTL: 30 * time.Second, Margin: 7 * time.Second})
		if left := h.Left(); left > 23*time.Second || left < 22*time.Second {
			t.Errorf("%v left at first, want 30 s less 7 s", left)
		}
		<-h.Lost()
		if took := time.Since(began); took > 23*time.Second || took < 22*time.Second {
			t.Errorf("lost after %v, want 23 s", took)
		}
		c.Close()
	})
}

// blocked is a log whose sink takes nothing until it is let go.
type blocked struct {
	slog.Handler
	free chan struct{}
}

func (b blocked) Enabled(context.Context, slog.Level) bool { return true }
func (b blocked) Handle(ctx context.Context, r slog.Record) error {
	<-b.free
	return b.Handler.Handle(ctx, r)
}

// FAULTS section 2 row 19, on this side: a log that blocks keeps no hold from its deadline.
func TestHeart_LogThatBlocks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ttl := int64(30)
		sink := blocked{slog.DiscardHandler, make(chan struct{})}
		c := stubbed(t, func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/v1/reservations" {
				return answer(201, nil, api.Reservation{ID: "rsv_1", TTLSeconds: &ttl}), nil
			}
			return nil, errors.New("cut")
		}, func(cfg *client.Config) { cfg.Log = slog.New(sink) })
		began := time.Now()
		first, second := reserve(t, c, export), reserve(t, c, export)
		<-first.Lost()
		<-second.Lost()
		if took := time.Since(began); took > 28500*time.Millisecond {
			t.Errorf("lost after %v, want 28.5 s", took)
		}
		close(sink.free)
		c.Close()
	})
}
