package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/client"
)

var sentinels = []error{
	client.ErrNoFreeSlot, client.ErrQuota, client.ErrHoldLost, client.ErrPaused, client.ErrUnauthorized,
	client.ErrUnavailable, client.ErrNeverFits,
}

// Every code of the contract becomes exactly the one error it means, and is still there to be
// read as the server said it.
func TestErrors_EveryCode(t *testing.T) {
	t.Parallel()
	want := map[api.Code]error{
		api.NoFreeSlot: client.ErrNoFreeSlot, api.LineFull: client.ErrNoFreeSlot, api.WaitCancelled: client.ErrNoFreeSlot,
		api.QuotaExceeded: client.ErrQuota, api.LimitPaused: client.ErrPaused, api.SubjectBlocked: client.ErrPaused,
		api.NeverFits: client.ErrNeverFits, api.HoldLost: client.ErrHoldLost,
		api.Unauthenticated: client.ErrUnauthorized, api.Forbidden: client.ErrUnauthorized,
		api.StoreUnavailable: client.ErrUnavailable, api.OutcomeUnknown: client.ErrUnavailable, api.Contended: client.ErrUnavailable,
		api.Overloaded: client.ErrUnavailable, api.Draining: client.ErrUnavailable, api.ClockSkew: client.ErrUnavailable,
		api.StorageFull: client.ErrUnavailable, api.Quarantine: client.ErrUnavailable, api.SlowDown: client.ErrUnavailable,
		api.Internal: client.ErrUnavailable, api.IdempotencyInFlight: client.ErrUnavailable, "of-a-newer-server": client.ErrUnavailable,
	}
	for _, code := range append(api.Codes(), "of-a-newer-server") {
		t.Run(string(code), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				problem := api.NewProblem(code, "the sentence")
				problem.Code = code
				c := stubbed(t, func(*http.Request) (*http.Response, error) { return answer(problem.Status, nil, problem), nil })
				_, err := c.Reserve(t.Context(), client.Request{Action: "export", Key: "k"})
				for _, sentinel := range sentinels {
					if got := errors.Is(err, sentinel); got != errors.Is(want[code], sentinel) {
						t.Errorf("%v is %v: %v", err, sentinel, got)
					}
				}
				var no *client.Refusal
				var p *api.Problem
				var lost *client.LostError
				switch {
				case errors.As(err, &no):
					if no.Code != code || no.Detail != "the sentence" || no.Action != "export" {
						t.Errorf("the refusal: %+v", no)
					}
				case errors.As(err, &lost):
				case !errors.As(err, &p) || p.Code != code || !strings.Contains(err.Error(), "the sentence"):
					t.Errorf("%v: the problem is not told", err)
				}
			})
		})
	}
}

// What is not Holdfast's (a proxy, a captive page) is never taken for an answer of its.
func TestErrors_AnswersOfSomebodyElse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		body   string
		want   error
	}{
		"a proxy's 502":      {502, "<html>Bad Gateway</html>", client.ErrUnavailable},
		"a proxy's 504":      {504, "", client.ErrUnavailable},
		"a proxy's 429":      {429, "slow down", client.ErrUnavailable},
		"a proxy's 401":      {401, "who are you", client.ErrUnauthorized},
		"a page with 200":    {200, "<html>Welcome</html>", client.ErrUnavailable},
		"an empty 200":       {200, "", client.ErrUnavailable},
		"a hold without id":  {201, "{}", client.ErrUnavailable},
		"no such route":      {404, "not here", nil},
		"a redirect":         {302, "", nil},
		"a hold without ttl": {201, `{"id":"rsv_1"}`, client.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client1 := stubbed(t, func(*http.Request) (*http.Response, error) {
					return &http.Response{
						StatusCode: c.status, Header: http.Header{"Location": {"http://elsewhere.test/"}},
						Body: io.NopCloser(strings.NewReader(c.body)),
					}, nil
				})
				_, err := client1.Reserve(t.Context(), export)
				if err == nil {
					t.Fatal("granted by somebody else")
				}
				for _, sentinel := range sentinels {
					if got := errors.Is(err, sentinel); got != errors.Is(c.want, sentinel) {
						t.Errorf("%v is %v: %v", err, sentinel, got)
					}
				}
			})
		})
	}
}

func TestNew_ToldAllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	_, err := client.New(client.Config{URL: "ftp://x", Timeout: -time.Second})
	if err == nil {
		t.Fatal("New took a wrong URL, no token source and a negative timeout")
	}
	for _, part := range []string{"ftp://x", "TokenSource", "Timeout"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("New: %v, want %s in it", err, part)
		}
	}
}

func TestFromEnv(t *testing.T) {
	t.Setenv("HOLDFAST_URL", "http://127.0.0.1:1")
	t.Setenv("HOLDFAST_TOKEN", "")
	t.Setenv("HOLDFAST_TOKEN_FILE", "")
	if _, err := client.New(client.FromEnv()); err == nil || !strings.Contains(err.Error(), "holdfast token") {
		t.Errorf("without a token: %v, want what to do", err)
	}
	t.Setenv("HOLDFAST_TOKEN", " a.b.c \n")
	cfg := client.FromEnv()
	token, err := cfg.TokenSource.Token(context.Background())
	if cfg.URL != "http://127.0.0.1:1" || token != "a.b.c" || err != nil {
		t.Errorf("from the environment: %s, %q, %v", cfg.URL, token, err)
	}
	t.Setenv("HOLDFAST_TOKEN", "")
	t.Setenv("HOLDFAST_TOKEN_FILE", t.TempDir()+"/token")
	c, err := client.New(client.FromEnv())
	if err != nil {
		t.Fatalf("with a token file: %v", err)
	}
	defer c.Close()
	_, err = c.Preview(t.Context(), client.Request{Action: "export"})
	wantErr(t, "a call whose token file is not there", err, client.ErrUnauthorized)
}
