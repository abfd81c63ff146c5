package pages

import (
	"context"
	"net/http"

	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/web"
)

// view makes one page. It changes nothing.
type view func(ctx context.Context, v *visit) (web.View, error)

// deed does what a form asks for, and says where to go then.
type deed func(ctx context.Context, v *visit) (to string, err error)

// page is one row of the table: what is shown at a path, and what its form does there.
type page struct {
	path  string
	scope auth.Scope // that it is shown with; "": any session
	view  view
	deed  deed // nil: no form is sent here
}

func (p *Pages) table() []page {
	return []page{
		{path: "/{$}", scope: auth.HoldsRead, view: p.rightNow},
		{path: "/holds", scope: auth.HoldsRead, view: p.holds},
		{path: "/holds/{id}", scope: auth.HoldsRead, view: p.hold},
		{path: "/holds/{id}/force", scope: auth.HoldsForce, view: p.forceForm, deed: p.force},
		{path: "/holds/force", scope: auth.HoldsForce, view: p.forceSome, deed: p.forceAll},

		{path: "/limits", scope: auth.LimitsRead, view: p.limitList},
		{path: "/limits/new", scope: auth.LimitsWrite, view: p.limitForm, deed: p.createLimit},
		{path: "/limits/{id}", scope: auth.LimitsRead, view: p.limit},
		{path: "/limits/{id}/edit", scope: auth.LimitsWrite, view: p.limitForm, deed: p.editLimit},
		{path: "/limits/{id}/amount", scope: auth.LimitsWrite, view: p.amountForm, deed: p.changeAmount},
		{path: "/limits/{id}/override/end", scope: auth.LimitsWrite, view: p.endForm, deed: p.endOverride},
		{path: "/limits/{id}/pause", scope: auth.LimitsWrite, view: p.pauseForm, deed: p.pause},
		{path: "/limits/{id}/resume", scope: auth.LimitsWrite, view: p.resumeForm, deed: p.resume},
		{path: "/limits/{id}/disable", scope: auth.LimitsWrite, view: p.switchForm(false), deed: p.switchLimit(false)},
		{path: "/limits/{id}/enable", scope: auth.LimitsWrite, view: p.switchForm(true), deed: p.switchLimit(true)},

		{path: "/subjects/{kind}/{id}", scope: auth.HoldsRead, view: p.subjectPage},
		{path: "/subjects/{kind}/{id}/unblock", scope: auth.HoldsForce, view: p.unblockForm, deed: p.unblock},

		{path: "/waiting", scope: auth.HoldsRead, view: p.waiting},
		{path: "/waiting/{id}/cancel", scope: auth.HoldsForce, view: p.cancelForm, deed: p.cancelWait},

		{path: "/activity", scope: auth.AuditRead, view: p.activity},
		{path: "/system", scope: auth.Admin, view: p.system},
		{path: "/system/janitor/{job}", scope: auth.Admin, view: p.jobForm, deed: p.runJob},
	}
}

// routes is the handler of everything, behind the guard against other sites' forms.
func (p *Pages) routes() http.Handler {
	mux := http.NewServeMux()
	handle := func(method, path string, h http.HandlerFunc) { mux.HandleFunc(method+" "+p.Prefix+path, h) }
	for _, one := range p.table() {
		handle(http.MethodGet, one.path, p.shows(one))
		if one.deed == nil {
			handle(http.MethodGet, "/live"+one.path, p.follows(one))
			continue
		}
		handle(http.MethodPost, one.path, p.does(one))
	}
	handle(http.MethodGet, "/holds.csv", p.exportHolds)
	handle(http.MethodGet, "/holds.json", p.exportHolds)
	handle(http.MethodGet, "/login", p.signIn)
	handle(http.MethodPost, "/login", p.paste)
	handle(http.MethodPost, "/logout", p.signOut)
	handle(http.MethodPost, "/theme", p.theme)
	handle(http.MethodGet, "/static/{name}", p.static)
	mux.HandleFunc(p.Prefix+"/", p.nothing)
	if p.Prefix != "" {
		mux.HandleFunc(p.Prefix, func(w http.ResponseWriter, _ *http.Request) { redirect(w, p.Prefix+"/") })
	}
	guard := http.NewCrossOriginProtection()
	guard.SetDenyHandler(http.HandlerFunc(p.foreign))
	return guard.Handler(mux)
}

// shows answers GET with a page.
func (p *Pages) shows(one page) http.HandlerFunc {
	return p.signedIn(func(ctx context.Context, v *visit) {
		if one.scope != "" && !v.who.Has(one.scope) {
			p.forbid(v, one.scope)
			return
		}
		made, err := p.make(ctx, v, one)
		if err != nil {
			p.fail(v, err)
			return
		}
		if one.deed == nil && !made.Still {
			v.live = p.liveURL(v, made)
		}
		p.render(v, http.StatusOK, made)
	})
}

// make is a page with what stands around it.
func (p *Pages) make(ctx context.Context, v *visit, one page) (web.View, error) {
	made, err := one.view(ctx, v)
	if err == nil {
		made.Around = p.around(ctx, v)
	}
	return made, err
}

// does answers POST: what cannot be done is shown in the form again, with the reason.
func (p *Pages) does(one page) http.HandlerFunc {
	return p.signedIn(func(ctx context.Context, v *visit) {
		if !v.who.Has(one.scope) {
			p.forbid(v, one.scope)
			return
		}
		if err := v.readForm(); err != nil {
			p.fail(v, err)
			return
		}
		to, err := one.deed(ctx, v)
		if err == nil {
			redirect(v.w, p.Prefix+to)
			return
		}
		status, known := v.refused(p, err)
		if !known {
			p.fail(v, err)
			return
		}
		v.refusal = status
		made, err := one.view(ctx, v)
		if err != nil {
			p.fail(v, err)
			return
		}
		p.render(v, status, made)
	})
}
