package httpapi

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

// later is a request whose answer comes later.
type later struct {
	got  got
	done chan struct{}
}

// inLine sends a request and returns when everything has come to rest.
func (r *rig) inLine(a ask) *later {
	l := &later{done: make(chan struct{})}
	go func() {
		defer close(l.done)
		l.got = r.do(a)
	}()
	synctest.Wait()
	return l
}

func (r *rig) waitFor(token, body string) *later {
	return r.inLine(ask{method: http.MethodPost, path: "/v1/reservations", token: token, body: body})
}

// one is a limit of one slot for each user, and a hold in it.
func (r *rig) one(token string) api.Reservation {
	r.t.Helper()
	r.limit(map[string]any{"id": "one", "action": "a", "amount": 1})
	return r.hold(token, `{"action":"a","ttlSeconds":300}`)
}

func TestWait_GrantedWhenTheSlotIsReleased(t *testing.T) {
	inBubble(t, func(r *rig) {
		token := r.token("u1", "")
		held := r.one(token)
		first := r.waitFor(token, `{"action":"a","waitSeconds":60,"owner":{"name":"first"}}`)
		time.Sleep(time.Second)
		second := r.waitFor(token, `{"action":"a","waitSeconds":60,"owner":{"name":"second"}}`)
		p := r.post(token, "/v1/reservations", `{"action":"a"}`).problem(api.NoFreeSlot)
		if p.Waiting == nil || *p.Waiting != 2 {
			t.Errorf("a refusal while two wait: waiting %v, want 2", p.Waiting)
		}
		if a, _ := r.check(token, `{"action":"a","mode":"reserve"}`); a.Waiting != 2 || a.Allowed {
			t.Errorf("a check while two wait: %+v, want refused, 2 waiting", a)
		}
		var page api.WaiterPage
		r.get(token, "/v1/waiters").want(http.StatusOK, &page)
		if len(page.Data) != 2 || page.Data[0].Owner.Name != "first" || page.Data[0].Place != 1 || page.Data[1].Place != 2 ||
			page.Data[0].EstimateSeconds == nil || *page.Data[0].EstimateSeconds >= *page.Data[1].EstimateSeconds {
			t.Errorf("waiters: %+v, want first and second, with estimates that rise", page.Data)
		}
		var view api.SubjectView
		r.get(token, "/v1/subjects/user/u1").want(http.StatusOK, &view)
		if len(view.Waiters) != 2 {
			t.Errorf("the subject's waiters: %+v, want 2", view.Waiters)
		}
		r.post(token, "/v1/reservations/"+held.ID+"/release", nil).want(http.StatusOK, nil)
		<-first.done
		var got api.Reservation
		first.got.want(http.StatusCreated, &got)
		r.post(token, "/v1/reservations/"+got.ID+"/release", nil).want(http.StatusOK, nil)
		<-second.done
		second.got.want(http.StatusCreated, nil)
	})
}

func TestWait_RefusedAtTheEnd(t *testing.T) {
	inBubble(t, func(r *rig) {
		token := r.token("u1", "")
		r.one(token)
		began := time.Now()
		p := r.post(token, "/v1/reservations", `{"action":"a","waitSeconds":3}`).problem(api.NoFreeSlot)
		if took := time.Since(began); took != 3*time.Second || *p.Waiting != 0 || len(p.Holders) != 1 {
			t.Errorf("after %v: %+v, want 3 s, nobody waiting, one holder", took, p)
		}
		if a, g := r.check(token, `{"action":"a","mode":"reserve","waitSeconds":60}`); a.Allowed || time.Since(began) != 63*time.Second {
			t.Errorf("check after %v: %s", time.Since(began), g.body)
		}
	})
}

func TestWait_ACheckThatConsumesWaitsForItsWindow(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.limit(map[string]any{"id": "m", "action": "a", "amount": 2, "window": "minute"})
		token := r.token("u1", "")
		time.Sleep(30 * time.Second)
		if a, _ := r.check(token, `{"action":"a","cost":2}`); !a.Allowed {
			t.Fatalf("the first: %+v", a)
		}
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				a, g := r.check(token, `{"action":"a","waitSeconds":40}`)
				if !a.Allowed || time.Now().Second() != 0 {
					t.Errorf("at %v: %s, want allowed at the full minute", time.Now(), g.body)
				}
			})
		}
		all.Wait()
	})
}

func TestWaiters_Cancel(t *testing.T) {
	inBubble(t, func(r *rig) {
		token, other := r.token("u1", ""), r.token("u2", "")
		r.one(token)
		waiting := r.waitFor(token, `{"action":"a","waitSeconds":60}`)
		var page api.WaiterPage
		r.get(token, "/v1/waiters").want(http.StatusOK, &page)
		path := "/v1/waiters/" + page.Data[0].ID
		if !strings.HasPrefix(page.Data[0].ID, "wtr_") {
			t.Errorf("id %q, want wtr_…", page.Data[0].ID)
		}
		var none api.WaiterPage
		r.get(other, "/v1/waiters").want(http.StatusOK, &none)
		if len(none.Data) != 0 {
			t.Errorf("another's list: %+v, want nobody", none.Data)
		}
		r.drop(other, path).problem(api.NotFound)
		r.drop(r.token("u2", "holds:read"), path).problem(api.Forbidden)
		r.drop(token, "/v1/waiters/wtr_nobody").problem(api.NotFound)
		r.drop(token, path).want(http.StatusNoContent, nil)
		<-waiting.done
		waiting.got.problem(api.WaitCancelled)
		r.drop(token, path).problem(api.NotFound)
		again := r.waitFor(token, `{"action":"a","waitSeconds":60}`)
		r.get(token, "/v1/waiters").want(http.StatusOK, &page)
		if _, said := r.trail(""); slices.ContainsFunc(said, func(s string) bool { return strings.HasPrefix(s, "waiter.") }) {
			t.Errorf("the trail after one's own wait was ended: %q, want nothing of it", said)
		}
		r.drop(r.token("admin", "holds:force"), "/v1/waiters/"+page.Data[0].ID).want(http.StatusNoContent, nil)
		<-again.done
		again.got.problem(api.WaitCancelled)
		lines, said := r.trail("?act=waiter.cancel")
		if len(said) != 1 || said[0] != "waiter.cancel "+page.Data[0].ID || lines[0].Actor != "user:admin" {
			t.Errorf("the trail: %+v, want one line of the waiter by user:admin", lines)
		}
	})
}

// deaf is a connection whose other end has gone: what is written to it is lost.
type deaf struct{ header http.Header }

func (d deaf) Header() http.Header       { return d.header }
func (d deaf) WriteHeader(int)           {}
func (d deaf) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// A grant whose answer could not be delivered is released at once, and its key is unused.
func TestWait_AnswerThatCannotBeDelivered(t *testing.T) {
	inBubble(t, func(r *rig) {
		token := r.token("u1", "")
		held := r.one(token)
		body := `{"action":"a","waitSeconds":60}`
		req := httptest.NewRequestWithContext(r.t.Context(), http.MethodPost, "/v1/reservations", strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Idempotency-Key", "k")
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.public.ServeHTTP(deaf{http.Header{}}, req)
		}()
		synctest.Wait()
		next := r.waitFor(token, body)
		r.post(token, "/v1/reservations/"+held.ID+"/release", nil).want(http.StatusOK, nil)
		<-done
		<-next.done
		next.got.want(http.StatusCreated, &held)
		r.post(token, "/v1/reservations/"+held.ID+"/release", nil).want(http.StatusOK, nil)
		again := r.do(ask{method: http.MethodPost, path: "/v1/reservations", token: token, body: body, header: map[string]string{"Idempotency-Key": "k"}})
		if again.want(http.StatusCreated, nil); again.header.Get("Idempotent-Replayed") != "" {
			t.Error("the key counts as used, though nobody received its grant")
		}
	})
}

// leaving is a caller that goes as soon as it has read its answer, before the handler has returned.
type leaving struct {
	*httptest.ResponseRecorder
	goes context.CancelFunc
}

func (l leaving) Write(b []byte) (int, error) {
	defer l.goes()
	return l.ResponseRecorder.Write(b)
}

// A grant that its caller was told of is never taken back, however soon the caller goes.
func TestWait_CallerThatGoesWithItsAnswerKeepsTheGrant(t *testing.T) {
	inBubble(t, func(r *rig) {
		token := r.token("u1", "")
		held := r.one(token)
		ctx, cancel := context.WithCancel(r.t.Context())
		req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/reservations", strings.NewReader(`{"action":"a","waitSeconds":60}`))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+token)
		out, done := httptest.NewRecorder(), make(chan struct{})
		go func() {
			defer close(done)
			r.public.ServeHTTP(leaving{out, cancel}, req)
		}()
		synctest.Wait()
		r.post(token, "/v1/reservations/"+held.ID+"/release", nil).want(http.StatusOK, nil)
		<-done
		synctest.Wait()
		var got api.Reservation
		if err := json.Unmarshal(out.Body.Bytes(), &got); err != nil || out.Code != http.StatusCreated {
			t.Fatalf("answered %d %s, %v", out.Code, out.Body, err)
		}
		var now api.Reservation
		r.get(token, "/v1/reservations/"+got.ID).want(http.StatusOK, &now)
		if now.State != "held" {
			t.Errorf("the hold that was told of is %s, want held", now.State)
		}
	})
}

func TestWaiters_Pages(t *testing.T) {
	inBubble(t, func(r *rig) {
		token := r.token("u1", "")
		r.one(token)
		var all []*later
		for range 5 {
			all = append(all, r.waitFor(token, `{"action":"a","waitSeconds":20}`))
			time.Sleep(time.Millisecond)
		}
		path, places := "/v1/waiters?pageSize=2", []int64{}
		for path != "" {
			var page api.WaiterPage
			g := r.get(token, path).want(http.StatusOK, &page)
			for _, w := range page.Data {
				places = append(places, w.Place)
			}
			path = ""
			if page.NextCursor != nil {
				link := g.header.Get("Link")
				path = link[1:strings.Index(link, ">")]
			}
		}
		if len(places) != 5 || places[0] != 1 || places[4] != 5 {
			t.Errorf("places over all pages: %v, want 1 to 5", places)
		}
		for _, l := range all {
			<-l.done
		}
	})
}

// Whoever comes again under the same key and body within ten seconds finds its place, however
// long each call of theirs waits.
func TestWait_ThePlaceIsTheKeys(t *testing.T) {
	inBubble(t, func(r *rig) {
		token := r.token("u1", "")
		held := r.one(token)
		call := func(key, body string) ask {
			return ask{method: http.MethodPost, path: "/v1/reservations", token: token, body: body, header: map[string]string{"Idempotency-Key": key}}
		}
		long := r.inLine(call("k", `{"action":"a","waitSeconds":60}`))
		time.Sleep(time.Second)
		behind := r.waitFor(token, `{"action":"a","waitSeconds":60}`)
		r.do(call("k", `{"action":"a","waitSeconds":60}`)).problem(api.IdempotencyInFlight)
		<-long.done
		long.got.problem(api.NoFreeSlot)
		time.Sleep(500 * time.Millisecond)
		r.do(call("k", `{"action":"a","cost":7,"waitSeconds":5}`)).problem(api.IdempotencyMismatch)
		again := r.inLine(call("k", `{"action":"a","waitSeconds":5}`))
		r.post(token, "/v1/reservations/"+held.ID+"/release", nil).want(http.StatusOK, nil)
		<-again.done
		again.got.want(http.StatusCreated, nil)
		<-behind.done
		behind.got.problem(api.NoFreeSlot)
	})
}

func TestWait_ARepeatWithAWaitOfZeroLeavesTheLine(t *testing.T) {
	inBubble(t, func(r *rig) {
		token := r.token("u1", "")
		r.one(token)
		call := func(body string) ask {
			return ask{method: http.MethodPost, path: "/v1/reservations", token: token, body: body, header: map[string]string{"Idempotency-Key": "k"}}
		}
		r.do(call(`{"action":"a","waitSeconds":60}`)).problem(api.NoFreeSlot)
		var page api.WaiterPage
		r.get(token, "/v1/waiters").want(http.StatusOK, &page)
		if len(page.Data) != 1 {
			t.Errorf("after a whole wait under a key: %+v, want its place", page.Data)
		}
		r.do(call(`{"waitSeconds":0, "action":"a"}`)).problem(api.NoFreeSlot)
		r.get(token, "/v1/waiters").want(http.StatusOK, &page)
		if len(page.Data) != 0 {
			t.Errorf("after it left: %+v, want nobody", page.Data)
		}
	})
}

func TestExplain(t *testing.T) {
	inBubble(t, func(r *rig) {
		token := r.token("u1", "")
		held := r.one(token)
		var e api.Explanation
		r.get(token, "/v1/explain?action=a").want(http.StatusOK, &e)
		if e.Allowed || e.Place == nil || *e.Place != 1 || len(e.Holders) != 1 || e.Holders[0].ID != held.ID || e.EstimateSeconds == nil {
			t.Errorf("full: %+v, want place 1 behind the holder", e)
		}
		waiting := r.waitFor(token, `{"action":"a","waitSeconds":5}`)
		r.get(token, "/v1/explain?action=a").want(http.StatusOK, &e)
		if e.Place == nil || *e.Place != 2 {
			t.Errorf("while one waits: place %v, want 2", e.Place)
		}
		<-waiting.done
		e = api.Explanation{}
		r.get(r.token("u2", "holds:read"), "/v1/explain?action=a&subject=user:u9&cost=3").want(http.StatusOK, &e)
		if !e.Allowed || e.Place != nil {
			t.Errorf("free: %+v, want allowed, no place", e)
		}
		r.get(token, "/v1/explain?action=a&subject=user:u9").problem(api.Forbidden)
		r.get(token, "/v1/explain?action=none").problem(api.NoMatchingLimit)
		r.get(token, "/v1/explain").problem(api.InvalidQuery)
		r.get(token, "/v1/explain?action=a&cost=1.0").problem(api.InvalidQuery)
	})
}
