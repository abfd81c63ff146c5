package pages

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

// waits stands in line for user:u_42 and returns when it does; its end comes out of the channel.
func (r *rig) waits(owner string) (reserve.Waiter, <-chan error) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out := make(chan error, 1)
	go func() {
		_, _, err := r.service.Reserve(ctx, reserve.Request{
			Tenant: auth.DefaultTenant, Subject: limits.Subject{Kind: "user", ID: "u_42"}, Action: "export", Cost: 1, TTL: time.Minute,
			Principal: "user:2:me:u_42", Owner: reserve.Owner{Name: owner, Host: "w8"}, Wait: time.Minute,
		})
		out <- err
	}()
	r.t.Cleanup(cancel)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for over := time.After(generous); ; {
		all, err := r.service.Waiters(r.t.Context(), reserve.WaiterQuery{Tenant: auth.DefaultTenant, Max: 500})
		if err != nil {
			r.t.Fatal(err)
		}
		for _, w := range all {
			if w.Owner.Name == owner {
				return w, out
			}
		}
		select {
		case <-tick.C:
		case <-over:
			r.t.Fatalf("%s never stood in line", owner)
		}
	}
}

// full fills exports for user:u_42.
func (r *rig) full() {
	r.t.Helper()
	for range 3 {
		r.hold("u_42")
	}
}

func TestWaiting_WhoStandsWhereAndCancel(t *testing.T) { // HF-4303
	t.Parallel()
	r := newRig(t)
	b := r.as("holds:force audit:read limits:read")
	b.get("/waiting").want(http.StatusOK, "Nobody waits.")
	r.full()
	first, over := r.waits("first")
	r.waits("second")
	id := reserve.WaiterID(first.ID)
	b.get("/waiting").want(http.StatusOK, "first@w8", "second@w8", "3 holders at work", ">2<", "/waiting/"+id+"/cancel", `id="row-ask"`)
	b.get("/").want(http.StatusOK, `href="/waiting?limit=exports&amp;subject=user%3Au_42">2<`)
	b.get("/limits/exports").want(http.StatusOK, "first@w8", "second@w8")
	b.get("/subjects/user/u_42").want(http.StatusOK, "first@w8")
	b.get("/waiting?limit=calls").want(http.StatusOK).without("first@w8")
	b.get("/waiting?subject=user%3Aothers").want(http.StatusOK).without("first@w8")
	b.get("/waiting?subject=nobody").want(http.StatusUnprocessableEntity)
	b.get("/waiting?after=x").want(http.StatusUnprocessableEntity)

	b.get("/waiting/"+id+"/cancel").want(http.StatusOK, "exports · user:u_42 · place 1 · first@w8", "Reason")
	b.post("/waiting/"+id+"/cancel", nil).want(http.StatusUnprocessableEntity, "Say why")
	b.post("/waiting/"+id+"/cancel", url.Values{"reason": {"stuck"}}).leadsTo("/waiting?done=cancelled")
	if err := <-over; !errors.Is(err, reserve.ErrWaitCancelled) {
		t.Errorf("the wait ended with %v, want ErrWaitCancelled", err)
	}
	b.get("/waiting?done=cancelled").want(http.StatusOK, "The wait is cancelled").without("first@w8")
	b.post("/waiting/"+id+"/cancel", url.Values{"reason": {"again"}}).want(http.StatusConflict, "ended meanwhile")
	b.get("/waiting/"+id+"/cancel").want(http.StatusConflict, "ended meanwhile")
	b.get("/waiting/nobody/cancel").want(http.StatusNotFound)
	b.get("/activity?act=waiter.cancel").want(http.StatusOK, "waiter.cancel", "stuck", id)

	reads := r.as("holds:read")
	reads.get("/waiting").want(http.StatusOK, "second@w8", "holds:force").without("Cancel…", `id="row-ask"`)
	reads.post("/waiting/"+id+"/cancel", url.Values{"reason": {"x"}}).want(http.StatusForbidden)
}

// Whoever is silent while others wait is told first.
func TestWaiting_SilentHoldersAreNamed(t *testing.T) {
	t.Parallel()
	var later atomic.Int64
	r := newRig(t, func(c *Config) { c.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) } })
	b := r.as("holds:read")
	r.full()
	r.waits("first")
	later.Store(int64(3 * time.Minute)) // of 5: their heartbeats are late
	b.get("/waiting").want(http.StatusOK, "3 of 3 holders are silent", "sort=silent")
	b.get("/").want(http.StatusOK, "3 of 3 holders silent", `data-field="silent" class="warn"`)
}

func TestLimit_ChartsOfItsUse(t *testing.T) { // HF-4202
	t.Parallel()
	r := newRig(t)
	b := r.as("admin")
	r.full()
	if _, d, err := r.service.Reserve(t.Context(), reserve.Request{
		Tenant: auth.DefaultTenant, Subject: limits.Subject{Kind: "user", ID: "u_42"}, Action: "export", Cost: 1, TTL: time.Minute, Principal: "user:2:me:u_42",
	}); err != nil || d.Allowed {
		t.Fatalf("a fourth: %v, %v", d.Allowed, err)
	}
	g := b.get("/limits/exports?subject=user%3Au_42").want(http.StatusOK, "In the last 24h: 3 started, 1 refused, 0 expired", `role="img"`, "As a table", "amount now, 3", "3 now, 3 at the most", `class="refused"`, `class="held"`)
	if n := strings.Count(g.body, `<rect `); n < 3 {
		t.Errorf("%d bars are drawn", n)
	}
	b.get("/limits/exports?span=7d").want(http.StatusOK, "In the last 7d: 3 started", `aria-current="true">7d<`).without("amount now")
	b.get("/limits/exports?span=32d").want(http.StatusOK, "by the day")
	b.get("/limits/calls").want(http.StatusOK, "In the last 24h: 0 started").without("at the most.")
	b.get("/").want(http.StatusOK, "▁▁▁▁▁▁▁▁▁▁▁█")
	b.get("/subjects/user/u_42").want(http.StatusOK, "Refused lately", "no free slot")
}

func TestSubject_PlanAndOverrides(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.as("admin")
	b.get("/subjects/user/u_42").want(http.StatusOK).without("Overrides", ">Plan<")
	s := limits.Subject{Kind: "user", ID: "u_42"}
	rev, err := r.editor.PutOverride(t.Context(), auth.DefaultTenant, limits.Override{Limit: "exports", Subject: s, Amount: 10, Reason: "launch", By: "user:eve"})
	if err != nil || r.service.Reached(t.Context(), rev) != nil {
		t.Fatal(err)
	}
	b.get("/subjects/user/u_42").want(http.StatusOK, "Overrides", "this subject", "10 instead of 3", "launch", "user:eve")
}
