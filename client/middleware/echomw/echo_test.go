package echomw_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/labstack/echo/v4"
	"go.uber.org/goleak"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/client/holdfasttest"
	"github.com/holdfast-dev/holdfast/client/middleware"
	"github.com/holdfast-dev/holdfast/client/middleware/echomw"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func limit(id, action string, amount int64, window string) holdfasttest.Option {
	return holdfasttest.Limits(api.LimitInput{ID: id, Name: id, SubjectKind: "ip", Action: action, Amount: amount, Window: window})
}

func serve(t *testing.T, s *holdfasttest.Server, cfg middleware.Config) *echo.Echo {
	t.Helper()
	cfg.Client = s.Client("front", "act-for")
	g, err := middleware.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	e := echo.New()
	e.Use(echomw.New(g))
	return e
}

func get(e *echo.Echo, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
	r.RemoteAddr = "192.0.2.7:4711"
	r.Header.Set("X-Forwarded-For", "198.51.100.1") // Echo would believe it
	w := httptest.NewRecorder()
	e.ServeHTTP(w, r)
	return w
}

// Issue 4: keyed by address, cost by Echo's path, limits passed on.
func TestNew_Checks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := holdfasttest.New(t, limit("calls", "call", 10, "minute"))
		e := serve(t, s, middleware.Config{Action: "call", Costs: map[string]int64{"GET /things/:id": 4}})
		e.GET("/things/:id", func(c echo.Context) error { return c.NoContent(http.StatusNoContent) })
		for i, status := range []int{204, 204, 429} {
			w := get(e, "/things/1")
			if w.Code != status || w.Header().Get("RateLimit") == "" || (w.Header().Get("Retry-After") == "") != (status == 204) {
				t.Errorf("call %d: %d %v, want %d", i, w.Code, w.Header(), status)
			}
		}
		d, err := s.Client("front", "act-for").Preview(t.Context(), client.Request{Action: "call", Subject: api.Subject{Kind: "ip", ID: "192.0.2.7"}})
		if err != nil || d.Limits[0].Used != 8 {
			t.Errorf("used %+v, %v, want 8 of the peer", d.Limits, err)
		}
	})
}

// A handler settles the hold by what it answers, or by the status of the error it returns.
func TestNew_Reserves(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handler echo.HandlerFunc
		state   string
	}{
		"answers":              {func(c echo.Context) error { return c.String(http.StatusOK, "x") }, api.StateCommitted},
		"answers with a 500":   {func(c echo.Context) error { return c.String(http.StatusInternalServerError, "x") }, api.StateReleased},
		"returns a 404":        {func(echo.Context) error { return echo.ErrNotFound }, api.StateCommitted},
		"returns a 503":        {func(echo.Context) error { return echo.ErrServiceUnavailable }, api.StateReleased},
		"returns an error":     {func(echo.Context) error { return errors.New("broken") }, api.StateReleased},
		"answers, then errors": {func(c echo.Context) error { _ = c.String(http.StatusOK, "x"); return errors.New("late") }, api.StateCommitted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := holdfasttest.New(t, limit("exports", "export", 1, "concurrent"))
				e := serve(t, s, middleware.Config{Action: "export", Reserve: true, TTL: 30 * time.Second})
				var id string
				e.GET("/", func(ctx echo.Context) error {
					hold, there := middleware.HoldFrom(ctx.Request().Context())
					if !there {
						t.Fatal("there is no hold in the request")
					}
					id = hold.ID()
					return c.handler(ctx)
				})
				get(e, "/")
				if got := s.Reservation(id).State; got != c.state {
					t.Errorf("the reservation is %s, want %s", got, c.state)
				}
			})
		})
	}
}
