//go:build unix

package integration

import (
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

// FAULTS rows 3 and 4: the server, and with it its store, is stopped for five seconds under load
// and goes on. Holds run out meanwhile. Nothing is granted twice: no call for a slot begins and
// ends while another certainly holds it.

const (
	pausedFor = 5 * time.Second
	pausedTTL = 3 * time.Second
)

// certain is a hold from the answer to its grant until T after its last extend was sent, or
// until its release was sent: meanwhile nobody else may get its slot (GUARANTEES 2).
type certain struct {
	hold        api.Reservation
	asked, from time.Time
	to          time.Time
}

func TestPause_StoppedForFiveSecondsGrantsNothingTwice(t *testing.T) {
	notInShort(t)
	t.Parallel()
	s := dev(t)
	c := s.admin(t)
	c.limit(`{"name":"pause","subjectKind":"user","action":"pause","amount":3,"window":"concurrent"}`)
	var mu sync.Mutex
	var all []certain
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for n := range 16 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				one, granted, err := holdOnce(c, n)
				if err != nil {
					t.Error(err)
					return
				}
				if granted {
					mu.Lock()
					all = append(all, one)
					mu.Unlock()
				}
			}
		})
	}
	// Resumed whatever happens: a stopped process cannot be ended otherwise.
	t.Cleanup(func() { _ = s.signal(syscall.SIGCONT) })
	for range 2 {
		until(t, time.Now().Add(1500*time.Millisecond))
		if err := s.signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		until(t, time.Now().Add(pausedFor))
		if err := s.signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	until(t, time.Now().Add(3*time.Second))
	close(stop)
	clients.Wait()
	overlaps(t, all)
	ended := time.Now()
	for len(every[api.Reservation](c, "/v1/reservations?pageSize=500&action=pause")) > 0 {
		if time.Since(ended) > generous {
			t.Fatalf("there are holds %s after the last call", generous)
		}
		until(t, time.Now().Add(50*time.Millisecond))
	}
	c.noDrift()
	t.Logf("%d grants over two pauses of %s; the last abandoned hold was gone %s after the last call", len(all), pausedFor, time.Since(ended))
}

// holdOnce reserves, extends once, and gives back or abandons.
func holdOnce(c *caller, n int) (one certain, granted bool, err error) {
	one.asked = time.Now()
	body := fmt.Sprintf(`{"subject":{"kind":"user","id":"p%d"},"action":"pause","ttlSeconds":%d}`, n%4, pausedTTL/time.Second)
	r, err := c.try(c.t.Context(), http.MethodPost, "/v1/reservations", body)
	switch {
	case err != nil:
		return one, false, err
	case r.status == http.StatusTooManyRequests, r.status == http.StatusServiceUnavailable:
		return one, false, pause(c.t.Context(), 20*time.Millisecond)
	case r.status != http.StatusCreated:
		return one, false, fmt.Errorf("%s, want 201, 429 or 503", r)
	}
	one.from, one.to = time.Now(), one.asked.Add(pausedTTL)
	if one.hold, err = decoded[api.Reservation](r); err != nil {
		return one, true, err
	}
	if err := pause(c.t.Context(), 50*time.Millisecond); err != nil {
		return one, true, err
	}
	sent := time.Now()
	r, err = c.try(c.t.Context(), http.MethodPost, "/v1/reservations/"+one.hold.ID+"/extend", "")
	if err == nil && r.status == http.StatusOK {
		one.to = sent.Add(pausedTTL)
	}
	if err == nil && n/4%2 == 0 {
		one.to = earlier(one.to, time.Now())
		_, err = c.try(c.t.Context(), http.MethodPost, "/v1/reservations/"+one.hold.ID+"/release", "")
	}
	return one, true, err
}

func earlier(x, y time.Time) time.Time {
	if x.Before(y) {
		return x
	}
	return y
}

func overlaps(t *testing.T, all []certain) {
	t.Helper()
	for i, x := range all {
		for j, y := range all {
			if i == j || x.hold.Subject != y.hold.Subject || x.hold.Slots[0] != y.hold.Slots[0] {
				continue
			}
			if y.asked.After(x.from) && y.from.Before(x.to) {
				t.Errorf("slot %v was granted to %s in [%s, %s] while %s held it in [%s, %s]",
					x.hold.Slots, y.hold.ID, y.asked, y.from, x.hold.ID, x.from, x.to)
			}
			if y.asked.After(x.from) && y.hold.Fence <= x.hold.Fence {
				t.Errorf("slot %v: fence %d after %d", x.hold.Slots, y.hold.Fence, x.hold.Fence)
			}
		}
	}
}
