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
	"github.com/holdfast-dev/holdfast/reserve"
)

// sourceAPI is where a limit made or changed here comes from.
const sourceAPI = "api"

var errNoLimit = &wireError{code: api.NotFound, detail: "There is no such limit."}

// known is the limit the path names, as this replica knows it.
func (s *server) known(c *call) (*limits.Limit, error) {
	l, ok := s.Service.Catalog(c.who.Tenant).Limit(c.param("id"))
	if !ok {
		return nil, errNoLimit
	}
	return l, nil
}

// shown answers with a limit and its ETag.
func (s *server) shown(c *call, status int, l *limits.Limit) (int, any, error) {
	c.out["Etag"] = []string{etag(l.Revision)}
	return status, s.limitNow(c, l), nil
}

// limitNow is a limit with the override that is in force for everyone, if there is one.
func (s *server) limitNow(c *call, l *limits.Limit) api.Limit {
	view := withChanges(limitView(l), l, s.WindowNow())
	o, ok := s.Service.Catalog(c.who.Tenant).Override(l.ID, limits.Subject{})
	if !ok || !o.Until.IsZero() && !o.Until.After(s.WindowNow()) {
		return view
	}
	view.Override = &api.LimitOverride{Until: api.AtPtr(o.Until), Reason: o.Reason, By: o.By}
	if !o.Unlimited {
		view.Override.Amount = ptr(o.Amount)
	}
	return view
}

// noLimit says what was not found when it can only have been the limit.
func noLimit(err error) error {
	if errors.Is(err, catalogue.ErrNotFound) {
		return errNoLimit
	}
	return err
}

// reached waits until this replica knows of an edit at rev: whoever made it reads it back. When
// that takes too long the edit stands all the same, so "nothing happened" would be a lie.
func (s *server) reached(ctx context.Context, rev int64, err error) error {
	if err != nil {
		return err
	}
	if err := s.Service.Reached(ctx, rev); err != nil {
		return fmt.Errorf("%w: edited at revision %d, not seen here yet: %s", reserve.ErrUnknownOutcome, rev, err.Error())
	}
	return nil
}

// by is who a change is noted down for.
func (c *call) by() string { return c.who.Subject.String() }

// createLimit answers POST /v1/limits. Access: limits:write.
func (s *server) createLimit(ctx context.Context, c *call, in *api.LimitInput) (int, any, error) {
	l, err := LimitOf(in)
	if err != nil {
		return 0, nil, err
	}
	l.Source = sourceAPI
	made, rev, err := s.edits(c, "").Create(ctx, c.who.Tenant, l, c.by())
	if err := s.reached(ctx, rev, err); err != nil {
		return 0, nil, err
	}
	c.out["Location"] = []string{"/v1/limits/" + made.ID}
	return s.shown(c, http.StatusCreated, &made)
}

// listLimits answers GET /v1/limits, by id. Access: limits:read.
func (s *server) listLimits(_ context.Context, c *call) (int, any, error) {
	p, err := s.page(c)
	if err != nil {
		return 0, nil, err
	}
	all := s.Service.Catalog(c.who.Tenant).Limits()
	from := 0
	if p.after != nil {
		at, found := slices.BinarySearchFunc(all, string(p.after), func(l *limits.Limit, id string) int {
			return strings.Compare(l.ID, id)
		})
		if from = at; found {
			from++
		}
	}
	all = all[from:]
	answer := api.LimitPage{Data: make([]api.Limit, min(len(all), p.size))}
	for i := range answer.Data {
		answer.Data[i] = s.limitNow(c, all[i])
	}
	if len(all) > p.size {
		answer.NextCursor = s.next(c, p, []byte(all[p.size-1].ID))
	}
	return http.StatusOK, answer, nil
}

// getLimit answers GET /v1/limits/{id}. Access: limits:read.
func (s *server) getLimit(_ context.Context, c *call) (int, any, error) {
	l, err := s.known(c)
	if err != nil {
		return 0, nil, err
	}
	return s.shown(c, http.StatusOK, l)
}

// replaceLimit answers PUT /v1/limits/{id}: what the body leaves out has its default again.
//
// Access: limits:write.
func (s *server) replaceLimit(ctx context.Context, c *call) (int, any, error) {
	match, err := ifMatch(c.req.Header)
	if err != nil {
		return 0, nil, err
	}
	var in api.LimitInput
	err = c.read(false, func(raw []byte) error {
		err := api.Decode(raw, &in)
		given := in.ID
		if given == "" {
			in.ID = "any" // the path has it; the rest is judged without
		}
		err = judged(err, &in)
		in.ID = given
		return err
	}, jsonType[0])
	if err != nil {
		return 0, nil, err
	}
	return s.change(ctx, c, match, func(limits.Limit) (*api.LimitInput, error) { return &in, nil })
}

// patchLimit answers PATCH /v1/limits/{id}, a JSON merge patch. Access: limits:write.
func (s *server) patchLimit(ctx context.Context, c *call) (status int, answer any, err error) {
	match, err := ifMatch(c.req.Header)
	if err != nil {
		return 0, nil, err
	}
	err = c.read(false, func(raw []byte) (err error) {
		status, answer, err = s.change(ctx, c, match, func(old limits.Limit) (*api.LimitInput, error) {
			in, err := api.PatchLimit(limitView(&old), raw)
			return &in, judged(err, &in)
		})
		return err
	}, jsonType[0], mergePatchType)
	return status, answer, err
}

// change writes what next makes of the limit the path names, if match allows it.
func (s *server) change(ctx context.Context, c *call, match etags, next func(old limits.Limit) (*api.LimitInput, error)) (int, any, error) {
	id := c.param("id")
	l, rev, err := s.edits(c, "").Change(ctx, c.who.Tenant, id, 0, c.by(), func(old limits.Limit) (limits.Limit, error) {
		if match.weak && !match.has(old.Revision) {
			return old, errWeakIfMatch
		}
		if !match.has(old.Revision) {
			return old, &catalogue.ChangedError{Revision: old.Revision}
		}
		in, err := next(old)
		if err != nil {
			return old, err
		}
		if in.ID != "" && in.ID != id {
			return old, &limits.InvalidError{Faults: []limits.Fault{{Field: "/id", Reason: "must stay " + id}}}
		}
		in.ID = id
		l, err := LimitOf(in)
		l.Source = sourceAPI
		return l, err
	})
	if err := s.reached(ctx, rev, noLimit(err)); err != nil {
		return 0, nil, err
	}
	return s.shown(c, http.StatusOK, &l)
}

// deleteLimit answers DELETE /v1/limits/{id}. Its holds live on. Access: limits:write.
func (s *server) deleteLimit(ctx context.Context, c *call) (int, any, error) {
	match, err := ifMatch(c.req.Header)
	if err != nil {
		return 0, nil, err
	}
	rev, err := s.edits(c, "").DeleteIf(ctx, c.who.Tenant, c.param("id"), match.has)
	if errors.Is(err, catalogue.ErrChanged) && match.weak {
		err = errWeakIfMatch
	}
	return gone(s.reached(ctx, rev, noLimit(err)))
}

// gone answers 204.
func gone(err error) (int, any, error) {
	if err != nil {
		return 0, nil, err
	}
	return http.StatusNoContent, nil, nil
}

// resetLimit answers POST /v1/limits/{id}/reset: counts start anew, holds stay. For one
// subject its counts go on under a generation of their own, so that no open charge is
// refunded from them.
//
// Access: limits:write.
func (s *server) resetLimit(ctx context.Context, c *call, in *api.ResetRequest) (int, any, error) {
	l, err := s.known(c)
	if err != nil {
		return 0, nil, err
	}
	if in.Subject == nil {
		_, rev, err := s.edits(c, in.Reason).Reset(ctx, c.who.Tenant, l.ID, c.by(), in.Reason)
		if err := s.reached(ctx, rev, noLimit(err)); err != nil {
			return 0, nil, err
		}
		if l, err = s.known(c); err != nil {
			return 0, nil, err
		}
		return s.shown(c, http.StatusOK, l)
	}
	if l.Share == limits.All {
		return 0, nil, &limits.InvalidError{Faults: []limits.Fault{
			{Field: "/subject", Reason: "must be left out: the limit has one count for all"},
		}}
	}
	seq, _, err := s.Editor.NextSeq(ctx, c.who.Tenant)
	if err != nil {
		return 0, nil, err
	}
	subject := limits.Subject{Kind: in.Subject.Kind, ID: in.Subject.ID}
	trail := s.note(c, in.Reason)
	if err := s.Service.ResetSubject(ctx, c.who.Tenant, l.ID, subject, seq, &trail); err != nil {
		return 0, nil, err
	}
	return s.shown(c, http.StatusOK, l)
}
