package middleware_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/client/holdfasttest"
	"github.com/holdfast-dev/holdfast/client/middleware"
)

// tracked is a body that tells whether it was closed.
type tracked struct {
	io.Reader
	closed bool
}

func (b *tracked) Close() error { b.closed = true; return nil }

func request(ctx context.Context, body io.ReadCloser) *http.Request {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://api.test/", body)
	if err != nil {
		panic(err)
	}
	return r
}

func upstream(said string) trip {
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(said))}, nil
	}
}

// Somebody else's API allows 5 a minute: the sixth waits for the next one.
func TestTransport_WaitsForItsTurn(t *testing.T) {
	inBubble(t, func(t *testing.T, s *holdfasttest.Server) {
		tr := &middleware.Transport{Client: s.Client("u1"), Action: "theirs", Base: upstream("x")}
		began := time.Now()
		for range 6 {
			resp, err := tr.RoundTrip(request(t.Context(), nil))
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
		}
		if took := time.Since(began); took < time.Minute || took > 62*time.Second {
			t.Errorf("six took %v, want the sixth when the minute is over", took)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for range 4 {
			_, _ = tr.RoundTrip(request(t.Context(), nil))
		}
		body := &tracked{Reader: strings.NewReader("x")}
		began = time.Now()
		_, err := tr.RoundTrip(request(short, body))
		if !errors.Is(err, client.ErrQuota) || !body.closed || time.Since(began) > time.Second {
			t.Errorf("past the deadline: %v after %v, body closed: %v", err, time.Since(began), body.closed)
		}
	}, limit("theirs", "theirs", 5, "minute"))
}

// It allows one at once: the next waits until the first answer was read.
func TestTransport_HoldsUntilTheBodyIsRead(t *testing.T) {
	inBubble(t, func(t *testing.T, s *holdfasttest.Server) {
		tr := &middleware.Transport{Client: s.Client("u1"), Action: "theirs", Reserve: true, TTL: 30 * time.Second, Base: upstream("said")}
		first, err := tr.RoundTrip(request(t.Context(), nil))
		if err != nil {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		body := &tracked{Reader: strings.NewReader("x")}
		if _, err := tr.RoundTrip(request(short, body)); err == nil || !body.closed {
			t.Errorf("a second one while the first is read: %v, body closed: %v", err, body.closed)
		}
		if said, err := io.ReadAll(first.Body); string(said) != "said" || err != nil {
			t.Errorf("read %q, %v", said, err)
		}
		second, err := tr.RoundTrip(request(t.Context(), nil)) // at its end, not only when closed
		if err != nil {
			t.Fatal(err)
		}
		_ = first.Body.Close()
		if got := len(s.Holds()); got != 1 {
			t.Errorf("%d holds, want that of the second", got)
		}
		_ = second.Body.Close()
		if got := len(s.Holds()); got != 0 {
			t.Errorf("%d holds after all were closed", got)
		}
	}, limit("theirs", "theirs", 1, "concurrent"))
}

func TestTransport_FailuresGiveTheSlotBack(t *testing.T) {
	inBubble(t, func(t *testing.T, s *holdfasttest.Server) {
		broken := errors.New("connection reset")
		tr := &middleware.Transport{
			Client: s.Client("u1"), Action: "theirs", Reserve: true, TTL: 30 * time.Second,
			Base: trip(func(*http.Request) (*http.Response, error) { return nil, broken }),
		}
		if _, err := tr.RoundTrip(request(t.Context(), nil)); !errors.Is(err, broken) {
			t.Errorf("got %v, want the base's error", err)
		}
		if got := len(s.Holds()); got != 0 {
			t.Errorf("%d holds after a failure", got)
		}
		tr.Base = trip(func(r *http.Request) (*http.Response, error) { // one that hangs while the hold is forced
			s.ForceRelease(s.Holds()[0].ID, "stop")
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		if _, err := tr.RoundTrip(request(t.Context(), nil)); !errors.Is(err, client.ErrHoldLost) {
			t.Errorf("under a hold that is lost: %v", err)
		}
		if _, err := (&middleware.Transport{}).RoundTrip(request(t.Context(), nil)); err == nil {
			t.Error("a transport without a client sent something")
		}
	}, limit("theirs", "theirs", 1, "concurrent"))
}
