package httpapi

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/catalogue"
	"github.com/holdfast-dev/holdfast/events"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

// wireError is a fault of the request that only HTTP knows: a header, a parameter, a cursor.
type wireError struct {
	code              api.Code
	detail            string
	parameter, header string
	retry             time.Duration // 0: as the code has it
}

func (e *wireError) Error() string { return string(e.code) + ": " + e.detail }

// scopeError is auth.ErrForbidden for want of a scope.
type scopeError struct{ scope auth.Scope }

func (e *scopeError) Error() string { return "forbidden: scope " + string(e.scope) + " is missing" }
func (e *scopeError) Unwrap() error { return auth.ErrForbidden }

// refusal is a decision that said no, as a problem document.
type refusal struct{ problem api.Problem }

func (e *refusal) Error() string { return string(e.problem.Code) }

// row is one line of the table: how an error is recognised, and what it becomes.
type row struct {
	match   func(error) bool
	problem func(error) api.Problem
}

// is is the row of a sentinel.
func is(target error, code api.Code, detail string) row {
	return row{
		func(err error) bool { return errors.Is(err, target) },
		func(error) api.Problem { return api.NewProblem(code, detail) },
	}
}

// as is the row of an error type.
func as[E error](problem func(E) api.Problem) row {
	return row{
		func(err error) bool { _, ok := errors.AsType[E](err); return ok },
		func(err error) api.Problem { e, _ := errors.AsType[E](err); return problem(e) },
	}
}

// table is the one place where domain errors become problem documents; the first row that
// matches wins. What no row matches is our fault: internal, its cause in the log alone.
var table = []row{
	as(func(e *refusal) api.Problem { return e.problem }),
	as(wireProblem),
	as(func(e *api.DecodeError) api.Problem { return decodeProblem(e) }),
	as(invalidProblem),
	as(fixedProblem),
	as(scopeProblem),
	{func(err error) bool { return errors.Is(err, auth.ErrUnauthenticated) }, unauthenticatedProblem},
	is(auth.ErrForbidden, api.Forbidden, "This is not yours to do."),
	is(auth.ErrKeysUnavailable, api.StoreUnavailable, "The keys that tokens are verified with cannot be loaded; nothing happened."),

	as(lineFullProblem),
	is(reserve.ErrWaitCancelled, api.WaitCancelled, "The wait was ended by whoever may; nothing happened."),
	as(lostProblem),
	as(settledProblem),
	as(overageProblem),
	as(unmatchedProblem),
	as(tooManyProblem),
	as(ttlProblem),
	is(reserve.ErrNotFound, api.NotFound, "There is no such reservation, or it is not yours to see."),
	{func(err error) bool { return errors.Is(err, reserve.ErrForbidden) }, notToActProblem},
	is(reserve.ErrMismatch, api.IdempotencyMismatch, "This Idempotency-Key was used with another body; take a new key."),
	is(reserve.ErrInFlight, api.IdempotencyInFlight, "A request with this Idempotency-Key is still running; repeat it in a moment."),
	is(reserve.ErrFenced, api.FenceDiffers, "The fence is not the live one: the slot has another holder. Look again."),
	is(reserve.ErrContended, api.Contended, "Others were faster too many times; nothing happened. Try again."),
	is(reserve.ErrUnavailable, api.StoreUnavailable, "The store cannot be reached; nothing happened. Try again."),
	is(reserve.ErrOverloaded, api.Overloaded, "Too much is waiting already; nothing happened. Try again later."),
	is(reserve.ErrDraining, api.Draining, "This replica is shutting down; nothing happened. Ask another."),
	is(reserve.ErrUnknownOutcome, api.OutcomeUnknown, "It may have happened: repeat the request with the same Idempotency-Key to learn it."),
	is(reserve.ErrFull, api.StorageFull, "The store has no space left; nothing happened. Releases still work."),
	is(reserve.ErrQuarantine, api.Quarantine, "The store was restored from a backup: no hold is begun until those that are not in it have surely run out; nothing happened."),
	is(reserve.ErrClockSkew, api.ClockSkew, "The clock of this replica cannot be trusted now; nothing happened. Ask another."),
	is(reserve.ErrCorrupt, api.StoreUnavailable, "A stored value that this needs cannot be read; nothing happened."),
	is(reserve.ErrNewer, api.StoreUnavailable, "A stored value that this needs was written by a newer version; nothing happened."),

	{func(err error) bool { return errors.Is(err, reserve.ErrTooBig) }, tooBig},
	is(events.ErrDraining, api.Draining, "This replica is shutting down; nothing happened. Ask another."),
	is(events.ErrTooMany, api.Overloaded, "This replica has as many readers of events as it may; ask another, or later."),
	{func(err error) bool { return errors.Is(err, events.ErrYours) }, streamsProblem},

	as(existsProblem),
	as(changedProblem),
	is(catalogue.ErrNotFound, api.NotFound, "There is no such limit, override or block."),
	is(catalogue.ErrTooMany, api.InvalidValue, "The tenant has as many limits, or overrides, as it may; delete some first."),

	is(context.Canceled, api.OutcomeUnknown, "The request was given up; it may have happened."),
	is(context.DeadlineExceeded, api.OutcomeUnknown, "No answer came in time; it may have happened."),
}

// ProblemOf is what an error means to whoever caused it, for those beside this package who
// answer for the same domain.
func ProblemOf(err error) api.Problem { return problemOf(err) }

// problemOf is the problem document of an error.
func problemOf(err error) api.Problem {
	if e, ok := errors.AsType[*linedError](err); ok {
		return e.problem()
	}
	for _, r := range table {
		if r.match(err) {
			return r.problem(err)
		}
	}
	return api.NewProblem(api.Internal, "Something went wrong here. It was logged under this request's id.")
}

// instanceOf names a request in a problem document.
func instanceOf(id string) string { return "urn:holdfast:request:" + id }

// fail answers with the problem document of err.
func (s *server) fail(x *exchange, err error) {
	p := problemOf(err)
	p.RequestID, p.Instance = x.id, instanceOf(x.id)
	h := x.Header()
	switch p.Code {
	case api.Unauthenticated:
		h["Www-Authenticate"] = []string{`Bearer error="invalid_token"`}
	case api.Forbidden:
		challenge := `Bearer error="insufficient_scope"`
		if p.Scope != "" {
			challenge += `, scope="` + p.Scope + `"`
		}
		h["Www-Authenticate"] = []string{challenge}
	}
	if p.Status == http.StatusServiceUnavailable && p.RetryAfterSeconds == nil {
		p.RetryAfterSeconds = ptr(secondsUp(pause(p.Code)))
	}
	if p.Code.RetryAfter() && p.RetryAfterSeconds != nil {
		h["Retry-After"] = []string{strconv.FormatInt(*p.RetryAfterSeconds, 10)}
	}
	x.code = p.Code
	if p.Status >= http.StatusInternalServerError && x.cause == nil {
		x.cause = err
	}
	buf := buffers.Get().(*[]byte)
	defer putBuffer(buf)
	encoded, encodeErr := api.AppendJSON((*buf)[:0], &p)
	if encodeErr != nil {
		x.cause = errors.Join(err, encodeErr)
	}
	*buf = encoded
	h["Content-Type"] = probType
	x.WriteHeader(p.Status)
	s.write(x, encoded)
}

// pause is how long a caller is asked to stay away after a 503. It is spread, so that callers
// that failed together do not come back together.
func pause(c api.Code) time.Duration {
	spread := func(from, to time.Duration) time.Duration { return from + rand.N(to-from) }
	switch c {
	case api.StoreUnavailable, api.ClockSkew:
		return spread(2*time.Second, 8*time.Second)
	case api.StorageFull, api.Quarantine:
		return spread(20*time.Second, 40*time.Second)
	case api.Overloaded:
		return spread(0, 3*time.Second)
	}
	return time.Second // contended, draining, outcome-unknown
}

func wireProblem(e *wireError) api.Problem {
	p := api.NewProblem(e.code, e.detail)
	p.Parameter, p.Header = e.parameter, e.header
	if e.retry > 0 {
		p.RetryAfterSeconds = ptr(secondsUp(e.retry))
	}
	return p
}

func unauthenticatedProblem(err error) api.Problem {
	reason := strings.TrimPrefix(err.Error(), auth.ErrUnauthenticated.Error()+": ")
	if whole, found := strings.CutPrefix(reason, "the header is the token"); found {
		reason = "the token" + whole // of the token as a whole, met while its header was read
	}
	return api.NewProblem(api.Unauthenticated, "Not signed in: "+reason+".")
}

func streamsProblem(error) api.Problem {
	p := api.NewProblem(api.SlowDown, "You have as many streams of events open here as you may; close one.")
	p.RetryAfterSeconds = ptr(int64(1))
	return p
}

func scopeProblem(e *scopeError) api.Problem {
	p := api.NewProblem(api.Forbidden, "The token lacks the scope "+string(e.scope)+".")
	p.Scope = string(e.scope)
	return p
}

func decodeProblem(e *api.DecodeError) api.Problem {
	detail := "The body is not what this route reads; see errors."
	if e.Code == api.InvalidValue {
		detail = "Some values are not allowed; see errors."
	}
	p := api.NewProblem(e.Code, detail)
	p.Errors = e.Faults
	return p
}

func invalidProblem(e *limits.InvalidError) api.Problem {
	return decodeProblem(&api.DecodeError{Code: api.InvalidValue, Faults: faultsOf("", e)})
}

func fixedProblem(e *limits.FixedError) api.Problem {
	p := api.NewProblem(api.WindowFixed, "A window never changes to or from concurrent or bucket, and share never changes; make another limit.")
	for _, field := range e.Fields {
		p.Errors = append(p.Errors, api.Fault{Pointer: field, Detail: "cannot change that way"})
	}
	return p
}
