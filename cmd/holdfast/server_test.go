package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/integration/etcdtest"
)

// reserveFor takes a slot of action for one subject.
func reserveFor(ctx context.Context, call *caller, action, id string) (api.Reservation, error) {
	var made api.Reservation
	_, err := call.do(ctx, act{
		method: http.MethodPost, path: "/v1/reservations", key: newKey(), into: &made,
		body: api.ReserveRequest{Action: action, Subject: &api.Subject{Kind: "user", ID: id}},
	})
	return made, err
}

// API.md section 8: the test clock moves windows and untils forward, and a pause whose end has
// passed ends by itself. It does not move holds or tokens.
func TestDev_TestClockMovesWindows(t *testing.T) {
	t.Parallel()
	_, call := setupDev(t, "--test-clock")
	ctx := t.Context()
	hold, err := reserveFor(ctx, call, "export", "u1")
	if err != nil {
		t.Fatal(err)
	}
	if err := call.app.patchLimit(ctx, "exports", map[string]any{"paused": true, "pausedUntil": time.Now().Add(time.Hour).UTC().Format(time.RFC3339)}); err != nil {
		t.Fatal(err)
	}
	_, err = reserveFor(ctx, call, "export", "u2")
	if p, ok := errors.AsType[*api.Problem](err); !ok || p.Code != api.LimitPaused {
		t.Fatalf("while paused: got %v, want %s", err, api.LimitPaused)
	}
	advance := func(seconds int64) (api.ClockAnswer, error) {
		var at api.ClockAnswer
		_, err := call.do(ctx, act{method: http.MethodPost, path: "/admin/v1/clock", admin: true, body: api.ClockRequest{AdvanceSeconds: seconds}, into: &at})
		return at, err
	}
	before := time.Now()
	at, err := advance(2 * 3600)
	if err != nil || at.Now.Before(before.Add(2*time.Hour-time.Second)) {
		t.Fatalf("advance: got %v, %v, want two hours ahead of %v", at.Now, err, before)
	}
	if _, err := advance(-1); err == nil {
		t.Error("the clock went back")
	}
	one := act{method: http.MethodPost, path: "/v1/reservations", key: newKey(), body: api.ReserveRequest{Action: "export", Subject: &api.Subject{Kind: "user", ID: "u2"}}}
	if _, err := call.app.untilFree(ctx, call, one, asked{wait: generous}); err != nil {
		t.Errorf("after the end of the pause: got %v, want a grant", err)
	}
	var still api.Reservation
	if _, err := call.do(ctx, act{method: http.MethodGet, path: of(hold.ID, ""), into: &still}); err != nil || still.State != api.StateHeld {
		t.Errorf("the hold: got %q, %v, want held", still.State, err)
	}
}

// Without --test-clock there is no such route.
func TestDev_NoTestClockUnlessAsked(t *testing.T) {
	t.Parallel()
	_, call := setupDev(t)
	_, err := call.do(t.Context(), act{method: http.MethodPost, path: "/admin/v1/clock", admin: true, body: api.ClockRequest{AdvanceSeconds: 1}})
	if p, ok := errors.AsType[*api.Problem](err); !ok || p.Code != api.NotFound {
		t.Errorf("got %v, want %s", err, api.NotFound)
	}
}

// FAULTS row 55, CASES O29: every answer that a caller got before the server stopped is true
// after it started again, and no answer is cut.
func TestDev_DrainsAndForgetsNothing(t *testing.T) {
	t.Parallel()
	s, call := setupDev(t)
	var mu sync.Mutex
	var told []string
	var callers sync.WaitGroup
	first := make(chan struct{}, 8)
	for w := range 8 {
		callers.Go(func() {
			for n := 0; ; n++ {
				made, err := reserveFor(t.Context(), call, "export", "u"+strconv.Itoa(w)+"-"+strconv.Itoa(n))
				if err != nil {
					lost, away := errors.AsType[*unreachable](err)
					p, refused := errors.AsType[*api.Problem](err)
					if !(away && !lost.sent) && !(refused && p.Code == api.Draining) {
						t.Errorf("caller %d, request %d: got %v, want a grant, no connection, or %s", w, n, err, api.Draining)
					}
					return
				}
				mu.Lock()
				told = append(told, made.ID)
				mu.Unlock()
				if n == 5 {
					first <- struct{}{}
				}
			}
		})
	}
	for range 8 {
		<-first
	}
	if code := s.stop(); code != exitDone {
		t.Errorf("got exit %d, want 0", code)
	}
	callers.Wait()
	again, err := startDev([]string{"HOME=" + t.TempDir()}, s.folder(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	defer again.stop()
	after := clientOf(t, again, s.run.Token) // the old token is good: the key was kept
	for _, id := range told {
		var hold api.Reservation
		if _, err := after.do(t.Context(), act{method: http.MethodGet, path: of(id, ""), into: &hold}); err != nil || hold.State != api.StateHeld {
			t.Errorf("%s was granted before the stop: got %q, %v, want held", id, hold.State, err)
		}
	}
}

// DESIGN.md section 10: a server on an etcd of others keeps nothing itself.
func TestServe_OnAnEtcdOfOthers(t *testing.T) {
	t.Parallel()
	store := etcdtest.Start(t, etcdtest.Listen(), etcdtest.NoFsync(), etcdtest.MaxTxnOps(128))
	dir := t.TempDir()
	signer, err := auth.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	keys, file := filepath.Join(dir, "jwks.json"), filepath.Join(dir, "limits.yaml")
	limitsYAML := "limits:\n- {id: exports, name: Exports, subjectKind: user, action: export, amount: 1, window: concurrent}\n"
	if err := errors.Join(os.WriteFile(keys, signer.JWKS(), 0o600), os.WriteFile(file, []byte(limitsYAML), 0o600)); err != nil {
		t.Fatal(err)
	}
	flags := []string{"--jwks-file", keys, "--jwt-issuer", "me", "--jwt-audience", "holdfast", "--etcd-endpoints", store.Endpoint(), "--limits-file", file}
	token, err := signer.Mint(auth.Claims{Issuer: "me", Audience: "holdfast", Subject: "root", Scope: "admin", TTL: time.Hour}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	var calls []*caller
	for _, name := range []string{"one", "two"} {
		s, err := startServe([]string{"HOME=" + dir}, filepath.Join(dir, name), flags...)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if code := s.stop(); code != exitDone {
				t.Errorf("replica %s: got exit %d, want 0", name, code)
			}
		}()
		calls = append(calls, clientOf(t, s, token))
		if _, err := os.Stat(filepath.Join(dir, name, etcdName)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("replica %s made an etcd of its own: %v", name, err)
		}
	}
	if _, err := reserveFor(t.Context(), calls[0], "export", "u"); err != nil {
		t.Fatal(err)
	}
	_, err = reserveFor(t.Context(), calls[1], "export", "u")
	if p, ok := errors.AsType[*api.Problem](err); !ok || p.Code != api.NoFreeSlot {
		t.Errorf("the second replica: got %v, want %s", err, api.NoFreeSlot)
	}
	var cluster api.ClusterAnswer
	if _, err := calls[1].do(t.Context(), act{method: http.MethodGet, path: "/admin/v1/cluster", admin: true, into: &cluster}); err != nil || cluster.Mode != "external" || cluster.Revision == 0 {
		t.Errorf("cluster: got %+v, %v, want mode external and a revision", cluster, err)
	}
}
