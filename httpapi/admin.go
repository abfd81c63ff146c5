package httpapi

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/janitor"
	"github.com/holdfast-dev/holdfast/reserve"
)

// patienceBudget is what work over everything may take; the connection's write timeout is longer.
const patienceBudget = time.Minute

// patient gives a verb that much, and ends it when the caller goes away.
func patient(v verb) verb {
	return func(_ context.Context, c *call) (int, any, error) {
		ctx, cancel := context.WithTimeout(c.req.Context(), patienceBudget)
		defer cancel()
		return v(ctx, c)
	}
}

// forceRelease answers POST /admin/v1/reservations/{id}/force-release. The fence must be the
// live one, so that nobody ends a hold other than the one they saw.
//
// Access: holds:force.
func (s *server) forceRelease(ctx context.Context, c *call, in *api.ForceReleaseRequest) (int, any, error) {
	id, err := reserve.ParseID(c.params.Param("id"))
	if err != nil {
		return 0, nil, reserve.ErrNotFound
	}
	trail := s.note(c, in.Reason)
	return held(s.Service.Force(ctx, c.who.Tenant, id, in.Fence, c.who.ID(), in.Reason, seconds(in.BlockSubjectSeconds), &trail))
}

// verify answers GET /admin/v1/verify: every count of the caller's tenant recomputed from the
// records.
//
// Access: admin. Cost: reads everything.
func (s *server) verify(ctx context.Context, c *call) (int, any, error) {
	findings, checked, err := s.Service.Drift(ctx, c.who.Tenant)
	if err != nil {
		return 0, nil, err
	}
	answer := api.VerifyAnswer{
		Drift: int64(len(findings)), Checked: make(map[string]int64, len(checked)),
		Findings: make([]api.Finding, len(findings)),
	}
	for family, n := range checked {
		answer.Checked[family] = int64(n)
	}
	for i, f := range findings {
		answer.Findings[i] = api.Finding(f)
	}
	return http.StatusOK, answer, nil
}

// showConfig answers GET /admin/v1/config. Access: admin.
func (s *server) showConfig(context.Context, *call) (int, any, error) {
	shown := s.ConfigShown
	if shown == nil {
		shown = []api.Setting{}
	}
	return http.StatusOK, api.ConfigAnswer{Data: shown}, nil
}

// showCluster answers GET /admin/v1/cluster with what this replica knows. Access: admin.
func (s *server) showCluster(ctx context.Context, _ *call) (int, any, error) {
	answer := api.ClusterAnswer{Mode: "memory"}
	if s.Cluster != nil {
		var err error
		if answer, err = s.Cluster(ctx); err != nil {
			return 0, nil, err
		}
	}
	if answer.Alarms == nil {
		answer.Alarms = []string{}
	}
	return http.StatusOK, answer, nil
}

var errNoJob = &wireError{code: api.NotFound, detail: "There is no such job."}

// runJanitor answers POST /admin/v1/janitor/{job}/run. A sweep that panics or fails is our
// fault, not the caller's. Access: admin.
func (s *server) runJanitor(ctx context.Context, c *call) (int, any, error) {
	if s.Janitor == nil {
		return 0, nil, errNoJob
	}
	if !slices.Contains(s.Janitor.Jobs(), c.param("job")) {
		return 0, nil, errNoJob
	}
	if err := s.did(ctx, c, "janitor.run", c.param("job"), nil); err != nil {
		return 0, nil, err
	}
	r, err := s.Janitor.RunOnce(ctx, c.param("job"))
	if errors.Is(err, janitor.ErrUnknownJob) {
		return 0, nil, errNoJob
	}
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, api.JanitorAnswer{Job: r.Job, Swept: int64(r.Swept), TookMs: r.Took.Milliseconds(), More: r.More}, nil
}

// loginLink answers POST /admin/v1/login-links: a link that signs the caller in to the pages,
// once. What it opens lasts no longer than the caller's token.
//
// Access: admin.
func (s *server) loginLink(ctx context.Context, c *call) (int, any, error) {
	if err := s.did(ctx, c, "session.link", c.by(), nil); err != nil {
		return 0, nil, err
	}
	code, expires, err := s.Links.Link(ctx, c.who)
	if err != nil {
		return 0, nil, err
	}
	path := "/login?once=" + code
	if p, ok := s.Pages.(interface{ Link(code string) string }); ok {
		path = p.Link(code)
	}
	return http.StatusCreated, api.LoginLink{Path: path, ExpiresAt: api.At(expires), ExpiresInSeconds: secondsDown(expires.Sub(s.Now()))}, nil
}

// advanceClock answers POST /admin/v1/clock: the clock of windows, for tests of those who use
// Holdfast. Access: admin.
func (s *server) advanceClock(ctx context.Context, c *call, in *api.ClockRequest) (int, any, error) {
	if err := s.did(ctx, c, "clock.advance", "clock", reserve.Facts{"advanceSeconds": in.AdvanceSeconds}); err != nil {
		return 0, nil, err
	}
	now, err := s.AdvanceClock(time.Duration(in.AdvanceSeconds) * time.Second)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, api.ClockAnswer{Now: api.At(now)}, nil
}
