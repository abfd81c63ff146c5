package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/catalogue"
	"github.com/holdfast-dev/holdfast/limits"
)

var errNoOverride = &wireError{code: api.NotFound, detail: "There is no such override."}

// setOverrideForAll answers PUT /v1/limits/{id}/override: another amount for everyone.
//
// Access: limits:write.
func (s *server) setOverrideForAll(ctx context.Context, c *call) (int, any, error) {
	return s.putOverride(ctx, c, limits.Subject{})
}

// setOverride answers PUT /v1/limits/{id}/overrides/{kind}/{subjectId}. Access: limits:write.
func (s *server) setOverride(ctx context.Context, c *call) (int, any, error) {
	subject, err := c.subject("subjectId")
	if err != nil {
		return 0, nil, err
	}
	return s.putOverride(ctx, c, subject)
}

func (s *server) putOverride(ctx context.Context, c *call, subject limits.Subject) (int, any, error) {
	var in api.OverrideInput
	l, missing := s.known(c)
	err := c.read(false, func(raw []byte) error {
		return also(judged(api.Decode(raw, &in), &in), s.overrideFaults(&in, l, subject))
	}, jsonType[0])
	if err := errors.Join(err, missing); err != nil {
		return 0, nil, err
	}
	o := limits.Override{Limit: l.ID, Subject: subject, Amount: in.Amount.Value, Unlimited: in.Amount.Null, Reason: in.Reason, By: c.by()}
	if in.Until != nil {
		o.Until = in.Until.Time
	}
	rev, err := s.edits(c, in.Reason).PutOverride(ctx, c.who.Tenant, o)
	if err := s.reached(ctx, rev, noLimit(err)); err != nil {
		return 0, nil, err
	}
	put, ok := s.Service.Catalog(c.who.Tenant).Override(l.ID, subject)
	if !ok {
		return 0, nil, errNoOverride // deleted since
	}
	return s.overridden(c, put)
}

// overrideFaults are those that the clock and the limit decide, told beside the rest. l is nil
// for a limit that is not there.
func (s *server) overrideFaults(in *api.OverrideInput, l *limits.Limit, subject limits.Subject) (faults []api.Fault) {
	if in.Until != nil && !in.Until.IsZero() && !in.Until.After(s.WindowNow()) {
		faults = append(faults, api.Fault{Pointer: "/until", Detail: "must be in the future"})
	}
	if l != nil && !subject.IsZero() && l.SubjectKind != limits.Any && l.SubjectKind != subject.Kind {
		// Of the path, not of a field: the pointer of the body as a whole.
		faults = append(faults, api.Fault{Detail: fmt.Sprintf("is for a subject of kind %s, and %s counts kind %s", subject.Kind, l.ID, l.SubjectKind)})
	}
	return faults
}

// overridden answers with an override beside the amount it stands in for.
func (s *server) overridden(c *call, o limits.Override) (int, any, error) {
	cat := s.Service.Catalog(c.who.Tenant)
	l, ok := cat.Limit(o.Limit)
	if !ok {
		return 0, nil, errNoLimit // deleted since
	}
	return http.StatusOK, overrideView(o, cat.Rule(l, o.Subject), s.WindowNow()), nil
}

// getOverrideForAll answers GET /v1/limits/{id}/override. Access: limits:read.
func (s *server) getOverrideForAll(_ context.Context, c *call) (int, any, error) {
	return s.showOverride(c, limits.Subject{})
}

// getOverride answers GET /v1/limits/{id}/overrides/{kind}/{subjectId}. Access: limits:read.
func (s *server) getOverride(_ context.Context, c *call) (int, any, error) {
	subject, err := c.subject("subjectId")
	if err != nil {
		return 0, nil, err
	}
	return s.showOverride(c, subject)
}

func (s *server) showOverride(c *call, subject limits.Subject) (int, any, error) {
	if _, err := s.known(c); err != nil {
		return 0, nil, err
	}
	o, ok := s.Service.Catalog(c.who.Tenant).Override(c.param("id"), subject)
	if !ok {
		return 0, nil, errNoOverride
	}
	return s.overridden(c, o)
}

// listOverrides answers GET /v1/limits/{id}/overrides: everyone's first, then by subject.
//
// Access: limits:read. Cost: a look at every override of the tenant.
func (s *server) listOverrides(_ context.Context, c *call) (int, any, error) {
	p, err := s.page(c)
	if err != nil {
		return 0, nil, err
	}
	l, err := s.known(c)
	if err != nil {
		return 0, nil, err
	}
	cat := s.Service.Catalog(c.who.Tenant)
	all := cat.Overrides(l.ID)
	if p.after != nil {
		from, found := slices.BinarySearchFunc(all, string(p.after), func(o limits.Override, place string) int {
			return strings.Compare(overridePlace(o), place)
		})
		if found {
			from++
		}
		all = all[from:]
	}
	answer := api.OverridePage{Data: make([]api.Override, min(len(all), p.size))}
	for i := range answer.Data {
		answer.Data[i] = overrideView(all[i], cat.Rule(l, all[i].Subject), s.WindowNow())
	}
	if len(all) > p.size {
		answer.NextCursor = s.next(c, p, []byte(overridePlace(all[p.size-1])))
	}
	return http.StatusOK, answer, nil
}

// overridePlace is where an override stands in the list: in the order of Catalog.Overrides,
// which compares kinds before ids. No kind holds a byte as low as the one between them.
func overridePlace(o limits.Override) string {
	if o.Subject.IsZero() {
		return ""
	}
	return o.Subject.Kind + "\x00" + o.Subject.ID
}

// deleteOverrideForAll answers DELETE /v1/limits/{id}/override. Access: limits:write.
func (s *server) deleteOverrideForAll(ctx context.Context, c *call) (int, any, error) {
	return s.dropOverride(ctx, c, limits.Subject{})
}

// deleteOverride answers DELETE /v1/limits/{id}/overrides/{kind}/{subjectId}.
//
// Access: limits:write.
func (s *server) deleteOverride(ctx context.Context, c *call) (int, any, error) {
	subject, err := c.subject("subjectId")
	if err != nil {
		return 0, nil, err
	}
	return s.dropOverride(ctx, c, subject)
}

func (s *server) dropOverride(ctx context.Context, c *call, subject limits.Subject) (int, any, error) {
	rev, err := s.edits(c, "").DeleteOverride(ctx, c.who.Tenant, c.param("id"), subject)
	if errors.Is(err, catalogue.ErrNotFound) {
		if _, missing := s.known(c); missing != nil {
			return 0, nil, missing
		}
		return 0, nil, errNoOverride
	}
	return gone(s.reached(ctx, rev, err))
}

var errNoBlock = &wireError{code: api.NotFound, detail: "The subject is not blocked."}

// unblock answers DELETE /v1/subjects/{kind}/{id}/block: the subject is granted again at once.
//
// Access: holds:force.
func (s *server) unblock(ctx context.Context, c *call) (int, any, error) {
	subject, err := c.subject("id")
	if err != nil {
		return 0, nil, err
	}
	rev, err := s.edits(c, "").Unblock(ctx, c.who.Tenant, subject)
	if errors.Is(err, catalogue.ErrNotFound) {
		return 0, nil, errNoBlock
	}
	return gone(s.reached(ctx, rev, err))
}
