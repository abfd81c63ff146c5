package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/auth"
)

// What a stranger must never read: of the hold and its owner, of the limit.
const (
	holdCanary  = "canary-of-a-hold"
	limitCanary = "canary-of-a-limit"
)

// bolaScopes are the sets of scopes that a stranger comes with.
var bolaScopes = []string{"", "act-for", "limits:read", "limits:write", "holds:read", "holds:force audit:read", "admin"}

// bolaRig is a tenant with a limit, an override, a webhook and a hold of user u_42.
type bolaRig struct {
	*rig
	hold    api.Reservation
	webhook api.Webhook
}

func newBOLA(r *rig) *bolaRig {
	r.limit(map[string]any{"id": "exports", "action": "export", "amount": 3, "description": limitCanary})
	root := r.token("root", "admin")
	r.do(ask{method: http.MethodPut, path: "/v1/limits/exports/overrides/user/u_42", token: root, body: map[string]any{"amount": 7, "reason": limitCanary}}).want(http.StatusOK, nil)
	r.do(ask{method: http.MethodPut, path: "/v1/limits/exports/override", token: root, body: map[string]any{"amount": 5, "reason": limitCanary}}).want(http.StatusOK, nil)
	b := &bolaRig{rig: r}
	r.post(root, "/v1/webhooks", map[string]any{"url": "https://hooks.example/" + limitCanary}).want(http.StatusCreated, &b.webhook)
	b.rig.post(r.token("u_42", ""), "/v1/reservations", map[string]any{
		"action": "export", "ttlSeconds": 600, "owner": map[string]any{"name": holdCanary}, "labels": map[string]any{"job": holdCanary},
	}).want(http.StatusCreated, &b.hold)
	return b
}

// stands is everything of the tenant that a stranger might have changed.
func (b *bolaRig) stands() string {
	root := b.token("root", "admin")
	var all bytes.Buffer
	for _, path := range []string{"/v1/limits", "/v1/limits/exports/overrides", "/v1/limits/exports/override", "/v1/reservations", "/v1/subjects/user/u_42", "/v1/webhooks"} {
		all.Write(b.get(root, path).body)
	}
	return all.String()
}

// request fills a path of openapi.yaml with what is there, and takes the document's own body.
func (b *bolaRig) request(path, method string, op *openapi3.Operation) ask {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		switch {
		case part == "{id}" && strings.Contains(path, "reservations"):
			parts[i] = b.hold.ID
		case part == "{id}" && strings.Contains(path, "webhooks"):
			parts[i] = b.webhook.ID
		case part == "{id}" && strings.Contains(path, "/subjects/"), part == "{subjectId}":
			parts[i] = "u_42"
		case part == "{id}":
			parts[i] = "exports"
		case part == "{kind}":
			parts[i] = "user"
		case strings.HasPrefix(part, "{"):
			parts[i] = "expire"
		}
	}
	a := ask{method: method, path: strings.Join(parts, "/"), header: map[string]string{}}
	if op.RequestBody == nil {
		return a
	}
	a.body = map[string]any{}
	for kind, media := range op.RequestBody.Value.Content {
		if !strings.Contains(kind, "json") {
			continue
		}
		a.header["Content-Type"] = kind
		for _, name := range sortedKeys(media.Examples) {
			a.body = media.Examples[name].Value.Value
			break
		}
	}
	// What names a subject or a fence names the stranger's victim.
	if fields, ok := a.body.(map[string]any); ok {
		fields = cloned(fields)
		_, names := fields["subject"]
		if _, asks := fields["action"]; names || asks && !strings.Contains(path, "limits") {
			fields["subject"] = map[string]any{"kind": "user", "id": "u_42"}
		}
		if _, there := fields["fence"]; there {
			fields["fence"] = b.hold.Fence
		}
		if _, there := fields["ids"]; there {
			fields["ids"] = []string{b.hold.ID}
		}
		a.body = fields
	}
	if method == http.MethodPut || method == http.MethodPatch || method == http.MethodDelete {
		if g := b.get(b.token("root", "admin"), "/v1/limits/exports"); !strings.Contains(path, "override") {
			a.header["If-Match"] = g.header.Get("ETag")
		}
	}
	return a
}

func sortedKeys[V any](m map[string]V) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// cloned copies a body, so that no case changes the document.
func cloned(m map[string]any) (out map[string]any) {
	data, _ := json.Marshal(m) // it came from JSON
	_ = json.Unmarshal(data, &out)
	return out
}

// FAULTS section 3 rows 13 to 17 and 31: every operation of openapi.yaml, asked by an
// administrator and lesser people of another tenant, and by another subject of the same one.
func TestBOLA_EveryRouteOfTheDocument(t *testing.T) {
	doc, asked := document(), 0
	for _, path := range doc.Paths.InMatchingOrder() {
		for method, op := range doc.Paths.Value(path).Operations() {
			if op.Security != nil || streams(op) { // open to everybody, or without an end
				continue
			}
			scope, _ := op.Extensions["x-scope"].(string)
			var strangers []stranger
			for _, has := range bolaScopes {
				strangers = append(strangers, stranger{has, "default"}, stranger{has, "acme"})
			}
			asked += len(strangers)
			t.Run(method+" "+path, func(t *testing.T) {
				t.Parallel()
				for len(strangers) > 0 { // what one changed, the next finds anew
					bubble(t, func(r *rig) {
						b := newBOLA(r)
						before := b.stands()
						for same := true; same && len(strangers) > 0; strangers = strangers[1:] {
							who := strangers[0]
							a := b.request(path, method, op)
							a.token = b.token("eve", who.scopes, func(c *auth.Claims) { c.Tenant = who.tenant })
							g := b.do(a)
							same = before == b.stands()
							b.judge(g, auth.Scope(scope), who, same)
						}
					})
				}
			})
		}
	}
	if asked < 500 {
		t.Errorf("only %d calls were made: is the document read?", asked)
	}
}

// streams reports whether an answer goes on for as long as the caller listens; what strangers
// hear there is for the tests of the stream.
func streams(op *openapi3.Operation) bool {
	ok := op.Responses.Status(http.StatusOK)
	return ok != nil && ok.Value.Content["text/event-stream"] != nil
}

// stranger is eve with scopes in a tenant.
type stranger struct{ scopes, tenant string }

// judge looks at an answer to a stranger.
func (b *bolaRig) judge(g got, scope auth.Scope, who stranger, same bool) {
	b.t.Helper()
	scopes := auth.ParseScopes(who.scopes)
	allowed := scope == "" || scopes.Has(scope)
	if !allowed && g.status != http.StatusForbidden {
		b.t.Errorf("%+v without %s: got %d %s, want 403", who, scope, g.status, g.body)
	}
	if !allowed && !same {
		b.t.Errorf("%+v: a call that was forbidden changed something", who)
	}
	if g.status >= http.StatusInternalServerError {
		b.t.Errorf("%+v: got %d %s", who, g.status, g.body)
	}
	reads := func(canary string) bool { return bytes.Contains(g.body, []byte(canary)) }
	if who.tenant != "default" {
		if reads(holdCanary) || reads(limitCanary) || reads(wholeStore) || !same {
			b.t.Errorf("%+v, from another tenant: got %d %s, and the tenant as it was: %t", who, g.status, g.body, same)
		}
		return
	}
	if reads(holdCanary) && !scopes.Has(auth.HoldsRead) {
		b.t.Errorf("%+v: another's hold was shown: %d %s", who, g.status, g.body)
	}
	if reads(limitCanary) && !scopes.Has(auth.LimitsRead) && !scopes.Has(auth.AuditRead) { // the trail tells what was made
		b.t.Errorf("%+v: a limit was shown: %d %s", who, g.status, g.body)
	}
	// Without one of these there is nothing of u_42's that eve may change.
	if !same && !scopes.Has(auth.HoldsForce) && !scopes.Has(auth.LimitsWrite) && !scopes.Has(auth.ActFor) {
		b.t.Errorf("%+v: a stranger changed something: %d %s", who, g.status, g.body)
	}
	var hold api.Reservation
	b.get(b.token("u_42", ""), "/v1/reservations/"+b.hold.ID).want(http.StatusOK, &hold)
	if hold.State != api.StateHeld && !scopes.Has(auth.HoldsForce) {
		b.t.Errorf("%+v: another's hold was ended: %+v", who, hold)
	}
}
