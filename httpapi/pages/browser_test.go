package pages

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	browserpage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/windows"
)

// patience bounds one test in the browser: only a fault lets it pass.
const patience = 90 * time.Second

// chromium is the browser of this machine, "" for none.
func chromium() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// TestBrowser runs everything that only a real browser can tell, one after the other in one
// browser: each part has a server, and cookies, of its own.
func TestBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("a real browser takes a while; run without -short")
	}
	path := chromium()
	if path == "" {
		t.Skip("there is no Chromium on this machine; apt-get install chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("hide-scrollbars", true), chromedp.WindowSize(1280, 900))
	allocated, release := chromedp.NewExecAllocator(context.Background(), options...)
	defer release()
	browser, closeBrowser := chromedp.NewContext(allocated)
	defer closeBrowser()
	if err := chromedp.Do(browser, chromedp.Navigate("about:blank")); err != nil {
		t.Fatalf("the browser does not start: %v", err)
	}
	for _, part := range []struct {
		name string
		run  func(t *testing.T, r *rig, b *tab)
		with []func(*Config)
	}{
		{"a link signs in, and once only", signsInOnce, nil},
		{"a hold appears and goes without a reload", holdAppears, nil},
		{"the page says how old it is when the server is gone, and goes on when it is back", goesStale, nil},
		{"a wait appears and is cancelled", cancelsWait, nil},
		{"release by force", forces, nil},
		{"release by force of a hold that ended meanwhile", forcesTooLate, nil},
		{"a limit that somebody else changed", changedMeanwhile, nil},
		{"the same by keyboard alone", byKeyboard, nil},
		{"without script", withoutScript, nil},
		{"what people type is text", hostileText, nil},
		{"names, roles and contrast", accessible, nil},
		{"two thousand holds", manyHolds, nil},
		{"pictures", pictures, []func(*Config){night, func(c *Config) { quiet(t, c) }}},
	} {
		t.Run(part.name, func(t *testing.T) {
			r := newRig(t, part.with...)
			part.run(t, r, newTab(t, r, browser))
		})
	}
}

// tab is one page of the browser, with cookies of its own. Whatever the page does against its
// policy, asks of others, or throws, fails the test.
type tab struct {
	t       *testing.T
	r       *rig
	browser context.Context
	ctx     context.Context

	mu     sync.Mutex
	faults []string
}

func newTab(t *testing.T, r *rig, browser context.Context) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		t.Fatalf("a page cannot be opened: %v", err)
	}
	ctx, stop := context.WithTimeout(ctx, patience)
	t.Cleanup(stop)
	b := &tab{t: t, r: r, browser: browser, ctx: ctx}
	const violated = "holdfastViolated"
	err := chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			if u := e.Request.URL; !strings.HasPrefix(u, r.server.URL+"/") && !strings.HasPrefix(u, "data:") && !strings.HasPrefix(u, "about:") && !strings.HasPrefix(u, "chrome") {
				b.fault("a request off the origin: " + u)
			}
		case *runtime.EventBindingCalled:
			if e.Name == violated {
				b.fault("against the policy: " + e.Payload)
			}
		case *runtime.EventExceptionThrown:
			b.fault("thrown: " + e.ExceptionDetails.Text)
		case *log.EventEntryAdded:
			if e.Entry.Source == log.EntrySourceSecurity {
				b.fault("security: " + e.Entry.Text)
			}
		case *browserpage.EventJavascriptDialogOpening:
			b.fault("a dialog of script: " + e.Message)
		}
	})
	if err != nil {
		t.Fatalf("a page cannot be opened: %v", err)
	}
	b.do(call(network.Enable, network.EnableParams{}), call(log.Enable, cdp.Empty{}), call(runtime.Enable, cdp.Empty{}), call(browserpage.Enable, browserpage.EnableParams{}),
		call(runtime.AddBinding, runtime.AddBindingParams{Name: violated}),
		call(browserpage.AddScriptToEvaluateOnNewDocument, browserpage.AddScriptToEvaluateOnNewDocumentParams{
			Source: `addEventListener("securitypolicyviolation", (e) => ` + violated + `(e.violatedDirective + " " + e.blockedURI + " " + e.sample))`,
		}))
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, fault := range b.faults {
			t.Error(fault)
		}
	})
	return b
}

func (b *tab) fault(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = append(b.faults, what)
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatalf("%v; the page says: %s", err, b.text("body"))
	}
}

// call is a command of the browser's protocol.
func call[P, R any](cmd cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, cmd, params)
		return err
	})
}

// eval is the value of an expression on the page of b.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// text is what an element shows, "" when it is not there.
func (b *tab) text(selector string) string {
	text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](fmt.Sprintf(`document.querySelector(%q)?.innerText ?? ""`, selector)))
	if err != nil {
		return err.Error()
	}
	return text
}

// open goes to a page and waits until it is there.
func (b *tab) open(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.r.server.URL+path), chromedp.WaitReady(chromedp.CSS("main")))
}

// signIn follows a link.
func (b *tab) signIn(scope string) {
	b.t.Helper()
	b.open(strings.TrimPrefix(b.r.link("dana", scope), b.r.server.URL))
	b.until(`document.querySelector("nav") !== null`)
}

// until waits until an expression is true. While a page gives way to the next there is nothing
// to ask; that is no fault.
func (b *tab) until(expression string) {
	b.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		yes, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](expression))
		if err == nil && yes {
			return
		}
		select {
		case <-tick.C:
		case <-b.ctx.Done():
			b.t.Fatalf("%s never came true (%v)", expression, err)
		}
	}
}

// says waits until the page shows a text.
func (b *tab) says(text string) {
	b.t.Helper()
	b.until(fmt.Sprintf("document.readyState !== 'loading' && document.body.innerText.includes(%q)", text))
}

func signsInOnce(t *testing.T, r *rig, b *tab) {
	link := strings.TrimPrefix(r.link("dana", "admin"), r.server.URL)
	b.open(link)
	b.says("saturated")
	if at := eval[string](b, "location.href"); at != r.server.URL+"/" {
		t.Errorf("after the link: at %s, want the first page without the code", at)
	}
	other := newTab(t, r, b.browser)
	other.open(link)
	other.says("works once")
	other.says("holdfast ui")
}

func holdAppears(_ *testing.T, r *rig, b *tab) {
	b.signIn("admin")
	b.open("/holds")
	b.says("Nothing is held that fits.")
	h := r.hold("u_42")
	row := fmt.Sprintf("[data-key=%q]", h.ID.String())
	b.until(fmt.Sprintf("document.querySelector(%q) !== null", row))
	b.says("report-991@w7")
	b.until(fmt.Sprintf(`document.querySelector(%q + " a.main").getAttribute("href") === %q`, row, holdPath(h.ID.String())))
	b.until(fmt.Sprintf(`/^in 4m/.test(document.querySelector(%q + " [data-until]").textContent)`, row))
	if _, err := r.service.Release(context.Background(), reserve.HoldRef{ID: h.ID, By: reserve.Caller{Tenant: auth.DefaultTenant}}, ""); err != nil {
		b.t.Fatal(err)
	}
	b.until(fmt.Sprintf("document.querySelector(%q) === null", row))
	b.says("Nothing is held that fits.")
}

func goesStale(_ *testing.T, r *rig, b *tab) {
	b.signIn("admin")
	b.until(`document.getElementById("stale").hidden && document.getElementById("live-text").textContent === "live"`)
	r.stop()
	b.says("updates paused")
	b.says("ago, retrying")
	h := r.hold("u_42") // nobody is told
	r.again()
	b.until(`document.getElementById("stale").hidden && document.body.innerText.includes("report-991@w7")`)
	b.until(fmt.Sprintf(`document.querySelector('a[href=%q]') !== null`, holdPath(h.ID.String())))
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = slices.DeleteFunc(b.faults, func(f string) bool { return strings.Contains(f, "net::") }) // a server that is gone is no fault of the page
}

func cancelsWait(t *testing.T, r *rig, b *tab) {
	r.full()
	b.signIn("holds:force")
	b.open("/waiting")
	b.says("Nobody waits.")
	w, over := r.waits("patient")
	row := fmt.Sprintf(`tr[data-key=%q] [data-opens]`, reserve.WaiterID(w.ID))
	b.do(chromedp.WaitVisible(chromedp.CSS(row)), chromedp.Click(chromedp.CSS(row)))
	b.until(`document.getElementById("row-ask").open`)
	b.shows("#row-ask", "patient@w8", "wait-cancelled")
	b.fill("#row-reason", "stuck after deploy")
	b.do(chromedp.Click(chromedp.CSS(`#row-ask button.danger`)))
	b.says("The wait is cancelled")
	b.says("Nobody waits.")
	if err := <-over; !errors.Is(err, reserve.ErrWaitCancelled) {
		t.Errorf("the wait ended with %v, want ErrWaitCancelled", err)
	}
}

// fill types into a field after emptying it.
func (b *tab) fill(selector, text string) {
	b.t.Helper()
	b.do(chromedp.WaitVisible(chromedp.CSS(selector)))
	b.until(fmt.Sprintf(`(document.querySelector(%q).value = "", true)`, selector))
	b.do(chromedp.SendKeys(chromedp.CSS(selector), text))
}

// openForce goes from the list to the dialog as people do.
func (b *tab) openForce(h reserve.Reservation) {
	b.t.Helper()
	b.open("/holds")
	b.do(chromedp.Click(chromedp.CSS(fmt.Sprintf(`tr[data-key=%q] a.main`, h.ID.String()))))
	b.says("Timeline")
	b.do(chromedp.Click(chromedp.CSS(`[data-opens="force"]`)))
	b.until(`document.getElementById("force").open`)
	b.fill("#force-reason", "stuck after deploy")
	b.fill("#force-last", lastOf(h.ID.String()))
}

func forces(t *testing.T, r *rig, b *tab) {
	h := r.hold("u_42")
	b.signIn("holds:force")
	b.openForce(h)
	b.do(chromedp.Click(chromedp.CSS(`#force [name="block"]`)), chromedp.Click(chromedp.CSS(`#force button.danger`)))
	b.says("The hold was released by force")
	b.says("stuck after deploy")
	if got := r.state(h.ID); got.State != reserve.Forced {
		t.Errorf("the hold is %s", got.State)
	}
	if _, blocked := r.service.Catalog(auth.DefaultTenant).Block(h.Subject); !blocked {
		t.Error("the subject is not blocked")
	}
}

func forcesTooLate(t *testing.T, r *rig, b *tab) {
	h := r.hold("u_42")
	b.signIn("holds:force")
	b.openForce(h)
	if _, err := r.service.Release(t.Context(), reserve.HoldRef{ID: h.ID, By: reserve.Caller{Tenant: auth.DefaultTenant}}, ""); err != nil {
		t.Fatal(err)
	}
	b.do(chromedp.Click(chromedp.CSS(`#force button.danger`)))
	b.says(endedAlready)
	if got := r.state(h.ID).State; got != reserve.Released {
		t.Errorf("the hold is %s, want released as it was", got)
	}
}

func changedMeanwhile(t *testing.T, r *rig, b *tab) {
	b.signIn("admin")
	b.open("/limits/exports/edit")
	b.fill("#amount", "5")
	_, rev, err := r.editor.Change(t.Context(), auth.DefaultTenant, "exports", 0, "user:eve", func(l limits.Limit) (limits.Limit, error) {
		l.Amount = 7
		return l, nil
	})
	if err != nil || r.service.Reached(t.Context(), rev) != nil {
		t.Fatal(err)
	}
	b.do(chromedp.Click(chromedp.CSS(`form.act button.primary`)))
	b.until(`document.querySelector("td[data-title=Now]") !== null`)
	now, yours := b.text("td[data-title=Now]"), b.text("td[data-title=Yours]")
	if l, _ := r.service.Catalog(auth.DefaultTenant).Limit("exports"); now != "7" || yours != "5" || l.Amount != 7 {
		t.Errorf("now %q, yours %q, in force %d; want 7, 5 and 7", now, yours, l.Amount)
	}
	b.do(chromedp.Click(chromedp.CSS(`form.act button.primary`)))
	b.says("at most 5 at once")
}

// tabTo moves the focus on until it is on what a selector names.
func (b *tab) tabTo(selector string) {
	b.t.Helper()
	for range 60 {
		if eval[bool](b, fmt.Sprintf("document.activeElement?.matches(%q) ?? false", selector)) {
			return
		}
		b.do(chromedp.KeyEvent(kb.Tab))
	}
	b.t.Fatalf("%s is never reached by Tab", selector)
}

func byKeyboard(t *testing.T, r *rig, b *tab) {
	h := r.hold("u_42")
	b.signIn("holds:force")
	b.do(chromedp.KeyEvent("g"), chromedp.KeyEvent("h"))
	b.until(`location.pathname === "/holds" && document.documentElement.classList.contains("js")`)
	b.do(chromedp.KeyEvent("j"))
	b.until(`document.activeElement.matches("tr a.main")`)
	b.do(chromedp.KeyEvent(kb.Enter))
	b.says("Timeline")
	b.tabTo(`[data-opens="force"]`)
	b.do(chromedp.KeyEvent(kb.Enter))
	b.until(`document.activeElement.id === "force-reason"`)
	b.do(chromedp.KeyEvent("stuck"))
	b.tabTo("#force-last")
	b.do(chromedp.KeyEvent(lastOf(h.ID.String())), chromedp.KeyEvent(kb.Enter))
	b.says("The hold was released by force")
	if got := r.state(h.ID).State; got != reserve.Forced {
		t.Errorf("the hold is %s", got)
	}
	b.do(chromedp.KeyEvent("?"))
	b.until(`document.getElementById("keys").open`)
	b.do(chromedp.KeyEvent(kb.Escape), chromedp.KeyEvent("/"))
	b.until(`document.activeElement.id === "q"`)
}

func withoutScript(t *testing.T, r *rig, b *tab) {
	h := r.hold("u_42")
	b.do(call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
	b.signIn("holds:force")
	b.open("/")
	b.shows("body", "user:u_42", "report-991@w7", "1 / 3")
	if eval[bool](b, `getComputedStyle(document.getElementById("live")).display !== "none"`) {
		t.Error("a button that needs script is shown without it")
	}
	b.open(holdPath(h.ID.String()))
	b.do(chromedp.Click(chromedp.CSS(`[data-opens="force"]`)), chromedp.WaitVisible(chromedp.CSS("main > section #force-reason")))
	b.do(chromedp.SendKeys(chromedp.CSS("#force-reason"), "stuck"), chromedp.SendKeys(chromedp.CSS("#force-last"), lastOf(h.ID.String())),
		chromedp.Click(chromedp.CSS("main form button.danger")), chromedp.WaitVisible(chromedp.CSS(".strip.good")))
	if got := r.state(h.ID).State; got != reserve.Forced {
		t.Errorf("the hold is %s", got)
	}
}

// shows fails unless an element shows every part.
func (b *tab) shows(selector string, parts ...string) {
	b.t.Helper()
	text := b.text(selector)
	for _, part := range parts {
		if !strings.Contains(text, part) {
			b.t.Errorf("%s does not say %q: %s", selector, part, text)
		}
	}
}

func hostileText(t *testing.T, r *rig, b *tab) {
	change := func(q *reserve.Request) {
		q.Labels = map[string]string{"job": hostile}
		q.Owner = reserve.Owner{Name: hostile, Host: hostile, URL: "javascript:alert(1)"}
		q.Subject.ID = hostile
	}
	first := r.hold("x", change)
	b.signIn("admin")
	b.open("/holds")
	second := r.hold("x", change) // this one comes by the stream
	for _, h := range []reserve.Reservation{first, second} {
		cell := fmt.Sprintf(`document.querySelector('[data-key="%s"] td:last-child')`, h.ID.String())
		b.until(cell + " !== null")
		text, elements := eval[string](b, cell+".textContent"), eval[int](b, cell+".querySelectorAll('script, img').length")
		if text != "job="+hostile || elements != 0 {
			t.Errorf("label %q is shown as %q with %d elements of its own", hostile, text, elements)
		}
	}
	for _, path := range []string{"/", "/holds", holdPath(first.ID.String()), "/holds?q=" + url.QueryEscape(hostile), "/subjects/user/" + url.PathEscape(hostile)} {
		b.open(path)
		dangerous := eval[int](b, `[...document.links].filter((a) => !/^https?:/.test(a.protocol)).length + document.querySelectorAll("main script, main img").length`)
		if dangerous != 0 {
			t.Errorf("%s has %d links or elements that could run something", path, dangerous)
		}
	}
}

// contrast finds text whose colour is too near to what is behind it.
const contrast = `(() => {
  const parse = (c) => { const m = c.match(/[\d.]+/g).map(Number); return { rgb: m.slice(0, 3), a: m[3] ?? 1 }; };
  const light = ([r, g, b]) => [r, g, b].map((v) => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4).reduce((s, v, i) => s + v * [.2126, .7152, .0722][i], 0);
  const ground = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.a > .99) return c.rgb; } return [255, 255, 255]; };
  const bad = new Set();
  for (const e of document.querySelectorAll("body *")) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()) || !e.checkVisibility({ checkVisibilityCSS: true }) || e.closest(".hide, .skip")) continue;
    const s = getComputedStyle(e), size = parseFloat(s.fontSize), big = size >= 24 || size >= 18.66 && s.fontWeight >= 700;
    const a = light(parse(s.color).rgb), b = light(ground(e)), ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < (big ? 3 : 4.5)) bad.add(e.tagName + "." + e.className + " " + ratio.toFixed(2) + " " + e.textContent.trim().slice(0, 30));
  }
  return [...bad];
})()`

// named are roles that mean nothing to who cannot see, without a name.
var named = []string{"link", "button", "textbox", "searchbox", "checkbox", "radio", "combobox", "spinbutton", "dialog", "navigation", "table", "meter", "heading", "img"}

func accessible(t *testing.T, r *rig, b *tab) {
	h := r.hold("u_42", func(q *reserve.Request) { q.TTL = 20 * time.Second })
	r.hold("u_42", func(q *reserve.Request) { q.Labels = map[string]string{"job": "991"} })
	r.hold("u_42")
	r.waits("patient")
	b.signIn("admin")
	paths := []string{
		"/", "/waiting", "/holds", holdPath(h.ID.String()), holdPath(h.ID.String()) + "/force", "/login", "/nowhere",
		"/limits", "/limits/exports", "/limits/new", "/limits/exports/edit", "/limits/exports/amount", "/limits/exports/pause", "/subjects/user/u_42", "/activity", "/system",
	}
	for _, scheme := range []string{"light", "dark"} {
		b.do(call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}))
		for _, path := range paths {
			b.open(path)
			for _, one := range eval[[]string](b, contrast) {
				t.Errorf("%s, %s: contrast below 4.5: %s", path, scheme, one)
			}
			if scheme == "dark" {
				continue // names and roles have no colour
			}
			b.checkNames(path)
		}
	}
}

// checkNames looks at the tree that readers of screens are given.
func (b *tab) checkNames(path string) {
	b.t.Helper()
	tree, err := chromedp.Call(b.ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	if err != nil {
		b.t.Fatal(err)
	}
	roles := map[string]int{}
	for _, n := range tree.Nodes {
		if n.Ignored || n.Role == nil {
			continue
		}
		role := strings.Trim(string(n.Role.Value), `"`)
		roles[role]++
		if slices.Contains(named, role) && (n.Name == nil || strings.Trim(string(n.Name.Value), `" `) == "") && !(role == "link" && len(n.Properties) == 0) {
			b.t.Errorf("%s: a %s has no name (node %v)", path, role, n.BackendDOMNodeID)
		}
	}
	language := eval[string](b, `document.documentElement.lang`)
	ids := eval[string](b, `(() => { const seen = new Set(); return [...document.querySelectorAll("[id]")].map((e) => e.id).filter((id) => seen.has(id) || !seen.add(id)).join(" "); })()`)
	if roles["main"] != 1 || roles["heading"] == 0 || language != "en" || ids != "" {
		b.t.Errorf("%s: %d main, %d headings, language %q, ids that are there twice: %q", path, roles["main"], roles["heading"], language, ids)
	}
}

// many makes n holds.
func (r *rig) many(n int) {
	r.t.Helper()
	_, rev, err := r.editor.Create(r.t.Context(), auth.DefaultTenant, limits.Limit{
		ID: "many", Name: "Many at once", SubjectKind: "user", Action: "work", Amount: int64(n), Window: windows.Window{Kind: windows.Concurrent}, Share: limits.All, Enabled: true,
	}, "test")
	if err != nil || r.service.Reached(r.t.Context(), rev) != nil {
		r.t.Fatal(err)
	}
	var all sync.WaitGroup
	for w := range 50 {
		all.Go(func() {
			for i := w; i < n; i += 50 {
				_, d, err := r.service.Reserve(r.t.Context(), reserve.Request{
					Tenant: auth.DefaultTenant, Subject: limits.Subject{Kind: "user", ID: fmt.Sprintf("u_%d", i)}, Action: "work", Cost: 1, TTL: time.Hour,
					Principal: "user:2:me:x", Owner: reserve.Owner{Name: fmt.Sprintf("worker-%d", i), Host: fmt.Sprintf("w%d", i%40)},
				})
				if err != nil || !d.Allowed {
					r.t.Errorf("hold %d: %v, allowed %v", i, err, d.Allowed)
					return
				}
			}
		})
	}
	all.Wait()
}

func manyHolds(t *testing.T, r *rig, b *tab) {
	const n = 2_000
	r.many(n)
	b.signIn("admin")
	began := time.Now()
	b.open("/holds")
	b.until(fmt.Sprintf(`document.querySelectorAll("tbody tr").length === %d`, n))
	t.Logf("%d holds were there after %s", n, time.Since(began).Round(time.Millisecond))
	b.until(`(document.querySelector("tbody tr:last-child").scrollIntoView(), true)`)
	b.until(`(() => { const box = document.querySelector("tbody tr:last-child").getBoundingClientRect(); return scrollY > 10000 && box.top >= 0 && box.top < innerHeight; })()`)
	h := r.hold("u_42") // beyond the first page's 2,000: only the number changes
	_ = h
	b.says("2000 and more")
}
