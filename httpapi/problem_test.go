package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/catalogue"
	"github.com/holdfast-dev/holdfast/events"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

var update = flag.Bool("update", false, "write golden files")

var ended = reserve.Record{
	ID: reserve.ID{1}, State: reserve.Released, Subject: limits.Subject{Kind: "user", ID: "u_42"}, Action: "export", Cost: 3,
	CreatedAt: time.Date(2026, 9, 3, 12, 0, 0, 0, time.UTC), EndedAt: time.Date(2026, 9, 3, 12, 1, 0, 0, time.UTC),
	EndedBy: auth.Principal{Issuer: issuer, Subject: limits.Subject{Kind: "user", ID: "u_42"}}.ID(),
	Places:  []reserve.Place{{Limit: "exports", Scope: "user/u_42", N: 2}}, Fence: 1874, Note: "the input was empty", Refunded: 3,
}

func endedAs(s reserve.State) reserve.Record { r := ended; r.State = s; return r }

// domainErrors is every error a verb can end with, by the name of its golden document.
var domainErrors = []struct {
	name string
	err  error
	code api.Code
}{
	{"refusal", &refusal{api.NewProblem(api.NoFreeSlot, "exports is full.")}, api.NoFreeSlot},
	{"query", badQuery("limt", "The parameter is not known here."), api.InvalidQuery},
	{"header", errBadKey, api.InvalidHeader},
	{"cursor", errBadCursor, api.InvalidCursor},
	{"cursor-expired", errOldCursor, api.CursorExpired},
	{"slow-down", errSlowDown, api.SlowDown},
	{"body", &api.DecodeError{Code: api.InvalidBody, Faults: []api.Fault{{Pointer: "/ttl", Detail: "is not known"}}}, api.InvalidBody},
	{"value", &api.DecodeError{Code: api.InvalidValue, Faults: []api.Fault{{Pointer: "/ttlSeconds", Detail: "must be 2 to 3600"}}}, api.InvalidValue},
	{"invalid", &limits.InvalidError{Faults: []limits.Fault{{Field: "/id", Reason: "must match"}}}, api.InvalidValue},
	{"fixed", &limits.FixedError{Fields: []string{"/window", "/share"}}, api.WindowFixed},
	{"scope", &scopeError{auth.LimitsWrite}, api.Forbidden},
	{"unauthenticated", fmt.Errorf("%w: the token has expired", auth.ErrUnauthenticated), api.Unauthenticated},
	{"forbidden", auth.ErrForbidden, api.Forbidden},
	{"keys", fmt.Errorf("%w: timeout", auth.ErrKeysUnavailable), api.StoreUnavailable},
	{"lost-expired", &reserve.LostError{Record: endedAs(reserve.Expired)}, api.HoldLost},
	{"lost-forced", &reserve.LostError{Record: endedAs(reserve.Forced)}, api.HoldLost},
	{"lost-released", &reserve.LostError{Record: ended}, api.HoldLost},
	{"settled", &reserve.SettledError{Record: ended}, api.AlreadySettled},
	{"overage", &reserve.OverageError{Limit: "calls", Asked: 12, Remaining: 2}, api.Overage},
	{"no-limit", &unmatchedError{action: "exprot", kind: "user", near: []string{"export", "expand"}}, api.NoMatchingLimit},
	{"no-limit-kind", &unmatchedError{action: "export", kind: "org", kinds: []string{"user"}}, api.NoMatchingLimit},
	{"no-limit-at-all", &unmatchedError{action: "zzz", kind: "user"}, api.NoMatchingLimit},
	{"too-many", &reserve.TooManyLimitsError{Matching: 21}, api.TooManyLimits},
	{"ttl", &reserve.TTLError{Max: time.Minute}, api.InvalidValue},
	{"line-full", &reserve.LineFullError{Decision: reserve.Decision{Waiting: 1000, Binding: 0, Verdicts: []reserve.Verdict{{Rule: limits.Rule{Limit: &limits.Limit{ID: "exports"}}}}}}, api.LineFull},
	{"wait-cancelled", reserve.ErrWaitCancelled, api.WaitCancelled},
	{"not-found", reserve.ErrNotFound, api.NotFound},
	{"not-yours", reserve.ErrForbidden, api.Forbidden},
	{"mismatch", reserve.ErrMismatch, api.IdempotencyMismatch},
	{"in-flight", reserve.ErrInFlight, api.IdempotencyInFlight},
	{"fenced", reserve.ErrFenced, api.FenceDiffers},
	{"contended", reserve.ErrContended, api.Contended},
	{"unavailable", reserve.ErrUnavailable, api.StoreUnavailable},
	{"overloaded", reserve.ErrOverloaded, api.Overloaded},
	{"draining", reserve.ErrDraining, api.Draining},
	{"unknown-outcome", reserve.ErrUnknownOutcome, api.OutcomeUnknown},
	{"full", reserve.ErrFull, api.StorageFull},
	{"skew", reserve.ErrClockSkew, api.ClockSkew},
	{"quarantine", reserve.ErrQuarantine, api.Quarantine},
	{"corrupt", reserve.ErrCorrupt, api.StoreUnavailable},
	{"newer", reserve.ErrNewer, api.StoreUnavailable},
	{"too-big", reserve.ErrTooBig, api.BodyTooLarge},
	{"streams-draining", events.ErrDraining, api.Draining},
	{"streams-all", events.ErrTooMany, api.Overloaded},
	{"streams-yours", events.ErrYours, api.SlowDown},
	{"exists", &catalogue.ExistsError{ID: "exports"}, api.LimitExists},
	{"changed", &catalogue.ChangedError{Revision: 918004}, api.PreconditionFailed},
	{"no-if-match", errNoIfMatch, api.PreconditionRequired},
	{"no-override", catalogue.ErrNotFound, api.NotFound},
	{"too-many-of-them", catalogue.ErrTooMany, api.InvalidValue},
	{"cancelled", context.Canceled, api.OutcomeUnknown},
	{"deadline", context.DeadlineExceeded, api.OutcomeUnknown},
	{"anything-else", errors.New("password=hunter2"), api.Internal},
}

func TestProblem_EveryRowIsReachedAndEveryErrorKnown(t *testing.T) { // STYLE 17
	t.Parallel()
	reached := make([]bool, len(table))
	for _, one := range domainErrors {
		wrapped := fmt.Errorf("reserve: %w", one.err) // as the domain hands it over
		p := problemOf(wrapped)
		if p.Code != one.code || p.Status != one.code.Status() || p.Title != one.code.Title() || p.Detail == "" {
			t.Errorf("problemOf(%v): got %+v, want code %s", one.err, p, one.code)
		}
		for i, r := range table {
			if r.match(wrapped) {
				reached[i] = true
				break
			}
		}
	}
	for i, ok := range reached {
		if !ok {
			t.Errorf("row %d of the table is reached by no error", i)
		}
	}
}

func TestProblem_Golden(t *testing.T) {
	t.Parallel()
	for _, one := range domainErrors {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			p := problemOf(one.err)
			text, err := json.MarshalIndent(p, "", "  ")
			if err != nil {
				t.Fatalf("encode %+v: %v", p, err)
			}
			text = append(text, '\n')
			file := filepath.Join("testdata", "problems", one.name+".json")
			if *update {
				if err := os.WriteFile(file, text, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if string(text) != string(want) {
				t.Errorf("%v: got\n%s\nwant\n%s", one.err, text, want)
			}
		})
	}
}

// codesNotReachedYet are the codes of features that are not there yet, each with its reason.
var codesNotReachedYet = map[api.Code]string{}

func TestProblem_EveryCodeHasAMaker(t *testing.T) {
	t.Parallel()
	made := map[api.Code]bool{
		// Made from a decision (verdicts_test.go) and at the edge (edge_test.go, badinput_test.go).
		api.NeverFits: true, api.QuotaExceeded: true, api.LimitPaused: true, api.SubjectBlocked: true,
		api.MethodNotAllowed: true, api.BodyTooLarge: true, api.UnsupportedMediaType: true,
	}
	for _, one := range domainErrors {
		made[one.code] = true
	}
	for _, c := range api.Codes() {
		if reason, later := codesNotReachedYet[c]; made[c] == later {
			t.Errorf("code %s: made %v, but listed as not reached yet (%q)", c, made[c], reason)
		}
	}
}

func TestFail_503AlwaysSaysWhenToComeBackAnd429OnlyWhenItKnows(t *testing.T) { // API.md section 7
	inBubble(t, func(r *rig) {
		for _, one := range domainErrors {
			rec, x := newExchange()
			(&server{Config: r.cfg, log: r.cfg.Log, metrics: nil}).fail(x, one.err)
			retry, has := rec.Header()["Retry-After"]
			want := one.code.Status() == 503 || one.code == api.SlowDown
			if has != want {
				t.Errorf("%s: Retry-After %v, want it there: %v", one.name, retry, want)
			}
			if logged := x.cause != nil; logged != (one.code.Status() >= 500) {
				t.Errorf("%s: cause kept for the log: %v, want %v", one.name, logged, !logged)
			}
		}
	})
}

func TestFail_WithholdsTheCause(t *testing.T) {
	inBubble(t, func(r *rig) {
		rec, x := newExchange()
		(&server{Config: r.cfg, log: r.cfg.Log}).fail(x, errors.New("password=hunter2"))
		if body := rec.Body.String(); rec.Code != 500 || contains(body, "hunter2") {
			t.Errorf("answer to an unknown error: got %d %s, want 500 without its text", rec.Code, body)
		}
	})
}
