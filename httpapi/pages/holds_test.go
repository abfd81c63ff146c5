package pages

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/web"
	"github.com/holdfast-dev/holdfast/web/webtest"
)

// bodies is one of every page that needs more than tables; a page missing here fails the test.
var bodies = map[string]any{
	"login": web.SignIn{}, "message": web.Message{}, "now": nil, "holds": holdsBody{}, "hold": holdBody{}, "force": forceBody{}, "forcesome": someBody{},
	"limits": limitsBody{}, "limit": limitBody{}, "ask": askBody{}, "amount": amountBody{}, "edit": editBody{}, "subject": subjectBody{}, "activity": activityBody{}, "system": systemBody{}, "waiting": waitingBody{},
}

// tablesOf are the tables that a page's template asks for.
var tablesOf = map[string][]string{
	"now": {"limits", "expiring", "silent"}, "holds": {"holds"}, "hold": {"places"},
	"limits": {"limits"}, "limit": {"used", "holds", "overrides", "waiters", "trail"}, "subject": {"limits", "holds", "waiters", "overrides", "refusals"}, "activity": {"trail"}, "system": {"settings", "findings", "replicas", "members", "jobs"}, "waiting": {"lines", "waiters"},
}

func TestTemplates_AllAreExecutedWithHostileValues(t *testing.T) {
	t.Parallel()
	html, err := web.New()
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range html.Pages() {
		body, known := bodies[page]
		if !known {
			t.Errorf("page %q is executed by no test", page)
			continue
		}
		view := web.View{Page: page, Title: hostile, Body: body}
		if body != nil {
			v := reflect.New(reflect.TypeOf(body)).Elem()
			webtest.Stuff(v, hostile)
			view.Body = v.Interface()
		}
		for _, name := range tablesOf[page] {
			table := &web.Table{Name: name, Empty: hostile}
			row := web.Row{Key: hostile}
			for _, k := range []web.Kind{web.Text, web.Code, web.Num, web.Link, web.Since, web.Until, web.Meter, web.Pick, web.Act} {
				table.Columns = append(table.Columns, web.Column{Title: hostile, Kind: k})
				row.Cells = append(row.Cells, web.Cell{Text: hostile, Href: "javascript:alert(1)", At: 1, Ref: hostile})
			}
			table.Rows = []web.Row{row}
			view.Tables = append(view.Tables, table)
		}
		for _, empty := range []bool{false, true} {
			if empty {
				for _, table := range view.Tables {
					table.Rows = nil
				}
				view.Body = body
			}
			var b bytes.Buffer
			if err := html.Render(&b, web.Frame{Who: hostile, Path: hostile, Live: "/live/" + hostile}, view); err != nil {
				t.Errorf("%s (empty: %v): %v", page, empty, err)
			}
			harmless(t, page, b.String())
		}
	}
}

func TestRightNow_WorstFirst(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.as("admin")
	b.get("/").want(http.StatusOK, "Nothing is held.", "Every holder has been heard of in time.", "nobody yet")
	for range 3 {
		r.hold("u_42")
	}
	r.hold("u_7", func(q *reserve.Request) { q.TTL = 20 * time.Second })
	g := b.get("/").want(http.StatusOK, "full since", "3 / 3", "1 / 3", `data-field="full" class="bad"`)
	if strings.Index(g.body, "user:u_42") > strings.Index(g.body, "user:u_7") {
		t.Error("what is full does not come first")
	}
	if rev, err := r.editor.PutOverride(t.Context(), auth.DefaultTenant, limits.Override{Limit: "exports", Amount: 5, Until: time.Now().Add(time.Hour), Reason: "launch"}); err != nil || r.service.Reached(t.Context(), rev) != nil {
		t.Fatal(err)
	}
	b.get("/").want(http.StatusOK, "override until", "3 / 5 (3 by override)")
	_, rev, err := r.editor.Change(t.Context(), auth.DefaultTenant, "exports", 0, "eve", func(l limits.Limit) (limits.Limit, error) {
		l.Paused, l.PauseReason = true, hostile
		return l, nil
	})
	if err != nil || r.service.Reached(t.Context(), rev) != nil {
		t.Fatal(err)
	}
	b.get("/").want(http.StatusOK, "paused: &#34;")
}

func TestHolds_FilteredAndHarmless(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	h := r.hold("u_42", func(q *reserve.Request) {
		q.Labels = map[string]string{"job": hostile}
		q.Owner = reserve.Owner{Name: hostile, Host: "w7", URL: "javascript:alert(1)"}
	})
	other := r.hold("u_7", func(q *reserve.Request) { q.TTL, q.Owner.URL = time.Minute, "https://ci.example/991" })
	b := r.as("holds:force")
	id, otherID := h.ID.String(), other.ID.String()
	b.get("/holds").want(http.StatusOK, id, otherID, "&lt;script&gt;", `href="https://ci.example/991"`, "Force release the ticked ones")
	for filter, found := range map[string][]string{
		"subject=user:u_42": {id}, "owner=report-991": {otherID}, "host=w7": {id, otherID}, "limit=exports": {id, otherID}, "limit=calls": nil,
		"q=u_4": {id}, "q=user:u_7": {otherID}, "q=report": {otherID}, "q=w7": {id, otherID}, "q=" + otherID[:9]: nil, "q=nobody": nil,
		"sort=newest": {otherID, id}, "sort=expiring": {otherID, id}, "sort=silent": {id, otherID}, "sort=oldest": {id, otherID},
	} {
		if strings.HasPrefix(filter, "q=rsv_") {
			filter, found = "q="+otherID, []string{otherID}
		}
		g := b.get("/holds?"+filter).want(http.StatusOK, found...)
		if got := strings.Count(g.body, "<tr data-key="); got != len(found) {
			t.Errorf("%s: %d holds, want %d", filter, got, len(found))
		}
		if len(found) == 2 && strings.Index(g.body, found[0]) > strings.Index(g.body, found[1]) && filter == "sort=expiring" {
			t.Errorf("%s: the order is another", filter)
		}
		if found == nil {
			g.want(http.StatusOK, "Nothing is held that fits.")
		}
	}
	for _, bad := range []string{"subject=u_42", "sort=best", "after=x", "q=a&q=b", "q=%00", "q=" + strings.Repeat("x", 600)} {
		b.get("/holds?" + bad).want(http.StatusUnprocessableEntity)
	}
	b.get("/holds?q="+url.QueryEscape(hostile)).want(http.StatusOK, "search: &#34;")
}

func TestHolds_ExportKeepsFormulasOut(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.hold("u_42", func(q *reserve.Request) { q.Owner.Name = "=HYPERLINK(1)" })
	b := r.as("holds:read")
	if g := b.get("/holds.csv?limit=exports").want(http.StatusOK, "id,limits,subject", "'=HYPERLINK(1)"); !strings.HasPrefix(g.header.Get("Content-Type"), "text/csv") {
		t.Errorf("type %s", g.header.Get("Content-Type"))
	}
	b.get("/holds.json").want(http.StatusOK, `"=HYPERLINK(1)"`, `"Fence":`)
	b.get("/holds.json?sort=x").want(http.StatusUnprocessableEntity)
	r.as("audit:read").get("/holds.csv").want(http.StatusForbidden, "holds:read")
	r.browser().get("/holds.csv").leadsTo("/login?next=%2Fholds.csv")
}

func TestHold_AndAfterItsEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	h := r.hold("u_42", func(q *reserve.Request) { q.Labels = map[string]string{"job": hostile} })
	b := r.as("holds:force")
	path := holdPath(h.ID.String())
	b.get(path).want(http.StatusOK, "held", "user:u_42", "No heartbeat", "Force release", "exports", "holdfast holds get "+h.ID.String())
	r.as("holds:read").get(path).want(http.StatusOK, "needs the scope <code>holds:force</code>").without("Force release…", "/force")
	if _, err := r.service.Release(t.Context(), reserve.HoldRef{ID: h.ID, By: reserve.Caller{Tenant: auth.DefaultTenant, Principal: "user:2:me:u_42"}}, hostile); err != nil {
		t.Fatal(err)
	}
	next := r.hold("u_42")
	b.get(path).want(http.StatusOK, "released", "was given to "+shortID(next.ID.String()), "&lt;script&gt;").without("Force release…")
	b.get(path+"/force").want(http.StatusConflict, endedAlready)
	b.get("/holds/rsv_nothing").want(http.StatusNotFound, "Not found")
	b.get("/holds/" + reserve.NewID().String()).want(http.StatusNotFound)
	b.get("/nowhere").want(http.StatusNotFound, "no page at this address")
	r.browser().get("/nowhere").want(http.StatusNotFound, "Sign in")
}

func forceForm(h reserve.Reservation) url.Values {
	return url.Values{"reason": {"stuck after deploy"}, "fence": {fmt.Sprint(h.Fence)}, "last": {lastOf(h.ID.String())}}
}

func TestForce_EndToEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.as("holds:force")
	h := r.hold("u_42")
	path := holdPath(h.ID.String())
	b.get(path+"/force").want(http.StatusOK, "Force release", fmt.Sprintf(`name="fence" value="%d"`, h.Fence), "It learns at its next heartbeat (by ")
	form := forceForm(h)
	form.Set("block", "yes")
	form.Set("minutes", "10")
	b.post(path+"/force", form).leadsTo(path + "?done=forced")
	ended := r.state(h.ID)
	if ended.State != reserve.Forced || ended.Note != "stuck after deploy" || principalWords(ended.EndedBy) != "user:dana" {
		t.Errorf("got %s by %s: %q", ended.State, ended.EndedBy, ended.Note)
	}
	if block, blocked := r.service.Catalog(auth.DefaultTenant).Block(h.Subject); !blocked || time.Until(block.Until) > 10*time.Minute || time.Until(block.Until) < 9*time.Minute {
		t.Errorf("block: got %+v, %v", block, blocked)
	}
	lines, err := r.service.Trail(t.Context(), reserve.TrailQuery{Tenant: auth.DefaultTenant, Max: 10})
	if err != nil || len(lines) == 0 || lines[0].Note.Actor != "user:dana" || lines[0].Note.Reason != "stuck after deploy" || lines[0].Note.Address != "127.0.0.1" || lines[0].Note.RequestID == "" {
		t.Errorf("the trail: got %+v, %v", lines, err)
	}
	b.get(path+"?done=forced").want(http.StatusOK, "released by force", "The hold was released by force", "stuck after deploy")
	b.post(path+"/force", form).want(http.StatusConflict, endedAlready)
}

func TestForce_AsksForEverything(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.as("admin")
	h := r.hold("u_42")
	path := holdPath(h.ID.String()) + "/force"
	for name, c := range map[string]struct {
		field, value, says string
	}{
		"no reason":        {"reason", " ", "Say why"},
		"a long reason":    {"reason", strings.Repeat("x", 513), "Say why"},
		"a hidden reason":  {"reason", "a\x07b", "Say why"},
		"another's last 4": {"last", "0000", "The last 4"},
		"no fence":         {"fence", "", "no fence"},
	} {
		form := forceForm(h)
		form.Set(c.field, c.value)
		b.post(path, form).want(http.StatusUnprocessableEntity, c.says)
		_ = name
	}
	for _, minutes := range []string{"0", "-1", "x", "43201", "99999999999999999999"} {
		form := forceForm(h)
		form.Set("block", "yes")
		form.Set("minutes", minutes)
		b.post(path, form).want(http.StatusUnprocessableEntity, "whole minutes")
	}
	stale := forceForm(h)
	stale.Set("fence", fmt.Sprint(h.Fence-1))
	b.post(path, stale).want(http.StatusConflict, endedAlready)
	if got := r.state(h.ID).State; got != reserve.Held {
		t.Fatalf("the hold is %s", got)
	}
	r.as("holds:read limits:write").post(path, forceForm(h)).want(http.StatusForbidden, "holds:force")
	r.as("holds:read").get(path).want(http.StatusForbidden, "holds:force", "Sign in with another token")
	big := forceForm(h)
	big.Set("reason", strings.Repeat("x", maxForm+1))
	b.post(path, big).want(http.StatusRequestEntityTooLarge)
}

func TestForce_Several(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.as("holds:force")
	one, two := r.hold("u_1"), r.hold("u_2")
	ref := func(h reserve.Reservation) string { return fmt.Sprintf("%s:%d", h.ID, h.Fence) }
	b.post("/holds/force", nil).want(http.StatusUnprocessableEntity, "Tick the holds")
	b.get("/holds/force").want(http.StatusUnprocessableEntity, "Tick the holds")
	picked := url.Values{"hold": {ref(one), ref(two)}}
	b.post("/holds/force", picked).want(http.StatusOK, "Force release 2 holds?", one.ID.String(), two.ID.String()).without(`role="alert"`)
	wrongCount := url.Values{"hold": picked["hold"], "reason": {"x"}, "count": {"1"}}
	b.post("/holds/force", wrongCount).want(http.StatusUnprocessableEntity, "Type 2")
	b.post("/holds/force", url.Values{"hold": {"rsv_x:1"}, "reason": {"x"}, "count": {"1"}}).want(http.StatusUnprocessableEntity)
	b.post("/holds/force", url.Values{"hold": slices.Repeat([]string{ref(one)}, mostAtOnce+1)}).want(http.StatusUnprocessableEntity, "At most")
	if r.state(one.ID).State != reserve.Held {
		t.Fatal("asking released a hold")
	}
	b.post("/holds/force", url.Values{"hold": picked["hold"], "reason": {"stuck"}, "count": {"2"}}).leadsTo("/holds?done=forced-n")
	if a, b := r.state(one.ID), r.state(two.ID); a.State != reserve.Forced || b.State != reserve.Forced {
		t.Errorf("got %s and %s", a.State, b.State)
	}
	three := r.hold("u_3")
	b.post("/holds/force", url.Values{"hold": {ref(one), ref(three)}, "reason": {"stuck"}, "count": {"2"}}).want(http.StatusConflict, "1 of 2 had ended meanwhile")
	if r.state(three.ID).State != reserve.Forced {
		t.Error("the one that was held is held still")
	}
}

func TestPages_ScopesDecideWhatIsShown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	h := r.hold("u_42")
	nobody := r.as("audit:read")
	for _, path := range []string{"/", "/holds", holdPath(h.ID.String())} {
		nobody.get(path).want(http.StatusForbidden, "holds:read", "audit:read").without("user:u_42")
	}
	nobody.get("/").without(`href="/holds"`)
	r.as("holds:read").get("/holds").want(http.StatusOK, "needs the scope <code>holds:force</code>").without("Force release the ticked", `type="checkbox"`)
	r.as("").get("/").want(http.StatusForbidden, "has none")
}

func TestPages_StoreAwayIsSaid(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.as("admin")
	r.view.SetDown(true)
	defer r.view.SetDown(false)
	b.get("/holds").want(http.StatusServiceUnavailable, "Not available now", "Try again", "X-Request-Id"[:0], "Request <code>")
}

func TestTheme_IsKeptByTheBrowser(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.as("admin")
	b.get("/").without("data-theme")
	b.post("/theme", url.Values{"theme": {"dark"}, "next": {"/holds"}}).leadsTo("/holds")
	b.get("/").want(http.StatusOK, `data-theme="dark"`)
	b.post("/theme", url.Values{"theme": {hostile}}).leadsTo("/")
	b.get("/").without("data-theme")
	b.get("/static/page.css").want(http.StatusOK, "--ground")
	b.get("/static/nothing.css").want(http.StatusNotFound)
}

// lines reads server-sent events until want is among what was read.
func (b *browser) lines(path, want string, then func()) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, b.server.URL+path, http.NoBody)
	if err != nil {
		b.t.Fatal(err)
	}
	resp, err := b.http.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		b.t.Fatalf("%s: got %d %s", path, resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	var read strings.Builder
	scanner := bufio.NewScanner(resp.Body)
	for scanner.Scan() {
		read.WriteString(scanner.Text() + "\n")
		if then != nil && scanner.Text() != "" {
			then()
			then = nil
		}
		if strings.Contains(scanner.Text(), want) {
			return
		}
	}
	b.t.Fatalf("%s: %q was never told: %s, %v", path, want, read.String(), scanner.Err())
}

func TestLive_TellsWhatChanges(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.as("admin")
	var made reserve.Reservation
	g := b.get("/holds")
	_, live, _ := strings.Cut(g.body, `data-live="`)
	live, _, _ = strings.Cut(live, `"`)
	live = strings.ReplaceAll(live, "&amp;", "&")
	b.lines(live, "user:u_42", func() { made = r.hold("u_42") })
	b.lines("/live/", `"whole":true`, nil)
	b.lines("/live"+holdPath(made.ID.String()), "This has ended", func() { _ = b.post(holdPath(made.ID.String())+"/force", forceForm(made)) })
	b.lines("/live/holds", "signed out", func() { b.post("/logout", nil) })
	r.browser().get("/live/holds").leadsTo("/login")
	r.as("audit:read").get("/live/holds").want(http.StatusForbidden)
}
