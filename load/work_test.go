package load_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/catalogue"
	"github.com/holdfast-dev/holdfast/httpapi"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/load"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/windows"
)

// rig is a whole server on a keyspace in memory, behind a real socket.
type rig struct {
	*load.Endpoint
	*reserve.Service
}

const tenant = "default"

func serve(t *testing.T, ls ...limits.Limit) rig {
	t.Helper()
	signer, err := auth.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := auth.NewVerifier(auth.Config{Issuer: "t", Audience: "t", Keys: signer.KeySource(), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	token, err := signer.Mint(auth.Claims{Issuer: "t", Audience: "t", Subject: "bench", Scope: "act-for", TTL: time.Hour}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	m := memory.New(memory.Config{Now: time.Now})
	wheel, view := m.Leases("", time.Now), m.View("")
	service, err := reserve.New(reserve.Config{Store: view, Lister: view, Leases: wheel, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	editor, err := catalogue.New(catalogue.Config{Store: view, Leases: wheel, Now: time.Now, Catalog: service.Catalog})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := httpapi.New(httpapi.Config{Service: service, Editor: editor, Verifier: verifier, Now: time.Now, CursorKey: []byte("0123456789abcdef")})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = service.Run(ctx) })
	running.Go(func() { wheel.Run(ctx) })
	server := httptest.NewServer(handler)
	t.Cleanup(func() { server.Close(); cancel(); running.Wait(); verifier.Close() })
	define(t, m, ls)
	end, err := load.NewEndpoint(server.URL+"/", token, 0, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return rig{end, service}
}

// define puts limits and a catalogue, as catalogue.Editor would.
func define(t *testing.T, m *memory.Store, ls []limits.Limit) {
	t.Helper()
	g := reserve.Group{Tenant: tenant, Catalog: reserve.AnyCatalog}
	for _, l := range ls {
		l.Enabled, l.Generation, l.Name, l.SubjectKind, l.Action = true, 1, l.ID, "bench", "work"
		g.Writes = append(g.Writes, reserve.Write{Ref: reserve.Ref{Tenant: tenant, Kind: reserve.RefLimit, Limit: l.ID}, Value: &l})
	}
	g.Writes = append(g.Writes, reserve.Write{Ref: reserve.Ref{Tenant: tenant, Kind: reserve.RefCatalog}, Value: reserve.Seq(1)})
	if _, err := m.Apply(t.Context(), reserve.Batch{Groups: []reserve.Group{g}}); err != nil {
		t.Fatal(err)
	}
}

// drive runs w until it was answered a few times, and gives back what it keeps.
func drive(t *testing.T, r rig, w load.Work) *load.Result {
	t.Helper()
	w.Kind, w.Name, w.Act, w.Kept = "bench", "s", "work", &load.Kept{}
	prepare, done, err := w.Prepare(t.Context(), r.Endpoint)
	if err != nil {
		t.Fatalf("Prepare(%+v): %v", w, err)
	}
	defer done()
	enough := errors.New("answered often enough")
	var answers atomic.Int64
	ctx, stop := context.WithCancelCause(t.Context())
	result, err := load.Drive(ctx, load.Plan{Workers: 4, For: time.Minute, Now: time.Now}, func(worker int) (load.Step, error) {
		step, err := prepare(worker)
		return func(ctx context.Context) (load.Outcome, error) {
			outcome, err := step(ctx)
			if err == nil && answers.Add(1) == 40 {
				stop(enough)
			}
			return outcome, err
		}, err
	})
	if !errors.Is(err, enough) || result.Failed > 0 {
		t.Fatalf("Drive(%s): %v, failures %v", w.Verb, err, result)
	}
	if left := load.Release(t.Context(), r.Endpoint, w.Kept.Take(), 4); left > 0 {
		t.Errorf("%s: %d holds could not be given back", w.Verb, left)
	}
	return result
}

func (r rig) held(t *testing.T) int {
	t.Helper()
	held, err := r.List(t.Context(), reserve.Query{Tenant: tenant, Max: 500})
	if err != nil {
		t.Fatal(err)
	}
	return len(held)
}

var asked = reserve.Request{Tenant: tenant, Subject: limits.Subject{Kind: "bench", ID: "s0"}, Action: "work", Cost: 3, TTL: time.Minute}

var slots = limits.Limit{ID: "slots", Amount: 1000, Window: windows.Window{Kind: windows.Concurrent}}

// HF-1106: each verb does what it says against a real server, and leaves nothing behind.
func TestWork_EveryVerbAgainstAServer(t *testing.T) {
	t.Parallel()
	hours := limits.Limit{ID: "hours", Amount: 1_000_000_000, Window: windows.Window{Kind: windows.Hour}}
	for verb := range load.Verb(len(load.VerbNames())) {
		t.Run(verb.String(), func(t *testing.T) {
			t.Parallel()
			ls := []limits.Limit{slots, hours}
			left := 0
			if verb == load.Refusal {
				ls[0].Amount, ls[0].Share, left = 1, limits.All, 1
			}
			r := serve(t, ls...)
			if verb == load.Refusal {
				if _, d, err := r.Reserve(t.Context(), asked); err != nil || !d.Allowed {
					t.Fatalf("filling the limit: %+v, %v", d, err)
				}
			}
			result := drive(t, r, load.Work{Verb: verb, Keys: load.Keys{Subjects: 10}, TTL: time.Minute, Batch: 3})
			answered, other := result.Granted, result.Refused
			if verb == load.Refusal {
				answered, other = other, answered
			}
			if answered == 0 || other != 0 {
				t.Errorf("%s: got %d granted, %d refused", verb, result.Granted, result.Refused)
			}
			if n := r.held(t); n != left {
				t.Errorf("%s: %d holds are left, want %d", verb, n, left)
			}
		})
	}
}

// HF-1106: a refusal of a quota is an answer, not a failure, in both shapes it has on the wire.
func TestWork_RefusalsAreAnswers(t *testing.T) {
	t.Parallel()
	for _, verb := range []load.Verb{load.ReserveRelease, load.Consume} {
		t.Run(verb.String(), func(t *testing.T) {
			t.Parallel()
			r := serve(t, limits.Limit{ID: "total", Amount: 3, Window: windows.Window{Kind: windows.Total}}, slots)
			if _, _, err := r.Consume(t.Context(), asked); err != nil {
				t.Fatal(err)
			}
			result := drive(t, r, load.Work{Verb: verb, Keys: load.Keys{Spread: load.Hot, Subjects: 10}, TTL: time.Minute})
			if result.Refused == 0 || result.Granted != 0 {
				t.Errorf("%s of a quota that is used up: got %d granted, %d refused", verb, result.Granted, result.Refused)
			}
		})
	}
}

func TestWork_RefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	e, err := load.NewEndpoint("http://127.0.0.1:1", "", 0, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	w := load.Work{Verb: load.Heartbeats, TTL: time.Second, Batch: api.MaxHeartbeats + 1}
	_, _, err = w.Prepare(t.Context(), e)
	for _, field := range []string{"TTL", "Batch", "Kept", "Subjects"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("Prepare(%+v): %v does not name %s", w, err, field)
		}
	}
	for _, name := range load.VerbNames() {
		if v, err := load.ParseVerb(name); err != nil || v.String() != name {
			t.Errorf("ParseVerb(%q): got %v, %v", name, v, err)
		}
	}
	if v, err := load.ParseVerb("reserv"); err == nil {
		t.Errorf("ParseVerb(%q): got %v, want an error", "reserv", v)
	}
}
