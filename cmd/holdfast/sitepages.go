package main

import (
	"context"

	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/httpapi"
	"github.com/holdfast-dev/holdfast/httpapi/pages"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/session"
)

// sessionSecret names the secret that all replicas seal sessions with.
const sessionSecret = "sessions"

// buildPages puts the admin page beside the admin routes.
func (s *site) buildPages(ctx context.Context, cfg *httpapi.Config) error {
	key, err := s.store.Secret(ctx, sessionSecret)
	if err != nil {
		return fail(exitUnavailable, "the store does not answer: %w", err).next("look at", "the log above")
	}
	if s.sessions, err = session.New(session.Config{Store: s.store, Leases: leaser{s.wheel}, Key: key, Now: s.app.now}); err != nil {
		return fail(exitFailed, "the server cannot be put together: %w", err)
	}
	shown, err := pages.New(pages.Config{
		Service: s.service, Editor: s.editor, Sessions: s.sessions, Verifier: s.verifier, Now: s.app.now, WindowNow: s.windowNow,
		Version: version, Prefix: s.cfg.AdminPathPrefix,
		Problem: httpapi.ProblemOf, LimitOf: httpapi.LimitOf,
		Failed: httpapi.FailedTokens(cfg.FailedTokenRate), Address: httpapi.AddressOf(cfg.TrustedProxies),
		Janitor: s.janitor, Settings: cfg.ConfigShown, Cluster: cfg.Cluster, Draining: s.draining.Load, Log: s.log,
		Drift: s.drift.told, Quarantined: s.after.on.Load, Fsync: s.fsync,
		Changes: func(tenant, who string) (pages.Changes, error) { return s.events.Stir(tenant, who) },
	})
	if err != nil {
		return usage("the admin page cannot be served: %w", err).next("all settings", "holdfast config reference")
	}
	cfg.Pages, cfg.Links = shown, s.sessions
	return nil
}

// firstLink is a link that signs the development server's own user in, once.
func (s *site) firstLink(ctx context.Context) (string, error) {
	code, _, err := s.sessions.Link(ctx, auth.Principal{
		Tenant: devTenant, Issuer: devIssuer, Subject: limits.Subject{Kind: auth.DefaultSubjectKind, ID: devSubject},
		Scopes: auth.ParseScopes(devScope),
	})
	if err != nil {
		return "", fail(exitUnavailable, "no link to the admin page could be made: %w", err)
	}
	return s.doors.url(s.doors.admin) + s.cfg.AdminPathPrefix + "/login?once=" + code, nil
}
