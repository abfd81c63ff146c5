package pages

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

func TestLogin_ALinkSignsInOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	link := strings.TrimPrefix(r.link("dana", "admin"), r.server.URL)
	first, second := r.browser(), r.browser()
	g := first.get(link).leadsTo("/")
	cookie := g.header.Get("Set-Cookie")
	for _, want := range []string{"holdfast_session=", "HttpOnly", "SameSite=Strict", "Path=/", "Expires="} {
		if !strings.Contains(cookie, want) {
			t.Errorf("cookie %q lacks %s", cookie, want)
		}
	}
	if strings.Contains(cookie, "Secure") {
		t.Errorf("on loopback there is no TLS to hold a cookie to: %q", cookie)
	}
	first.get("/").want(http.StatusOK, "dana", "admin", "Right now")
	second.get(link).want(http.StatusForbidden, "works once", "holdfast ui")
	second.get("/").leadsTo("/login")
}

// Off loopback a session never travels in the clear, and no other host can set it.
func TestLogin_CookieIsSecureOffLoopback(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for host, want := range map[string]bool{
		"127.0.0.1:7421": false, "localhost:7421": false, "[::1]:7421": false, "localhost": false, "127.0.0.1": false,
		"holdfast.example": true, "10.0.0.7:7421": true, "localhost.example": true, "[fd00::1]:7421": true,
	} {
		link := strings.TrimPrefix(r.link("dana", "admin"), r.server.URL)
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, link, http.NoBody)
		req.Host = host
		w := httptest.NewRecorder()
		r.pages.ServeHTTP(w, req)
		cookie := w.Header().Get("Set-Cookie")
		if got := strings.HasPrefix(cookie, "__Host-") && strings.Contains(cookie, "; Secure"); got != want || cookie == "" {
			t.Errorf("host %s: cookie %q, want secure: %v", host, cookie, want)
		}
	}
}

func TestLogin_PastedToken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.browser()
	b.post("/login", url.Values{"token": {" " + r.token("dana", "holds:read") + "\n"}, "next": {"/holds?limit=exports"}}).leadsTo("/holds?limit=exports")
	b.get("/holds").want(http.StatusOK, "reads only")
	for name, token := range map[string]string{"nothing": "", "no token": "eyJ", "another's signature": r.token("dana", "admin") + "x"} {
		other := r.browser()
		other.post("/login", url.Values{"token": {token}}).want(http.StatusForbidden, "not accepted", "holdfast token").without("eyJhb")
		other.get("/").leadsTo("/login")
		_ = name
	}
}

func TestLogin_GuessingIsSlowedDown(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.Failed = func(string, time.Time) bool { return true } })
	b := r.browser()
	b.get("/login?once=aaaa-aaaa").want(http.StatusTooManyRequests, "Too many tries")
	b.post("/login", url.Values{"token": {"eyJ"}}).want(http.StatusTooManyRequests, "Too many tries")
}

// Nobody is sent to another site by signing in.
func TestLogin_NextStaysHere(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for next, want := range map[string]string{
		"/holds": "/holds", "": "/", "https://evil.example/": "/", "//evil.example": "/", "/\\evil.example": "/", "javascript:alert(1)": "/",
		"holds": "/", "/holds?q=a b": "/holds?q=a b", "/a\r\nSet-Cookie: x": "/", "/" + strings.Repeat("x", 3000): "/",
	} {
		r.browser().post("/login", url.Values{"token": {r.token("dana", "admin")}, "next": {next}}).leadsTo(want)
	}
}

func TestLogin_AsksForItWithTheWayBack(t *testing.T) {
	t.Parallel()
	b := newRig(t).browser()
	b.get("/holds?limit=exports").leadsTo("/login?next=%2Fholds%3Flimit%3Dexports")
	b.get("/login?next=%2Fholds").want(http.StatusOK, `name="next" value="/holds"`, "paste a token", "holdfast ui", "holds:read")
	b.post("/holds/force", url.Values{}).leadsTo("/login")
}

// A strict cookie stays at home when a link is followed from another site.
func TestLogin_ALinkFromAnotherSiteIsAskedForAgain(t *testing.T) {
	t.Parallel()
	b := newRig(t).browser()
	b.header.Set("Sec-Fetch-Site", "cross-site")
	b.get("/holds?limit=exports").want(http.StatusOK, `http-equiv="refresh" content="0;url=/holds?limit=exports"`)
}

func TestLogout_EndsTheSessionEverywhere(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.as("admin")
	where, err := url.Parse(r.server.URL)
	if err != nil {
		t.Fatal(err)
	}
	stolen := b.http.Jar.Cookies(where)
	b.post("/logout", nil).leadsTo("/login")
	b.get("/").leadsTo("/login")
	thief := r.browser()
	thief.http.Jar.SetCookies(where, stolen)
	thief.get("/").leadsTo("/login")
}

func TestForms_FromOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	h := r.hold("u_42")
	for name, header := range map[string]http.Header{
		"cross-site":     {"Sec-Fetch-Site": {"cross-site"}},
		"same-site":      {"Sec-Fetch-Site": {"same-site"}},
		"by the origin":  {"Origin": {"https://evil.example"}},
		"a null origin":  {"Origin": {"null"}},
		"another scheme": {"Origin": {"https://" + strings.TrimPrefix(r.server.URL, "http://") + ".evil.example"}},
	} {
		b := r.as("admin")
		b.header = header
		form := url.Values{"reason": {"x"}, "fence": {"1"}, "last": {lastOf(h.ID.String())}}
		b.post(holdPath(h.ID.String())+"/force", form).want(http.StatusForbidden, "another site")
		b.post("/logout", nil).want(http.StatusForbidden)
		b.post("/login", url.Values{"token": {r.token("mallory", "admin")}}).want(http.StatusForbidden)
		if name == "" || r.state(h.ID).State.String() != "held" {
			t.Fatalf("%s: the hold was released", name)
		}
	}
}

func TestPages_UnderAPrefix(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.Prefix = "/ops/holdfast" })
	b := r.browser()
	b.get("/ops/holdfast").leadsTo("/ops/holdfast/")
	b.get("/ops/holdfast/holds").leadsTo("/ops/holdfast/login?next=%2Fholds")
	b.get(strings.TrimPrefix(r.link("dana", "admin"), r.server.URL)).leadsTo("/ops/holdfast/")
	g := b.get("/ops/holdfast/holds").want(http.StatusOK, `href="/ops/holdfast/"`, `src="/ops/holdfast/static/page.js`, `data-live="/ops/holdfast/live/holds?`)
	g.without(`href="/holds`, `action="/holds`, `src="/static`)
	b.get("/holds").want(http.StatusNotFound)
	b.get("/livez").want(http.StatusOK)
	for _, bad := range []string{"holdfast", "/", "/x/", "/a//b", "/a?b", "/a b", "/../x", "/{x}"} {
		if goodPrefix(bad) {
			t.Errorf("prefix %q is taken", bad)
		}
	}
}

// The routes of the API stay where they are, and answer as they did.
func TestPages_LeaveTheRestAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for path, want := range map[string]int{
		"/livez": http.StatusOK, "/readyz": http.StatusOK, "/version": http.StatusOK,
		"/admin/v1/cluster": http.StatusUnauthorized, "/admin/v1/nothing": http.StatusNotFound,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.server.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := r.server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != want || !strings.Contains(resp.Header.Get("Content-Type"), "json") {
			t.Errorf("%s: got %d %s, want %d and JSON", path, resp.StatusCode, body, want)
		}
	}
}

func TestNew_TellsAllThatIsMissing(t *testing.T) {
	t.Parallel()
	_, err := New(Config{Prefix: "x"})
	for _, want := range []string{"Service", "Editor", "Sessions", "Verifier", "Now", "Problem", "LimitOf", "Prefix"} {
		if err == nil || !strings.Contains(err.Error(), "Config."+want) && !strings.Contains(err.Error(), want) {
			t.Errorf("New: got %v, want it to name %s", err, want)
		}
	}
	if session.MaxLife > 24*time.Hour {
		t.Error("a session outlives the longest token")
	}
}
