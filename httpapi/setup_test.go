package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/catalogue"
	"github.com/holdfast-dev/holdfast/events"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/webhooks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	issuer   = "https://issuer.test"
	audience = "holdfast"
)

// signer is one key for all tests: making keys is slow.
var signer = sync.OnceValue(func() auth.Signer {
	s, err := auth.GenerateKey()
	if err != nil {
		panic(err)
	}
	return s
})

// rig is a real service on a keyspace in memory, in a bubble of its own time, behind both
// handlers. Every request and answer is checked against openapi.yaml.
type rig struct {
	t       *testing.T
	cfg     Config
	public  http.Handler
	admin   http.Handler
	store   *memory.Store
	view    *memory.View
	logs    *logBuffer
	metrics *prometheus.Registry
	skew    atomic.Int64 // nanoseconds the clock of windows is ahead
}

// inBubble runs f on a fresh rig in fake time.
func inBubble(t *testing.T, f func(r *rig), opts ...func(*Config)) {
	t.Helper()
	t.Parallel()
	bubble(t, f, opts...)
}

// bubble is inBubble for a test that has said t.Parallel itself.
func bubble(t *testing.T, f func(r *rig), opts ...func(*Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, opts)
		ctx, cancel := context.WithCancel(t.Context())
		wheel := r.store.Leases("", time.Now)
		places := r.store.Session("")
		hub, err := events.New(events.Config{Store: r.view, History: r.view, Now: time.Now, Metrics: r.metrics})
		if err != nil {
			t.Fatalf("events.New: %v", err)
		}
		r.cfg.Events = hub
		hooks, err := webhooks.New(webhooks.Config{Store: r.view, Sessions: places, Events: hub, Encode: EncodeEvent, Now: time.Now, Policy: webhooks.NewPolicy(nil), Replica: "rig"})
		if err != nil {
			t.Fatalf("webhooks.New: %v", err)
		}
		r.cfg.Webhooks = hooks // it does not run: nothing is sent
		told := func(u reserve.Update) { hub.Tell(u); hooks.Tell(u) }
		service, err := reserve.New(reserve.Config{Store: r.view, Lister: r.view, Leases: wheel, Sessions: places, Now: time.Now, WindowNow: r.windowNow, Told: told, Refused: hub.Refused})
		if err != nil {
			t.Fatalf("reserve.New: %v", err)
		}
		var running sync.WaitGroup
		running.Go(func() { _ = service.Run(ctx) })
		running.Go(func() { wheel.Run(ctx) })
		running.Go(func() { places.Run(ctx) })
		defer func() { cancel(); running.Wait() }()
		r.cfg.Service = service
		r.cfg.Editor, err = catalogue.New(catalogue.Config{Store: r.view, Leases: wheel, Now: r.windowNow, Catalog: service.Catalog})
		if err != nil {
			t.Fatalf("catalogue.New: %v", err)
		}
		r.cfg.Links, err = session.New(session.Config{Store: r.view, Leases: wheel, Now: time.Now, Key: []byte("0123456789abcdef0123456789abcdef")})
		if err != nil {
			t.Fatalf("session.New: %v", err)
		}
		r.open()
		f(r)
	})
}

// wholeStore stands for a snapshot: the bytes are etcd's business.
const wholeStore = "the whole store"

func newRig(t *testing.T, opts []func(*Config)) *rig {
	t.Helper()
	r := &rig{t: t, store: memory.New(memory.Config{Now: time.Now, CheckValues: true}), logs: &logBuffer{}, metrics: prometheus.NewRegistry()}
	r.view = r.store.View("")
	verifier, err := auth.NewVerifier(auth.Config{Issuer: issuer, Audience: audience, Keys: signer().KeySource(), Now: time.Now})
	if err != nil {
		t.Fatalf("auth.NewVerifier: %v", err)
	}
	r.cfg = Config{
		Verifier: verifier, Now: time.Now, WindowNow: r.windowNow,
		Version: api.Version{Version: "test", Go: "go", Etcd: "none"}, JWKS: signer().JWKS(), CursorKey: []byte("0123456789abcdef"),
		Log: slog.New(slog.NewJSONHandler(r.logs, nil)), Metrics: r.metrics, Gatherer: r.metrics,
		AdvanceClock: func(d time.Duration) (time.Time, error) {
			r.skew.Add(int64(d))
			r.cfg.Service.ClockMoved()
			return r.windowNow(), nil
		},
		Backup: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(wholeStore)), nil },
	}
	for _, o := range opts {
		o(&r.cfg)
	}
	return r
}

func (r *rig) windowNow() time.Time { return time.Now().Add(time.Duration(r.skew.Load())) }

func (r *rig) open() {
	r.t.Helper()
	var err error
	if r.public, err = New(r.cfg); err != nil {
		r.t.Fatalf("New: %v", err)
	}
	if r.admin, err = NewAdmin(r.cfg); err != nil {
		r.t.Fatalf("NewAdmin: %v", err)
	}
	synctest.Wait() // the service has read the store
}

// logBuffer is safe to write to from several requests.
type logBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

// token mints one for sub with a scope.
func (r *rig) token(sub, scope string, change ...func(*auth.Claims)) string {
	r.t.Helper()
	c := auth.Claims{Issuer: issuer, Audience: audience, Subject: sub, Scope: scope, TTL: time.Hour}
	for _, f := range change {
		f(&c)
	}
	token, err := signer().Mint(c, time.Now())
	if err != nil {
		r.t.Fatalf("Mint(%+v): %v", c, err)
	}
	return token
}

// ask is one request. A body that is a string goes as it is, anything else as JSON.
type ask struct {
	method, path string
	token        string
	body         any
	header       map[string]string
}

// got is its answer.
type got struct {
	t      *testing.T
	asked  ask
	status int
	header http.Header
	body   []byte
}

func (r *rig) do(a ask) got {
	r.t.Helper()
	var body io.Reader = http.NoBody
	var sent []byte
	if a.body != nil {
		text, raw := a.body.(string)
		if sent = []byte(text); !raw {
			var err error
			if sent, err = json.Marshal(a.body); err != nil {
				r.t.Fatalf("%s %s: body %v: %v", a.method, a.path, a.body, err)
			}
		}
		body = bytes.NewReader(sent)
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*time.Minute) // of the bubble: what never ends by itself is hung up on
	defer cancel()
	req := httptest.NewRequestWithContext(ctx, a.method, a.path, body)
	if a.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if a.token != "" {
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	for name, value := range a.header {
		req.Header.Del(name)
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	rec := httptest.NewRecorder()
	h := r.public
	if strings.HasPrefix(a.path, "/admin/") || a.path == "/metrics" {
		h = r.admin
	}
	h.ServeHTTP(rec, req)
	g := got{r.t, a, rec.Code, rec.Result().Header, rec.Body.Bytes()}
	checkContract(r.t, req, sent, &g)
	return g
}

// post, get and others are do for the usual case.
func (r *rig) post(token, path string, body any) got {
	r.t.Helper()
	return r.do(ask{method: http.MethodPost, path: path, token: token, body: body})
}

func (r *rig) get(token, path string) got {
	r.t.Helper()
	return r.do(ask{method: http.MethodGet, path: path, token: token})
}

// want fails the test unless the status is the one given; into, when not nil, is filled.
func (g got) want(status int, into any) got {
	g.t.Helper()
	if g.status != status {
		g.t.Fatalf("%s %s %v: got %d %s, want %d", g.asked.method, g.asked.path, g.asked.body, g.status, g.body, status)
	}
	if into != nil {
		if err := json.Unmarshal(g.body, into); err != nil {
			g.t.Fatalf("%s %s: answer %s: %v", g.asked.method, g.asked.path, g.body, err)
		}
	}
	return g
}

// problem fails the test unless the answer is the problem document of that code.
func (g got) problem(code api.Code) api.Problem {
	g.t.Helper()
	var p api.Problem
	g.want(code.Status(), &p)
	if p.Code != code || g.header.Get("Content-Type") != api.ProblemType {
		g.t.Fatalf("%s %s %v: got %s %s, want the problem %s", g.asked.method, g.asked.path, g.asked.body, g.header.Get("Content-Type"), g.body, code)
	}
	return p
}

// limit makes a limit as an administrator; fields are those of API.md section 3.
func (r *rig) limit(fields map[string]any) api.Limit {
	r.t.Helper()
	body := map[string]any{"name": fields["id"], "subjectKind": "user", "amount": 1, "window": "concurrent"}
	for name, value := range fields {
		body[name] = value
	}
	var l api.Limit
	r.post(r.token("root", "admin"), "/v1/limits", body).want(http.StatusCreated, &l)
	return l
}

// exports is the sample limit: three at once for each user.
func (r *rig) exports() {
	r.t.Helper()
	r.limit(map[string]any{"id": "exports", "action": "export", "amount": 3})
}

// hold reserves and fails the test when that is refused.
func (r *rig) hold(token string, body any) api.Reservation {
	r.t.Helper()
	var held api.Reservation
	r.post(token, "/v1/reservations", body).want(http.StatusCreated, &held)
	return held
}
