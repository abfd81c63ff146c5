package webhooks

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/reserve"
)

// verify reports whether secret signed a delivery, within five minutes of now.
func verify(secret string, h http.Header, body []byte, now time.Time) bool {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	seconds, wrong := strconv.ParseInt(h.Get("Webhook-Timestamp"), 10, 64)
	if err != nil || wrong != nil || now.Sub(time.Unix(seconds, 0)).Abs() > 5*time.Minute {
		return false
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%d.%s", h.Get("Webhook-Id"), seconds, body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	for _, got := range strings.Fields(h.Get("Webhook-Signature")) {
		if hmac.Equal([]byte(got), []byte(want)) {
			return true
		}
	}
	return false
}

// The receiver that the how-to shows, word for word.
func TestVerify_IsTheHowTos(t *testing.T) { // HF-3210
	t.Parallel()
	source, err := os.ReadFile("verify_test.go")
	if err != nil {
		t.Fatal(err)
	}
	howto, err := os.ReadFile("../docs/howto/webhooks.md")
	if err != nil {
		t.Fatal(err)
	}
	_, own, _ := strings.Cut(string(source), "\n// verify ")
	own, _, ok := strings.Cut(own, "\n}\n")
	if !ok || !strings.Contains(string(howto), "```go\n// verify "+own+"\n}\n```") {
		t.Error("docs/howto/webhooks.md has another verify")
	}

	now := time.Unix(1_796_040_000, 0)
	hook := &reserve.Webhook{Secret: reserve.Secret("the new secret's bytes"), Previous: reserve.Secret("the old secret's bytes"), Until: now.Add(OldGood)}
	text := func(s string) string { return "whsec_" + base64.StdEncoding.EncodeToString([]byte(s)) }
	body := []byte(`{"id":"1874.0"}`)
	delivery := func(at time.Time) http.Header {
		stamp := strconv.FormatInt(at.Unix(), 10)
		return http.Header{"Webhook-Id": {"evt_1874_0"}, "Webhook-Timestamp": {stamp}, "Webhook-Signature": {sign(hook, at, "evt_1874_0", stamp, body)}}
	}
	later := now.Add(OldGood)
	other := delivery(now)
	other.Set("Webhook-Id", "evt_1875_0")
	for name, c := range map[string]struct {
		secret string
		header http.Header
		body   string
		now    time.Time
		want   bool
	}{
		"the new secret":                   {text("the new secret's bytes"), delivery(now), string(body), now, true},
		"the old one":                      {text("the old secret's bytes"), delivery(now), string(body), now, true},
		"the new one when the old is over": {text("the new secret's bytes"), delivery(later), string(body), later, true},
		"the old one when it is over":      {text("the old secret's bytes"), delivery(later), string(body), later, false},
		"another":                          {text("the odd secret's bytes"), delivery(now), string(body), now, false},
		"no secret at all":                 {"whsec_%", delivery(now), string(body), now, false},
		"another body":                     {text("the new secret's bytes"), delivery(now), `{"id":"1875.0"}`, now, false},
		"another id":                       {text("the new secret's bytes"), other, string(body), now, false},
		"six minutes late":                 {text("the new secret's bytes"), delivery(now), string(body), now.Add(6 * time.Minute), false},
		"six minutes early":                {text("the new secret's bytes"), delivery(now), string(body), now.Add(-6 * time.Minute), false},
		"no header":                        {text("the new secret's bytes"), http.Header{}, string(body), now, false},
	} {
		if got := verify(c.secret, c.header, []byte(c.body), c.now); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
