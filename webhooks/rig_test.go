package webhooks

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/holdfast-dev/holdfast/events"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/windows"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	tenant   = "default"
	generous = time.Minute
)

// rig is one keyspace; its replicas and receivers are real, and so is its time.
type rig struct {
	t     *testing.T
	store *memory.Store
}

func newRig(t *testing.T, limitIDs ...string) *rig {
	t.Helper()
	t.Parallel()
	r := &rig{t: t, store: memory.New(memory.Config{Now: time.Now, CheckValues: true, MaxOps: 4096})}
	g := reserve.Group{Tenant: tenant, Catalog: reserve.AnyCatalog}
	for _, id := range limitIDs {
		l := &limits.Limit{ID: id, Name: id, SubjectKind: "user", Action: limits.Action(id), Amount: 1_000_000, Enabled: true, Generation: 1, Window: windows.Window{Kind: windows.Concurrent}}
		g.Writes = append(g.Writes, reserve.Write{Ref: reserve.Ref{Tenant: tenant, Kind: reserve.RefLimit, Limit: id}, Value: l})
	}
	g.Writes = append(g.Writes, reserve.Write{Ref: reserve.Ref{Tenant: tenant, Kind: reserve.RefCatalog}, Value: reserve.Seq(1)})
	if _, err := r.store.Apply(t.Context(), reserve.Batch{Groups: []reserve.Group{g}}); err != nil {
		t.Fatal(err)
	}
	return r
}

// replica is a service, the hub that hears it, and what sends.
type replica struct {
	*rig
	service *reserve.Service
	hooks   *Dispatcher
	metrics *prometheus.Registry
	stop    func()
}

func (r *rig) replica(name string, opts ...func(*Config)) *replica {
	r.t.Helper()
	view, wheel, session := r.store.View(name), r.store.Leases(name, time.Now), r.store.Session(name)
	one := &replica{rig: r, metrics: prometheus.NewRegistry()}
	hub, err := events.New(events.Config{Store: view, History: view, Now: time.Now})
	if err != nil {
		r.t.Fatal(err)
	}
	cfg := Config{
		Store: view, Sessions: session, Events: hub, Now: time.Now, Replica: name, Policy: NewPolicy([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}),
		Encode: func(e *events.Event) ([]byte, error) {
			return json.Marshal(map[string]any{"id": e.Pos.String(), "type": e.Type.String(), "limits": e.Limits(), "reservation": e.ID.String()})
		},
		Within: 10 * time.Second, FirstRetry: 50 * time.Millisecond, MostRetry: 5 * time.Second, Metrics: one.metrics,
	}
	for _, o := range opts {
		o(&cfg)
	}
	if one.hooks, err = New(cfg); err != nil {
		r.t.Fatal(err)
	}
	one.service, err = reserve.New(reserve.Config{
		Store: view, Lister: view, Leases: wheel, Sessions: session, Now: time.Now, Replica: name,
		Told: func(u reserve.Update) { hub.Tell(u); one.hooks.Tell(u) },
	})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	hooks, cutHooks := context.WithCancel(context.Background())
	var all, sending sync.WaitGroup
	sending.Go(func() { _ = one.hooks.Run(hooks) })
	all.Go(func() { _ = one.service.Run(ctx) })
	all.Go(func() { wheel.Run(ctx) })
	all.Go(func() { session.Run(ctx) })
	one.stop = sync.OnceFunc(func() { cutHooks(); sending.Wait(); cancel(); all.Wait() })
	r.t.Cleanup(one.stop)
	return one
}

// webhook makes one and waits until the replica knows it.
func (r *replica) webhook(url string, types ...string) string {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), generous)
	defer cancel()
	for {
		v, err := r.hooks.Create(ctx, tenant, reserve.Webhook{URL: url, Events: types, Secret: reserve.Secret("0123456789abcdef"), At: time.Now().UTC().Truncate(time.Millisecond), By: "user:root"}, reserve.Note{At: time.Now(), Actor: "user:root"})
		if err == nil {
			return v.ID
		}
		if ctx.Err() != nil {
			r.t.Fatal(err)
		}
	}
}

// work makes n reservations for each of the given actions and releases them: 2n events each.
func (r *replica) work(n int, actions ...string) {
	r.t.Helper()
	var all sync.WaitGroup
	for _, action := range actions {
		all.Go(func() {
			subject := limits.Subject{Kind: "user", ID: "u"}
			for range n {
				hold, d, err := r.service.Reserve(r.t.Context(), reserve.Request{Tenant: tenant, Subject: subject, Action: limits.Action(action), Cost: 1, TTL: time.Hour, Principal: "u"})
				if err == nil && d.Allowed {
					_, err = r.service.Release(r.t.Context(), reserve.HoldRef{ID: hold.ID, By: reserve.Caller{Tenant: tenant, Principal: "u"}}, "")
				}
				if err != nil {
					r.t.Errorf("work: %v", err)
					return
				}
			}
		})
	}
	all.Wait()
}

// delivery is one attempt as the receiver saw it.
type delivery struct {
	id     string
	event  struct{ ID, Type, Reservation string }
	limits []string
	header http.Header
	body   []byte
	ok     bool // accepted in time
}

// receiver is a server that webhooks point to. answer says what it does with the nth attempt.
type receiver struct {
	*httptest.Server
	mu   sync.Mutex
	all  []delivery
	more chan struct{}
}

// receive starts a receiver. answer writes the answer, and reports whether that was a timely yes.
func receive(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request) bool) *receiver {
	t.Helper()
	r := &receiver{more: make(chan struct{})}
	n := 0
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		d := delivery{id: req.Header.Get("Webhook-Id"), header: req.Header, body: body}
		var e struct {
			ID, Type, Reservation string
			Limits                []string
		}
		_ = json.Unmarshal(body, &e)
		d.event.ID, d.event.Type, d.event.Reservation, d.limits = e.ID, e.Type, e.Reservation, e.Limits
		r.mu.Lock()
		n++
		turn := n
		r.mu.Unlock()
		d.ok = answer(turn, w, req)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.all = append(r.all, d)
		close(r.more)
		r.more = make(chan struct{})
	}))
	t.Cleanup(r.Close)
	return r
}

func yes(_ int, w http.ResponseWriter, _ *http.Request) bool {
	w.WriteHeader(http.StatusNoContent)
	return true
}

// accepted are the deliveries that were, in the order they were.
func (r *receiver) accepted() (out []delivery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.all {
		if d.ok {
			out = append(out, d)
		}
	}
	return out
}

// await waits until at least n were accepted.
func (r *receiver) await(t *testing.T, n int) []delivery {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), generous)
	defer cancel()
	for {
		r.mu.Lock()
		more := r.more
		r.mu.Unlock()
		if out := r.accepted(); len(out) >= n {
			return out
		}
		select {
		case <-more:
		case <-ctx.Done():
			t.Fatalf("%d were accepted, want %d", len(r.accepted()), n)
		}
	}
}

// eventually waits until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), generous)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("never: %s", what)
		}
	}
}

// inOrder checks that events of each limit were accepted in their order, and each as often as
// most says at most.
func inOrder(t *testing.T, got []delivery, most int) {
	t.Helper()
	last, times := map[string]events.Pos{}, map[string]int{}
	for _, d := range got {
		pos, err := events.ParsePos(d.event.ID)
		if err != nil {
			t.Fatalf("event %+v: %v", d.event, err)
		}
		if times[d.id]++; times[d.id] > most {
			t.Errorf("%s was accepted %d times", d.id, times[d.id])
		}
		if times[d.id] > 1 {
			continue
		}
		for _, limit := range d.limits {
			if before := last[limit]; pos.Rev < before.Rev || pos.Rev == before.Rev && pos.Index < before.Index {
				t.Errorf("%s: %v was accepted after %v", limit, pos, before)
			}
			last[limit] = pos
		}
	}
}

func (r *replica) view(id string) reserve.WebhookView {
	r.t.Helper()
	for _, v := range r.hooks.List(tenant) {
		if v.ID == id {
			return v
		}
	}
	r.t.Fatalf("no webhook %s", id)
	return reserve.WebhookView{}
}

func (r *rig) stands(kind reserve.RefKind, id string, n int64) bool {
	r.t.Helper()
	ref := reserve.Ref{Tenant: tenant, Kind: kind, Scope: id, N: n}
	got, err := r.store.Load(r.t.Context(), []reserve.Ref{ref}, true)
	if err != nil {
		r.t.Fatal(err)
	}
	return got.Entries[0].Mod != 0
}

func (d delivery) String() string { return fmt.Sprint(d.event, " ", d.ok) }
