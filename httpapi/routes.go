package httpapi

import (
	"net/http"

	"github.com/holdfast-dev/holdfast/auth"
)

// access says who may call a route. The zero value is anybody with a token.
type access struct {
	open  bool       // no token is looked at
	scope auth.Scope // "": none beside the token; what a verb needs more it asks itself
}

// route is one row of the table: everything that differs between routes.
type route struct {
	method, path string
	access       access
	query        []string // names of the parameters it knows; any other is refused
	verb         verb
}

var (
	anyone    = access{open: true}
	signedIn  = access{}
	canRead   = access{scope: auth.LimitsRead}
	canWrite  = access{scope: auth.LimitsWrite}
	seesHolds = access{scope: auth.HoldsRead}
	canForce  = access{scope: auth.HoldsForce}
	seesTrail = access{scope: auth.AuditRead}
	isAdmin   = access{scope: auth.Admin}
)

// publicRoutes is /v1.
func (s *server) publicRoutes() []route {
	const limit, override = "/v1/limits/:id", "/v1/limits/:id/overrides/:kind/:subjectId"
	const webhook = "/v1/webhooks/:id"
	const hold, subjectPlan = "/v1/reservations/:id", "/v1/subjects/:kind/:id/plan"
	return []route{
		{http.MethodPost, "/v1/checks", signedIn, nil, body(s.check)},
		{http.MethodPost, "/v1/reservations", signedIn, nil, body(s.reserve)},
		{http.MethodGet, "/v1/reservations", signedIn, reservationFilters, s.listReservations},
		{http.MethodGet, hold, signedIn, nil, s.getReservation},
		{http.MethodPost, hold + "/extend", signedIn, nil, optional(s.extend)},
		{http.MethodPost, hold + "/commit", signedIn, nil, optional(s.commit)},
		{http.MethodPost, hold + "/release", signedIn, nil, optional(s.release)},
		{http.MethodPost, "/v1/heartbeats", signedIn, nil, body(s.heartbeat)},
		{http.MethodPost, "/v1/fences/verify", signedIn, nil, body(s.verifyFence)},

		{http.MethodPost, "/v1/limits", canWrite, nil, body(s.createLimit)},
		{http.MethodGet, "/v1/limits", canRead, pageOnly, s.listLimits},
		{http.MethodGet, limit, canRead, nil, s.getLimit},
		{http.MethodPut, limit, canWrite, nil, s.replaceLimit},
		{http.MethodPatch, limit, canWrite, nil, s.patchLimit},
		{http.MethodDelete, limit, canWrite, nil, s.deleteLimit},
		{http.MethodPost, limit + "/reset", canWrite, nil, body(s.resetLimit)},
		{http.MethodGet, limit + "/override", canRead, nil, s.getOverrideForAll},
		{http.MethodPut, limit + "/override", canWrite, nil, s.setOverrideForAll},
		{http.MethodDelete, limit + "/override", canWrite, nil, s.deleteOverrideForAll},
		{http.MethodGet, limit + "/overrides", canRead, pageOnly, s.listOverrides},
		{http.MethodGet, override, canRead, nil, s.getOverride},
		{http.MethodPut, override, canWrite, nil, s.setOverride},
		{http.MethodDelete, override, canWrite, nil, s.deleteOverride},

		{http.MethodGet, "/v1/limits-file", canRead, nil, s.exportFile},
		{http.MethodPost, "/v1/limits-file/plan", canWrite, pruneOnly, s.planFile},
		{http.MethodPost, "/v1/limits-file/apply", canWrite, pruneOnly, s.applyFile},
		{http.MethodGet, "/v1/waiters", signedIn, pageOnly, s.listWaiters},
		{http.MethodDelete, "/v1/waiters/:id", signedIn, nil, s.cancelWaiter},
		{http.MethodGet, "/v1/explain", signedIn, []string{"subject", "action", "cost"}, s.explain},

		{http.MethodGet, "/v1/usage", signedIn, historyFilters, s.usage},
		{http.MethodGet, "/v1/events", signedIn, eventFilters, s.streamEvents},
		{http.MethodPost, "/v1/webhooks", canWrite, nil, body(s.createWebhook)},
		{http.MethodGet, "/v1/webhooks", canRead, nil, s.listWebhooks},
		{http.MethodGet, webhook, canRead, nil, s.getWebhook},
		{http.MethodDelete, webhook, canWrite, nil, s.deleteWebhook},
		{http.MethodPost, webhook + "/rotate", canWrite, nil, optional(s.rotateWebhook)},
		{http.MethodGet, "/v1/usage/now", seesHolds, usageFilters, s.usageNow},
		{http.MethodGet, "/v1/subjects/:kind/:id", signedIn, nil, s.getSubject},
		{http.MethodGet, subjectPlan, canRead, nil, s.getPlan},
		{http.MethodPut, subjectPlan, canWrite, nil, s.setPlan},
		{http.MethodDelete, subjectPlan, canWrite, nil, s.deletePlan},
		{http.MethodDelete, "/v1/subjects/:kind/:id/block", canForce, nil, s.unblock},
	}
}

// openRoutes are those of the public listener that need no token.
func (s *server) openRoutes() []route {
	routes := append(s.healthRoutes(),
		route{http.MethodGet, "/openapi.json", anyone, nil, s.openAPI},
		route{http.MethodGet, "/docs", anyone, nil, s.docs.page},
		route{http.MethodGet, "/docs/problems/:code", anyone, nil, s.problemPage},
		route{http.MethodGet, "/docs/pages", anyone, nil, s.docsIndex},
		route{http.MethodGet, "/docs/pages/:page", anyone, nil, s.docsPage},
		route{http.MethodGet, "/docs/pages/:folder/:page", anyone, nil, s.docsPage},
		route{http.MethodGet, "/docs/:asset", anyone, nil, s.docs.asset})
	if s.JWKS != nil {
		routes = append(routes, route{http.MethodGet, "/.well-known/jwks.json", anyone, nil, s.jwks})
	}
	return routes
}

// healthRoutes are on both listeners.
func (s *server) healthRoutes() []route {
	return []route{
		{http.MethodGet, "/livez", anyone, nil, s.livez},
		{http.MethodGet, "/readyz", anyone, []string{"verbose"}, s.readyz},
		{http.MethodGet, "/version", anyone, nil, s.version},
	}
}

// adminRoutes is /admin/v1 and /metrics.
func (s *server) adminRoutes() []route {
	const force = "/admin/v1/reservations/:id/force-release"
	routes := []route{
		{http.MethodPost, force, canForce, nil, body(s.forceRelease)},
		{http.MethodGet, "/admin/v1/audit", seesTrail, auditFilters, s.audit},
		{http.MethodGet, "/admin/v1/verify", isAdmin, nil, patient(s.verify)},
		{http.MethodGet, "/admin/v1/config", isAdmin, nil, s.showConfig},
		{http.MethodGet, "/admin/v1/cluster", isAdmin, nil, s.showCluster},
		{http.MethodPost, "/admin/v1/janitor/:job/run", isAdmin, nil, patient(s.runJanitor)},
	}
	if s.Backup != nil {
		routes = append(routes, route{http.MethodGet, "/admin/v1/backup", isAdmin, nil, s.backup})
	}
	if s.Links != nil {
		routes = append(routes, route{http.MethodPost, "/admin/v1/login-links", isAdmin, nil, s.loginLink})
	}
	if s.AdvanceClock != nil {
		routes = append(routes, route{http.MethodPost, "/admin/v1/clock", isAdmin, nil, body(s.advanceClock)})
	}
	if s.Gatherer != nil {
		routes = append(routes, route{http.MethodGet, "/metrics", anyone, nil, s.scrape()})
	}
	return routes
}
