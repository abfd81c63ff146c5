package api

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
)

// Traffic can be held against the document: what is right passes, what is wrong does not.
func TestOpenAPI_JudgesTraffic(t *testing.T) {
	t.Parallel()
	held := string(mustAppend(t, goldens()["reservation-held"]))
	for name, c := range map[string]struct {
		method, path, body string
		status             int
		media, answer      string
		badRequest, badAns bool
	}{
		"a check":              {"POST", "/v1/checks", fullCheck, 200, "application/json", string(mustAppend(t, goldens()["check-refused"])), false, false},
		"an unknown name":      {"POST", "/v1/checks", `{"action":"a","x":1}`, 200, "application/json", `{"allowed":true,"mode":"consume","limits":[]}`, true, false},
		"an answer cut short":  {"POST", "/v1/checks", `{"action":"a"}`, 200, "application/json", `{"allowed":true}`, false, true},
		"held":                 {"POST", "/v1/reservations", `{"action":"a"}`, 201, "application/json", held, false, false},
		"refused":              {"POST", "/v1/reservations", `{"action":"a"}`, 429, ProblemType, string(mustAppend(t, goldens()["problem-no-free-slot"])), false, false},
		"a code nobody knows":  {"POST", "/v1/reservations", `{"action":"a"}`, 429, ProblemType, `{"type":"t","title":"t","status":429,"code":"full","detail":"d"}`, false, true},
		"an extend":            {"POST", "/v1/reservations/rsv_06C8Q4M2T0V3W6X9Y1Z4A7B2CG/extend", `{"ttlSeconds":600}`, 200, "application/json", held, false, false},
		"an extend too short":  {"POST", "/v1/reservations/rsv_06C8Q4M2T0V3W6X9Y1Z4A7B2CG/extend", `{"ttlSeconds":1}`, 200, "application/json", held, true, false},
		"unlimited":            {"PUT", "/v1/limits/exports/override", `{"amount":null}`, 200, "application/json", string(mustAppend(t, goldens()["override-unlimited"])), false, false},
		"an override of words": {"PUT", "/v1/limits/exports/overrides/user/u_42", `{"amount":"ten"}`, 404, ProblemType, string(mustAppend(t, NewProblem(NotFound, "d"))), true, false},
		"a patch":              {"PATCH", "/v1/limits/exports", `{"amount":5,"labels":null}`, 428, ProblemType, string(mustAppend(t, NewProblem(PreconditionRequired, "d"))), false, false},
		"the last page":        {"GET", "/v1/limits?pageSize=500", "", 200, "application/json", `{"data":[],"nextCursor":null}`, false, false},
		"a page too large":     {"GET", "/v1/limits?pageSize=501", "", 200, "application/json", `{"data":[],"nextCursor":null}`, true, false},
		"too large a body":     {"POST", "/v1/checks", `{"action":"a"}`, 413, ProblemType, string(mustAppend(t, NewProblem(BodyTooLarge, "d"))), false, false},
		"metrics":              {"GET", "/metrics", "", 200, "text/plain; version=0.0.4; charset=utf-8", "# HELP x\n", false, false},
		"deleted":              {"DELETE", "/v1/limits/exports", "", 204, "", "", false, false},
		"readiness":            {"GET", "/readyz?verbose", "", 503, "application/json", `{"status":"unavailable"}`, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request, answer := judge(t, c.method, c.path, c.body, c.status, c.media, c.answer)
			if (request != nil) != c.badRequest {
				t.Errorf("%s %s %s: %v, want it refused: %v", c.method, c.path, c.body, request, c.badRequest)
			}
			if (answer != nil) != c.badAns {
				t.Errorf("%d %s: %v, want it refused: %v", c.status, c.answer, answer, c.badAns)
			}
		})
	}
}

func mustAppend(t *testing.T, v any) []byte {
	t.Helper()
	text, err := AppendJSON(nil, v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// judges finds the route of a request; making one takes a second.
var judges = sync.OnceValues(func() (routers.Router, error) {
	doc, err := document()
	if err != nil {
		return nil, err
	}
	return legacy.NewRouter(doc)
})

func judge(t *testing.T, method, path, body string, status int, media, answer string) (request, response error) {
	t.Helper()
	router, err := judges()
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	route, params, err := router.FindRoute(r)
	if err != nil {
		t.Fatalf("no route for %s %s: %v", method, path, err)
	}
	in := &openapi3filter.RequestValidationInput{
		Request: r, PathParams: params, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true},
	}
	request = openapi3filter.ValidateRequest(t.Context(), in)
	response = openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: status, Header: http.Header{"Content-Type": {media}},
		Body: io.NopCloser(bytes.NewReader([]byte(answer))), Options: in.Options,
	})
	return request, response
}
