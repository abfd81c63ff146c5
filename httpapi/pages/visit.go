package pages

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/session"
)

// visit is one request of somebody who is signed in.
type visit struct {
	w       http.ResponseWriter
	r       *http.Request
	session session.Session
	who     auth.Principal
	now     time.Time // read once
	windows time.Time // of the clock of windows, read once
	live    string
	follows bool       // it is told what changes of a page that it has
	needs   auth.Scope // missing for what could be done here; "": none
	faults  []string   // of the form that was sent; it is shown again
	refusal int        // the status it was refused with; 0: none was sent
}

// Cookies. The session's is told apart by scheme: one that must be Secure also has the prefix
// by which browsers hold it to that.
const (
	sessionCookie = "holdfast_session"
	secureSession = "__Host-holdfast_session"
	themeCookie   = "holdfast_theme"
	themeLife     = 365 * 24 * time.Hour
)

// secure reports whether the browser is held to TLS. Only loopback goes without: there is no
// network to listen on, and dev has no certificate.
func secure(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	host := r.Host
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		host = host[:i]
	}
	host = strings.Trim(host, "[]")
	return host != "localhost" && host != "::1" && !strings.HasPrefix(host, "127.")
}

func cookieName(r *http.Request) string {
	if secure(r) {
		return secureSession
	}
	return sessionCookie
}

// keep gives the browser its session.
func keep(w http.ResponseWriter, r *http.Request, sealed string, until time.Time) {
	http.SetCookie(w, &http.Cookie{
		Name: cookieName(r), Value: sealed, Path: "/", Expires: until,
		HttpOnly: true, Secure: secure(r), SameSite: http.SameSiteStrictMode,
	})
}

// signedIn is the way to every page: no session, no page.
func (p *Pages) signedIn(do func(ctx context.Context, v *visit)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), pageBudget)
		defer cancel()
		if v, ok := p.enter(ctx, w, r); ok {
			do(ctx, v)
		}
	}
}

// enter opens the session of a request, or answers in its place: with the way to sign in.
func (p *Pages) enter(ctx context.Context, w http.ResponseWriter, r *http.Request) (*visit, bool) {
	v := &visit{w: w, r: r, now: p.Now(), windows: p.WindowNow()}
	cookie, err := r.Cookie(cookieName(r))
	if err != nil {
		if r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Site") == "cross-site" {
			p.comeIn(v)
			return nil, false
		}
		p.toSignIn(v)
		return nil, false
	}
	v.session, err = p.Sessions.Open(ctx, cookie.Value)
	switch {
	case errors.Is(err, session.ErrNoSession):
		p.toSignIn(v)
		return nil, false
	case err != nil:
		p.fail(v, err)
		return nil, false
	}
	v.who = v.session.Who
	return v, true
}

// toSignIn sends a browser to the sign-in page, and from there back. A form that was sent is
// not sent again.
func (p *Pages) toSignIn(v *visit) {
	to := "/login"
	if v.r.Method == http.MethodGet && !strings.HasPrefix(v.path(p), "/live/") {
		if back := v.path(p); back != "/" {
			to += "?" + url.Values{"next": {back}}.Encode()
		}
	}
	redirect(v.w, p.Prefix+to)
}

// redirect goes elsewhere on this page, by GET.
func redirect(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}

// path is what was asked for, with its query and without the prefix.
func (v *visit) path(p *Pages) string {
	return strings.TrimPrefix(v.r.URL.RequestURI(), p.Prefix)
}

// onPage is next if it is a path of the pages, or their first page: nobody is sent elsewhere.
func onPage(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || len(next) > 2048 ||
		!strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.ContainsAny(next, "\\\r\n") {
		return "/"
	}
	return next
}

// readForm reads a form within its bound. Errors: *http.MaxBytesError; one that is none.
func (v *visit) readForm() error {
	v.r.Body = http.MaxBytesReader(v.w, v.r.Body, maxForm)
	return v.r.ParseForm()
}

// form is a value of the form, without the blanks around it.
func (v *visit) form(name string) string { return strings.TrimSpace(v.r.PostForm.Get(name)) }

// query is a value of the address.
func (v *visit) query(name string) string { return v.r.URL.Query().Get(name) }

// caller sees everything: who may not was refused before.
func (v *visit) caller() reserve.Caller {
	return reserve.Caller{Tenant: v.who.Tenant, Principal: v.who.ID()}
}

// by is who a change is noted down for.
func (v *visit) by() string { return v.who.Subject.String() }

// note is what the audit trail is told of whoever asks for an act.
func (p *Pages) note(v *visit, reason string) reserve.Note {
	return reserve.Note{
		At: v.now, Actor: v.by(), Reason: reason, Address: p.Address(v.r), RequestID: v.w.Header().Get("X-Request-Id"),
	}
}

// formFault is something wrong with a form, told in it.
type formFault struct {
	status int
	says   []string
}

func (e *formFault) Error() string { return strings.Join(e.says, " ") }

func wrong(says ...string) error {
	return &formFault{status: http.StatusUnprocessableEntity, says: says}
}

// refused takes the reason of an act that was refused for the form to tell it; known is false
// when it is nothing that the form's reader can mend.
func (v *visit) refused(p *Pages, err error) (status int, known bool) {
	if fault, ok := errors.AsType[*formFault](err); ok {
		v.faults = fault.says
		return fault.status, true
	}
	problem := p.Problem(err)
	switch problem.Status {
	case http.StatusConflict, http.StatusGone, http.StatusPreconditionFailed, http.StatusUnprocessableEntity, http.StatusBadRequest:
	default:
		return 0, false
	}
	for _, f := range problem.Errors {
		v.faults = append(v.faults, strings.TrimPrefix(f.Pointer, "/")+" "+f.Detail)
	}
	if len(v.faults) == 0 {
		v.faults = []string{problem.Detail}
	}
	return problem.Status, true
}

// subjectOf is the subject that two parts of the path name.
func (v *visit) subject() (limits.Subject, error) {
	s := limits.Subject{Kind: v.r.PathValue("kind"), ID: v.r.PathValue("id")}
	if s.Validate() != nil {
		return s, errNothing
	}
	return s, nil
}

var errNothing = &formFault{status: http.StatusNotFound, says: []string{"There is nothing here."}}
