package integration

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-dev/holdfast/integration/etcdtest"
	"github.com/holdfast-dev/holdfast/lease"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/windows"
)

// post is one replica in this process at which callers may wait, all its calls to etcd counted:
// those of the store and of the session, and apart from them those that the wheel makes, whether
// anybody waits or not.
type post struct {
	*reserve.Service
	desk, wheel calls
}

// calls counts the calls of one part.
type calls struct {
	kv     *etcdtest.CountingKV
	leases *etcdtest.CountingLease
}

func newCalls(client *clientv3.Client) calls {
	return calls{etcdtest.NewCountingKV(client), etcdtest.NewCountingLease(client)}
}

func (c calls) all() int {
	l := c.leases.Calls()
	return c.kv.Calls().All() + l.Grant + l.Revoke + l.TimeToLive + l.Leases + l.KeepAlive + l.KeepAliveOnce
}

// places is the session as the desk wants it.
type places struct{ session *lease.Session }

func (p places) Session(ctx context.Context) (reserve.LeaseID, error) {
	id, err := p.session.Lease(ctx)
	return reserve.LeaseID(id), err
}

func (p places) Stands(ctx context.Context, id reserve.LeaseID) (bool, error) {
	return p.session.Stands(ctx, int64(id))
}

func (p places) Ended(id reserve.LeaseID) { p.session.Ended(int64(id)) }

// newPost starts one; the limit of each name lets a subject hold so many.
func newPost(t testing.TB, client *clientv3.Client, amounts map[string]int64) *post {
	t.Helper()
	const replica = "post"
	p := &post{desk: newCalls(client), wheel: newCalls(client)}
	s, err := store.New(p.desk.kv, client, store.Config{Replica: replica, MaxOps: store.EmbeddedMaxOps})
	if err != nil {
		t.Fatal(err)
	}
	wheel, err := lease.NewWheel(lease.Config{
		Lease: p.wheel.leases, KV: p.wheel.kv, MarkerKey: s.ReplicaKey(replica), Now: time.Now,
		MarkerValue: func(at time.Time) []byte { return store.EncodeReplica(reserve.Replica{ID: replica, Clock: at}) },
	})
	if err != nil {
		t.Fatal(err)
	}
	session := lease.NewSession(p.desk.leases, nil)
	p.Service, err = reserve.New(reserve.Config{
		Store: s, Lister: s, Leases: benchLeaser{wheel}, Sessions: places{session}, Packer: store.Packer{}, Now: time.Now,
		Replica: replica, MaxOps: store.EmbeddedMaxOps,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = wheel.Run(ctx) })
	running.Go(func() { _ = session.Run(ctx) })
	running.Go(func() { _ = p.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	for began := time.Now(); p.Ready(t.Context()) != nil; until(t, time.Now().Add(time.Millisecond)) {
		if time.Since(began) > generous {
			t.Fatal("the replica did not become ready")
		}
	}
	p.define(t, s, amounts)
	return p
}

func (p *post) define(t testing.TB, s *store.Store, amounts map[string]int64) {
	t.Helper()
	g := reserve.Group{Tenant: benchTenant, Catalog: reserve.AnyCatalog}
	for id, amount := range amounts {
		l := &limits.Limit{
			ID: id, Name: id, SubjectKind: "user", Action: limits.Action(id), Amount: amount,
			Window: windows.Window{Kind: windows.Concurrent}, Enabled: true, Generation: 1,
		}
		g.Writes = append(g.Writes, reserve.Write{Ref: reserve.Ref{Tenant: benchTenant, Kind: reserve.RefLimit, Limit: id}, Value: l})
	}
	g.Writes = append(g.Writes, reserve.Write{Ref: reserve.Ref{Tenant: benchTenant, Kind: reserve.RefCatalog}, Value: reserve.Seq(1)})
	res, err := s.Apply(t.Context(), reserve.Batch{Groups: []reserve.Group{g}})
	if err != nil || !res.Outcomes[0].Committed {
		t.Fatalf("limits: %+v, %v", res, err)
	}
	if err := p.Reached(t.Context(), res.Rev); err != nil {
		t.Fatal(err)
	}
}

// take reserves for a subject under a limit, and waits for it.
func (p *post) take(ctx context.Context, limit string, subject int, wait time.Duration) (reserve.ID, error) {
	res, d, err := p.Reserve(ctx, reserve.Request{
		Tenant: benchTenant, Subject: limits.Subject{Kind: "user", ID: fmt.Sprint("s", subject)}, Action: limits.Action(limit),
		Cost: 1, TTL: 10 * time.Minute, Principal: "post", Route: "post", Wait: wait,
	})
	if err == nil && !d.Allowed {
		err = fmt.Errorf("subject %d was refused", subject)
	}
	return res.ID, err
}

func (p *post) free(ctx context.Context, id reserve.ID) error {
	_, err := p.Release(ctx, reserve.HoldRef{ID: id, By: reserve.Caller{Tenant: benchTenant, Principal: "post"}}, "")
	return err
}

// ticketPrefix begins the keys of tickets, as the store spells them.
const ticketPrefix = "/holdfast/v1/t/default/line/"

// tickets is how many stand in all lines, as etcd has it.
func tickets(t testing.TB, client *clientv3.Client) int64 {
	t.Helper()
	resp, err := client.Get(t.Context(), ticketPrefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		t.Fatal(err)
	}
	return resp.Count
}

// awaitTickets waits until so many stand in all lines.
func awaitTickets(t testing.TB, client *clientv3.Client, want int64) {
	t.Helper()
	for began := time.Now(); ; until(t, time.Now().Add(10*time.Millisecond)) {
		n := tickets(t, client)
		if n == want {
			return
		}
		if time.Since(began) > generous {
			t.Fatalf("%d stand in line after %s, want %d", n, generous, want)
		}
	}
}
