package httpapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/catalogue"
	"github.com/holdfast-dev/holdfast/limits"
)

var errNoPlan = &wireError{code: api.NotFound, detail: "The subject has no plan."}

// getPlan answers GET /v1/subjects/{kind}/{id}/plan. Access: limits:read.
func (s *server) getPlan(_ context.Context, c *call) (int, any, error) {
	subject, err := c.subject("id")
	if err != nil {
		return 0, nil, err
	}
	return s.showPlan(c, subject)
}

func (s *server) showPlan(c *call, subject limits.Subject) (int, any, error) {
	cat := s.Service.Catalog(c.who.Tenant)
	given, ok := cat.SubjectPlan(subject)
	if !ok {
		return 0, nil, errNoPlan
	}
	view := api.SubjectPlan{Subject: subjectView(subject), Plan: given.Plan, By: given.By, CreatedAt: api.At(given.CreatedAt)}
	if f := cat.File(); f != nil {
		if plan, there := f.Plans[given.Plan]; there {
			view.Amounts = amountsView(plan, cat)
		}
	}
	return http.StatusOK, view, nil
}

// setPlan answers PUT /v1/subjects/{kind}/{id}/plan. Access: limits:write.
func (s *server) setPlan(ctx context.Context, c *call) (int, any, error) {
	subject, err := c.subject("id")
	if err != nil {
		return 0, nil, err
	}
	var in api.SubjectPlanInput
	if err := c.read(false, func(raw []byte) error { return decode(raw, &in) }, jsonType[0]); err != nil {
		return 0, nil, err
	}
	rev, err := s.edits(c, "").PutSubjectPlan(ctx, c.who.Tenant, limits.SubjectPlan{Subject: subject, Plan: in.Plan, By: c.by()})
	if err := s.reached(ctx, rev, err); err != nil {
		return 0, nil, err
	}
	return s.showPlan(c, subject)
}

// deletePlan answers DELETE /v1/subjects/{kind}/{id}/plan. Access: limits:write.
func (s *server) deletePlan(ctx context.Context, c *call) (int, any, error) {
	subject, err := c.subject("id")
	if err != nil {
		return 0, nil, err
	}
	rev, err := s.edits(c, "").DeleteSubjectPlan(ctx, c.who.Tenant, subject)
	if errors.Is(err, catalogue.ErrNotFound) {
		return 0, nil, errNoPlan
	}
	return gone(s.reached(ctx, rev, err))
}
