package httpapi

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/auth"
)

var document = sync.OnceValue(func() *openapi3.T {
	openapi3filter.RegisterBodyDecoder("application/merge-patch+json", openapi3filter.JSONBodyDecoder)
	openapi3filter.RegisterBodyDecoder("text/html", openapi3filter.PlainBodyDecoder)
	openapi3filter.RegisterBodyDecoder("application/octet-stream", openapi3filter.FileBodyDecoder)
	openapi3filter.RegisterBodyDecoder("text/event-stream", openapi3filter.PlainBodyDecoder)
	openapi3filter.RegisterBodyDecoder(api.ProblemType, openapi3filter.JSONBodyDecoder)
	doc, err := openapi3.NewLoader().LoadFromData(api.OpenAPI)
	if err != nil {
		panic(err)
	}
	return doc
})

// operation finds what openapi.yaml says of a request; nil when it says nothing.
func operation(method, path string) (*routers.Route, map[string]string) {
	doc := document()
	for template, item := range doc.Paths.Map() {
		params, ok := matchPath(template, path)
		if op := item.GetOperation(method); ok && op != nil {
			return &routers.Route{Spec: doc, Server: doc.Servers[0], Path: template, PathItem: item, Method: method, Operation: op}, params
		}
	}
	return nil, nil
}

// matchPath matches an escaped path with a template such as /v1/limits/{id}.
func matchPath(template, path string) (map[string]string, bool) {
	want, have := strings.Split(template, "/"), strings.Split(path, "/")
	params := map[string]string{}
	if len(want) != len(have) {
		return nil, false
	}
	for i, part := range want {
		switch {
		case strings.HasPrefix(part, "{"):
			params[strings.Trim(part, "{}")] = have[i]
		case part != have[i]:
			return nil, false
		}
	}
	return params, true
}

// checkContract fails the test when an answer is not what openapi.yaml allows, or when a
// request was served that it does not allow.
func checkContract(t *testing.T, req *http.Request, sent []byte, g *got) {
	t.Helper()
	route, params := operation(req.Method, req.URL.EscapedPath())
	if route == nil {
		return // 404, 405 and the pages of /docs
	}
	if g.header.Get("X-Request-Id") == "" {
		t.Errorf("%s %s: no X-Request-Id", req.Method, req.URL)
	}
	if alreadyChecked(route, req, sent, g) {
		return
	}
	in := &openapi3filter.RequestValidationInput{
		Request: req, PathParams: params, Route: route,
		Options: contractOptions,
	}
	if g.status < http.StatusBadRequest {
		req.Body = io.NopCloser(bytes.NewReader(sent))
		if err := openapi3filter.ValidateRequest(req.Context(), in); err != nil {
			t.Errorf("%s %s %s was served with %d, openapi.yaml refuses it: %v", req.Method, req.URL, sent, g.status, err)
		}
	}
	out := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: g.status, Header: g.header,
		Body: io.NopCloser(bytes.NewReader(g.body)), Options: in.Options,
	}
	if err := openapi3filter.ValidateResponse(req.Context(), out); err != nil {
		t.Errorf("%s %s: answer %d %s is not in openapi.yaml: %v", req.Method, req.URL, g.status, g.body, err)
	}
}

// checked is what was looked at before: the validator compiles its schema anew each time.
var checked sync.Map

func alreadyChecked(route *routers.Route, req *http.Request, sent []byte, g *got) bool {
	key := fmt.Sprint(route.Method, route.Path, g.status, g.header.Get("Content-Type"), " ",
		strings.ReplaceAll(string(g.body), g.header.Get("X-Request-Id"), ""))
	if g.status < http.StatusBadRequest {
		key += req.URL.String() + string(sent)
	}
	_, before := checked.LoadOrStore(key, true)
	return before
}

// The check itself must be able to fail.
func TestContract_NoticesWhatIsNotInOpenAPI(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"a field that is missing": `{"status":7}`,
		"a wrong type":            `{"status":true}`,
		"no JSON":                 `{`,
	} {
		req := httptest.NewRequest(http.MethodGet, "/livez", nil)
		route, params := operation(req.Method, req.URL.Path)
		in := &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route, Options: contractOptions}
		out := &openapi3filter.ResponseValidationInput{
			RequestValidationInput: in, Status: http.StatusOK,
			Header: http.Header{"Content-Type": jsonType}, Body: io.NopCloser(strings.NewReader(answer)), Options: contractOptions,
		}
		if err := openapi3filter.ValidateResponse(t.Context(), out); err == nil {
			t.Errorf("%s: the answer %s to GET /livez passes", name, answer)
		}
	}
}

var contractOptions = &openapi3filter.Options{MultiError: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true}

// allRoutes is every row of both tables.
func allRoutes(r *rig) []route {
	s := &server{Config: r.cfg}
	return slices.Concat(s.publicRoutes(), s.openRoutes(), s.adminRoutes())
}

// template is a route's pattern as openapi.yaml spells it.
func template(pattern string) string {
	parts := strings.Split(pattern, "/")
	for i, p := range parts {
		if name, ok := strings.CutPrefix(p, ":"); ok {
			parts[i] = "{" + name + "}"
		}
	}
	return strings.Join(parts, "/")
}

func TestRoutes_AreThoseOfOpenAPIBothWays(t *testing.T) { // STYLE 21
	inBubble(t, func(r *rig) {
		served := map[string]route{}
		for _, row := range allRoutes(r) {
			served[row.method+" "+template(row.path)] = row
		}
		for path, item := range document().Paths.Map() {
			for method, op := range item.Operations() {
				row, ok := served[method+" "+path]
				if !ok {
					t.Errorf("%s %s is in openapi.yaml and not served", method, path)
					continue
				}
				delete(served, method+" "+path)
				checkRow(t, row, item, op)
			}
		}
		for name := range served {
			if name != "GET /docs/{asset}" { // files of the page, not of the contract
				t.Errorf("%s is served and not in openapi.yaml", name)
			}
		}
	})
}

// checkRow compares access and query parameters of a route with openapi.yaml.
func checkRow(t *testing.T, row route, item *openapi3.PathItem, op *openapi3.Operation) {
	t.Helper()
	name := row.method + " " + row.path
	scope, _ := op.Extensions["x-scope"].(string)
	if row.access.scope != auth.Scope(scope) {
		t.Errorf("%s: scope %q, openapi.yaml says %q", name, row.access.scope, scope)
	}
	if open := op.Security != nil; row.access.open != open {
		t.Errorf("%s: open is %v, openapi.yaml says %v", name, row.access.open, open)
	}
	var query []string
	for _, p := range append(slices.Clone(item.Parameters), op.Parameters...) {
		if p.Value.In == openapi3.ParameterInQuery {
			query = append(query, p.Value.Name)
		}
	}
	have := slices.Clone(row.query)
	slices.Sort(have)
	slices.Sort(query)
	if !slices.Equal(have, query) {
		t.Errorf("%s: query parameters %v, openapi.yaml says %v", name, have, query)
	}
}
