package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

// patient gives a request that waits in line the time it asked for, and its own budget on top.
// body is the request without its wait: a place belongs to a key and to what is asked for, not
// to how long this call of several waits for it. A wait of 0 that is spelt out leaves the line.
func (c *call) patient(ctx context.Context, seconds *int64, r *reserve.Request, body any) (context.Context, context.CancelFunc, error) {
	if seconds == nil {
		return ctx, func() {}, nil
	}
	r.Wait, r.Leaves = time.Duration(*seconds)*time.Second, *seconds == 0
	if r.Key != "" {
		var err error
		if r.Body, err = json.Marshal(body); err != nil {
			return nil, nil, fmt.Errorf("encode %T: %w", body, err)
		}
	}
	if r.Wait == 0 {
		return ctx, func() {}, nil
	}
	// The connection is read until the answer is there, to notice a caller that hangs up; the
	// deadline for reading the request would look like one. Writers of tests have none.
	_ = http.NewResponseController(c.params.Response().Writer).SetReadDeadline(time.Time{})
	ctx, cancel := context.WithTimeout(c.req.Context(), r.Wait+requestBudget)
	return ctx, cancel, nil
}

// decided is what a wait that failed tells: a full line shows the refusal it stands before.
func (s *server) decided(err error, r *reserve.Request, c *call) error {
	full, ok := errors.AsType[*reserve.LineFullError](err)
	if !ok {
		return s.unmatched(err, r)
	}
	setRateLimit(c.out, &full.Decision)
	no := s.refused(&full.Decision, r.Subject, c)
	p := no.problem()
	whole := lineFullProblem(full)
	p.Type, p.Title, p.Status, p.Code, p.Detail, p.Waiting = whole.Type, whole.Title, whole.Status, whole.Code, whole.Detail, whole.Waiting
	return &refusal{p}
}

func lineFullProblem(e *reserve.LineFullError) api.Problem {
	d := &e.Decision
	p := api.NewProblem(api.LineFull, "Nobody more can stand in line now; nothing happened. Try again later.")
	p.Waiting = ptr(int64(d.Waiting))
	if d.Binding >= 0 && d.Waiting > 0 {
		p.DecidedBy = d.Verdicts[d.Binding].Rule.ID
		p.Detail = fmt.Sprintf("%d wait for %s already, as many as may; nothing happened. Try again later.", d.Waiting, p.DecidedBy)
	}
	if at, ok := d.RetryAt(); ok {
		wait := max(at.Sub(d.At), time.Millisecond)
		p.RetryAfterSeconds, p.RetryAfterMs = ptr(secondsUp(wait)), ptr(millisUp(wait))
	}
	return p
}

func waiterView(w *reserve.Waiter) api.Waiter {
	v := api.Waiter{
		ID: reserve.WaiterID(w.ID), Limit: w.Limit, Subject: subjectView(w.Subject), Place: int64(w.Place),
		Owner: api.Owner{Name: w.Owner.Name, Host: w.Owner.Host, PID: w.Owner.PID, URL: w.Owner.URL},
		Since: api.At(w.Since), GivesUpAt: api.At(w.Until),
	}
	if w.Estimate >= 0 {
		v.EstimateSeconds = ptr(secondsUp(w.Estimate))
	}
	return v
}

// listWaiters answers GET /v1/waiters: those who stand in line, the one that came first first.
//
// Access: with holds:read every one; else those of one's own subject and those one made.
func (s *server) listWaiters(ctx context.Context, c *call) (int, any, error) {
	p, err := s.page(c)
	if err != nil {
		return 0, nil, err
	}
	q := reserve.WaiterQuery{Tenant: c.who.Tenant, Visible: c.caller().Sees, Max: min(p.size+1, maxPage)}
	if q.After, err = readPosition(p.after); err != nil {
		return 0, nil, err
	}
	all, err := s.Service.Waiters(ctx, q)
	if err != nil {
		return 0, nil, err
	}
	more := len(all) > p.size || len(all) == maxPage
	all = all[:min(len(all), p.size)]
	answer := api.WaiterPage{Data: make([]api.Waiter, len(all))}
	for i := range all {
		answer.Data[i] = waiterView(&all[i])
	}
	if more {
		answer.NextCursor = s.next(c, p, position(all[len(all)-1].Position()))
	}
	return http.StatusOK, answer, nil
}

// cancelWaiter answers DELETE /v1/waiters/{id}; its caller gets 429 wait-cancelled.
//
// Access: one's own subject's or one that one made; any with holds:force, which the trail is told
// of. With holds:read alone it is 403.
func (s *server) cancelWaiter(ctx context.Context, c *call) (int, any, error) {
	id, err := reserve.ParseWaiterID(c.params.Param("id"))
	if err != nil {
		return 0, nil, errNoWaiter
	}
	by, trail := c.caller(), (*reserve.Note)(nil)
	if c.who.Has(auth.HoldsForce) {
		by.Sees, by.Acts = nil, nil
		trail = ptr(s.note(c, ""))
	}
	switch err := s.Service.Cancel(ctx, reserve.HoldRef{ID: id, By: by}, trail); {
	case errors.Is(err, reserve.ErrNotFound):
		return 0, nil, errNoWaiter
	case errors.Is(err, reserve.ErrForbidden):
		return 0, nil, &scopeError{auth.HoldsForce}
	case err != nil:
		return 0, nil, err
	}
	return http.StatusNoContent, nil, nil
}

var errNoWaiter = &wireError{code: api.NotFound, detail: "There is no such waiter, or it is not yours to see."}

// explain answers GET /v1/explain: what would be decided, and what would let it in.
//
// Access: one's own subject; any with holds:read.
func (s *server) explain(ctx context.Context, c *call) (int, any, error) {
	r := reserve.Request{Tenant: c.who.Tenant, Subject: c.who.Subject, Action: limits.Action(c.query["action"]), Cost: 1, Principal: c.who.ID()}
	if text, there := c.query["subject"]; there {
		var err error
		if r.Subject, err = limits.ParseSubject(text); err != nil {
			return 0, nil, badQuery("subject", "A subject is written kind:id, such as user:u_42.")
		}
	}
	if r.Action == "" || len(r.Action) > limits.MaxAction || !printable(string(r.Action)) {
		return 0, nil, badQuery("action", "Name an action, 1 to 128 bytes of readable text.")
	}
	if text, there := c.query["cost"]; there {
		if _, err := fmt.Sscan(text, &r.Cost); err != nil || r.Cost < 0 || r.Cost > reserve.MaxCost || fmt.Sprint(r.Cost) != text {
			return 0, nil, badQuery("cost", "The cost must be a whole number from 0 to 1000000000.")
		}
	}
	if r.Subject != c.who.Subject && !c.who.Has(auth.HoldsRead) {
		return 0, nil, &scopeError{auth.HoldsRead}
	}
	e, err := s.Service.Explain(ctx, r)
	if err != nil {
		return 0, nil, s.unmatched(err, &r)
	}
	d := &e.Decision
	answer := api.Explanation{Allowed: d.Allowed, Limits: verdictViews(d.Verdicts, d.At), Holders: []api.Holder{}}
	if d.Allowed {
		answer.WouldAdmit = "It would be granted now."
		return http.StatusOK, &answer, nil
	}
	no := s.refused(d, r.Subject, c)
	answer.Holders = append(answer.Holders, no.holders...)
	answer.WouldAdmit = no.detail
	if e.Place > 0 {
		answer.Place = ptr(int64(e.Place))
		if e.Estimate >= 0 {
			answer.EstimateSeconds = ptr(secondsUp(e.Estimate))
		}
	}
	return http.StatusOK, &answer, nil
}

// orTakenBack has a grant to somebody who waited released again when its answer cannot be
// delivered: there was time to go away in.
func (s *server) orTakenBack(c *call, r *reserve.Request, hold *reserve.Reservation) {
	if r.Wait > 0 && !hold.Replayed {
		tenant, id := c.who.Tenant, hold.ID
		c.undelivered = func() { s.Service.Unreceived(tenant, id) }
	}
}

// delivered says whether an answer that was written has left, as far as this side can tell.
func delivered(x *exchange) bool {
	err := http.NewResponseController(x.ResponseWriter).Flush()
	return x.cause == nil && (err == nil || errors.Is(err, http.ErrNotSupported))
}
