package pages

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/janitor"
	"github.com/holdfast-dev/holdfast/reserve"
)

// withJanitor is a janitor with one job that works and one that does not.
func withJanitor(t *testing.T, c *Config) {
	t.Helper()
	var err error
	c.Janitor, err = janitor.New(janitor.Config{Now: time.Now},
		janitor.Job{Name: "expire", Spec: "@every 1h", Sweep: func(context.Context, int) (int, error) { return 0, errors.New("broken") }},
		janitor.Job{Name: "verify", Spec: "@every 1h", Sweep: func(context.Context, int) (int, error) { return 3, nil }},
	)
	if err != nil {
		t.Fatal(err)
	}
}

func TestSystem_ShowsTheStoreAndRunsJobs(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) {
		withJanitor(t, c)
		c.Settings = []api.Setting{{Name: "jwt-hs256-secret-file", Value: "(set)", Origin: "flag"}}
		c.Cluster = func(context.Context) (api.ClusterAnswer, error) {
			return api.ClusterAnswer{Mode: "embedded", Revision: 918221, Alarms: []string{"NOSPACE"}, QuotaBytes: 8 << 30, UsedBytes: 7 << 30, FileBytes: 7 << 30}, nil
		}
		c.Fsync = func() (time.Duration, bool) { return 30 * time.Millisecond, true }
	})
	b := r.as("admin")
	b.get("/system").want(http.StatusOK, "Can decide", "yes", "embedded", "918\u202f221", "NOSPACE", "87% full", "99 % within 30ms", "jwt-hs256-secret-file", "(set)", "Run now…", "not yet")
	b.get("/system/janitor/verify").want(http.StatusOK, "It changes nothing")
	b.get("/system/janitor/nothing").want(http.StatusNotFound)
	b.post("/system/janitor/verify", nil).leadsTo("/system?done=ran")
	lines, err := r.service.Trail(t.Context(), reserve.TrailQuery{Tenant: auth.DefaultTenant, Max: 10})
	if err != nil || len(lines) != 1 || lines[0].Act != "janitor.run" || lines[0].Target != "verify" {
		t.Errorf("the trail: got %+v, %v", lines, err)
	}
	if last, at, err := r.pages.Janitor.Last("verify"); err != nil || at.IsZero() || last.Swept != 3 {
		t.Errorf("the last run: %+v, %s, %v", last, at, err)
	}
	b.get("/system").want(http.StatusOK, ">well<")
	r.as("holds:force limits:write audit:read").get("/system").want(http.StatusForbidden, "admin")
	down := newRig(t, func(c *Config) {
		c.Cluster = func(context.Context) (api.ClusterAnswer, error) { return api.ClusterAnswer{}, reserve.ErrUnavailable }
	})
	down.as("admin").get("/system").want(http.StatusOK, "cannot be reached", "No settings are told.")
}

// health of a service as it is told: what every page says over its head, and System in full.
func TestHealth_SaysTheWorstFirstOnEveryPage(t *testing.T) { // HF-4302
	t.Parallel()
	members := func(answers ...bool) func(context.Context) (api.ClusterAnswer, error) {
		return func(context.Context) (api.ClusterAnswer, error) {
			c := api.ClusterAnswer{Mode: "embedded", Revision: 918221}
			for i := range answers {
				c.Members = append(c.Members, api.Member{Name: "m" + string(rune('1'+i)), Leader: i == 0, Answers: &answers[i], Revision: 7, FileBytes: 2e6})
			}
			return c, nil
		}
	}
	for name, c := range map[string]struct {
		change func(*Config)
		strip  string
		system []string
	}{
		"all is well": {func(c *Config) { c.Cluster = members(true, true, true) }, "etcd 3/3 · rev 918\u202f221", []string{"Nothing is wrong", "leader", "follower", "2.0 MB"}},
		"a member is away": {
			func(c *Config) { c.Cluster = members(true, false, true) },
			"1 member of etcd does not answer: m2; one more and nothing can be granted · ",
			[]string{"etcd 2/3"},
		},
		"drift": {
			func(c *Config) {
				c.Cluster, c.Drift = members(true), func() (int, time.Time) { return 2, time.Now() }
			},
			"The last recount found 2 things that do not add up · ",
			[]string{"verify to count again"},
		},
		"after a restore": {func(c *Config) { c.Quarantined = func() bool { return true } }, "Quarantine after a restore: nothing is granted", nil},
		"a job that fails": {
			func(c *Config) {
				withJanitor(t, c)
				if _, err := c.Janitor.RunOnce(context.Background(), "expire"); err == nil {
					t.Error("the broken job ran well")
				}
			},
			"The janitor&#39;s expire failed",
			[]string{"with an error; the log has it"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, c.change)
			b := r.as("admin")
			b.get("/").want(http.StatusOK, c.strip)
			b.get("/limits").want(http.StatusOK, c.strip)
			b.get("/system").want(http.StatusOK, append(c.system, c.strip)...)
			if body := r.as("holds:read").get("/").want(http.StatusOK, c.strip).body; strings.Contains(body, `href="/system"`) {
				t.Error("who may not see System is led there")
			}
		})
	}
}
