package main

import (
	"context"
	"errors"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-dev/holdfast/load"
)

// part is a group of arms that share servers and are measured in the same rounds.
type part struct {
	name  string
	run   func(*rig, context.Context) error
	smoke bool // a short form runs it too
}

func parts() []part {
	return []part{
		{"http", (*rig).partHTTP, true},
		{"cycles", (*rig).partCycles, true},
		{"desk", (*rig).partDesk, true},
		{"slot", (*rig).partSlot, true},
		{"crowd", (*rig).partCrowd, false},
		{"limits", (*rig).partLimits, false},
		{"subjects", (*rig).partSubjects, false},
		{"holds", (*rig).partHolds, false},
		{"replicas", (*rig).partReplicas, false},
	}
}

func partNames() []string {
	var names []string
	for _, p := range parts() {
		names = append(names, p.name)
	}
	return names
}

var (
	spread   = load.Keys{Subjects: spreadSubjects}
	fewKeys  = load.Keys{Subjects: postgresKeys}
	oneKey   = load.Keys{Spread: load.Hot, Subjects: 1}
	thousand = load.Keys{Subjects: 1000}
)

// stack closes what was opened, last first.
type stack []func()

func (s *stack) push(f func()) { *s = append(*s, f) }

func (s *stack) close() {
	for _, f := range slices.Backward(*s) {
		f()
	}
}

// serveWithPuts starts Holdfast and plain clients of the same etcd.
func (r *rig) serveWithPuts(ctx context.Context, open *stack) (s *server, plain []*clientv3.Client, err error) {
	if s, err = r.serve(ctx, ""); err != nil {
		return nil, nil, err
	}
	open.push(s.stop)
	plain, hangUp, err := dial(s.etcd, putConnections)
	if err != nil {
		return nil, nil, err
	}
	open.push(hangUp)
	return s, plain, nil
}

// partHTTP is reserving over HTTP against Puts on the same server and against the handler alone.
func (r *rig) partHTTP(ctx context.Context) error {
	var open stack
	defer open.close()
	s, plain, err := r.serveWithPuts(ctx, &open)
	if err != nil {
		return err
	}
	handler, err := r.front(&open, "handler", "")
	if err != nil {
		return err
	}
	if err := s.fill(ctx); err != nil {
		return err
	}
	const c = 256
	arms := []arm{
		posts("reserve, spread, c=256", c, s.endpoint, asked(load.Reserve, "both", "s", spread)),
		posts("reserve, one hot subject, c=256", c, s.endpoint, asked(load.Reserve, "both", "hot", oneKey)),
		puts("etcd Puts over gRPC, c=256", c, plain),
		posts("handler without the desk, c=256", c, func() *load.Endpoint { return handler }, asked(load.Reserve, "both", "s", spread)),
		posts("grants of one subject, c=256", c, s.endpoint, asked(load.Reserve, "crowd", "granted", oneKey)),
		posts("refusals of one full limit, c=256", c, s.endpoint, asked(load.Refusal, "single", "full", oneKey)),
		posts("check with 1 limit, c=256", c, s.endpoint, asked(load.Consume, "w1", "one", spread)),
		posts("check with 10 limits, c=256", c, s.endpoint, asked(load.Consume, "w10", "ten", spread)),
	}
	return r.measure(ctx, arms)
}

// fill takes the one slot of the limit that refusals are asked of.
func (s *server) fill(ctx context.Context) error {
	body := map[string]any{"subject": map[string]string{"kind": kind, "id": "full0"}, "action": "single", "ttlSeconds": 3600}
	return s.call(ctx, "/v1/reservations", body, nil)
}

// front starts a plain front, or the handler, as a process of its own.
func (r *rig) front(open *stack, args ...string) (*load.Endpoint, error) {
	p, url, err := self(r.dir, append([]string{"front", "-jwks", r.jwks}, args...)...)
	if err != nil {
		return nil, err
	}
	open.push(p.stop)
	return load.NewEndpoint(url, r.token, 0, now)
}

// partCycles is reserve and release, as a pair, against every other semaphore.
func (r *rig) partCycles(ctx context.Context) error {
	var open stack
	defer open.close()
	s, plain, err := r.serveWithPuts(ctx, &open)
	if err != nil {
		return err
	}
	const c = 64
	cycle := func(name string, end *load.Endpoint, keys load.Keys) arm {
		return posts(name, c, func() *load.Endpoint { return end }, asked(load.ReserveRelease, "sem", "s", keys))
	}
	arms := []arm{
		cycle("holdfast cycles, 100,000 keys, c=64", s.end, spread),
		cycle("holdfast cycles, 64 keys, c=64", s.end, fewKeys),
		cycle("holdfast cycles, one hot key, c=64", s.end, oneKey),
		naive("lease-per-hold cycles, c=64", c, plain),
	}
	if !r.smoke {
		more, err := r.peers(ctx, &open, cycle)
		if err != nil {
			return err
		}
		arms = append(arms, more...)
	}
	return r.measure(ctx, arms)
}

// peers starts what is at hand; what is not is told and left out.
func (r *rig) peers(ctx context.Context, open *stack, cycle func(string, *load.Endpoint, load.Keys) arm) (arms []arm, err error) {
	end, err := r.front(open, "memory", "")
	if err != nil {
		return nil, err
	}
	arms = append(arms, cycle("memory behind the front, 64 keys, c=64", end, fewKeys))
	for _, mode := range []string{"always", "everysec", "none"} {
		p, address, err := r.startRedis(ctx, mode)
		if absent := (*missing)(nil); errors.As(err, &absent) {
			r.note("%v", err)
			break
		}
		if err != nil {
			return nil, err
		}
		open.push(p.stop)
		if end, err = r.front(open, "redis", address); err != nil {
			return nil, err
		}
		behind, err := openRedis(ctx, address)
		if err != nil {
			return nil, err
		}
		open.push(behind.close)
		arms = append(arms, cycle("redis "+mode+" behind the front, 64 keys, c=64", end, fewKeys), direct("redis "+mode+" by its driver, 64 keys, c=64", 64, behind, fewKeys))
	}
	p, address, err := r.startPostgres(ctx)
	if absent := (*missing)(nil); errors.As(err, &absent) {
		r.note("%v", err)
		return arms, nil
	}
	if err != nil {
		return nil, err
	}
	open.push(p.stop)
	if end, err = r.front(open, "postgres", address); err != nil {
		return nil, err
	}
	behind, err := openPostgres(ctx, address)
	if err != nil {
		return nil, err
	}
	open.push(behind.close)
	return append(arms, cycle("postgres behind the front, 64 keys, c=64", end, fewKeys), cycle("postgres behind the front, one hot key, c=64", end, oneKey),
		direct("postgres by its driver, 64 keys, c=64", 64, behind, fewKeys)), nil
}
