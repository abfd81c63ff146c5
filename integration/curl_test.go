package integration

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/integration/etcdtest"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/windows"
)

// The bodies that the contract prints (API.md sections 3 to 5), sent as they are printed, with
// the token that `holdfast dev` leaves for curl.
const (
	printedLimit = `{"id":"exports","name":"Exports at once","subjectKind":"user","action":"export","amount":3,"window":"concurrent"}`
	printedCheck = `{"subject":{"kind":"user","id":"u_42"},"action":"export","mode":"reserve","cost":1,"ttlSeconds":300,"waitSeconds":0,
 "owner":{"name":"report-991","host":"w7","pid":4711,"url":"https://…"},"labels":{"job":"991"}}`
	printedExtend   = `{"ttlSeconds":600}`
	printedRelease  = `{"reason":"…"}`
	printedBeats    = `{"ids":["rsv_…"],"ttlSeconds":300}`
	printedOverride = `{"amount":10,"until":"2099-01-01T00:00:00Z","reason":"…"}`
	printedNoEnd    = `{"amount":null,"reason":"…"}`
)

func TestCurl_BodiesAsPrinted(t *testing.T) {
	t.Parallel()
	c := dev(t).admin(t)
	sample := c.send(http.MethodGet, "/v1/limits/exports", "") // one of the samples of dev
	if r := c.send(http.MethodDelete, "/v1/limits/exports", "", "If-Match", sample.header.Get("ETag")); r.status != http.StatusNoContent {
		t.Fatalf("%s, want 204", r)
	}
	is(t, "the limit's amount", c.limit(printedLimit).Amount, 3)
	c.limit(`{"id":"calls-day","name":"Calls","subjectKind":"user","action":"export","amount":100,"window":"day","rolling":true}`)

	// The check, and the same body without its mode as a reservation.
	a := c.check(printedCheck)
	if !a.Allowed || a.Reservation == nil || a.Reservation.Owner.Name != "report-991" || a.Reservation.Labels["job"] != "991" || len(a.Limits) != 2 {
		t.Fatalf("the check: %+v, want a hold with its owner and label, under two limits", a)
	}
	r := c.post("/v1/reservations", strings.Replace(printedCheck, `"mode":"reserve",`, "", 1))
	hold := read[api.Reservation](t, r, http.StatusCreated)
	is(t, "Location", r.header.Get("Location"), "/v1/reservations/"+hold.ID)
	is(t, "heartbeatSeconds", *hold.HeartbeatSeconds, 100)
	is(t, "RateLimit-Policy", r.header.Get("RateLimit-Policy"), `"calls-day";q=100;w=86400, "exports";q=3;qu="concurrent-requests"`)

	extended := read[api.Reservation](t, c.act(hold.ID, "extend", printedExtend), http.StatusOK)
	if left := *extended.TTLSeconds; left < 590 || left > 600 {
		t.Errorf("ttlSeconds after the extend: %d, want 600 or a little less", left)
	}
	for n := range 3 {
		beats := read[api.HeartbeatAnswer](t, c.post("/v1/heartbeats", strings.Replace(printedBeats, "rsv_…", hold.ID, 1)), http.StatusOK)
		if len(beats.Results) != 1 || !beats.Results[0].OK {
			t.Errorf("heartbeat %d: %+v", n+1, beats.Results)
		}
	}
	unknown := read[api.HeartbeatAnswer](t, c.post("/v1/heartbeats", printedBeats), http.StatusOK)
	if len(unknown.Results) != 1 || unknown.Results[0].OK || unknown.Results[0].Problem == nil || unknown.Results[0].Problem.Code != api.NotFound {
		t.Errorf("heartbeat of rsv_…: %+v, want not-found", unknown.Results)
	}
	fence := func(n int64) bool {
		return read[api.FenceAnswer](t, c.post("/v1/fences/verify", fmt.Sprintf(
			`{"limit":"exports","subject":{"kind":"user","id":"u_42"},"slot":%d,"fence":%d}`, hold.Slots[0].Slot, n)), http.StatusOK).Current
	}
	if !fence(hold.Fence) || fence(hold.Fence-1) {
		t.Errorf("fence %d is current: %t; %d: %t; want true and false", hold.Fence, fence(hold.Fence), hold.Fence-1, fence(hold.Fence-1))
	}
	is(t, "the release's note", read[api.Reservation](t, c.act(hold.ID, "release", printedRelease), http.StatusOK).Note, "…")
	committed := read[api.Reservation](t, c.act(a.Reservation.ID, "commit", `{"cost":1}`), http.StatusOK)
	is(t, "committed", committed.State, api.StateCommitted)

	for path, body := range map[string]string{"overrides/user/u_42": printedOverride, "override": printedNoEnd} {
		if r := c.send(http.MethodPut, "/v1/limits/exports/"+path, body); r.status != http.StatusOK {
			t.Errorf("%s, want 200", r)
		}
	}
}

// Reserve, three heartbeats, and a commit below the estimate: the difference is back in the very
// period that was charged, although another has begun since; the present one is untouched.
func TestCurl_RefundGoesToThePeriodCharged(t *testing.T) {
	t.Parallel()
	s := dev(t, "--test-clock")
	root := s.admin(t)
	w := &window{caller: root}
	root.limit(`{"name":"hourly","subjectKind":"user","action":"work","amount":100,"window":"hour"}`)
	root.limit(`{"name":"rolling","subjectKind":"user","action":"work","amount":100,"window":"hour","rolling":true}`)
	c := minted(t, s, "u_42")
	w.next(time.Hour)
	hold := read[api.Reservation](t, c.post("/v1/reservations", `{"action":"work","cost":30,"ttlSeconds":300}`), http.StatusCreated)
	for range 3 {
		read[api.HeartbeatAnswer](t, c.post("/v1/heartbeats", fmt.Sprintf(`{"ids":[%q],"ttlSeconds":300}`, hold.ID)), http.StatusOK)
	}
	charged := w.next(time.Hour).Add(-time.Hour) // the period that was charged is over
	c.check(`{"action":"work","cost":5}`)
	is(t, "hourly before the commit", c.used("hourly", "user", "u_42").Used, 5)
	is(t, "rolling before the commit", c.used("rolling", "user", "u_42").Used, 35)

	done := read[api.Reservation](t, c.act(hold.ID, "commit", `{"cost":12}`), http.StatusOK)
	is(t, "charged", *done.Charged, 12)
	is(t, "refunded", *done.Refunded, 18)
	is(t, "hourly after the commit", c.used("hourly", "user", "u_42").Used, 5)
	is(t, "rolling after the commit", c.used("rolling", "user", "u_42").Used, 12+5)
	w.forward(2 * time.Minute) // the slice that was charged leaves the rolling window, the other stays
	is(t, "rolling when the charge has left", c.used("rolling", "user", "u_42").Used, 5)

	s.stop(t)
	got := periods(t, s.dir, limits.Subject{Kind: "user", ID: "u_42"}, "hourly")
	hour := windows.Window{Kind: windows.Hour}
	want := map[windows.Slice]int64{hour.SliceAt(charged): 12, hour.SliceAt(charged.Add(time.Hour)): 5}
	if len(got) != 2 {
		t.Errorf("periods of hourly: %v, want %v", got, want)
	}
	for at, cost := range want {
		is(t, fmt.Sprintf("hourly in period %d", at), got[at], cost)
	}
}

// minted is a caller with a token of `holdfast token mint`, without any scope.
func minted(t *testing.T, s *server, sub string) *caller {
	t.Helper()
	p, err := start(t.TempDir(), nil, "token", "mint", "--key", filepath.Join(s.dir, "key.pem"), "--issuer", "holdfast-dev", "--sub", sub)
	if err != nil {
		t.Fatal(err)
	}
	if code, err := p.wait(generous); err != nil || code != 0 {
		t.Fatalf("token mint: exit %d, %v:\n%s", code, err, &p.out)
	}
	return callerOf(t, s, strings.TrimSpace(p.out.String()))
}

// periods is what a subject's counts of a limit say in the store of a server that has stopped.
func periods(t *testing.T, dir string, subject limits.Subject, limit string) map[windows.Slice]int64 {
	t.Helper()
	etcd := etcdtest.Start(t, etcdtest.Dir(filepath.Join(dir, "etcd")))
	st, err := store.New(etcd.Client(), etcd.Client(), store.Config{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := st.Load(t.Context(), []reserve.Ref{{Tenant: "default", Kind: reserve.RefUsage, Scope: subject.Scope()}}, true)
	if err != nil {
		t.Fatal(err)
	}
	out := map[windows.Slice]int64{}
	counts, _ := got.Entries[0].Value.(reserve.Counts)
	for _, c := range counts {
		if c.Limit != limit {
			continue
		}
		for _, n := range c.Use.Counts {
			out[n.Slice] = n.Cost
		}
	}
	return out
}

// The token of another opens only another's holds (GUARANTEES 10), with real tokens.
func TestCurl_AnothersTokenSeesNothing(t *testing.T) {
	t.Parallel()
	s := dev(t)
	mine, others := minted(t, s, "u_42"), s.admin(t).as(auth.Claims{Subject: "u_43"})
	hold := read[api.Reservation](t, mine.post("/v1/reservations", `{"action":"export"}`), http.StatusCreated)
	for _, verb := range []string{"extend", "commit", "release"} {
		refusal(t, others.act(hold.ID, verb, ""), api.NotFound)
	}
	refusal(t, others.send(http.MethodGet, "/v1/reservations/"+hold.ID, ""), api.NotFound)
	refusal(t, others.post("/v1/reservations", `{"action":"export","subject":{"kind":"user","id":"u_42"}}`), api.Forbidden)
	refusal(t, others.send(http.MethodGet, "/v1/subjects/user/u_42", ""), api.Forbidden)
	is(t, "what the other's list shows", len(every[api.Reservation](others, "/v1/reservations?pageSize=500")), 0)
	read[api.Reservation](t, mine.act(hold.ID, "release", ""), http.StatusOK)
}
