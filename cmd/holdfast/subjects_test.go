package main

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/auth"
)

// Each tenant has its limits and its plans from a file of its own, and sees no other's.
func TestServe_LimitsFilesOfTenantsAndTheirPlans(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	signer, err := auth.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	keys := write("jwks.json", string(signer.JWKS()))
	ours := write("limits.yaml", "limits:\n- {id: jobs, name: Jobs, subjectKind: org, action: job, amount: 1, window: concurrent}\n")
	const acmes = "limits:\n- {id: jobs, name: Jobs, subjectKind: org, action: job, amount: 2, window: concurrent}\nplans:\n  pro: {jobs: {amount: 5}}\n"
	theirs := write("acme.yaml", acmes)
	s, err := startServe([]string{"HOME=" + dir}, filepath.Join(dir, "state"),
		"--jwks-file", keys, "--jwt-issuer", "me", "--jwt-audience", "holdfast", "--limits-file", ours+",acme="+theirs)
	if err != nil {
		t.Fatal(err)
	}
	defer s.stop()
	callOf := func(tenant string) *caller {
		t.Helper()
		token, err := signer.Mint(auth.Claims{Issuer: "me", Audience: "holdfast", Subject: "root", Scope: "admin", Tenant: tenant, TTL: time.Hour}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return clientOf(t, s, token)
	}
	amount := func(call *caller) int64 {
		t.Helper()
		var answer api.CheckAnswer
		body := api.CheckRequest{Action: "job", Mode: api.ModePreview, Subject: &api.Subject{Kind: "org", ID: "a/b c"}}
		if _, err := call.do(t.Context(), act{method: http.MethodPost, path: "/v1/checks", body: body, into: &answer}); err != nil || len(answer.Limits) != 1 {
			t.Fatalf("got %+v, %v, want one limit", answer, err)
		}
		return answer.Limits[0].Amount
	}
	us, acme := callOf(""), callOf("acme")
	give := func(call *caller, plan string) (got api.SubjectPlan, err error) {
		path := subjectPath(&api.Subject{Kind: "org", ID: "a/b c"}) + "/plan"
		_, err = call.do(t.Context(), act{method: http.MethodPut, path: path, body: api.SubjectPlanInput{Plan: plan}, into: &got})
		return got, err
	}
	if a, b := amount(us), amount(acme); a != 1 || b != 2 {
		t.Errorf("before the plan: got %d and %d, want 1 and 2", a, b)
	}
	if got, err := give(acme, "pro"); err != nil || got.Amounts["jobs"].Amount.Value != 5 {
		t.Errorf("the plan of acme: got %+v, %v", got, err)
	}
	if a, b := amount(us), amount(acme); a != 1 || b != 5 {
		t.Errorf("under the plan: got %d and %d, want 1 and 5", a, b)
	}
	got, err := give(us, "pro")
	if p, ok := errors.AsType[*api.Problem](err); !ok || p.Code != api.InvalidValue {
		t.Errorf("a plan of another tenant's file: got %+v, %v, want %s", got, err, api.InvalidValue)
	}
	write("acme.yaml", acmes[:len(acmes)-len("5}}\n")]+"7}}\n")
	until(t, func() bool { return amount(acme) == 7 }, func() string { return "the changed file of acme is in force" })
	if a := amount(us); a != 1 {
		t.Errorf("after acme's file changed: got %d, want 1", a)
	}
}

func TestServe_LimitsFilesAreNamedOncePerTenant(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "a=b.yaml")
	if err := os.WriteFile(file, []byte("limits: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := newApp(nil, nil, nil, nil)
	for _, c := range []struct {
		named   []string
		tenants []string
	}{
		{[]string{file}, []string{"default"}},
		{[]string{file, "acme=" + file}, []string{"default", "acme"}},
		{[]string{"default=" + file, "b=" + file}, []string{"default", "b"}},
		{[]string{file, file}, nil},
		{[]string{"acme=" + file, "acme=" + file}, nil},
		{make([]string, maxLimitsFiles+1), nil},
	} {
		files, err := a.readLimitsFiles(c.named)
		if failed, ok := errors.AsType[*failure](err); c.tenants == nil && (!ok || failed.exit != exitUsage) {
			t.Errorf("%d files %q: got %v, want exit 2", len(c.named), c.named[0], err)
			continue
		}
		if len(files) != len(c.tenants) {
			t.Errorf("%q: got %v, %v, want %v", c.named, files, err, c.tenants)
			continue
		}
		for i, f := range files {
			if f.tenant != c.tenants[i] || f.path != file {
				t.Errorf("%q: got %s of %s, want of %s", c.named, f.path, f.tenant, c.tenants[i])
			}
		}
	}
}

// API.md section 7: requests of one principal are bounded when the operator says so.
func TestServe_FloodRateSlowsDown(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	signer, err := auth.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	keys := filepath.Join(dir, "jwks.json")
	if err := os.WriteFile(keys, signer.JWKS(), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := startServe([]string{"HOME=" + dir}, filepath.Join(dir, "state"),
		"--jwks-file", keys, "--jwt-issuer", "me", "--jwt-audience", "holdfast", "--flood-rate", "1")
	if err != nil {
		t.Fatal(err)
	}
	defer s.stop()
	token, err := signer.Mint(auth.Claims{Issuer: "me", Audience: "holdfast", Subject: "root", Scope: "admin", TTL: time.Hour}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for range 200 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.run.URL+"/v1/limits", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusTooManyRequests && resp.Header.Get("Retry-After") != "" {
			return
		}
	}
	t.Error("200 requests at once, and none was told to slow down")
}
