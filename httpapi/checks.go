package httpapi

import (
	"context"
	"net/http"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

// replayed marks an answer that was given before under the same key.
var replayed = []string{"true"}

// asked is what a check and a reservation have in common.
type asked struct {
	subject    *api.Subject
	action     string
	cost, ttl  *int64
	owner      *api.Owner
	labels     map[string]string
	route      string
	remembered bool // an Idempotency-Key counts
}

// request makes the domain's request of it, for the subject named or the caller's own.
// Errors: *wireError for the key, *scopeError and auth.ErrForbidden for the subject.
func (c *call) request(a asked) (reserve.Request, error) {
	r := reserve.Request{
		Tenant: c.who.Tenant, Subject: c.who.Subject, Action: limits.Action(a.action), Cost: 1,
		Principal: c.who.ID(), Route: a.route, Labels: a.labels,
	}
	if a.subject != nil {
		r.Subject = limits.Subject{Kind: a.subject.Kind, ID: a.subject.ID}
		if err := mayActFor(c.who, r.Subject); err != nil {
			return r, err
		}
	}
	if a.cost != nil {
		r.Cost = *a.cost
	}
	r.TTL = seconds(a.ttl)
	if a.owner != nil {
		r.Owner = reserve.Owner{Name: a.owner.Name, Host: a.owner.Host, URL: a.owner.URL, PID: a.owner.PID}
	}
	key, err := idempotencyKey(c.req.Header)
	if err == nil && key != "" && a.remembered {
		r.Key, r.Body = key, c.raw
	}
	return r, err
}

func mayActFor(who auth.Principal, s limits.Subject) error {
	switch {
	case who.MayActFor(s):
		return nil
	case who.Has(auth.ActFor):
		return auth.ErrForbidden // its patterns leave the subject out
	}
	return &scopeError{auth.ActFor}
}

// check answers POST /v1/checks: 200 whenever it could be decided, allowed or not.
//
// Access: one's own subject; any other with act-for.
func (s *server) check(ctx context.Context, c *call, in *api.CheckRequest) (int, any, error) {
	mode := in.Mode
	if mode == "" {
		mode = api.ModeConsume
	}
	r, err := c.request(asked{
		in.Subject, in.Action, in.Cost, in.TTLSeconds, in.Owner, in.Labels,
		"POST /v1/checks", mode != api.ModePreview,
	})
	if err != nil {
		return 0, nil, err
	}
	if mode != api.ModePreview {
		same := *in
		same.WaitSeconds = nil
		var cancel context.CancelFunc
		if ctx, cancel, err = c.patient(ctx, in.WaitSeconds, &r, &same); err != nil {
			return 0, nil, err
		}
		defer cancel()
	}
	var d reserve.Decision
	var hold reserve.Reservation
	again := false
	switch mode {
	case api.ModePreview:
		d, err = s.Service.Preview(ctx, r)
	case api.ModeReserve:
		hold, d, err = s.Service.Reserve(ctx, r)
		if again = hold.Replayed; err == nil && d.Allowed {
			s.orTakenBack(c, &r, &hold)
		}
	default:
		d, again, err = s.Service.Consume(ctx, r)
	}
	if err != nil {
		return 0, nil, s.decided(err, &r, c)
	}
	setRateLimit(c.out, &d)
	if again {
		c.out["Idempotent-Replayed"] = replayed
	}
	answer := &api.CheckAnswer{Allowed: d.Allowed, Mode: mode}
	if !d.Allowed {
		no := s.refused(&d, r.Subject, c)
		no.into(answer)
		return http.StatusOK, answer, nil
	}
	answer.Limits = verdictViews(d.Verdicts, d.At)
	if mode == api.ModeReserve {
		answer.Reservation = ptr(reservationView(&hold, answer.Limits))
	}
	return http.StatusOK, answer, nil
}

// reserve answers POST /v1/reservations: 201 with the hold, or the refusal as a problem.
//
// Access: one's own subject; any other with act-for.
func (s *server) reserve(ctx context.Context, c *call, in *api.ReserveRequest) (int, any, error) {
	r, err := c.request(asked{
		in.Subject, in.Action, in.Cost, in.TTLSeconds, in.Owner, in.Labels,
		"POST /v1/reservations", true,
	})
	if err != nil {
		return 0, nil, err
	}
	same := *in
	same.WaitSeconds = nil
	ctx, cancel, err := c.patient(ctx, in.WaitSeconds, &r, &same)
	if err != nil {
		return 0, nil, err
	}
	defer cancel()
	hold, d, err := s.Service.Reserve(ctx, r)
	if err != nil {
		return 0, nil, s.decided(err, &r, c)
	}
	setRateLimit(c.out, &d)
	if !d.Allowed {
		no := s.refused(&d, r.Subject, c)
		return 0, nil, &refusal{no.problem()}
	}
	if hold.Replayed {
		c.out["Idempotent-Replayed"] = replayed
	}
	s.orTakenBack(c, &r, &hold)
	view := reservationView(&hold, verdictViews(d.Verdicts, d.At))
	c.out["Location"] = []string{"/v1/reservations/" + view.ID}
	return http.StatusCreated, &view, nil
}

// refused is refusedBy with the holders this caller may hear of.
func (s *server) refused(d *reserve.Decision, subject limits.Subject, c *call) refused {
	no := refusedBy(d, subject)
	no.holders = holderViews(d.Holders, c.caller(), c.who.Subject, s.Now())
	return no
}
