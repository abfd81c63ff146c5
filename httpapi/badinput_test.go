package httpapi

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/reserve"
)

// revision is where the store stands; what was refused must not have moved it.
func (r *rig) revision() int64 {
	r.t.Helper()
	got, err := r.view.Load(r.t.Context(), []reserve.Ref{{Tenant: "default", Kind: reserve.RefCatalog}}, true)
	if err != nil {
		r.t.Fatalf("Load: %v", err)
	}
	return got.Rev
}

func with(fields string) string { return `{"action":"export",` + fields + `}` }

func limitWith(fields string) string {
	return `{"name":"n","subjectKind":"user","action":"a",` + fields + `}`
}

// badBodies is what the strict edge must refuse; pointer "-" asks for no pointer.
var badBodies = []struct {
	name, path, body string
	code             api.Code
	pointer          string
}{
	{"a list", "/v1/checks", `[]`, api.InvalidBody, ""},
	{"nothing", "/v1/checks", ``, api.InvalidBody, ""},
	{"null", "/v1/checks", `null`, api.InvalidBody, ""},
	{"no JSON", "/v1/checks", `{`, api.InvalidBody, ""},
	{"a wrong type", "/v1/checks", `{"action":7}`, api.InvalidBody, "/action"},
	{"an unknown field", "/v1/checks", with(`"ttl":5`), api.InvalidBody, "/ttl"},
	{"a field of the wrong case", "/v1/checks", with(`"Cost":5`), api.InvalidBody, "/Cost"},
	{"a field twice", "/v1/checks", with(`"cost":1,"cost":2`), api.InvalidBody, "/cost"},
	{"something after it", "/v1/checks", `{"action":"export"} {}`, api.InvalidBody, ""},
	{"bytes that are no UTF-8", "/v1/checks", "{\"action\":\"\xff\"}", api.InvalidBody, "-"},
	{"a lone surrogate", "/v1/checks", `{"action":"\ud800"}`, api.InvalidBody, "-"},
	{"no action", "/v1/checks", `{}`, api.InvalidValue, "/action"},
	{"an empty action", "/v1/checks", `{"action":""}`, api.InvalidValue, "/action"},
	{"an action of 129 bytes", "/v1/checks", `{"action":"` + strings.Repeat("a", 129) + `"}`, api.InvalidValue, "/action"},
	{"an unknown mode", "/v1/checks", with(`"mode":"steal"`), api.InvalidValue, "/mode"},
	{"a mode on a reservation", "/v1/reservations", with(`"mode":"reserve"`), api.InvalidBody, "/mode"},

	{"ttl -1", "/v1/reservations", with(`"ttlSeconds":-1`), api.InvalidValue, "/ttlSeconds"}, // FAULTS row 42
	{"ttl 0", "/v1/reservations", with(`"ttlSeconds":0`), api.InvalidValue, "/ttlSeconds"},
	{"ttl 1", "/v1/reservations", with(`"ttlSeconds":1`), api.InvalidValue, "/ttlSeconds"},
	{"ttl 3601", "/v1/reservations", with(`"ttlSeconds":3601`), api.InvalidValue, "/ttlSeconds"},
	{"ttl 1.5", "/v1/reservations", with(`"ttlSeconds":1.5`), api.InvalidValue, "/ttlSeconds"},
	{"ttl 1.0", "/v1/reservations", with(`"ttlSeconds":10.0`), api.InvalidValue, "/ttlSeconds"},
	{"ttl 1e3", "/v1/reservations", with(`"ttlSeconds":1e3`), api.InvalidValue, "/ttlSeconds"},
	{`ttl "300"`, "/v1/reservations", with(`"ttlSeconds":"300"`), api.InvalidBody, "/ttlSeconds"},
	{"ttl true", "/v1/reservations", with(`"ttlSeconds":true`), api.InvalidBody, "/ttlSeconds"},
	{"ttl null", "/v1/reservations", with(`"ttlSeconds":null`), api.InvalidBody, "/ttlSeconds"},
	{"cost -1", "/v1/reservations", with(`"cost":-1`), api.InvalidValue, "/cost"}, // FAULTS row 43, CASES O14
	{"cost 1.5", "/v1/reservations", with(`"cost":1.5`), api.InvalidValue, "/cost"},
	{"cost 2^63", "/v1/reservations", with(`"cost":9223372036854775808`), api.InvalidValue, "/cost"},
	{"cost 1e30", "/v1/reservations", with(`"cost":1e30`), api.InvalidValue, "/cost"},
	{"cost 10^9+1", "/v1/reservations", with(`"cost":1000000001`), api.InvalidValue, "/cost"},
	{"cost NaN", "/v1/reservations", with(`"cost":NaN`), api.InvalidBody, "-"},
	{"wait 61", "/v1/reservations", with(`"waitSeconds":61`), api.InvalidValue, "/waitSeconds"},
	{"wait -1", "/v1/reservations", with(`"waitSeconds":-1`), api.InvalidValue, "/waitSeconds"},
	{"an owner's name of 129 bytes", "/v1/reservations", with(`"owner":{"name":"` + strings.Repeat("o", 129) + `"}`), api.InvalidValue, "/owner/name"},
	{"an owner's host with a line feed", "/v1/reservations", with(`"owner":{"host":"a\nb"}`), api.InvalidValue, "/owner/host"},
	{"a label without a name", "/v1/reservations", with(`"labels":{"":"x"}`), api.InvalidValue, "/labels/"},
	{"a label that is a number", "/v1/reservations", with(`"labels":{"a":1}`), api.InvalidBody, "/labels/a"},

	{"an empty subject id", "/v1/checks", with(`"subject":{"kind":"user","id":""}`), api.InvalidValue, "/subject/id"}, // FAULTS section 3 rows 10, 11; CASES O21
	{"a subject id of 256 bytes", "/v1/checks", with(`"subject":{"kind":"user","id":"` + strings.Repeat("x", 256) + `"}`), api.InvalidValue, "/subject/id"},
	{"U+FFFD in a subject id", "/v1/checks", with(`"subject":{"kind":"user","id":"a\ufffd"}`), api.InvalidValue, "/subject/id"},
	{"a line feed in a subject id", "/v1/checks", with(`"subject":{"kind":"user","id":"a\n"}`), api.InvalidValue, "/subject/id"},
	{"a zero byte in a subject id", "/v1/checks", with(`"subject":{"kind":"user","id":"a\u0000"}`), api.InvalidValue, "/subject/id"},
	{"a subject id of spaces", "/v1/checks", with(`"subject":{"kind":"user","id":"  "}`), api.InvalidValue, "/subject/id"},
	{"a kind of the wrong case", "/v1/checks", with(`"subject":{"kind":"User","id":"a"}`), api.InvalidValue, "/subject/kind"},

	{"amount -1", "/v1/limits", limitWith(`"amount":-1,"window":"day"`), api.InvalidValue, "/amount"},
	{"amount 10^9+1", "/v1/limits", limitWith(`"amount":1000000001,"window":"day"`), api.InvalidValue, "/amount"},
	{"no amount", "/v1/limits", limitWith(`"window":"day"`), api.InvalidValue, "/amount"},
	{"an unknown window", "/v1/limits", limitWith(`"amount":1,"window":"year"`), api.InvalidValue, "/window"},
	{"a rolling month", "/v1/limits", limitWith(`"amount":1,"window":"month","rolling":true`), api.InvalidValue, "/rolling"},
	{"a bucket without refill", "/v1/limits", limitWith(`"amount":1,"window":"bucket"`), api.InvalidValue, "/refillPerSecond"},
	{"a day with refill", "/v1/limits", limitWith(`"amount":1,"window":"day","refillPerSecond":2`), api.InvalidValue, "/refillPerSecond"},
	{"an id with a slash", "/v1/limits", limitWith(`"id":"a/b","amount":1,"window":"day"`), api.InvalidValue, "/id"},
	{"a ttl above its maximum", "/v1/limits", limitWith(`"amount":1,"window":"day","ttlSeconds":60,"maxTtlSeconds":30`), api.InvalidValue, "/ttlSeconds"},
	{"a pause that has ended", "/v1/limits", limitWith(`"amount":1,"window":"day","paused":true,"pausedUntil":"1999-01-01T00:00:00Z"`), api.InvalidValue, "/pausedUntil"},
	{"an instant that is none", "/v1/limits", limitWith(`"amount":1,"window":"day","pausedUntil":"tomorrow"`), api.InvalidValue, "/pausedUntil"},

	{"a reset without a reason", "/v1/limits/exports/reset", `{}`, api.InvalidValue, "/reason"},
	{"no heartbeats", "/v1/heartbeats", `{"ids":[]}`, api.InvalidValue, "/ids"},
	{"501 heartbeats", "/v1/heartbeats", `{"ids":["x"` + strings.Repeat(`,"x"`, 500) + `]}`, api.InvalidValue, "/ids"},
	{"a fence of 0", "/v1/fences/verify", `{"limit":"exports","subject":{"kind":"user","id":"u"},"slot":0,"fence":0}`, api.InvalidValue, "/fence"},
	{"a release reason of 513 bytes", "/v1/reservations/nope/release", `{"reason":"` + strings.Repeat("r", 513) + `"}`, api.InvalidValue, "/reason"},
}

func TestBadBodies_AreRefusedAndChangeNothing(t *testing.T) { // API.md section 1
	inBubble(t, func(r *rig) {
		r.exports()
		token, before := r.token("u_42", "admin"), r.revision()
		for _, one := range badBodies {
			p := r.post(token, one.path, one.body).problem(one.code)
			pointers := make([]string, len(p.Errors))
			for i, f := range p.Errors {
				pointers[i] = f.Pointer
			}
			if one.pointer != "-" && !slices.Contains(pointers, one.pointer) {
				t.Errorf("%s: %s %s: got errors %v, want one at %q", one.name, one.path, one.body, p.Errors, one.pointer)
			}
			if len(p.Errors) == 0 {
				t.Errorf("%s: %s %s: no errors are named", one.name, one.path, one.body)
			}
		}
		if after := r.revision(); after != before {
			t.Errorf("the store moved from revision %d to %d", before, after)
		}
	})
}

func TestBadBodies_AllFaultsAtOnce(t *testing.T) {
	inBubble(t, func(r *rig) {
		p := r.post(r.token("u", "admin"), "/v1/checks", `{"cost":-1,"ttlSeconds":1,"subject":{"kind":"X","id":""},"owner":{"name":"a\n"}}`).problem(api.InvalidValue)
		var pointers []string
		for _, f := range p.Errors {
			pointers = append(pointers, f.Pointer)
		}
		slices.Sort(pointers)
		want := []string{"/action", "/cost", "/owner/name", "/subject/id", "/subject/kind", "/ttlSeconds"}
		if !slices.Equal(pointers, want) {
			t.Errorf("faults: got %v, want %v", pointers, want)
		}
	})
}

func TestBody_SizeAndType(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.exports()
		token := r.token("u_42", "")
		big := with(`"labels":{"a":"` + strings.Repeat("x", 65<<10) + `"}`)
		fits := `{"action":"export"` + strings.Repeat(" ", api.MaxBody-19) + `}`
		for _, one := range []struct {
			name, body, kind string
			status           int
		}{
			{"65 KiB", big, "application/json", http.StatusRequestEntityTooLarge},
			{"64 KiB", fits, "application/json", http.StatusOK},
			{"a byte more", fits + " ", "application/json", http.StatusRequestEntityTooLarge},
			{"text", with(`"cost":1`), "text/plain", http.StatusUnsupportedMediaType},
			{"no type", with(`"cost":1`), "", http.StatusUnsupportedMediaType},
			{"a form", "action=export", "application/x-www-form-urlencoded", http.StatusUnsupportedMediaType},
			{"another charset", with(`"cost":1`), "application/json; charset=latin1", http.StatusUnsupportedMediaType},
			{"a charset", with(`"cost":1`), "application/json; charset=UTF-8", http.StatusOK},
			{"a merge patch", with(`"cost":1`), "application/merge-patch+json", http.StatusUnsupportedMediaType},
		} {
			g := r.do(ask{method: http.MethodPost, path: "/v1/checks", token: token, body: one.body, header: map[string]string{"Content-Type": one.kind}})
			if g.status != one.status {
				t.Errorf("%s (%d bytes, %q): got %d %s, want %d", one.name, len(one.body), one.kind, g.status, g.body, one.status)
			}
		}
	})
}

func TestQuery_NothingUnknownTwiceOrBroken(t *testing.T) { // API.md section 1
	inBubble(t, func(r *rig) {
		token := r.token("u_42", "admin")
		for path, parameter := range map[string]string{
			"/v1/reservations?limt=exports":            "limt",
			"/v1/reservations?sort=oldest&sort=newest": "sort",
			"/v1/reservations?sort=":                   "sort",
			"/v1/reservations?sort=best":               "sort",
			"/v1/reservations?state=gone":              "state",
			"/v1/reservations?subject=u_42":            "subject",
			"/v1/reservations?subject=user:":           "subject",
			"/v1/reservations?owner=a%0Ab":             "owner",
			"/v1/reservations?pageSize=0":              "pageSize",
			"/v1/reservations?pageSize=501":            "pageSize",
			"/v1/reservations?pageSize=1e2":            "pageSize",
			"/v1/reservations?pageSize=%2B5":           "pageSize",
			"/v1/reservations?a;b":                     "",
			"/v1/limits?id=exports":                    "id",
			"/v1/usage/now":                            "limit",
			"/v1/subjects/user/u_42?access_token=x":    "access_token",
			"/admin/v1/config?pretty":                  "pretty",
		} {
			if p := r.get(token, path).problem(api.InvalidQuery); p.Parameter != parameter {
				t.Errorf("GET %s: parameter %q, want %q", path, p.Parameter, parameter)
			}
		}
		r.get("", "/version?x=1").want(http.StatusOK, nil)
		r.post(token, "/v1/checks?dry=1", `{"action":"export"}`).problem(api.InvalidQuery)
	})
}

func TestHeaders_BadOnesAreNamed(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.exports()
		token := r.token("u_42", "admin")
		p := r.do(ask{http.MethodPost, "/v1/checks", token, with(`"cost":1`), map[string]string{"Idempotency-Key": "two words"}}).problem(api.InvalidHeader)
		if p.Header != "Idempotency-Key" {
			t.Errorf("header: got %q, want Idempotency-Key", p.Header)
		}
		p = r.do(ask{http.MethodDelete, "/v1/limits/exports", token, nil, map[string]string{"If-Match": "1"}}).problem(api.InvalidHeader)
		if p.Header != "If-Match" {
			t.Errorf("header: got %q, want If-Match", p.Header)
		}
	})
}

func TestPaths_IDsAreReadOnce(t *testing.T) { // FAULTS section 3 row 30
	inBubble(t, func(r *rig) {
		root := r.token("root", "admin")
		for _, id := range []string{"a/b", "a%2Fb", "a b", "a?b", "ü", "..", "a:b", "%41"} {
			var view api.SubjectView
			r.get(root, "/v1/subjects/user/"+escaped(id)).want(http.StatusOK, &view)
			if view.Subject.ID != id {
				t.Errorf("subject %q, escaped %s: came in as %q", id, escaped(id), view.Subject.ID)
			}
		}
		for _, path := range []string{"/v1/limits/a%2Fb", "/v1/limits/..%2F..%2Fv1", "/v1/limits/%00", "/v1/limits/Exports", "/v1/reservations/rsv_%2F"} {
			r.get(root, path).problem(api.NotFound)
		}
		r.get(root, "/v1/subjects/User/x").problem(api.InvalidValue)
		r.get(root, "/v1/subjects/user/%0A").problem(api.InvalidValue)
	})
}

// escaped writes every byte but letters and digits as %XX.
func escaped(id string) string {
	var b strings.Builder
	for i := range len(id) {
		if c := id[i]; c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func TestTokens_BadSubjectsNeverGetIn(t *testing.T) { // FAULTS section 3 row 11
	t.Parallel()
	for _, sub := range []string{"", strings.Repeat("x", 256), "a\ufffd", "a\n"} {
		claims := auth.Claims{Issuer: issuer, Audience: audience, Subject: sub, TTL: 3600e9}
		if token, err := signer().Mint(claims, noon); err == nil {
			t.Errorf("Mint made a token for sub %q: %s", sub, token)
		}
	}
}
