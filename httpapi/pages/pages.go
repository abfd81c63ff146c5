package pages

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/catalogue"
	"github.com/holdfast-dev/holdfast/janitor"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/web"
)

// Bounds of the pages.
const (
	pageBudget     = 10 * time.Second // of one request, updates apart
	maxForm        = 64 << 10         // bytes of a form
	maxHolds       = 2_000            // of one page of holds
	maxLooked      = 10_000           // holds that Right now looks at; beyond them it says so
	maxRows        = 200              // of a table that is not the subject of its page
	maxStreams     = 64               // pages of this replica that are kept up to date at once
	maxStreamsEach = 16               // of one person
)

// Config is what the pages are made from. Service, Editor, Sessions, Verifier, Now, Problem and
// LimitOf are required.
type Config struct {
	Service  *reserve.Service
	Editor   *catalogue.Editor
	Sessions *session.Keeper
	Verifier *auth.Verifier
	Now      func() time.Time // the real clock

	WindowNow func() time.Time // the clock of windows and untils; nil: Now
	Version   string
	Prefix    string // before every path, such as /holdfast; a proxy must keep it. "": none

	Problem func(error) api.Problem                          // what an error means to its caller
	LimitOf func(*api.LimitInput) (limits.Limit, error)      // what a form describes
	Failed  func(address string, now time.Time) bool         // counts a refused sign-in; true: one too many. nil: never
	Address func(*http.Request) string                       // where a request comes from; nil: nobody knows
	Cluster func(context.Context) (api.ClusterAnswer, error) // nil: nothing is told

	Janitor Janitor // nil: no job is shown

	Drift       func() (found int, at time.Time)       // by the last recount here; a zero at: there was none. nil: never
	Quarantined func() bool                            // nothing is granted after a restore. nil: never
	Fsync       func() (p99 time.Duration, known bool) // of the store's log. nil: not known

	Settings []api.Setting // in force, secrets masked by whoever made it

	// Changes tells of changes of a tenant's keyspace, to whoever looks at a page of it. nil, or
	// an error: pages look for themselves every now and then.
	Changes func(tenant, who string) (Changes, error)

	Draining func() bool  // true: streams end; nil: never
	Log      *slog.Logger // nil: discard
}

// Changes is one reader of changes.
type Changes interface {
	// Wait returns when something may have changed, and after idle at the latest.
	// Errors: the reader is of no more use.
	Wait(ctx context.Context, idle time.Duration) error
	Close()
}

// Janitor runs a named sweep now; *janitor.Janitor does.
type Janitor interface {
	RunOnce(ctx context.Context, name string) (janitor.Report, error)
	Jobs() []string
	// Last is the last run here of a job: when it ended, and how. A zero at: there was none.
	Last(name string) (r janitor.Report, at time.Time, err error)
}

// Pages is the handler of the admin page.
type Pages struct {
	Config
	html    *web.Renderer
	next    http.Handler
	streams streams
	looks   chan struct{}
	watcher *watcher
	denials denials
	began   time.Time
}

// New makes the handler of the pages. Errors: all that is missing or wrong in cfg, joined.
func New(cfg Config) (*Pages, error) {
	var faults []error
	need := func(ok bool, what string) {
		if !ok {
			faults = append(faults, fmt.Errorf("pages: Config.%s", what))
		}
	}
	need(cfg.Service != nil, "Service is missing")
	need(cfg.Editor != nil, "Editor is missing")
	need(cfg.Sessions != nil, "Sessions is missing")
	need(cfg.Verifier != nil, "Verifier is missing")
	need(cfg.Now != nil, "Now is missing")
	need(cfg.Problem != nil, "Problem is missing")
	need(cfg.LimitOf != nil, "LimitOf is missing")
	need(goodPrefix(cfg.Prefix), "Prefix must be empty, or like /holdfast")
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	if cfg.WindowNow == nil {
		cfg.WindowNow = cfg.Now
	}
	if cfg.Failed == nil {
		cfg.Failed = func(string, time.Time) bool { return false }
	}
	if cfg.Address == nil {
		cfg.Address = func(*http.Request) string { return "" }
	}
	if cfg.Drift == nil {
		cfg.Drift = func() (int, time.Time) { return 0, time.Time{} }
	}
	if cfg.Quarantined == nil {
		cfg.Quarantined = func() bool { return false }
	}
	if cfg.Fsync == nil {
		cfg.Fsync = func() (time.Duration, bool) { return 0, false }
	}
	if cfg.Draining == nil {
		cfg.Draining = func() bool { return false }
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	html, err := web.New()
	if err != nil {
		return nil, err
	}
	p := &Pages{Config: cfg, html: html, streams: streams{each: map[string]int{}}, looks: make(chan struct{}, looksAtOnce), watcher: newWatcher(), denials: denials{all: map[string]*refused{}}, began: cfg.Now()}
	p.next = p.routes()
	return p, nil
}

// goodPrefix: what a proxy may put before every path.
func goodPrefix(prefix string) bool {
	if prefix == "" {
		return true
	}
	return prefix[0] == '/' && len(prefix) > 1 && !strings.HasSuffix(prefix, "/") && !strings.Contains(prefix, "//") &&
		strings.Trim(prefix, "/abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == "" && !strings.Contains(prefix, "..")
}

// Serves reports whether path is one of the pages', by the prefix.
func (p *Pages) Serves(path string) bool {
	rest, found := strings.CutPrefix(path, p.Prefix)
	return found && (rest == "" || rest[0] == '/')
}

// Link is the path of a link that signs in once.
func (p *Pages) Link(code string) string { return p.Prefix + "/login?once=" + code }

// ServeHTTP answers one request of a browser. The pattern that matched is left in r.Pattern.
func (p *Pages) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.next.ServeHTTP(w, r) }
