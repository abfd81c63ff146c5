package webhooks

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/events"
	"github.com/holdfast-dev/holdfast/reserve"
)

// Issue 6, "Shown by" 3: a receiver that fails, hangs, redirects and answers late.
func TestDelivery_IsAcceptedOnceAndInOrderByAReceiverThatFailsHangsRedirectsAndIsLate(t *testing.T) { // HF-3201, HF-3202
	r := newRig(t, "a", "b", "c")
	const within = 1500 * time.Millisecond
	one := r.replica("one", func(c *Config) { c.Within = within })
	trap := receive(t, yes)
	var mu sync.Mutex
	seen := map[string]int{}
	bad := receive(t, func(n int, w http.ResponseWriter, req *http.Request) bool {
		mu.Lock()
		seen[req.Header.Get("Webhook-Id")]++
		first := seen[req.Header.Get("Webhook-Id")] == 1
		mu.Unlock()
		if !first || n%2 == 0 {
			return yes(n, w, req)
		}
		switch n / 2 % 5 {
		case 0:
			w.WriteHeader(http.StatusInternalServerError)
		case 1: // hangs until the other side is gone
			<-req.Context().Done()
		case 2:
			http.Redirect(w, req, trap.URL, http.StatusTemporaryRedirect)
		case 3: // a yes that comes too late
			late := time.NewTimer(2 * within)
			defer late.Stop()
			<-late.C
			w.WriteHeader(http.StatusNoContent)
		case 4: // half an answer
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\nContent-Le"))
				_ = conn.Close()
			}
		}
		return false
	})
	id := one.webhook(bad.URL + "/hook?x=1")
	one.work(8, "a", "b", "c")
	got := bad.await(t, 48)
	eventually(t, "all is accepted and written down", func() bool {
		v := one.view(id).Delivery
		return v.Accepted == 48 && v.Queued == 0 && v.First == v.Next
	})
	inOrder(t, got, 1)
	if len(got) != 48 {
		t.Errorf("%d were accepted, want 48", len(got))
	}
	if v := one.view(id).Delivery; v.Failed == 0 || v.Dropped != 0 || v.Gaps != 0 || v.Trouble != "" {
		t.Errorf("delivery: %+v, want failures and nothing given up", v)
	}
	if n := len(trap.accepted()); n != 0 {
		t.Errorf("%d deliveries followed a redirect", n)
	}
}

func TestDelivery_IsSignedWithBothSecretsWhileTheyRotate(t *testing.T) { // HF-3203
	r := newRig(t, "a")
	one := r.replica("one")
	to := receive(t, yes)
	id := one.webhook(to.URL, "reservation.released")
	one.work(1, "a")
	to.await(t, 1)
	if _, err := one.hooks.Rotate(t.Context(), tenant, id, reserve.Secret("fedcba9876543210"), reserve.Note{At: time.Now(), Actor: "user:root"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the courier knows the new secret", func() bool {
		one.work(1, "a")
		all := to.accepted()
		return strings.Contains(all[len(all)-1].header.Get("Webhook-Signature"), " ")
	})
	for _, d := range to.accepted() {
		if d.event.Type != "reservation.released" || d.header.Get("Content-Type") != "application/json" {
			t.Errorf("delivered %+v", d)
		}
		stamp := d.header.Get("Webhook-Timestamp")
		first := signature(reserve.Secret("0123456789abcdef"), d.id, stamp, d.body)
		both := signature(reserve.Secret("fedcba9876543210"), d.id, stamp, d.body) + " " + first
		if got := d.header.Get("Webhook-Signature"); got != first && got != both || strings.Contains(d.id, ".") {
			t.Errorf("signature %q of %s, want %q or %q", got, d.id, first, both)
		}
	}
}

// The example of the how-to, made by openssl: other programs must come to the same.
func TestSignature_IsWhatOthersCompute(t *testing.T) { // HF-3203
	t.Parallel()
	const want = "v1,wPga7XNVxcBzGQ7UTUPbeAZcbcLvGuX0HRVwXTyEWN8="
	if got := signature(reserve.Secret("0123456789abcdef"), "evt_1874_0", "1796040000", []byte(`{"id":"1874.0"}`)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestDelivery_AnotherReplicaGoesOn(t *testing.T) { // HF-3204
	r := newRig(t, "a", "b")
	one := r.replica("one")
	var mu sync.Mutex
	up := false
	to := receive(t, func(n int, w http.ResponseWriter, req *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		if !up && n > 10 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return false
		}
		return yes(n, w, req)
	})
	id := one.webhook(to.URL)
	eventually(t, "one has the duty", one.hooks.onDuty)
	two := r.replica("two")
	one.work(30, "a", "b")
	to.await(t, 10)
	eventually(t, "the rest is queued", func() bool { return two.view(id).Delivery.Queued >= 100 })
	one.stop()
	two.work(5, "a")
	mu.Lock()
	up = true
	mu.Unlock()
	got := to.await(t, 130)
	inOrder(t, got, 1)
	eventually(t, "all is written down", func() bool { return two.view(id).Delivery.Accepted == 130 })
	if !two.hooks.onDuty() {
		t.Error("two has no duty")
	}
}

func TestQueue_IsBoundedAndWhatItMissedIsTold(t *testing.T) { // HF-3205
	r := newRig(t, "a", "b", "c", "d", "e", "f", "g", "h")
	one := r.replica("one")
	var mu sync.Mutex
	up := false
	to := receive(t, func(n int, w http.ResponseWriter, req *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		if !up {
			w.WriteHeader(http.StatusBadGateway)
			return false
		}
		return yes(n, w, req)
	})
	id := one.webhook(to.URL)
	one.work((MaxQueued+500)/16, "a", "b", "c", "d", "e", "f", "g", "h")
	eventually(t, "the outbox is full", func() bool { return one.hooks.full() == 1 })
	queued := int(one.hooks.waiting())
	if queued > MaxQueued || queued+maxStream <= MaxQueued {
		t.Errorf("%v are queued, want at most %d and no room for %d more", queued, MaxQueued, maxStream)
	}
	// Beyond what the stream has at hand for it nothing is kept any more.
	one.work(2*maxStream/16, "a", "b", "c", "d", "e", "f", "g", "h")
	r.store.CompactNow()
	one.work(1, "a")
	now, err := r.store.Load(t.Context(), nil, true)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the stream begins anew", func() bool { return one.hooks.reached(t.Context(), now.Rev) == nil })
	mu.Lock()
	up = true
	mu.Unlock()
	eventually(t, "what was queued is sent, and that something is missing", func() bool {
		v := one.view(id).Delivery
		return v.Gaps == 1 && v.Queued == 0 && v.Accepted > int64(queued)
	})
	one.work(1, "a")
	eventually(t, "a gap is told, and what happens after it", func() bool {
		var gap, last events.Pos
		for _, d := range to.accepted() {
			pos, err := events.ParsePos(d.event.ID)
			if err != nil {
				t.Fatalf("event %+v: %v", d.event, err)
			}
			if d.event.Type == "gap" {
				gap = pos
			} else if pos.Rev > last.Rev {
				last = pos
			}
		}
		return gap.Rev > 0 && last.Rev > gap.Rev
	})
	inOrder(t, to.accepted(), 1)
	if v := one.view(id).Delivery; v.Dropped != 0 || v.Gaps != 1 {
		t.Errorf("delivery: %+v, want nothing given up and one gap", v)
	}
	if n := one.hooks.full(); n != 0 {
		t.Errorf("%v outboxes are full still", n)
	}
}

func TestDelete_LeavesNothingBehind(t *testing.T) { // HF-3206
	r := newRig(t, "a")
	one := r.replica("one")
	to := receive(t, func(_ int, w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusTeapot)
		return false
	})
	id := one.webhook(to.URL)
	one.work(50, "a")
	eventually(t, "events are queued", func() bool { return one.view(id).Delivery.Queued == 100 })
	if !r.stands(reserve.RefParcel, id, 0) {
		t.Error("no parcel in the outbox")
	}
	last := one.view(id).Delivery.Next
	if err := one.hooks.Delete(t.Context(), tenant, id, reserve.Note{At: time.Now(), Actor: "user:root"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the rest is deleted", func() bool { return !r.stands(reserve.RefDelivery, id, 0) })
	for n := range last {
		if r.stands(reserve.RefParcel, id, n) {
			t.Errorf("parcel %d is left", n)
		}
	}
	if err := one.hooks.Delete(t.Context(), tenant, id, reserve.Note{}); err == nil {
		t.Error("deleted twice")
	}
}

func TestCreate_IsBounded(t *testing.T) {
	r := newRig(t, "a")
	one := r.replica("one")
	to := httptest.NewServer(http.NotFoundHandler())
	defer to.Close()
	for range MaxWebhooks {
		one.webhook(to.URL, "limit.exceeded")
	}
	if _, err := one.hooks.Create(t.Context(), tenant, reserve.Webhook{URL: to.URL}, reserve.Note{}); err == nil {
		t.Error("one more than a tenant may have was made")
	}
	for n := MaxWebhooks; n < MaxCouriers; n++ {
		if _, err := one.hooks.Create(t.Context(), fmt.Sprintf("t%d", n/MaxWebhooks), reserve.Webhook{URL: to.URL}, reserve.Note{}); err != nil {
			t.Fatalf("webhook %d of all: %v", n+1, err)
		}
	}
	if _, err := one.hooks.Create(t.Context(), "another", reserve.Webhook{URL: to.URL}, reserve.Note{}); !errors.Is(err, reserve.ErrTooManyWebhooks) {
		t.Errorf("one more than are delivered to: %v, want ErrTooManyWebhooks", err)
	}
}
