package httpapi

import (
	"context"
	"encoding/binary"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

// page is how a list is read: how many entries, and after which position.
type page struct {
	of    list
	size  int
	after []byte // nil: the first page
}

func (s *server) page(c *call) (p page, err error) {
	p.of = list{tenant: c.who.Tenant, route: c.req.Method + " " + c.params.Path(), filter: c.query.filter()}
	if p.size, err = c.query.pageSize(); err != nil {
		return p, err
	}
	if text, there := c.query["cursor"]; there {
		p.after, err = s.cursors.read(p.of, text, s.Now())
	}
	return p, err
}

// next is the cursor for what comes after position, told in a Link header as well.
func (s *server) next(c *call, p page, position []byte) *string {
	cursor := s.cursors.make(p.of, position, s.Now())
	q, err := url.ParseQuery(p.of.filter)
	if err != nil { // it was encoded by us
		q = url.Values{}
	}
	q.Set("cursor", cursor)
	q.Set("pageSize", strconv.Itoa(p.size))
	c.out["Link"] = []string{"<" + c.params.Path() + "?" + q.Encode() + `>; rel="next"`}
	return &cursor
}

// listReservations answers GET /v1/reservations.
//
// Access: with holds:read every one; else those of one's own subject and those one made.
func (s *server) listReservations(ctx context.Context, c *call) (int, any, error) {
	p, err := s.page(c)
	if err != nil {
		return 0, nil, err
	}
	q, err := c.query.reservations()
	if err != nil {
		return 0, nil, err
	}
	if q.After, err = readPosition(p.after); err != nil {
		return 0, nil, err
	}
	q.Tenant, q.Visible, q.Max = c.who.Tenant, c.caller().Sees, min(p.size+1, maxPage)
	all, err := s.Service.List(ctx, q)
	if err != nil {
		return 0, nil, err
	}
	more := len(all) > p.size || len(all) == maxPage
	all = all[:min(len(all), p.size)]
	answer := api.ReservationPage{Data: make([]api.Reservation, len(all))}
	for i := range all {
		answer.Data[i] = reservationView(&all[i], nil)
	}
	if more {
		answer.NextCursor = s.next(c, p, position(q.Place(all[len(all)-1])))
	}
	return http.StatusOK, answer, nil
}

func position(p reserve.Position) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(p.At)), p.ID[:]...)
}

func readPosition(b []byte) (p reserve.Position, err error) {
	switch {
	case b == nil:
	case len(b) != 8+len(p.ID):
		return p, errBadCursor
	default:
		p.At = int64(binary.BigEndian.Uint64(b))
		copy(p.ID[:], b[8:])
	}
	return p, nil
}

// usageNow answers GET /v1/usage/now: each subject's use of one limit, by subject.
//
// Access: holds:read.
func (s *server) usageNow(ctx context.Context, c *call) (int, any, error) {
	p, err := s.page(c)
	if err != nil {
		return 0, nil, err
	}
	limit, there := c.query["limit"]
	if !there {
		return 0, nil, badQuery("limit", "Name a limit.")
	}
	if _, known := s.Service.Catalog(c.who.Tenant).Limit(limit); !known {
		return 0, nil, errNoLimit
	}
	all, err := s.Service.UsageOf(ctx, c.who.Tenant, limit, string(p.after), min(p.size+1, maxPage))
	if err != nil {
		return 0, nil, err
	}
	more := len(all) > p.size || len(all) == maxPage
	all = all[:min(len(all), p.size)]
	answer := api.UsagePage{Data: make([]api.UsageNow, len(all))}
	for i := range all {
		v := &all[i]
		answer.Data[i] = api.UsageNow{
			Limit: v.Rule.ID, Subject: scopeSubject(v.Scope), Used: v.Used,
			Amount: v.Rule.Amount, Remaining: v.Remaining, Unlimited: v.Rule.Unlimited, Excess: v.Excess,
		}
	}
	if more {
		answer.NextCursor = s.next(c, p, []byte(all[len(all)-1].Scope))
	}
	return http.StatusOK, answer, nil
}

// maxShownHolds bounds the holds a subject's answer names.
const maxShownHolds = 100

// getSubject answers GET /v1/subjects/{kind}/{id}. Access: one's own; any with holds:read.
func (s *server) getSubject(ctx context.Context, c *call) (int, any, error) {
	subject, err := c.subject("id")
	if err != nil {
		return 0, nil, err
	}
	if subject != c.who.Subject && !c.who.Has(auth.HoldsRead) {
		return 0, nil, &scopeError{auth.HoldsRead}
	}
	verdicts, err := s.Service.Usage(ctx, c.who.Tenant, subject)
	if err != nil {
		return 0, nil, err
	}
	holds, err := s.Service.List(ctx, reserve.Query{Tenant: c.who.Tenant, Subject: subject, Max: maxShownHolds})
	if err != nil {
		return 0, nil, err
	}
	waiters, err := s.Service.Waiters(ctx, reserve.WaiterQuery{Tenant: c.who.Tenant, Subject: subject, Max: maxShownHolds})
	if err != nil {
		return 0, nil, err
	}
	now := s.WindowNow()
	view := api.SubjectView{
		Subject: subjectView(subject), Limits: verdictViews(verdicts, now),
		Holds: make([]api.Reservation, len(holds)), Waiters: make([]api.Waiter, len(waiters)), Refusals: refusalViews(s.Service.Refusals(c.who.Tenant, subject)),
	}
	for i := range holds {
		view.Holds[i] = reservationView(&holds[i], nil)
	}
	for i := range waiters {
		view.Waiters[i] = waiterView(&waiters[i])
	}
	if b, blocked := s.Service.Catalog(c.who.Tenant).Block(subject); blocked {
		view.BlockedUntil = api.AtPtr(b.Until)
		view.BlockedForSeconds = ptr(secondsUp(b.Until.Sub(now)))
	}
	return http.StatusOK, view, nil
}

// subject is the one that two path parameters name. Errors: *wireError that names the
// parameter; a pointer would point into a body.
func (c *call) subject(id string) (limits.Subject, error) {
	const kind = "kind"
	s := limits.Subject{Kind: c.param(kind), ID: c.param(id)}
	faults := faultsOf("", s.Validate())
	if len(faults) == 0 {
		return s, nil
	}
	names, words := map[string]string{"/kind": kind, "/id": id}, make([]string, len(faults))
	for i, f := range faults {
		words[i] = names[f.Pointer] + " " + f.Detail
	}
	return s, &wireError{
		code: api.InvalidValue, parameter: names[faults[0].Pointer],
		detail: "In the path, " + strings.Join(words, "; ") + ".",
	}
}

// param is a path parameter, unescaped once: Echo matches on the escaped path where that
// differs from the plain one, and then hands out parameters as they are written.
func (c *call) param(name string) string {
	value := c.params.Param(name)
	if c.req.URL.RawPath == "" {
		return value
	}
	plain, err := url.PathUnescape(value)
	if err != nil { // net/http has parsed the whole path before
		return value
	}
	return plain
}
