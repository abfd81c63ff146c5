package httpapi

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

func TestReservations_OneWayFromHeldToEnded(t *testing.T) { // API.md section 5, FAULTS rows 32, 36, 37
	inBubble(t, func(r *rig) {
		r.exports()
		r.limit(map[string]any{"id": "calls", "action": "export", "amount": 100, "window": "day"})
		token := r.token("u_42", "")
		h := r.hold(token, `{"action":"export","cost":5,"ttlSeconds":30,"owner":{"name":"report-991","host":"w7","pid":4711,"url":"https://x.test"},"labels":{"job":"991"}}`)
		if h.State != "held" || h.Owner.PID != 4711 || h.Labels["job"] != "991" || *h.HeartbeatSeconds != 10 || h.LastHeartbeatAt != nil || len(h.Slots) != 1 || h.Fence == 0 {
			t.Fatalf("made: got %+v", h)
		}
		at := "/v1/reservations/" + h.ID
		time.Sleep(10 * time.Second)
		var e api.Reservation
		r.post(token, at+"/extend", nil).want(http.StatusOK, &e)
		if *e.TTLSeconds != 30 || e.Fence != h.Fence || e.LastHeartbeatAt == nil {
			t.Errorf("extended by its own ttl: got %+v", e)
		}
		r.post(token, at+"/extend", `{"ttlSeconds":600}`).want(http.StatusOK, &e)
		r.post(token, at+"/extend", `{"ttlSeconds":2}`).want(http.StatusOK, &e)
		if *e.TTLSeconds < 599 {
			t.Errorf("a short extend after a long one: got %d s left, want it never shortened", *e.TTLSeconds)
		}
		var c api.Reservation
		r.post(token, at+"/commit", `{"cost":3}`).want(http.StatusOK, &c)
		if c.State != "committed" || *c.Charged != 3 || *c.Refunded != 2 || c.TTLSeconds != nil || c.EndedAt == nil {
			t.Errorf("committed with 3 of 5: got %+v", c)
		}
		r.post(token, at+"/commit", `{"cost":3}`).want(http.StatusOK, nil)
		r.post(token, at+"/commit", nil).want(http.StatusOK, nil)
		if p := r.post(token, at+"/commit", `{"cost":4}`).problem(api.AlreadySettled); p.Reservation == nil || *p.Reservation.Charged != 3 {
			t.Errorf("another cost: got %+v, want the final state", p)
		}
		r.post(token, at+"/release", nil).problem(api.AlreadySettled)
		if p := r.post(token, at+"/extend", nil).problem(api.HoldLost); p.Reason != "committed" {
			t.Errorf("extend after commit: got %+v", p)
		}
		h = r.hold(token, `{"action":"export"}`)
		at = "/v1/reservations/" + h.ID
		r.post(token, at+"/release", `{"reason":"empty input"}`).want(http.StatusOK, &c)
		if c.State != "released" || c.Note != "empty input" || *c.Refunded != 1 {
			t.Errorf("released: got %+v", c)
		}
		r.post(token, at+"/release", `{}`).want(http.StatusOK, nil)
		r.post(token, at+"/commit", nil).problem(api.AlreadySettled)
	})
}

func TestReservations_ExpiredIsGone(t *testing.T) { // CASES O04, O09
	inBubble(t, func(r *rig) {
		r.limit(map[string]any{"id": "o09", "action": "o09", "amount": 2})
		token := r.token("u1", "")
		a := r.hold(token, `{"action":"o09","ttlSeconds":2}`)
		r.hold(token, `{"action":"o09","ttlSeconds":60}`)
		time.Sleep(3500 * time.Millisecond)
		for _, act := range []string{"/extend", "/commit", "/release"} {
			if p := r.post(token, "/v1/reservations/"+a.ID+act, nil).problem(api.HoldLost); p.Reason != "expired" || p.By != "" {
				t.Errorf("%s after expiry: got %+v", act, p)
			}
		}
		r.post(token, "/v1/reservations/nope/release", nil).problem(api.NotFound)
		var list api.ReservationPage
		r.get(token, "/v1/reservations").want(http.StatusOK, &list)
		if len(list.Data) != 1 {
			t.Errorf("holds: got %d, want 1", len(list.Data))
		}
		r.get(token, "/v1/reservations?state=expired").want(http.StatusOK, &list)
		if len(list.Data) != 1 || list.Data[0].ID != a.ID || list.Data[0].EndedBy != "" {
			t.Errorf("expired ones: got %+v, want %s", list.Data, a.ID)
		}
	})
}

func TestReserve_TTLLeftOutAndAboveTheLimits(t *testing.T) { // FAULTS row 42
	inBubble(t, func(r *rig) {
		r.exports()
		r.limit(map[string]any{"id": "short", "action": "short", "amount": 9, "ttlSeconds": 20, "maxTtlSeconds": 40})
		token := r.token("u1", "")
		if h := r.hold(token, `{"action":"export"}`); *h.TTLSeconds != 300 {
			t.Errorf("ttl left out: got %d, want 300", *h.TTLSeconds)
		}
		h := r.hold(token, `{"action":"short"}`)
		if *h.TTLSeconds != 20 {
			t.Errorf("ttl left out under a limit that says 20: got %d", *h.TTLSeconds)
		}
		if p := r.post(token, "/v1/reservations", `{"action":"short","ttlSeconds":41}`).problem(api.InvalidValue); p.MaxTTLSeconds == nil || *p.MaxTTLSeconds != 40 || p.Errors[0].Pointer != "/ttlSeconds" {
			t.Errorf("ttl 41 under a limit that says 40: got %+v", p)
		}
		r.post(token, "/v1/reservations/"+h.ID+"/extend", `{"ttlSeconds":41}`).problem(api.InvalidValue)
	})
}

func TestHeartbeats_EachIDByItself(t *testing.T) { // API.md section 5
	inBubble(t, func(r *rig) {
		r.limit(map[string]any{"id": "many", "action": "many", "amount": 200})
		token := r.token("u1", "")
		var ids []string
		for range 100 {
			ids = append(ids, r.hold(token, `{"action":"many","ttlSeconds":30}`).ID)
		}
		gone := r.hold(token, `{"action":"many"}`).ID
		r.post(token, "/v1/reservations/"+gone+"/release", nil).want(http.StatusOK, nil)
		ids = append(ids, gone, "nope", ids[0])
		time.Sleep(10 * time.Second)
		var a api.HeartbeatAnswer
		r.post(token, "/v1/heartbeats", map[string]any{"ids": ids, "ttlSeconds": 60}).want(http.StatusOK, &a)
		if len(a.Results) != len(ids) {
			t.Fatalf("results: got %d, want %d", len(a.Results), len(ids))
		}
		for i, b := range a.Results {
			switch {
			case b.ID != ids[i]:
				t.Errorf("result %d: got id %s, want %s, in order", i, b.ID, ids[i])
			case b.ID == gone:
				if b.OK || b.Problem == nil || b.Problem.Code != api.HoldLost || b.Problem.Reason != "released" {
					t.Errorf("a released hold: got %+v", b)
				}
			case b.ID == "nope":
				if b.OK || b.Problem == nil || b.Problem.Code != api.NotFound {
					t.Errorf("no id: got %+v", b)
				}
			case !b.OK || *b.TTLSeconds != 60 || b.ExpiresAt == nil:
				t.Errorf("result %d: got %+v, want 60 s left", i, b)
			}
		}
	})
}

func TestHeartbeats_APanicReachesTheEdge(t *testing.T) { // not the end of the process
	inBubble(t, func(r *rig) {
		s := &server{Config: r.cfg, log: r.cfg.Log}
		s.Service = nil
		defer func() {
			if p, _ := recover().(string); !strings.HasPrefix(p, "heartbeat: ") {
				t.Errorf("a heartbeat that panics: the request got %q, want the panic", p)
			}
		}()
		_, _, _ = s.heartbeat(t.Context(), &call{}, &api.HeartbeatRequest{IDs: []string{"rsv_00000000000000000000000000"}})
	})
}

func TestFences_OnlyTheLiveOneIsCurrent(t *testing.T) { // FAULTS section 3 row 33
	inBubble(t, func(r *rig) {
		r.exports()
		token := r.token("u_42", "")
		h := r.hold(token, `{"action":"export"}`)
		verify := func(slot, fence int64) bool {
			var a api.FenceAnswer
			r.post(token, "/v1/fences/verify", fmt.Sprintf(
				`{"limit":"exports","subject":{"kind":"user","id":"u_42"},"slot":%d,"fence":%d}`, slot, fence)).want(http.StatusOK, &a)
			return a.Current
		}
		if !verify(0, h.Fence) || verify(1, h.Fence) || verify(0, h.Fence+1) {
			t.Errorf("fence %d of slot 0: the live one must be current and no other", h.Fence)
		}
		r.post(token, "/v1/reservations/"+h.ID+"/release", nil).want(http.StatusOK, nil)
		if verify(0, h.Fence) {
			t.Error("the fence of a released hold is current")
		}
		next := r.hold(token, `{"action":"export"}`)
		if next.Fence <= h.Fence {
			t.Errorf("the next fence of slot 0: got %d, want above %d", next.Fence, h.Fence)
		}
		r.post(r.token("root", "admin"), "/admin/v1/reservations/"+next.ID+"/force-release",
			map[string]any{"reason": "x", "fence": h.Fence}).problem(api.FenceDiffers)
	})
}

func TestListReservations_PagesInEveryOrder(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.limit(map[string]any{"id": "many", "action": "many", "amount": 50})
		r.exports()
		token := r.token("u1", "")
		made := map[string]bool{}
		for i := range 7 {
			made[r.hold(token, fmt.Sprintf(`{"action":"many","ttlSeconds":%d,"owner":{"name":"o%d","host":"w7"}}`, 600-50*i, i%2)).ID] = true
			time.Sleep(time.Second)
		}
		r.hold(token, `{"action":"export"}`)
		for _, sort := range []string{"oldest", "expiring", "newest"} {
			seen := r.walk(token, "/v1/reservations?limit=many&pageSize=3&sort="+sort)
			for i := 1; i < len(seen); i++ {
				a, b := seen[i-1], seen[i]
				inOrder := map[string]bool{
					"oldest": a.CreatedAt.Before(b.CreatedAt.Time), "newest": b.CreatedAt.Before(a.CreatedAt.Time),
					"expiring": a.ExpiresAt.Before(b.ExpiresAt.Time),
				}[sort]
				if !inOrder || !made[a.ID] {
					t.Errorf("%s: %s before %s", sort, a.ID, b.ID)
				}
			}
			if len(seen) != 7 {
				t.Errorf("%s: got %d entries over all pages, want 7", sort, len(seen))
			}
		}
		for filter, want := range map[string]int{
			"owner=o1": 3, "host=w7": 7, "action=export": 1, "subject=user:u1": 8, "subject=user:u2": 0, "state=released": 0,
			"limit=many&owner=o0": 4, "limit=none": 0,
		} {
			if seen := r.walk(token, "/v1/reservations?pageSize=500&"+filter); len(seen) != want {
				t.Errorf("%s: got %d, want %d", filter, len(seen), want)
			}
		}
	})
}

// walk follows nextCursor, checking that Link says the same, and that the cursor fits its list alone.
func (r *rig) walk(token, path string) (all []api.Reservation) {
	r.t.Helper()
	for range 20 {
		var p api.ReservationPage
		g := r.get(token, path).want(http.StatusOK, &p)
		all = append(all, p.Data...)
		link := g.header.Get("Link")
		if p.NextCursor == nil {
			if link != "" {
				r.t.Errorf("GET %s: the last page has Link %s", path, link)
			}
			return all
		}
		r.get(token, "/v1/reservations?owner=other&cursor="+*p.NextCursor).problem(api.InvalidCursor)
		target, rel, _ := strings.Cut(strings.TrimPrefix(link, "<"), ">")
		if u, err := url.Parse(target); err != nil || u.Query().Get("cursor") != *p.NextCursor || rel != `; rel="next"` {
			r.t.Fatalf("GET %s: Link %s does not lead to cursor %s", path, link, *p.NextCursor)
		}
		path = target
	}
	r.t.Fatalf("GET %s: more than 20 pages", path)
	return nil
}

func TestCursor_ExpiresOverHTTP(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.exports()
		r.limit(map[string]any{"id": "more", "action": "x"})
		root := func() string { return r.token("root", "admin") }
		var p api.LimitPage
		r.get(root(), "/v1/limits?pageSize=1").want(http.StatusOK, &p)
		r.get(root(), "/v1/limits?cursor=forged").problem(api.InvalidCursor)
		time.Sleep(time.Hour + 2*time.Second)
		r.get(root(), "/v1/limits?pageSize=1&cursor="+*p.NextCursor).problem(api.CursorExpired)
	})
}
