package httpapi

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/auth"
)

// livez says that the process is alive. It asks nothing of etcd: a supervisor that restarted
// us because etcd is away would only make things worse.
func (s *server) livez(context.Context, *call) (int, any, error) {
	return http.StatusOK, api.Health{Status: "ok"}, nil
}

// readyz says whether requests should be sent here. With ?verbose it says why not; without,
// anybody may ask and learns only yes or no.
func (s *server) readyz(ctx context.Context, c *call) (int, any, error) {
	var failed error
	checks := []api.HealthCheck{{Name: "serving", OK: !s.Draining()}}
	if checks[0].OK {
		failed = s.Service.Ready(ctx)
		checks = append(checks, api.HealthCheck{Name: "store", OK: failed == nil})
		if failed != nil {
			checks[1].Detail = problemOf(failed).Detail
		}
	} else {
		checks[0].Detail = "shutting down"
		failed = errors.New("draining")
	}
	answer, status := api.Health{Status: "ok"}, http.StatusOK
	if failed != nil {
		answer.Status, status = "unavailable", http.StatusServiceUnavailable
		c.out["Retry-After"] = []string{"1"}
	}
	if _, verbose := c.query["verbose"]; verbose {
		answer.Checks = checks
	}
	return status, answer, nil
}

func (s *server) version(context.Context, *call) (int, any, error) {
	return http.StatusOK, s.Version, nil
}

func (s *server) openAPI(_ context.Context, c *call) (int, any, error) {
	c.out["Content-Type"] = jsonType
	return http.StatusOK, rawAnswer(api.OpenAPIJSON()), nil
}

func (s *server) jwks(_ context.Context, c *call) (int, any, error) {
	c.out["Content-Type"] = jsonType
	return http.StatusOK, rawAnswer(s.JWKS), nil
}

// scrape serves /metrics, behind a token of its own when there is one: whoever scrapes has no
// business with the API.
func (s *server) scrape() verb {
	metrics := promhttp.HandlerFor(s.Gatherer, promhttp.HandlerOpts{})
	want := sha256.Sum256([]byte(s.MetricsToken))
	return func(_ context.Context, c *call) (int, any, error) {
		if s.MetricsToken != "" {
			token, err := bearer(c.req.Header)
			got := sha256.Sum256([]byte(token))
			if err != nil || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
				return 0, nil, fmt.Errorf("%w: metrics need the token of their own", auth.ErrUnauthenticated)
			}
		}
		metrics.ServeHTTP(c.params.Response().Writer, c.req)
		return http.StatusOK, served{}, nil
	}
}
