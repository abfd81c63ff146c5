package httpapi

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/catalogue"
	"github.com/holdfast-dev/holdfast/reserve"
)

// The problems that carry more than a sentence.

func lostProblem(e *reserve.LostError) api.Problem {
	r := &e.Record
	p := api.NewProblem(api.HoldLost, lostDetail(r))
	p.Reason, p.At, p.By, p.Note = stateName(r.State), api.AtPtr(r.EndedAt), shownPrincipal(r.EndedBy), r.Note
	return p
}

func lostDetail(r *reserve.Record) string {
	switch r.State {
	case reserve.Expired:
		return "The hold ran out without an extend; stop the work it guarded."
	case reserve.Forced:
		return "The hold was ended by an administrator; stop the work it guarded."
	default:
		return "The hold was " + stateName(r.State) + " before; it cannot come back."
	}
}

func settledProblem(e *reserve.SettledError) api.Problem {
	p := api.NewProblem(api.AlreadySettled, "The reservation was "+stateName(e.Record.State)+" before; it is shown as it ended.")
	ended := reservationView(&reserve.Reservation{Record: e.Record}, nil)
	p.Reservation = &ended
	return p
}

func overageProblem(e *reserve.OverageError) api.Problem {
	p := api.NewProblem(api.Overage, fmt.Sprintf("%s has %d left beyond the estimate, too little for a cost of %d; the hold stays held.",
		e.Limit, e.Remaining, e.Asked))
	p.DecidedBy, p.Remaining = e.Limit, ptr(e.Remaining)
	return p
}

// notToActProblem: whoever sees another's hold needs act-for to end it.
func notToActProblem(error) api.Problem {
	p := api.NewProblem(api.Forbidden, "You may see this reservation but not act on it; that takes the scope act-for, for its subject.")
	p.Scope = string(auth.ActFor)
	return p
}

func tooManyProblem(e *reserve.TooManyLimitsError) api.Problem {
	p := api.NewProblem(api.TooManyLimits, fmt.Sprintf("%d limits match, more than one request may touch; disable or narrow some.", e.Matching))
	p.Matching = int64(e.Matching)
	return p
}

func ttlProblem(e *reserve.TTLError) api.Problem {
	most := int64(e.Max.Seconds())
	p := decodeProblem(&api.DecodeError{Code: api.InvalidValue, Faults: []api.Fault{
		{Pointer: "/ttlSeconds", Detail: fmt.Sprintf("must be at most %d under the limits that match", most)},
	}})
	p.MaxTTLSeconds = &most
	return p
}

func existsProblem(e *catalogue.ExistsError) api.Problem {
	return api.NewProblem(api.LimitExists, "A limit "+e.ID+" is there already; change it, or take another id.")
}

func changedProblem(e *catalogue.ChangedError) api.Problem {
	p := api.NewProblem(api.PreconditionFailed, "The limit was changed meanwhile; read it again and repeat the change.")
	p.Revision = ptr(e.Revision)
	return p
}
