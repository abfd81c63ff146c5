package holdfasttest

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/catalogue"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/httpapi"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/store/memory"
)

// Who signs the tokens of a Server and for whom.
const (
	issuer   = "holdfasttest"
	audience = "holdfast"
	tenant   = "default"
	replica  = "test"
)

// startWithin bounds the start, and each thing the Server does for a test. It is generous: only
// a fault lets it pass.
const startWithin = 30 * time.Second

// Server is a Holdfast of one test's own. A method that cannot do what it is asked ends the test
// with t.Fatal, so call them from the goroutine of the test; clients may be anywhere.
type Server struct {
	t       testing.TB
	signer  auth.Signer
	store   *memory.Store
	service *reserve.Service
	editor  *catalogue.Editor
	public  http.Handler
	admin   http.Handler
	ahead   atomic.Int64 // nanoseconds the clock of windows is ahead of the real one
	trouble trouble

	opened sync.Once
	http   *httptest.Server
}

// settings are what options set.
type settings struct {
	limits []api.LimitInput
	log    *slog.Logger
	at     time.Time
}

// Option changes a new Server.
type Option func(*settings)

// Limits are the limits that it has from the start.
func Limits(all ...api.LimitInput) Option {
	return func(s *settings) { s.limits = append(s.limits, all...) }
}

// Concurrent is a limit from the start: amount at once for each user.
func Concurrent(id, action string, amount int64) Option {
	return Limits(api.LimitInput{ID: id, Name: id, SubjectKind: "user", Action: action, Amount: amount, Window: "concurrent"})
}

// Counting is a limit from the start: amount a window for each user. window is one of second,
// minute, hour, day, week, month and total.
func Counting(id, action string, amount int64, window string) Option {
	return Limits(api.LimitInput{ID: id, Name: id, SubjectKind: "user", Action: action, Amount: amount, Window: window})
}

// ClockAt sets the clock of windows at the start, as SetClock does.
func ClockAt(at time.Time) Option { return func(s *settings) { s.at = at } }

// Log is where the server's own log goes; nowhere by default.
func Log(log *slog.Logger) Option { return func(s *settings) { s.log = log } }

// New starts a Server that ends with the test.
func New(t testing.TB, opts ...Option) *Server {
	t.Helper()
	var set settings
	for _, o := range opts {
		o(&set)
	}
	s := &Server{t: t}
	if !set.at.IsZero() {
		s.SetClock(set.at)
	}
	if err := s.build(&set); err != nil {
		t.Fatalf("holdfasttest: %v", err)
	}
	for i := range set.limits {
		s.SetLimit(set.limits[i])
	}
	return s
}

// signers is one key for all servers of a process: making keys is slow, and each server has a
// keyspace of its own anyway.
var signers = sync.OnceValues(auth.GenerateKey)

func (s *Server) build(set *settings) (err error) {
	if s.signer, err = signers(); err != nil {
		return err
	}
	s.store = memory.New(memory.Config{Now: time.Now, Replica: replica})
	wheel := s.store.Leases(replica, time.Now)
	session := s.store.Session(replica)
	s.service, err = reserve.New(reserve.Config{
		Store: s.store, Lister: s.store, Leases: wheel, Sessions: session, Now: time.Now, WindowNow: s.Now,
		Replica: replica, Log: set.log,
	})
	if err != nil {
		return err
	}
	s.editor, err = catalogue.New(catalogue.Config{Store: s.store, Leases: wheel, Now: s.Now, Catalog: s.service.Catalog})
	if err != nil {
		return err
	}
	verifier, err := auth.NewVerifier(auth.Config{Issuer: issuer, Audience: audience, Keys: s.signer.KeySource(), Now: time.Now})
	if err != nil {
		return err
	}
	cfg := httpapi.Config{
		Service: s.service, Editor: s.editor, Verifier: verifier, Now: time.Now, WindowNow: s.Now,
		Version: api.Version{Version: "test"}, CursorKey: []byte("only this process reads cursors"), Log: set.log,
	}
	if s.public, err = httpapi.New(cfg); err != nil {
		return err
	}
	if s.admin, err = httpapi.NewAdmin(cfg); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { wheel.Run(ctx) })
	running.Go(func() { session.Run(ctx) })
	running.Go(func() { _ = s.service.Run(ctx) })
	running.Go(func() { s.endPast(ctx) })
	s.t.Cleanup(func() {
		stop()
		running.Wait()
		verifier.Close()
	})
	ready, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	return s.service.Reached(ready, 1) // waits for the first look at the keyspace
}

// endEvery is how often the ends of pauses and overrides are looked for.
const endEvery = 500 * time.Millisecond

func (s *Server) endPast(ctx context.Context) {
	ticker := time.NewTicker(endEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		_, _, _ = s.editor.EndPast(ctx, tenant, s.service.Catalog(tenant), s.Now()) // the next look does it otherwise
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// URL is where the server listens: a socket of the loopback interface, opened by the first call.
func (s *Server) URL() string {
	s.opened.Do(func() {
		s.http = httptest.NewServer(s.handler())
		s.t.Cleanup(s.http.Close)
	})
	return s.http.URL
}

// Transport reaches the server without a socket, whatever the host of the request. It works in
// a bubble of testing/synctest, if New was called in the same one.
func (s *Server) Transport() http.RoundTripper { return roundTripper{s.handler()} }

// Token signs a token for the user of that id, for an hour, with scopes as in the contract:
// none for what users do themselves, "act-for" for a service, "admin" for everything.
func (s *Server) Token(user string, scopes ...string) string {
	s.t.Helper()
	return s.TokenFor(api.Subject{Kind: auth.DefaultSubjectKind, ID: user}, time.Hour, scopes...)
}

// TokenFor signs a token for a subject of any kind, for as long as life.
func (s *Server) TokenFor(subject api.Subject, life time.Duration, scopes ...string) string {
	s.t.Helper()
	token, err := s.signer.Mint(auth.Claims{
		Issuer: issuer, Audience: audience, Subject: subject.ID, SubjectKind: subject.Kind, TTL: life,
		Scope: joined(scopes),
	}, time.Now())
	if err != nil {
		s.t.Fatalf("holdfasttest: a token for %s:%s: %v", subject.Kind, subject.ID, err)
	}
	return token
}

func joined(scopes []string) (all string) {
	for _, scope := range scopes {
		all += scope + " "
	}
	if all == "" {
		return ""
	}
	return all[:len(all)-1]
}

// Client is a client of the user of that id, without a socket; it is closed with the test.
func (s *Server) Client(user string, scopes ...string) *client.Client {
	s.t.Helper()
	c, err := client.New(client.Config{
		URL: "http://holdfast.test", Transport: s.Transport(), TokenSource: client.StaticToken(s.Token(user, scopes...)),
		Owner: &api.Owner{Name: s.t.Name()[:min(len(s.t.Name()), 128)]},
	})
	if err != nil {
		s.t.Fatalf("holdfasttest: %v", err)
	}
	s.t.Cleanup(c.Close)
	return c
}

// Now is the clock of windows: the real one, unless it was set.
func (s *Server) Now() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }

// SetClock sets the clock of windows, schedules and pauses; it runs on from there. Holds and
// tokens go by the real clock, whatever it says. Set back, it re-opens nothing that was spent.
func (s *Server) SetClock(to time.Time) { s.ahead.Store(int64(time.Until(to))) }

// Advance moves the clock of windows forward.
func (s *Server) Advance(d time.Duration) {
	s.ahead.Add(int64(d))
	s.service.ClockMoved()
}

// SetLimit makes a limit, or puts another in the place of the one of its id, as an
// administrator would.
func (s *Server) SetLimit(in api.LimitInput) api.Limit {
	s.t.Helper()
	var l api.Limit
	status, _ := s.ask(http.MethodPost, "/v1/limits", in, nil, &l)
	if status == http.StatusConflict {
		status, _ = s.ask(http.MethodPut, "/v1/limits/"+in.ID, in, http.Header{"If-Match": {"*"}}, &l)
	}
	if status/100 != 2 {
		s.t.Fatalf("holdfasttest: the limit %+v was answered %d", in, status)
	}
	return l
}
