package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/catalogue"
	"github.com/holdfast-dev/holdfast/events"
	"github.com/holdfast-dev/holdfast/janitor"
	"github.com/holdfast-dev/holdfast/reserve"
)

// Defaults and bounds of a Config.
const (
	DefaultMaxInFlight     = 16_384           // requests served at once, those that wait in line among them
	DefaultFailedTokenRate = 20               // refused tokens a second and address
	requestBudget          = 10 * time.Second // of one request without a wait; above the desk's own budgets
	minCursorKey           = 16               // bytes
)

// Config is what both listeners are made from. Service, Editor, Verifier, Now and CursorKey
// are required.
type Config struct {
	Service  *reserve.Service
	Editor   *catalogue.Editor
	Verifier *auth.Verifier
	Now      func() time.Time // the real clock, with a monotonic reading

	WindowNow func() time.Time // the clock of windows and untils; nil: Now
	Version   api.Version

	JWKS      []byte // public keys of a development server; nil: no route
	CursorKey []byte // shared by all replicas, at least 16 bytes

	MaxInFlight     int            // 0: DefaultMaxInFlight
	FailedTokenRate int            // a second and address; 0: DefaultFailedTokenRate
	FloodRate       int            // requests a second and principal; 0: off
	TrustedProxies  []netip.Prefix // whose X-Forwarded-For is believed; none by default

	Log          *slog.Logger          // nil: discard
	Metrics      prometheus.Registerer // nil: none
	Gatherer     prometheus.Gatherer   // of /metrics; nil: no route
	MetricsToken string                // closes /metrics; "": open

	Events       *events.Hub                                      // nil: no event stream
	Janitor      Janitor                                          // nil: no job is known
	AdvanceClock func(d time.Duration) (time.Time, error)         // of windows, for tests; nil: no route
	Cluster      func(context.Context) (api.ClusterAnswer, error) // nil: nothing is told
	Backup       func(context.Context) (io.ReadCloser, error)     // the whole store as one stream; nil: no route
	ConfigShown  []api.Setting                                    // secrets masked by whoever made it
	Draining     func() bool                                      // true: not ready any more; nil: never

	Webhooks Webhooks // nil: this server sends none

	Pages Pages // of the admin listener; nil: none
	Links Links // that sign somebody in to the pages; nil: no route
}

// Pages answers browsers on the admin listener; *pages.Pages does. It leaves the pattern that
// matched in the request.
type Pages interface {
	http.Handler
	Serves(path string) bool // whether a path is one of its own
}

// Links makes a link that signs somebody in once; *session.Keeper does.
type Links interface {
	Link(ctx context.Context, who auth.Principal) (code string, expires time.Time, err error)
}

// Webhooks keeps the webhooks of all tenants; *webhooks.Dispatcher does.
type Webhooks interface {
	CheckURL(text string) error
	List(tenant string) []reserve.WebhookView
	Create(ctx context.Context, tenant string, w reserve.Webhook, n reserve.Note) (reserve.WebhookView, error)
	Delete(ctx context.Context, tenant, id string, n reserve.Note) error
	Rotate(ctx context.Context, tenant, id string, secret reserve.Secret, n reserve.Note) (reserve.WebhookView, error)
}

// Janitor runs a named sweep now; *janitor.Janitor does.
type Janitor interface {
	RunOnce(ctx context.Context, name string) (janitor.Report, error)
	Jobs() []string
}

// server is the state both listeners' handlers share.
type server struct {
	Config
	log     *slog.Logger
	docs    docsPage
	metrics *metrics
	flood   *floodGuard
	cursors cursors
}

// New makes the handler of the public listener: /v1 and what is open to everybody.
// Errors: everything missing or wrong in cfg, joined; metrics that cannot be registered.
func New(cfg Config) (http.Handler, error) {
	s, err := newServer(cfg, "api")
	if err != nil {
		return nil, err
	}
	return s.handler(append(s.publicRoutes(), s.openRoutes()...)), nil
}

// NewAdmin makes the handler of the admin listener: /metrics, /admin/v1 and health.
// Errors: as New.
func NewAdmin(cfg Config) (http.Handler, error) {
	s, err := newServer(cfg, "admin")
	if err != nil {
		return nil, err
	}
	h := s.handler(append(s.adminRoutes(), s.healthRoutes()...))
	if s.Pages != nil {
		h.next = s.besidePages(h.next)
	}
	return h, nil
}

// besidePages sends to the pages what is theirs, and everything else to routes.
func (s *server) besidePages(routes http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		if isProbe(path) || path == "/version" || strings.HasPrefix(path, "/admin/") || !s.Pages.Serves(path) {
			routes.ServeHTTP(w, r)
			return
		}
		s.Pages.ServeHTTP(w, r)
		w.(*exchange).route = r.Pattern // put there by edge, the only way in
	})
}

func newServer(cfg Config, listener string) (*server, error) {
	var faults []error
	need := func(ok bool, what string) {
		if !ok {
			faults = append(faults, fmt.Errorf("httpapi: Config.%s", what))
		}
	}
	need(cfg.Service != nil, "Service is missing")
	need(cfg.Editor != nil, "Editor is missing")
	need(cfg.Verifier != nil, "Verifier is missing")
	need(cfg.Now != nil, "Now is missing")
	need(len(cfg.CursorKey) >= minCursorKey, "CursorKey is shorter than 16 bytes")
	need(cfg.JWKS == nil || json.Valid(cfg.JWKS), "JWKS is not JSON")
	need(cfg.MaxInFlight >= 0 && cfg.FailedTokenRate >= 0 && cfg.FloodRate >= 0, "MaxInFlight, FailedTokenRate, FloodRate: a rate is below 0")
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	if cfg.MaxInFlight == 0 {
		cfg.MaxInFlight = DefaultMaxInFlight
	}
	if cfg.FailedTokenRate == 0 {
		cfg.FailedTokenRate = DefaultFailedTokenRate
	}
	if cfg.WindowNow == nil {
		cfg.WindowNow = cfg.Now
	}
	if cfg.Draining == nil {
		cfg.Draining = func() bool { return false }
	}
	log := cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	m, err := newMetrics(cfg.Metrics, listener)
	if err != nil {
		return nil, fmt.Errorf("httpapi metrics: %w", err)
	}
	return &server{
		Config: cfg, log: log.With("listener", listener), metrics: m, docs: newDocsPage(),
		flood: newFloodGuard(cfg.FailedTokenRate, cfg.FloodRate), cursors: cursors{key: cfg.CursorKey},
	}, nil
}

// handler mounts routes on Echo behind the edge.
func (s *server) handler(routes []route) *edge {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.IPExtractor = addressOf(s.TrustedProxies)
	e.HTTPErrorHandler = s.unrouted
	for _, r := range routes {
		e.Add(r.method, r.path, s.handle(r))
	}
	return &edge{server: s, next: e, address: e.IPExtractor}
}
