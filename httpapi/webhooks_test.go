package httpapi

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/webhooks"
)

const aWebhook = `{"url":"https://hooks.example/holdfast","events":["reservation.expired","limit.exceeded"]}`

// webhook makes one.
func (r *rig) webhook(token, body string) (w api.Webhook) {
	r.t.Helper()
	g := r.post(token, "/v1/webhooks", body).want(http.StatusCreated, &w)
	if got := g.header.Get("Location"); got != "/v1/webhooks/"+w.ID || !strings.HasPrefix(w.ID, "wh_") {
		r.t.Errorf("id %q, Location %q", w.ID, got)
	}
	time.Sleep(time.Second) // lists are in the order of their making
	return w
}

func TestWebhooks_MadeReadRotatedDeleted(t *testing.T) { // HF-3209
	inBubble(t, func(r *rig) {
		writer, reader := r.token("root", "limits:write"), r.token("rita", "limits:read")
		const own = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"
		made := r.webhook(writer, aWebhook)
		if !strings.HasPrefix(made.Secret, "whsec_") || len(made.Secret) != len("whsec_")+44 {
			t.Errorf("secret: got %q, want whsec_ and 32 bytes in base64", made.Secret)
		}
		if made.URL != "https://hooks.example/holdfast" || !slices.Equal(made.Events, []string{"reservation.expired", "limit.exceeded"}) ||
			made.CreatedBy != "user:root" || made.OldSecretUntil != nil || made.Delivery != (api.Delivery{}) {
			t.Errorf("made: got %+v", made)
		}
		given := r.webhook(writer, `{"url":"https://hooks.example/all","secret":"`+own+`"}`)
		if given.Secret != own || len(given.Events) != 0 {
			t.Errorf("with a secret of one's own: got %+v", given)
		}
		secrets := []string{made.Secret, own}

		rotated := api.Webhook{}
		at := time.Now()
		r.post(writer, "/v1/webhooks/"+made.ID+"/rotate", nil).want(http.StatusOK, &rotated)
		if rotated.Secret == made.Secret || !strings.HasPrefix(rotated.Secret, "whsec_") {
			t.Errorf("rotated from %q to %q", made.Secret, rotated.Secret)
		}
		if until := rotated.OldSecretUntil; until == nil || !until.Equal(at.Add(webhooks.OldGood).Truncate(time.Millisecond)) {
			t.Errorf("the secret before is good until %v, want a day from %v", until, at)
		}
		secrets = append(secrets, rotated.Secret)

		var all api.WebhookPage
		var one api.Webhook
		list := r.get(reader, "/v1/webhooks").want(http.StatusOK, &all)
		get := r.get(reader, "/v1/webhooks/"+made.ID).want(http.StatusOK, &one)
		if len(all.Data) != 2 || all.Data[0].ID != made.ID || all.Data[1].ID != given.ID || all.NextCursor != nil {
			t.Errorf("list: got %s", list.body)
		}
		if one.ID != made.ID || one.OldSecretUntil == nil || all.Data[1].OldSecretUntil != nil {
			t.Errorf("get: got %s", get.body)
		}

		for _, id := range []string{made.ID, given.ID} {
			r.drop(writer, "/v1/webhooks/"+id).want(http.StatusNoContent, nil)
			r.drop(writer, "/v1/webhooks/"+id).problem(api.NotFound)
			r.get(reader, "/v1/webhooks/"+id).problem(api.NotFound)
			r.post(writer, "/v1/webhooks/"+id+"/rotate", nil).problem(api.NotFound)
		}

		trail := r.get(r.token("ops", "audit:read"), "/admin/v1/audit").want(http.StatusOK, nil)
		_, said := r.trail("")
		slices.Sort(said)
		want := []string{"webhook.create " + made.ID, "webhook.create " + given.ID, "webhook.delete " + made.ID, "webhook.delete " + given.ID, "webhook.rotate " + made.ID}
		if slices.Sort(want); !slices.Equal(said, want) {
			t.Errorf("the trail: got %q, want %q", said, want)
		}
		for _, secret := range secrets {
			for name, text := range map[string]string{"the list": string(list.body), "one": string(get.body), "the trail": string(trail.body), "the log": r.logs.String()} {
				if strings.Contains(text, strings.TrimPrefix(secret, "whsec_")) {
					t.Errorf("%s shows a secret: %s", name, text)
				}
			}
		}
	})
}

func TestWebhooks_WhatIsWrongIsNamed(t *testing.T) { // HF-3209, FAULTS section 3 row 23
	inBubble(t, func(r *rig) {
		writer := r.token("root", "limits:write")
		kept := r.webhook(writer, aWebhook)
		before := r.revision()
		const good = `"url":"https://hooks.example/"`
		type wrong struct {
			path, body string
			code       api.Code
			pointers   []string
		}
		var cases []wrong
		for _, address := range strings.Fields(`https://127.0.0.1/ https://10.0.0.1/ https://169.254.169.254/latest/meta-data/ https://100.100.100.200/ https://[::1]/
			https://[::ffff:10.0.0.1]/ https://[fd00:ec2::254]/ https://[fe80::1%25eth0]/ https://2130706433/ https://0x7f.1/ https://localhost/ https://metadata.google.internal/
			https://user:password@hooks.example/ http://hooks.example/ ftp://hooks.example/ file:///etc/passwd //hooks.example/ hooks.example https://hooks.example/#x https://`) {
			cases = append(cases, wrong{"", `{"url":"` + address + `"}`, api.InvalidValue, []string{"/url"}})
		}
		rotate := "/" + kept.ID + "/rotate"
		cases = append(cases,
			wrong{"", `{"url":"https://hooks.example/` + strings.Repeat("x", webhooks.MaxURL) + `"}`, api.InvalidValue, []string{"/url"}},
			wrong{"", `{}`, api.InvalidValue, []string{"/url"}},
			wrong{"", `{"url":7}`, api.InvalidBody, []string{"/url"}},
			wrong{"", `{` + good + `,"headers":{}}`, api.InvalidBody, []string{"/headers"}},
			wrong{"", `{` + good + `,"events":["reservation.eaten"]}`, api.InvalidValue, []string{"/events/0"}},
			wrong{"", `{` + good + `,"events":["limit.changed","check.refused","limit.changed"]}`, api.InvalidValue, []string{"/events/1", "/events/2"}},
			wrong{"", `{` + good + `,"events":[` + strings.Repeat(`"gap",`, 16) + `"gap"]}`, api.InvalidValue, []string{"/events"}},
			wrong{"", `{` + good + `,"secret":"fifteen letters"}`, api.InvalidValue, []string{"/secret"}},
			wrong{"", `{` + good + `,"secret":"whsec_c2hvcnQ="}`, api.InvalidValue, []string{"/secret"}},
			wrong{"", `{` + good + `,"secret":"whsec_no base64 at all, is it"}`, api.InvalidValue, []string{"/secret"}},
			wrong{"", `{` + good + `,"secret":"` + strings.Repeat("s", 65) + `"}`, api.InvalidValue, []string{"/secret"}},
			wrong{"", `{"url":"https://10.0.0.1/","events":["x"],"secret":"short"}`, api.InvalidValue, []string{"/url", "/events/0", "/secret"}},
			wrong{rotate, `{"secret":"short"}`, api.InvalidValue, []string{"/secret"}},
			wrong{rotate, `{"url":"https://10.0.0.1/"}`, api.InvalidBody, []string{"/url"}},
		)
		for _, c := range cases {
			var got []string
			for _, f := range r.post(writer, "/v1/webhooks"+c.path, c.body).problem(c.code).Errors {
				got = append(got, f.Pointer)
			}
			if !slices.Equal(got, c.pointers) {
				t.Errorf("%s: faults at %q, want %q", c.body, got, c.pointers)
			}
		}
		if after := r.revision(); after != before {
			t.Errorf("the store went from revision %d to %d for what was refused", before, after)
		}
	})
}

func TestWebhooks_AreTheTenantsAndBounded(t *testing.T) { // HF-3209, FAULTS section 3 rows 15 and 17
	inBubble(t, func(r *rig) {
		acme := func(c *auth.Claims) { c.Tenant = "acme" }
		writer, other := r.token("root", "limits:write"), r.token("root", "admin", acme)
		var mine []api.Webhook
		for n := range webhooks.MaxWebhooks {
			mine = append(mine, r.webhook(writer, fmt.Sprintf(`{"url":"https://hooks.example/%d"}`, n)))
		}
		if p := r.post(writer, "/v1/webhooks", aWebhook).problem(api.InvalidValue); !strings.Contains(p.Detail, "delete one") {
			t.Errorf("one too many: got %q", p.Detail)
		}

		var all api.WebhookPage
		if r.get(other, "/v1/webhooks").want(http.StatusOK, &all); len(all.Data) != 0 {
			t.Errorf("another tenant sees %+v", all.Data)
		}
		path := "/v1/webhooks/" + mine[0].ID
		unknown := r.get(other, "/v1/webhooks/wh_none")
		for _, g := range []got{r.get(other, path), r.drop(other, path), r.post(other, path+"/rotate", nil)} {
			if g.problem(api.NotFound); same(t, g) != same(t, unknown) {
				t.Errorf("%s %s of another tenant: got %s, of an unknown one %s", g.asked.method, path, g.body, unknown.body)
			}
		}
		r.webhook(other, aWebhook) // its bound is its own

		for _, scope := range []string{"", "act-for", "limits:read", "holds:force audit:read"} {
			eve := r.token("eve", scope)
			asked := []got{r.post(eve, "/v1/webhooks", aWebhook), r.drop(eve, path), r.post(eve, path+"/rotate", nil)}
			if scope != "limits:read" {
				asked = append(asked, r.get(eve, "/v1/webhooks"), r.get(eve, path))
			}
			for _, g := range asked {
				g.problem(api.Forbidden)
			}
		}

		if r.get(writer, "/v1/webhooks").want(http.StatusOK, &all); len(all.Data) != len(mine) {
			t.Errorf("%d webhooks are left of %d", len(all.Data), len(mine))
		}
		r.drop(writer, path).want(http.StatusNoContent, nil)
		r.webhook(writer, aWebhook) // room for one more
	})
}
