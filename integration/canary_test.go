package integration

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/auth"
)

// FAULTS section 3 row 25: tokens, keys and secrets are sent in every place they might be sent
// in, right and wrong, to a server that logs all it can; none is in its log, nor in an answer.
func TestCanary_NoSecretIsInAnyLog(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "metrics-token")
	if err := os.WriteFile(secret, []byte("canary-metrics-token"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := dev(t, "--log-level", "debug", "--log-format", "json")
	c := s.admin(t)
	var tokens []string
	for n := range 4 {
		token, err := s.token(auth.Claims{Subject: fmt.Sprint("canary-", n), Scope: []string{"", "admin", "act-for", "holds:read"}[n]})
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, token, token[:len(token)-6]+"AAAAAA") // one that is forged
	}
	tokens = append(tokens, c.token)
	var answers strings.Builder
	for _, token := range tokens {
		quoted := url.QueryEscape(token)
		one := callerOf(t, s, token)
		for _, r := range []reply{
			one.post("/v1/reservations", `{"action":"export"}`),
			one.post("/v1/reservations", `{"action":"export","ttlSeconds":"`+token+`"}`),
			one.post("/v1/checks", `{"action":"`+token[:100]+`"}`),
			one.post("/v1/limits", token),
			one.send(http.MethodGet, "/v1/reservations?access_token="+quoted, ""),
			one.send(http.MethodGet, "/v1/reservations/"+quoted, ""),
			one.send(http.MethodGet, "/"+quoted, ""),
			one.send(http.MethodGet, "/admin/v1/cluster", "", "Cookie", "session="+token),
			one.send(http.MethodGet, "/v1/limits", "", "Authorization", "Basic "+token),
			one.send(http.MethodGet, "/v1/limits", "", "Authorization", "Bearer "+token+" "+token),
			one.send(http.MethodGet, "/v1/limits", "", "Traceparent", token),
		} {
			answers.Write(r.body)
		}
	}
	key, err := os.ReadFile(filepath.Join(s.dir, "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	s.stop(t)
	said := s.out.String()
	if strings.Count(said, `"msg":"request"`) < len(tokens) {
		t.Fatalf("the server logged too little to show anything:\n%s", said)
	}
	secrets := []string{strings.Split(string(key), "\n")[1]}
	for _, token := range tokens {
		secrets = append(secrets, token[strings.LastIndexByte(token, '.')+1:])
	}
	for _, canary := range secrets {
		if strings.Contains(said, canary[:20]) {
			t.Errorf("the log has %s…", canary[:20])
		}
		if strings.Contains(answers.String(), canary) {
			t.Errorf("an answer has %s…", canary[:20])
		}
	}
}
