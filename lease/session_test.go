package lease_test

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-dev/holdfast/integration/etcdtest"
	"github.com/holdfast-dev/holdfast/lease"
)

func TestSession_IsOneAndFoundOutWhenItHasEnded(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.NoFsync())
	counted := etcdtest.NewCountingLease(server.Client())
	s := lease.NewSession(counted, nil)
	id, err := s.Lease(t.Context())
	if err != nil || id == 0 {
		t.Fatalf("Lease: got %x, %v", id, err)
	}
	for range 3 {
		if again, err := s.Lease(t.Context()); err != nil || again != id {
			t.Errorf("Lease again: got %x, %v; want %x", again, err, id)
		}
	}
	if stands, err := s.Stands(t.Context(), id); !stands || err != nil {
		t.Errorf("Stands: got %v, %v for the lease just granted", stands, err)
	}
	if stands, err := s.Stands(t.Context(), id+1); stands || err != nil {
		t.Errorf("Stands of another lease: got %v, %v", stands, err)
	}
	if c := counted.Calls(); c.Grant != 1 || c.KeepAliveOnce != 1 {
		t.Errorf("calls: got %+v, want one grant and one keep-alive", c)
	}
	if _, err := server.Client().Revoke(t.Context(), clientv3.LeaseID(id)); err != nil {
		t.Fatal(err)
	}
	if stands, err := s.Stands(t.Context(), id); stands || err != nil {
		t.Errorf("Stands after its end: got %v, %v", stands, err)
	}
	if next, err := s.Lease(t.Context()); err != nil || next == id {
		t.Errorf("Lease after its end: got %x, %v; want another", next, err)
	}
}

func TestSession_RunKeepsItAlive(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for longer than a session lasts by itself")
	}
	server := etcdtest.Start(t, etcdtest.NoFsync())
	s := lease.NewSession(server.Client(), nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	id, err := s.Lease(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	timer := time.NewTimer(lease.SessionTTL + 3*time.Second)
	defer timer.Stop()
	<-timer.C
	if stands, err := s.Stands(t.Context(), id); !stands || err != nil {
		t.Errorf("the lease has ended although it was kept alive: %v, %v", stands, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
}
