package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/events"
)

// listener is one request of GET /v1/events that is under way.
type listener struct {
	t      *testing.T
	req    *http.Request
	rec    *httptest.ResponseRecorder
	mu     sync.Mutex // guards rec's body
	hangUp context.CancelFunc
	done   chan struct{}
}

func (l *listener) Header() http.Header { return l.rec.Header() }
func (l *listener) WriteHeader(s int)   { l.rec.WriteHeader(s) }
func (l *listener) Flush()              {}

func (l *listener) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rec.Write(b)
}

// listen opens a stream as after says: a Last-Event-ID, or "" for from now on. Whoever calls it
// is in a bubble.
func (r *rig) listen(token, query, after string) *listener {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	l := &listener{t: r.t, rec: httptest.NewRecorder(), hangUp: cancel, done: make(chan struct{})}
	l.req = httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/events"+query, nil)
	l.req.Header.Set("Authorization", "Bearer "+token)
	if after != "" {
		l.req.Header.Set("Last-Event-ID", after)
	}
	go func() {
		defer close(l.done)
		r.public.ServeHTTP(l, l.req)
	}()
	r.t.Cleanup(l.close)
	synctest.Wait()
	return l
}

// close hangs up, and looks whether the answer was one that openapi.yaml knows.
func (l *listener) close() {
	l.hangUp()
	<-l.done
	g := got{t: l.t, status: l.rec.Code, header: l.rec.Result().Header, body: l.rec.Body.Bytes()}
	checkContract(l.t, l.req, nil, &g)
}

func (l *listener) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rec.Body.String()
}

// heard is every event so far, as a reader of Server-Sent Events takes it.
func (l *listener) heard() (all []api.Event) {
	l.t.Helper()
	time.Sleep(200 * time.Millisecond) // readers rest between two batches
	synctest.Wait()
	for block := range strings.SplitSeq(l.text(), "\n\n") {
		var e api.Event
		id, event, data := "", "", ""
		for line := range strings.SplitSeq(block, "\n") {
			name, value, _ := strings.Cut(line, ": ")
			switch name {
			case "id":
				id = value
			case "event":
				event = value
			case "data":
				data = value
			}
		}
		if data == "" {
			continue
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil || e.ID != id || e.Type != event {
			l.t.Errorf("event %q: %v; id %q, type %q", block, err, id, event)
		}
		schema := document().Components.Schemas["Event"].Value
		var v any
		if err := json.Unmarshal([]byte(data), &v); err == nil {
			if err := schema.VisitJSON(v); err != nil {
				l.t.Errorf("event %s is not what openapi.yaml says: %v", data, err)
			}
		}
		all = append(all, e)
	}
	return all
}

// types are the types heard so far.
func (l *listener) types() (all []string) {
	l.t.Helper()
	for _, e := range l.heard() {
		all = append(all, e.Type)
	}
	return all
}

func TestEvents_TellTheLifeOfAHold(t *testing.T) { // HF-3001
	inBubble(t, func(r *rig) {
		root := r.token("root", "admin")
		l := r.listen(root, "", "")
		r.exports()
		r.limit(map[string]any{"id": "calls", "action": "export", "amount": 10, "window": "day"})
		u42 := r.token("u_42", "")
		body := map[string]any{"action": "export", "cost": 2, "ttlSeconds": 10, "owner": map[string]any{"name": "report"}}
		one, two, three, four := r.hold(u42, body), r.hold(u42, body), r.hold(u42, body), api.Reservation{}
		r.post(u42, "/v1/reservations/"+one.ID+"/extend", map[string]any{"ttlSeconds": 600}).want(http.StatusOK, nil)
		r.post(u42, "/v1/reservations/"+one.ID+"/commit", map[string]any{"cost": 1}).want(http.StatusOK, nil)
		r.post(u42, "/v1/reservations/"+two.ID+"/release", map[string]any{"reason": "done"}).want(http.StatusOK, nil)
		four = r.hold(u42, map[string]any{"action": "export", "ttlSeconds": 600})
		r.post(root, "/admin/v1/reservations/"+four.ID+"/force-release", map[string]any{"reason": "wild", "fence": four.Fence}).want(http.StatusOK, nil)
		time.Sleep(11 * time.Second)
		want := []string{
			"limit.created", "limit.created",
			"reservation.created", "reservation.created", "reservation.created",
			"reservation.extended", "reservation.committed", "reservation.released",
			"reservation.created", "reservation.forced", "reservation.expired",
		}
		heard := l.heard()
		if got := l.types(); !slices.Equal(got, want) {
			t.Fatalf("heard %v\nwant  %v", got, want)
		}
		for i, e := range heard[2:] {
			if e.Subject == nil || e.Subject.ID != "u_42" || !slices.Contains(e.Limits, "exports") || e.Fence == 0 || e.At == nil {
				t.Errorf("event %d: %+v, want its subject, limit, fence and instant", i, e)
			}
		}
		if e := heard[2]; e.Reservation != one.ID || e.Fence != one.Fence || *e.Cost != 2 || *e.TTLSeconds != 10 || e.Owner.Name != "report" || e.By != "user:u_42" {
			t.Errorf("created: %+v, of %+v", e, one)
		}
		if e := heard[5]; e.Reservation != one.ID || *e.TTLSeconds != 600 || e.Action != "export" {
			t.Errorf("extended: %+v", e)
		}
		if e := heard[6]; *e.Charged != 1 || *e.Refunded != 1 {
			t.Errorf("committed: %+v", e)
		}
		if e := heard[7]; e.Note != "done" || e.By != "user:u_42" {
			t.Errorf("released: %+v", e)
		}
		if e := heard[9]; e.Note != "wild" || e.By != "user:root" {
			t.Errorf("forced: %+v", e)
		}
		if e := heard[10]; e.Reservation != three.ID || e.By != "" || e.CreatedAt == nil {
			t.Errorf("expired: %+v", e)
		}
	})
}

func TestEvents_TellOfLimitsAndOverrides(t *testing.T) { // HF-3002
	inBubble(t, func(r *rig) {
		root := r.token("root", "admin")
		l := r.listen(root, "?limit=exports", "")
		r.exports()
		r.limit(map[string]any{"id": "other", "action": "other"})
		var limit api.Limit
		r.get(root, "/v1/limits/exports").want(http.StatusOK, &limit)
		etag := map[string]string{"If-Match": fmt.Sprintf("%q", fmt.Sprint(limit.Revision)), "Content-Type": "application/merge-patch+json"}
		g := r.do(ask{method: http.MethodPatch, path: "/v1/limits/exports", token: root, body: map[string]any{"paused": true, "pauseReason": "repairs"}, header: etag}).want(http.StatusOK, nil)
		over := "/v1/limits/exports/overrides/user/u_42"
		r.do(ask{method: http.MethodPut, path: over, token: root, body: map[string]any{"amount": 10, "reason": "big week"}}).want(http.StatusOK, nil)
		r.do(ask{method: http.MethodDelete, path: over, token: root}).want(http.StatusNoContent, nil)
		r.do(ask{method: http.MethodPut, path: over, token: root, body: map[string]any{"amount": nil}}).want(http.StatusOK, nil)
		r.do(ask{method: http.MethodDelete, path: "/v1/limits/exports", token: root, header: map[string]string{"If-Match": g.header.Get("ETag")}}).want(http.StatusNoContent, nil)
		heard := l.heard()
		if len(heard) < 6 || heard[0].Type != "limit.created" || *heard[0].Amount != 3 || heard[0].By != "user:root" {
			t.Fatalf("heard %+v", heard)
		}
		if e := heard[1]; e.Type != "limit.changed" || !e.Paused || e.Note != "repairs" {
			t.Errorf("paused: %+v", e)
		}
		if e := heard[2]; e.Override == nil || *e.Override.Amount != 10 || e.Override.Reason != "big week" || e.Subject.ID != "u_42" {
			t.Errorf("override: %+v", e)
		}
		if e := heard[3]; e.Override == nil || !e.Override.Ended || e.Subject.ID != "u_42" {
			t.Errorf("override ended: %+v", e)
		}
		if e := heard[4]; e.Override == nil || e.Override.Amount != nil || e.Override.Ended {
			t.Errorf("unlimited: %+v", e)
		}
		if e := heard[len(heard)-1]; e.Type != "limit.deleted" || e.Limits[0] != "exports" {
			t.Errorf("deleted: %+v", e)
		}
	})
}

func TestEvents_WithoutHoldsReadOnesOwnAlone(t *testing.T) { // HF-3003
	inBubble(t, func(r *rig) {
		own, maker := r.listen(r.token("u_1", ""), "", ""), r.listen(r.token("svc", "act-for"), "", "")
		all := r.listen(r.token("boss", "holds:read"), "", "")
		r.exports()
		r.limit(map[string]any{"id": "gpu", "action": "train", "amount": 9, "share": "all"})
		u1 := r.hold(r.token("u_1", ""), map[string]any{"action": "train"})
		r.hold(r.token("u_2", ""), map[string]any{"action": "train"})
		r.hold(r.token("svc", "act-for"), map[string]any{"action": "export", "subject": map[string]any{"kind": "user", "id": "u_3"}})
		r.post(r.token("u_1", ""), "/v1/reservations/"+u1.ID+"/extend", nil).want(http.StatusOK, nil) // its slot does not tell whose it is
		if got := own.types(); !slices.Equal(got, []string{"reservation.created", "reservation.extended"}) || own.heard()[1].Reservation != u1.ID {
			t.Errorf("u_1 heard %+v", own.heard())
		}
		if got := maker.heard(); len(got) != 1 || got[0].Subject.ID != "u_3" {
			t.Errorf("svc heard %+v, want what it made for u_3", got)
		}
		if got := all.types(); len(got) != 6 {
			t.Errorf("with holds:read: heard %v, want 6", got)
		}
		foreign := r.listen(r.token("x", "admin", func(c *auth.Claims) { c.Tenant = "other" }), "", "")
		r.hold(r.token("u_1", ""), map[string]any{"action": "train"})
		if got := foreign.heard(); len(got) != 0 {
			t.Errorf("another tenant heard %+v", got)
		}
	})
}

func TestEvents_ResumeWhereTheyStopped(t *testing.T) { // HF-3004
	inBubble(t, func(r *rig) {
		root := r.token("root", "admin")
		whole := r.listen(root, "", "")
		r.limit(map[string]any{"id": "wide", "action": "wide", "amount": 100})
		for range 20 {
			r.hold(r.token("u", ""), map[string]any{"action": "wide"})
		}
		all := whole.heard()
		for i := range all {
			rest := r.listen(root, "", all[i].ID).heard()
			if got, want := ids(rest), ids(all[i+1:]); !slices.Equal(got, want) {
				t.Errorf("after %s: got %v, want %v", all[i].ID, got, want)
			}
		}
		if got := r.listen(root, "", "1.999999").types(); slices.Contains(got, "gap") || len(got) != len(all) {
			t.Errorf("from the store's history: %v, want all %d", got, len(all))
		}
	})
}

func ids(es []api.Event) (all []string) {
	for _, e := range es {
		all = append(all, e.ID)
	}
	return all
}

func TestEvents_SayGapWhereHistoryIsGone(t *testing.T) { // HF-3005
	inBubble(t, func(r *rig) {
		root := r.token("root", "admin")
		live := r.listen(root, "", "")
		r.limit(map[string]any{"id": "wide", "action": "wide", "amount": 100})
		first := live.heard()[0]
		r.hold(r.token("u", ""), map[string]any{"action": "wide"})
		r.store.CompactNow() // followers start over; what the hub kept is forgotten
		synctest.Wait()
		r.hold(r.token("u", ""), map[string]any{"action": "wide"})
		late := r.listen(root, "", first.ID).heard()
		if len(late) != 2 || late[0].Type != "gap" || late[0].After != first.ID || late[1].Type != "reservation.created" {
			t.Fatalf("resumed before what is kept: heard %+v, want a gap and then the last reservation", late)
		}
		if again := r.listen(root, "", late[0].ID).heard(); len(again) != 1 || again[0].ID != late[1].ID {
			t.Errorf("resumed at the gap: heard %+v, want %+v", again, late[1:])
		}
		ahead := r.listen(root, "", "99999.0").heard()
		if len(ahead) != 1 || ahead[0].Type != "gap" || ahead[0].After != "99999.0" {
			t.Errorf("resumed at an id that has not happened: heard %+v, want a gap", ahead)
		}
	})
}

func TestEvents_CommentWhenNothingHappensAndAnIdToResumeFrom(t *testing.T) { // HF-3006
	inBubble(t, func(r *rig) {
		l := r.listen(r.token("u", ""), "", "")
		time.Sleep(15*time.Second + time.Millisecond)
		synctest.Wait()
		if n := strings.Count(l.text(), "\n: "); n != 1 {
			t.Errorf("after 15 s: %q, want one comment more than the first", l.text())
		}
		time.Sleep(70 * time.Second) // longer than any deadline of a short request
		r.exports()
		r.hold(r.token("u", ""), map[string]any{"action": "export"})
		if got := l.types(); !slices.Equal(got, []string{"reservation.created"}) {
			t.Errorf("after 85 quiet seconds: heard %v", got)
		}
		time.Sleep(16 * time.Second)
		synctest.Wait()
		lines := strings.Split(strings.TrimSpace(l.text()), "\n")
		id, found := strings.CutPrefix(lines[len(lines)-1], "id: ")
		if pos, err := events.ParsePos(id); !found || err != nil || pos.Rev == 0 {
			t.Errorf("the last line is %q, want an id to resume from", lines[len(lines)-1])
		}
	})
}

func TestEvents_DrainingEndsThem(t *testing.T) { // HF-3007
	inBubble(t, func(r *rig) {
		l := r.listen(r.token("u", ""), "", "")
		r.cfg.Events.Drain()
		<-l.done
		if !strings.Contains(l.text(), ": this replica is shutting down") {
			t.Errorf("told %q", l.text())
		}
		r.get(r.token("u", ""), "/v1/events").problem(api.Draining)
	})
}

func TestEvents_BadInput(t *testing.T) { // HF-3008
	inBubble(t, func(r *rig) {
		u := r.token("u", "")
		for _, id := range []string{"x", "1", "1.", ".1", "-1.0", "1.-1", "01.0", "1.0.0", "1.1000000", "99999999999999999999.0"} {
			p := r.do(ask{method: http.MethodGet, path: "/v1/events", token: u, header: map[string]string{"Last-Event-ID": id}}).problem(api.InvalidHeader)
			if p.Header != "Last-Event-ID" {
				t.Errorf("Last-Event-ID %q: %+v", id, p)
			}
		}
		for query, parameter := range map[string]string{
			"?type=reservation.made": "type", "?type=": "type", "?limit=": "limit", "?subject=u": "subject", "?since=1": "since",
		} {
			if p := r.get(u, "/v1/events"+query).problem(api.InvalidQuery); p.Parameter != parameter {
				t.Errorf("%s: %+v", query, p)
			}
		}
		r.get("", "/v1/events").problem(api.Unauthenticated)
		if g := r.do(ask{method: http.MethodHead, path: "/v1/events", token: u}); g.status != http.StatusOK || g.header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("HEAD: %d %v", g.status, g.header)
		}
	})
}

// An event that many hear is written once.
func TestEvents_OneEncodingForAllReaders(t *testing.T) {
	t.Parallel()
	e := &events.Event{Type: events.LimitDeleted, LimitID: "exports"}
	if one, two := e.Frame(eventFrame), e.Frame(eventFrame); &one[0] != &two[0] || !bytes.HasPrefix(one, []byte("id: 0.0\nevent: limit.deleted\ndata: {")) {
		t.Errorf("got %q and %q", one, two)
	}
}
