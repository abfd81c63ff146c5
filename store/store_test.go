package store_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-dev/holdfast/integration/etcdtest"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/store"
)

func TestNew_TellsAllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	_, err := store.New(nil, nil, store.Config{Root: "/holdfast", MaxOps: -1, Timeout: -time.Second})
	for _, word := range []string{"Root", "MaxOps", "Timeout"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("New with three faults: got error %v, want %s named", err, word)
		}
	}
	registry := prometheus.NewPedanticRegistry()
	if _, err := store.New(nil, nil, store.Config{Metrics: registry}); err != nil {
		t.Errorf("New: %v", err)
	}
	if _, err := store.New(nil, nil, store.Config{Metrics: registry}); err == nil {
		t.Error("New with metrics that are registered: got no error")
	}
	s, err := store.New(nil, nil, store.Config{})
	if err != nil || s.MaxOps() != store.DefaultMaxOps {
		t.Errorf("the zero Config: got %d operations, %v; want %d", s.MaxOps(), err, store.DefaultMaxOps)
	}
}

// The wheel keeps the marker by what the store tells it of key and value.
func TestReplicaKey_IsTheMarkerThatIsCompared(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.NoFsync())
	c := server.Client()
	s := newStore(t, c, c, store.Config{Replica: "r/1"})
	replica := reserve.Replica{ID: "r/1", Version: "v1", Address: "a:1", Clock: time.UnixMilli(1_800_000_000_123).UTC()}
	marker, err := c.Put(t.Context(), s.ReplicaKey("r/1"), string(store.EncodeReplica(replica)))
	if err != nil {
		t.Fatal(err)
	}
	rev := marker.Header.Revision
	b := batch(put(slotRef(0), slot("x")))
	if b.Marker = rev; apply(t, s, b).MarkerGone {
		t.Errorf("under the marker of revision %d: gone", rev)
	}
	if b.Marker = rev - 1; !apply(t, s, b).MarkerGone {
		t.Errorf("under a marker of revision %d: stands", rev-1)
	}
	loaded, err := s.Load(t.Context(), []reserve.Ref{{Kind: reserve.RefReplica, Scope: "r/1"}}, true)
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := loaded.Entries[0].Value.(*reserve.Replica); !ok || *got != replica {
		t.Errorf("read again: got %+v, want %+v", loaded.Entries[0], replica)
	}
}

// plainPuts makes n puts of 100 bytes by 64 callers and returns how many were made a second.
func plainPuts(b *testing.B, c *clientv3.Client, n int) float64 {
	b.Helper()
	value := strings.Repeat("x", 100)
	var next atomic.Int64
	var callers sync.WaitGroup
	start := time.Now()
	for range 64 {
		callers.Go(func() {
			for next.Add(1) <= int64(n) {
				if _, err := c.Put(b.Context(), "/plain/"+reserve.NewID().String(), value); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	callers.Wait()
	return float64(n) / time.Since(start).Seconds()
}

// BenchmarkApply measures a batch of 50 reservations, of a slot and a record each, four in
// flight, as the desk sends them. The figure that counts is reservations for each plain put of
// the same etcd, DESIGN.md section 2: 0.75 to 0.9.
func BenchmarkApply(b *testing.B) {
	const groups, flying = 50, 4
	server := etcdtest.Start(b)
	c := server.Client()
	s := newStore(b, c, c, store.Config{MaxOps: store.EmbeddedMaxOps, Replica: "r1"})
	marker, err := c.Put(b.Context(), s.ReplicaKey("r1"), "")
	if err != nil {
		b.Fatal(err)
	}
	catalog := mustApply(b, s, batch(put(catalogRef, reserve.Seq(1)))).Rev
	lease, err := c.Grant(b.Context(), 600)
	if err != nil {
		b.Fatal(err)
	}
	puts := plainPuts(b, c, 20_000)
	var n atomic.Int64
	reservation := func() reserve.Group {
		id := reserve.NewID()
		ref, record := slotRef(n.Add(1)), reserve.Ref{Tenant: "default", Kind: reserve.RefOpen, ID: id}
		held := slot("nightly-export")
		held.Hold = id
		return reserve.Group{
			Tenant: "default", Catalog: catalog,
			Guards: []reserve.Guard{{Ref: ref, Cond: reserve.ModIs}},
			Writes: []reserve.Write{
				{Ref: ref, Value: held, Lease: reserve.LeaseID(lease.ID)},
				{Ref: record, Value: &reserve.Record{ID: id, State: reserve.Held, Places: []reserve.Place{{Limit: "exports", Scope: "user/u_42", N: 1}}}},
			},
			Reads: []reserve.Ref{ref, record},
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	var next atomic.Int64
	var senders sync.WaitGroup
	for range flying {
		senders.Go(func() {
			for next.Add(1) <= int64(b.N) {
				all := reserve.Batch{Marker: marker.Header.Revision}
				for range groups {
					all.Groups = append(all.Groups, reservation())
				}
				for _, o := range mustApply(b, s, all).Outcomes {
					if !o.Committed {
						b.Errorf("got %+v, want it committed", o)
					}
				}
			}
		})
	}
	senders.Wait()
	made := float64(b.N*groups) / b.Elapsed().Seconds()
	b.ReportMetric(made, "reservations/s")
	b.ReportMetric(made/puts, "of-a-plain-put")
}

// mustApply is apply for goroutines of a benchmark, which may not end it.
func mustApply(b *testing.B, s *store.Store, batch reserve.Batch) reserve.Result {
	res, err := s.Apply(b.Context(), batch)
	if err != nil {
		b.Errorf("Apply: %v", err)
	}
	return res
}
