package pages

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/web"
)

const usedLink = "This link is no good any more: it works once, and for 10 minutes. Make a new one with: holdfast ui"

// signIn answers GET /login: the sign-in page, and with ?once= the link that signs in once.
func (p *Pages) signIn(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), pageBudget)
	defer cancel()
	v := &visit{w: w, r: r, now: p.Now()}
	next := onPage(v.query("next"))
	code := v.query("once")
	if code == "" {
		p.loginPage(v, http.StatusOK, next, "")
		return
	}
	sealed, s, err := p.Sessions.Redeem(ctx, code)
	switch {
	case errors.Is(err, session.ErrNoLink):
		if p.Failed(p.Address(r), v.now) {
			p.loginPage(v, http.StatusTooManyRequests, next, "Too many tries from here. Wait a second.")
			return
		}
		p.loginPage(v, http.StatusForbidden, next, usedLink)
	case err != nil:
		p.fail(v, err)
	default:
		keep(w, r, sealed, s.Who.ExpiresAt)
		redirect(w, p.Prefix+next)
	}
}

// paste answers POST /login: a session for whoever shows a token.
func (p *Pages) paste(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), pageBudget)
	defer cancel()
	v := &visit{w: w, r: r, now: p.Now()}
	if err := v.readForm(); err != nil {
		p.fail(v, wrong("The form cannot be read."))
		return
	}
	next := onPage(v.form("next"))
	who, err := p.Verifier.Verify(ctx, v.form("token"))
	if err == nil {
		var sealed string
		var s session.Session
		if sealed, s, err = p.Sessions.Start(who); err == nil {
			keep(w, r, sealed, s.Who.ExpiresAt)
			redirect(w, p.Prefix+next)
			return
		}
	}
	switch {
	case errors.Is(err, auth.ErrUnauthenticated) && p.Failed(p.Address(r), v.now):
		p.loginPage(v, http.StatusTooManyRequests, next, "Too many tries from here. Wait a second.")
	case errors.Is(err, auth.ErrUnauthenticated), errors.Is(err, session.ErrNoSession):
		reason := strings.TrimPrefix(err.Error(), auth.ErrUnauthenticated.Error()+": ")
		p.loginPage(v, http.StatusForbidden, next, "This token is not accepted: "+reason+". Print a fresh one with: holdfast token")
	case errors.Is(err, session.ErrTooLong):
		p.loginPage(v, http.StatusUnprocessableEntity, next, "The names in this token are too long for a cookie.")
	default:
		p.fail(v, err)
	}
}

func (p *Pages) loginPage(v *visit, status int, next, fault string) {
	p.render(v, status, web.View{Page: "login", Title: "Sign in", Still: true, Body: web.SignIn{
		Next: next, Fault: fault,
		Needs: "To look, a token needs holds:read and limits:read. To act, holds:force and limits:write; admin has all of it.",
	}})
}

// signOut answers POST /logout: the session is over on every replica.
func (p *Pages) signOut(w http.ResponseWriter, r *http.Request) {
	p.signedIn(func(ctx context.Context, v *visit) {
		if err := p.Sessions.End(ctx, v.session); err != nil {
			p.fail(v, err)
			return
		}
		http.SetCookie(w, &http.Cookie{Name: cookieName(r), Path: "/", MaxAge: -1, HttpOnly: true, Secure: secure(r), SameSite: http.SameSiteStrictMode})
		redirect(w, p.Prefix+"/login")
	})(w, r)
}
