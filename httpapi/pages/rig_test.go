package pages

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/catalogue"
	"github.com/holdfast-dev/holdfast/events"
	"github.com/holdfast-dev/holdfast/httpapi"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/windows"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	issuer   = "https://issuer.test"
	generous = 30 * time.Second // only a fault lets it pass

	// hostile is what somebody may call a label, an owner or a reason.
	hostile = `"'><script>alert(1)</script><img src=x onerror=alert(1)> </style></textarea><!-- {{.}}`
)

var signer = sync.OnceValue(func() auth.Signer {
	s, err := auth.GenerateKey()
	if err != nil {
		panic(err)
	}
	return s
})

// rig is the admin listener, whole, on a keyspace in memory.
type rig struct {
	t        *testing.T
	view     *memory.View
	service  *reserve.Service
	editor   *catalogue.Editor
	sessions *session.Keeper
	pages    *Pages
	server   *httptest.Server
	admin    http.Handler
	stop     func() // ends the server alone, as a crash would
}

func newRig(t *testing.T, opts ...func(*Config)) *rig {
	t.Helper()
	store := memory.New(memory.Config{Now: time.Now, CheckValues: true})
	r := &rig{t: t, view: store.View("here")}
	ctx, cancel := context.WithCancel(context.Background())
	wheel := store.Leases("here", time.Now)
	var err error
	need := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	cfg := Config{Now: time.Now, Version: "test", Problem: httpapi.ProblemOf, LimitOf: httpapi.LimitOf, Failed: httpapi.FailedTokens(0), Address: httpapi.AddressOf(nil)}
	hub, err := events.New(events.Config{Store: r.view, History: r.view, Now: time.Now})
	need(err)
	cfg.Changes = func(tenant, who string) (Changes, error) { return hub.Stir(tenant, who) }
	r.service, err = reserve.New(reserve.Config{Store: r.view, Lister: r.view, Leases: wheel, Now: time.Now, Replica: "here", Told: hub.Tell, Sessions: store.Session("here")})
	need(err)
	r.editor, err = catalogue.New(catalogue.Config{Store: r.view, Leases: wheel, Now: time.Now, Catalog: r.service.Catalog})
	need(err)
	r.sessions, err = session.New(session.Config{Store: r.view, Leases: wheel, Now: time.Now, Key: []byte(strings.Repeat("k", 32))})
	need(err)
	verifier, err := auth.NewVerifier(auth.Config{Issuer: issuer, Audience: "holdfast", Keys: signer().KeySource(), Now: time.Now})
	need(err)
	cfg.Service, cfg.Editor, cfg.Sessions, cfg.Verifier = r.service, r.editor, r.sessions, verifier
	for _, o := range opts {
		o(&cfg)
	}
	r.pages, err = New(cfg)
	need(err)
	admin, err := httpapi.NewAdmin(httpapi.Config{
		Service: r.service, Editor: r.editor, Verifier: verifier, Now: time.Now, Version: api.Version{Version: "test"},
		CursorKey: []byte("0123456789abcdef"), Pages: r.pages, Links: r.sessions,
	})
	need(err)
	var running sync.WaitGroup
	running.Go(func() { wheel.Run(ctx) })
	running.Go(func() { _ = r.service.Run(ctx) })
	r.server, r.admin = httptest.NewServer(admin), admin
	r.stop = sync.OnceFunc(r.close)
	t.Cleanup(func() {
		r.stop()
		cancel()
		running.Wait()
		verifier.Close()
	})
	r.limits()
	return r
}

func (r *rig) close() {
	r.server.CloseClientConnections()
	r.server.Close()
}

// again lets the server that was stopped come back to its address.
func (r *rig) again() {
	r.t.Helper()
	address := strings.TrimPrefix(r.server.URL, "http://")
	listener, err := net.Listen("tcp", address)
	if err != nil {
		r.t.Fatal(err)
	}
	r.server = &httptest.Server{Listener: listener, Config: &http.Server{Handler: r.admin}}
	r.server.Start()
	r.stop = sync.OnceFunc(r.close)
}

// limits are those that every test finds.
func (r *rig) limits() {
	r.t.Helper()
	for _, l := range []limits.Limit{
		{ID: "exports", Name: "Exports at once", SubjectKind: "user", Action: "export", Amount: 3, Window: windows.Window{Kind: windows.Concurrent}, Enabled: true},
		{ID: "calls", Name: "Calls a day", SubjectKind: "user", Action: "call", Amount: 100, Window: windows.Window{Kind: windows.Day}, Enabled: true},
	} {
		_, rev, err := r.editor.Create(r.t.Context(), auth.DefaultTenant, l, "test")
		if err == nil {
			err = r.service.Reached(r.t.Context(), rev)
		}
		if err != nil {
			r.t.Fatalf("limit %s: %v", l.ID, err)
		}
	}
}

// hold reserves for user:id.
func (r *rig) hold(id string, change ...func(*reserve.Request)) reserve.Reservation {
	r.t.Helper()
	q := reserve.Request{
		Tenant: auth.DefaultTenant, Subject: limits.Subject{Kind: "user", ID: id}, Action: "export", Cost: 1, TTL: 5 * time.Minute,
		Principal: "user:2:me:" + id, Owner: reserve.Owner{Name: "report-991", Host: "w7", PID: 4711},
	}
	for _, c := range change {
		c(&q)
	}
	made, decision, err := r.service.Reserve(r.t.Context(), q)
	if err != nil || !decision.Allowed {
		r.t.Fatalf("reserve for %s: %v, allowed %v", id, err, decision.Allowed)
	}
	return made
}

func (r *rig) state(id reserve.ID) reserve.Reservation {
	r.t.Helper()
	h, err := r.service.Get(r.t.Context(), reserve.HoldRef{ID: id, By: reserve.Caller{Tenant: auth.DefaultTenant}})
	if err != nil {
		r.t.Fatalf("get %s: %v", id, err)
	}
	return h
}

// link is one that signs sub in with a scope.
func (r *rig) link(sub, scope string) string {
	r.t.Helper()
	code, _, err := r.sessions.Link(r.t.Context(), auth.Principal{
		Tenant: auth.DefaultTenant, Issuer: issuer, Subject: limits.Subject{Kind: "user", ID: sub}, Scopes: auth.ParseScopes(scope),
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return r.server.URL + r.pages.Link(code)
}

func (r *rig) token(sub, scope string) string {
	r.t.Helper()
	token, err := signer().Mint(auth.Claims{Issuer: issuer, Audience: "holdfast", Subject: sub, Scope: scope, TTL: time.Hour}, time.Now())
	if err != nil {
		r.t.Fatal(err)
	}
	return token
}

// browser is somebody with cookies who follows no redirect by themselves.
type browser struct {
	*rig
	http   *http.Client
	header http.Header // of each request
}

// got is an answer.
type got struct {
	t      *testing.T
	asked  string
	status int
	header http.Header
	body   string
}

func (r *rig) browser() *browser {
	r.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return &browser{rig: r, header: http.Header{"Sec-Fetch-Site": {"same-origin"}}, http: &http.Client{
		Jar: jar, Timeout: generous, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// as signs in with a scope, by a link.
func (r *rig) as(scope string) *browser {
	r.t.Helper()
	b := r.browser()
	b.get(strings.TrimPrefix(r.link("dana", scope), r.server.URL)).want(http.StatusSeeOther)
	return b
}

func (b *browser) get(path string) got { return b.send(http.MethodGet, path, nil) }

func (b *browser) post(path string, form url.Values) got {
	if form == nil {
		form = url.Values{}
	}
	return b.send(http.MethodPost, path, form)
}

func (b *browser) send(method, path string, form url.Values) got {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.server.URL+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header = b.header.Clone()
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := b.http.Do(req)
	if err != nil {
		b.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatalf("%s %s: %v", method, path, err)
	}
	g := got{b.t, method + " " + path, resp.StatusCode, resp.Header, string(body)}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
		g.checkPage()
	}
	return g
}

// checkPage is what holds for every page, whatever it shows.
func (g got) checkPage() {
	g.t.Helper()
	for name, want := range map[string]string{
		"Content-Security-Policy": policy, "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff",
		"Cross-Origin-Opener-Policy": "same-origin", "Cache-Control": "no-store",
	} {
		if got := g.header.Get(name); got != want {
			g.t.Errorf("%s: header %s: got %q, want %q", g.asked, name, got, want)
		}
	}
	harmless(g.t, g.asked, g.body)
}

// harmless fails when hostile text became markup, or when a page needs what the policy forbids.
func harmless(t *testing.T, page, html string) {
	t.Helper()
	for _, bad := range []string{"<script>alert", "<img src=x", `href="javascript:`, "</textarea><!--", " style=", " onclick=", "<style", "<script>"} {
		if at := strings.Index(html, bad); at >= 0 {
			t.Errorf("%s holds %q: …%s…", page, bad, html[max(0, at-80):min(len(html), at+100)])
		}
	}
}

func (g got) want(status int, parts ...string) got {
	g.t.Helper()
	if g.status != status {
		g.t.Fatalf("%s: got %d (to %q), want %d: %s", g.asked, g.status, g.header.Get("Location"), status, g.body)
	}
	for _, part := range parts {
		if !strings.Contains(g.body, part) {
			g.t.Errorf("%s: %q is not on the page: %s", g.asked, part, g.body)
		}
	}
	return g
}

func (g got) without(parts ...string) got {
	g.t.Helper()
	for _, part := range parts {
		if strings.Contains(g.body, part) {
			g.t.Errorf("%s: %q is on the page", g.asked, part)
		}
	}
	return g
}

func (g got) leadsTo(path string) got {
	g.t.Helper()
	if g.status != http.StatusSeeOther || g.header.Get("Location") != path {
		g.t.Fatalf("%s: got %d to %q, want 303 to %q: %s", g.asked, g.status, g.header.Get("Location"), path, g.body)
	}
	return g
}
