package pages

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

// the limit as it stands.
func (r *rig) limit(id string) *limits.Limit {
	r.t.Helper()
	l, ok := r.service.Catalog(auth.DefaultTenant).Limit(id)
	if !ok {
		r.t.Fatalf("there is no limit %s", id)
	}
	return l
}

func (r *rig) seen(id string) url.Values {
	return url.Values{"seen": {revision(r.limit(id))}, "reason": {"because"}}
}

func with(form url.Values, pairs ...string) url.Values {
	next := url.Values{}
	for name, values := range form {
		next[name] = values
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		next.Set(pairs[i], pairs[i+1])
	}
	return next
}

func TestLimits_ListAndOne(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.hold("u_42")
	r.hold("u_7")
	b := r.as("admin")
	b.get("/limits").want(http.StatusOK, "exports", "at most 3 at once for each user, action", "New limit", "in force")
	b.get("/limits/exports").want(http.StatusOK, "Change amount", "Pause", "user:u_42", "1 / 3", "report-991@w7", "ETag")
	b.get("/limits/exports?subject=user:u_7").want(http.StatusOK, "user:u_7").without(">user:u_42<")
	b.get("/limits/exports?subject=x").want(http.StatusUnprocessableEntity)
	b.get("/limits/nothing").want(http.StatusNotFound, "no such limit")
	reader := r.as("limits:read")
	reader.get("/limits").want(http.StatusOK, "needs the scope <code>limits:write</code>").without("New limit")
	reader.get("/limits/exports").want(http.StatusOK).without("Change amount", "Pause…", "user:u_42", "report-991")
	reader.get("/limits/exports/pause").want(http.StatusForbidden, "limits:write")
	reader.post("/limits/exports/pause", r.seen("exports")).want(http.StatusForbidden, "limits:write")
	r.as("holds:read").get("/limits").want(http.StatusForbidden, "limits:read")
}

func TestLimits_PauseAndResume(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.as("limits:write")
	b.get("/limits/exports/pause").want(http.StatusOK, "Every new grant under it is refused")
	b.post("/limits/exports/pause", with(r.seen("exports"), "reason", "")).want(http.StatusUnprocessableEntity, "Say why")
	b.post("/limits/exports/pause", with(r.seen("exports"), "last", "some", "for", "401", "unit", "days")).want(http.StatusUnprocessableEntity, "up to 400 days")
	b.post("/limits/exports/pause", with(r.seen("exports"), "seen", "")).want(http.StatusUnprocessableEntity, "open it again")
	b.post("/limits/exports/pause", with(r.seen("exports"), "last", "some", "for", "2", "unit", "hours")).leadsTo("/limits/exports?done=paused")
	if l := r.limit("exports"); !l.Paused || l.PauseReason != "because" || time.Until(l.PausedUntil) > 2*time.Hour || time.Until(l.PausedUntil) < time.Hour || l.Source != "page" || l.UpdatedBy != "user:dana" {
		t.Errorf("got %+v", l)
	}
	b.get("/limits/exports?done=paused").want(http.StatusOK, "paused: because", "Resume", "The limit is paused")
	b.get("/limits/exports/resume").want(http.StatusOK, "It was paused because: because")
	b.post("/limits/exports/resume", r.seen("exports")).leadsTo("/limits/exports?done=resumed")
	b.get("/limits/exports/resume").want(http.StatusConflict, "not paused any more")
	b.post("/limits/exports/disable", r.seen("exports")).leadsTo("/limits/exports?done=changed")
	b.get("/limits/exports").want(http.StatusOK, "not enforced", "Enable…")
	b.post("/limits/exports/enable", r.seen("exports")).leadsTo("/limits/exports?done=changed")
	lines, err := r.service.Trail(t.Context(), reserve.TrailQuery{Tenant: auth.DefaultTenant, Actor: "user:dana", Max: 10})
	if err != nil || len(lines) != 4 || lines[3].Act != "limit.pause" || lines[3].Note.Reason != "because" {
		t.Errorf("the trail: got %+v, %v, want four acts, the pause first", lines, err)
	}
}

func TestLimits_AmountForAWhileAndForGood(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for range 3 {
		r.hold("u_42")
	}
	b := r.as("limits:write holds:read")
	b.get("/limits/exports/amount").want(http.StatusOK, "Now 3, without any override 3")
	b.get("/limits/exports/amount?amount=2&for=1&unit=hours").want(http.StatusOK, "Up to 3 are held, new amount 2: 1 hold over", "None is cut")
	b.get("/limits/exports/amount?amount=5").want(http.StatusOK, "nobody is over it")
	form := with(r.seen("exports"), "amount", "5", "last", "some", "for", "1", "unit", "hours")
	for name, bad := range map[string]url.Values{
		"no number": with(form, "amount", "x"), "below nothing": with(form, "amount", "-1"), "too much": with(form, "amount", "1000000001"),
		"no reason": with(form, "reason", ""), "no end": with(form, "last", ""),
	} {
		b.post("/limits/exports/amount", bad).want(http.StatusUnprocessableEntity)
		_ = name
	}
	b.post("/limits/exports/amount", form).leadsTo("/limits/exports?done=changed")
	if o, ok := r.service.Catalog(auth.DefaultTenant).Override("exports", limits.Subject{}); !ok || o.Amount != 5 || o.Reason != "because" || time.Until(o.Until) > time.Hour {
		t.Errorf("override: got %+v, %v", o, ok)
	}
	b.post("/limits/exports/amount", with(form, "amount", "6")).want(http.StatusPreconditionFailed, "Somebody changed it", `data-title="Now">5<`, `data-title="Yours">6<`)
	b.get("/limits/exports/override/end").want(http.StatusOK, "The amount is 3 again instead of 5")
	b.post("/limits/exports/override/end", r.seen("exports")).leadsTo("/limits/exports?done=changed")
	b.get("/limits/exports/override/end").want(http.StatusConflict, "ended already")
	b.post("/limits/exports/amount", with(r.seen("exports"), "amount", "4", "last", "good")).leadsTo("/limits/exports?done=changed")
	if l := r.limit("exports"); l.Amount != 4 {
		t.Errorf("amount %d, want 4", l.Amount)
	}
}

func TestLimits_MakeAndEdit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.as("limits:write")
	b.get("/limits/new").want(http.StatusOK, "New limit", "concurrent", "Preview")
	fields := url.Values{
		"name": {"Mails a day"}, "subjectKind": {"user"}, "action": {"mail"}, "amount": {"5"}, "window": {"day"}, "rolling": {"yes"}, "share": {"each"},
		"onExpiry": {"charge"}, "overage": {"record"}, "enabled": {"yes"}, "labels": {"team=post\n\nrank=1"}, "description": {hostile},
	}
	b.get("/limits/new?"+fields.Encode()).want(http.StatusOK, "At most 5 a rolling day for each user", "- {name: &#34;Mails a day&#34;", "window: &#34;day&#34;")
	b.get("/limits/new?"+with(fields, "amount", "x").Encode()).want(http.StatusOK, "amount must be a whole number")
	b.post("/limits/new", with(fields, "amount", "-1", "window", "fortnight")).want(http.StatusUnprocessableEntity, "amount must be 0 to", "window is not a window", "Mails a day")
	b.post("/limits/new", with(fields, "labels", "nonsense", "ttlSeconds", "x")).want(http.StatusUnprocessableEntity, "key=value", "ttlSeconds must be a whole number")
	b.post("/limits/new", with(fields, "name", "")).want(http.StatusUnprocessableEntity)
	b.post("/limits/new", fields).leadsTo("/limits/mails-a-day?done=created")
	l := r.limit("mails-a-day")
	if l.Source != "page" || l.Amount != 5 || !l.Window.Rolling || l.OnExpiry != limits.ChargeOnExpiry || l.Labels["rank"] != "1" || !l.Enabled {
		t.Errorf("got %+v", l)
	}
	b.post("/limits/new", fields).want(http.StatusConflict)
	b.get("/limits/mails-a-day/edit").want(http.StatusOK, "counts start anew", "team=post", `value="5"`).without(`value="concurrent"`)
	b.get("/limits/exports/edit").want(http.StatusOK, "The window is fixed")
	_, rev, err := r.editor.Change(t.Context(), auth.DefaultTenant, "mails-a-day", 0, "user:eve", func(l limits.Limit) (limits.Limit, error) {
		l.Paused, l.PauseReason = true, "stop"
		return l, nil
	})
	if err != nil || r.service.Reached(t.Context(), rev) != nil {
		t.Fatal(err)
	}
	stale := with(fields, "amount", "9", "seen", fmt.Sprint(l.Revision))
	b.post("/limits/mails-a-day/edit", stale).want(http.StatusPreconditionFailed, `data-title="Now">5<`, `data-title="Yours">9<`, fmt.Sprintf(`name="seen" value="%d"`, r.limit("mails-a-day").Revision))
	b.post("/limits/mails-a-day/edit", with(stale, "seen", revision(r.limit("mails-a-day")), "enabled", "")).leadsTo("/limits/mails-a-day?done=changed")
	if l := r.limit("mails-a-day"); l.Amount != 9 || !l.Paused || l.PauseReason != "stop" || l.Enabled {
		t.Errorf("got %+v, want what the form has not to stay", l)
	}
	b.post("/limits/exports/edit", with(fields, "seen", revision(r.limit("exports")))).want(http.StatusUnprocessableEntity)
}

func TestSubject_AndItsBlock(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	h := r.hold("u_42")
	b := r.as("holds:force")
	b.get("/subjects/user/u_42").want(http.StatusOK, "user:u_42", "exports", "calls", h.ID.String(), "1 / 3").without("blocked")
	b.get("/subjects/user/nobody").want(http.StatusOK, "Nothing is held that fits.")
	b.get("/subjects/USER/x").want(http.StatusNotFound)
	rev, err := r.editor.Block(t.Context(), auth.DefaultTenant, limits.Block{Subject: h.Subject, Until: time.Now().Add(time.Hour), Reason: "abuse", By: "user:eve"})
	if err != nil || r.service.Reached(t.Context(), rev) != nil {
		t.Fatal(err)
	}
	b.get("/subjects/user/u_42").want(http.StatusOK, "Refused every new grant until", "abuse", "Lift the block")
	r.as("holds:read").get("/subjects/user/u_42").want(http.StatusOK, "abuse").without("Lift the block")
	b.get("/subjects/user/u_42/unblock").want(http.StatusOK, "granted again at once")
	b.post("/subjects/user/u_42/unblock", url.Values{"reason": {""}}).want(http.StatusUnprocessableEntity)
	b.post("/subjects/user/u_42/unblock", url.Values{"reason": {"sorry"}}).leadsTo("/subjects/user/u_42?done=unblocked")
	b.get("/subjects/user/u_42/unblock").want(http.StatusConflict)
}

func TestActivity_ShowsWhoDidWhat(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.as("admin")
	b.get("/activity").want(http.StatusOK, "Nothing was done that fits.")
	b.post("/limits/exports/pause", with(r.seen("exports"), "reason", hostile)).leadsTo("/limits/exports?done=paused")
	b.get("/activity").want(http.StatusOK, "limit.pause", "user:dana", "paused false → true", "&lt;script&gt;", "127.0.0.1", `href="/limits/exports"`)
	b.get("/activity?act=limit.create").want(http.StatusOK, "Nothing was done that fits.", `value="limit.create" selected`)
	b.get("/activity?actor=user:dana&target=exports").want(http.StatusOK, "limit.pause", "Everything")
	for _, bad := range []string{"after=x", "after=1", "actor=a&actor=b", "act=%01"} {
		b.get("/activity?" + bad).want(http.StatusUnprocessableEntity)
	}
	b.get("/limits/exports").want(http.StatusOK, "limit.pause")
	r.as("limits:write holds:read").get("/limits/exports").want(http.StatusOK).without("limit.pause")
	r.as("holds:read").get("/activity").want(http.StatusForbidden, "audit:read")
}
