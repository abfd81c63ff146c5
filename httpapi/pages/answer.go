package pages

import (
	"bytes"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/web"
)

// policy lets the page use its own script, styles and pictures, and nothing else; text can
// never become script.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

func headers(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// render answers with a page.
func (p *Pages) render(v *visit, status int, made web.View) {
	var b bytes.Buffer
	if err := p.html.Render(&b, p.frame(v, made), made); err != nil {
		p.Log.Error("a page could not be made", "page", made.Page, "error", err)
		v.w.WriteHeader(http.StatusInternalServerError)
		return
	}
	headers(v.w.Header())
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.WriteHeader(status)
	_, _ = v.w.Write(b.Bytes()) // a browser that went away is no event
}

// sections are the pages of the navigation, and what each is shown with.
var sections = []struct {
	section, title, path, key string
	scope                     auth.Scope
}{
	{"now", "Right now", "/", "r", auth.HoldsRead},
	{"limits", "Limits", "/limits", "l", auth.LimitsRead},
	{"holds", "Holds", "/holds", "h", auth.HoldsRead},
	{"waiting", "Waiting", "/waiting", "w", auth.HoldsRead},
	{"activity", "Activity", "/activity", "a", auth.AuditRead},
	{"system", "System", "/system", "s", auth.Admin},
}

func (p *Pages) frame(v *visit, made web.View) web.Frame {
	f := web.Frame{
		Prefix: p.Prefix, Path: v.path(p), Theme: theme(v.r), Version: p.Version, Live: v.live, Now: v.now.UnixMilli(),
		Needs: string(v.needs),
	}
	if v.r.Method != http.MethodGet || !strings.HasPrefix(f.Path, "/") {
		f.Path = "/"
	}
	if said, ok := notices[v.query("done")]; ok {
		f.Notice = &web.Notice{Text: said, Level: web.Good}
	}
	if v.session.ID == "" {
		return f
	}
	f.Who, f.Access = v.who.Subject.ID, access(v.who)
	for _, s := range sections {
		if v.who.Has(s.scope) {
			f.Sections = append(f.Sections, web.Section{Title: s.title, Href: p.Prefix + s.path, Key: s.key, Current: s.section == made.Section})
		}
	}
	return f
}

// access says in a word what somebody may do.
func access(who auth.Principal) string {
	switch {
	case who.Has(auth.Admin):
		return "admin"
	case who.Has(auth.HoldsForce), who.Has(auth.LimitsWrite):
		return "operator"
	default:
		return "reads only"
	}
}

// notices are what can be said after an act; the address only names one.
var notices = map[string]string{
	"forced":    "The hold was released by force. Its worker learns at its next heartbeat.",
	"paused":    "The limit is paused. Nothing new is granted under it.",
	"resumed":   "The limit grants again.",
	"changed":   "Changed, and in force on every replica.",
	"created":   "The limit is made, and in force on every replica.",
	"unblocked": "The block is lifted.",
	"cancelled": "The wait is cancelled; its caller was refused.",
	"ran":       "The job has run. What it found is in its metrics and in the log.",
	"forced-n":  "The holds were released by force. Their workers learn at their next heartbeat.",
}

// fail answers with what went wrong, in words for people.
func (p *Pages) fail(v *visit, err error) {
	if fault, ok := errors.AsType[*formFault](err); ok {
		p.message(v, fault.status, web.Message{Heading: heading(fault.status), Text: strings.Join(fault.says, " ")})
		return
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		p.message(v, http.StatusRequestEntityTooLarge, web.Message{Heading: "That is too much", Text: "The form is longer than 64 KiB."})
		return
	}
	problem := p.Problem(err)
	if problem.Status >= http.StatusInternalServerError {
		p.Log.Error("page", "request", v.w.Header().Get("X-Request-Id"), "path", v.r.Pattern, "cause", err)
	}
	m := web.Message{Heading: heading(problem.Status), Text: problem.Detail}
	if problem.Status == http.StatusServiceUnavailable {
		m.Next = []web.Choice{{Text: "Try again", Href: p.Prefix + onPage(v.path(p))}}
	}
	p.message(v, problem.Status, m)
}

func heading(status int) string {
	switch status {
	case http.StatusNotFound:
		return "Not found"
	case http.StatusForbidden:
		return "Not allowed"
	case http.StatusConflict, http.StatusGone, http.StatusPreconditionFailed:
		return "Changed meanwhile"
	case http.StatusServiceUnavailable:
		return "Not available now"
	}
	if status < http.StatusInternalServerError {
		return "That cannot be done"
	}
	return "Something went wrong here"
}

func (p *Pages) message(v *visit, status int, m web.Message) {
	m.RequestID = v.w.Header().Get("X-Request-Id")
	if v.session.ID != "" {
		m.Next = append(m.Next, web.Choice{Text: "Right now", Href: p.Prefix + "/"})
	}
	p.render(v, status, web.View{Page: "message", Title: m.Heading, Body: m, Still: true})
}

// forbid says which scope is missing, and where to look for it.
func (p *Pages) forbid(v *visit, scope auth.Scope) {
	has := v.who.Scopes.String()
	if has == "" {
		has = "none"
	}
	p.message(v, http.StatusForbidden, web.Message{
		Heading: "Not allowed",
		Text:    "This needs the scope " + string(scope) + ", and the token you signed in with has " + has + ". Sign in with one that has it.",
		Next:    []web.Choice{{Text: "Sign in with another token", Href: p.Prefix + "/login?" + url.Values{"next": {onPage(v.path(p))}}.Encode()}},
	})
}

// nothing answers for every path that there is no page at.
func (p *Pages) nothing(w http.ResponseWriter, r *http.Request) {
	v := &visit{w: w, r: r, now: p.Now()}
	if cookie, err := r.Cookie(cookieName(r)); err == nil {
		if s, err := p.Sessions.Open(r.Context(), cookie.Value); err == nil {
			v.session, v.who = s, s.Who
		}
	}
	p.message(v, http.StatusNotFound, web.Message{Heading: "Not found", Text: "There is no page at this address.", Next: []web.Choice{{Text: "Sign in", Href: p.Prefix + "/login"}}})
}

// foreign refuses a form that another site sent.
func (p *Pages) foreign(w http.ResponseWriter, r *http.Request) {
	p.message(&visit{w: w, r: r, now: p.Now()}, http.StatusForbidden, web.Message{
		Heading: "Not allowed", Text: "This form came from another site, so nothing was done.",
	})
}

// comeIn lets the browser ask again by itself. A strict cookie does not come along when a link
// was followed from another site; it does when a page of ours asks.
func (p *Pages) comeIn(v *visit) {
	to := p.Prefix + onPage(v.path(p))
	p.message(v, http.StatusOK, web.Message{
		Heading: "One moment", Text: "You came from another site.", Onward: to, Next: []web.Choice{{Text: "Go on", Href: to}},
	})
}

// static answers with a file of the page.
func (p *Pages) static(w http.ResponseWriter, r *http.Request) {
	data, contentType, ok := web.File(r.PathValue("name"))
	if !ok {
		p.nothing(w, r)
		return
	}
	headers(w.Header())
	if r.URL.RawQuery != "" { // named by its bytes
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	w.Header().Set("Content-Type", contentType)
	_, _ = w.Write(data)
}

var themes = []string{"dark", "light"}

func theme(r *http.Request) string {
	if c, err := r.Cookie(themeCookie); err == nil && slices.Contains(themes, c.Value) {
		return c.Value
	}
	return ""
}

// theme answers POST /theme: the colours of this browser.
func (p *Pages) theme(w http.ResponseWriter, r *http.Request) {
	v := &visit{w: w, r: r, now: p.Now()}
	if err := v.readForm(); err != nil {
		p.fail(v, wrong("The form cannot be read."))
		return
	}
	c := &http.Cookie{Name: themeCookie, Value: v.form("theme"), Path: "/", MaxAge: int(themeLife.Seconds()), HttpOnly: true, Secure: secure(r), SameSite: http.SameSiteStrictMode}
	if !slices.Contains(themes, c.Value) {
		c.Value, c.MaxAge = "", -1
	}
	http.SetCookie(w, c)
	redirect(w, p.Prefix+onPage(v.form("next")))
}
