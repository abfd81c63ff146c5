package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
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

// The desk on embedded etcd, fsync on, without HTTP, against 100-byte Puts of the same client at
// the same concurrency, taken in turns. What counts is the metric x-puts (the desk's rate over
// the Puts'; for c=1 x-put-p50, its p50 over a Put's); x-puts-cpu is the same by processor time,
// for machines that others use too; ns/op is a reserve.
//
//	go test -run '^$' -bench BenchmarkDesk ./integration

const (
	benchSubjects = 100_000
	benchTurn     = 256 // reserves or Puts a worker and turn, at most
)

func BenchmarkDesk(b *testing.B) {
	for _, workers := range []int{1, 64, 256} {
		for name, subjects := range map[string]int{"spread": benchSubjects, "hot": 1} {
			b.Run(fmt.Sprintf("c=%d/%s", workers, name), func(b *testing.B) {
				d := openBenchDesk(b)
				d.compare(b, workers, subjects)
			})
		}
	}
}

// compare takes turns of reserves and Puts until b.N reserves are done; both rest between.
func (d *benchDesk) compare(b *testing.B, workers, subjects int) {
	b.Helper()
	var reserving, putting, reservingCPU, puttingCPU time.Duration
	var ours, theirs []time.Duration
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; {
		n := min(b.N-done, workers*benchTurn)
		began, used := time.Now(), cpuTime()
		ours = append(ours, d.inTurn(b, workers, n, func() error { return d.reserve(b.Context(), rand.IntN(subjects)) })...)
		reserving, reservingCPU = reserving+time.Since(began), reservingCPU+cpuTime()-used
		done += n
		b.StopTimer()
		d.release(b, workers)
		began, used = time.Now(), cpuTime()
		theirs = append(theirs, d.inTurn(b, workers, n, func() error { return d.put(b.Context(), rand.IntN(benchSubjects)) })...)
		putting, puttingCPU = putting+time.Since(began), puttingCPU+cpuTime()-used
		b.StartTimer()
	}
	b.StopTimer()
	b.ReportMetric(putting.Seconds()/reserving.Seconds(), "x-puts")
	b.ReportMetric(puttingCPU.Seconds()/max(reservingCPU, 1).Seconds(), "x-puts-cpu")
	b.ReportMetric(float64(middle(ours))/float64(middle(theirs)), "x-put-p50")
	b.ReportMetric(float64(b.N)/reserving.Seconds(), "reserves/s")
}

// inTurn does f n times by workers at once and gives how long each took.
func (d *benchDesk) inTurn(b *testing.B, workers, n int, f func() error) (took []time.Duration) {
	b.Helper()
	var next atomic.Int64
	var mu sync.Mutex
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			var mine []time.Duration
			for next.Add(1) <= int64(n) {
				began := time.Now()
				if err := f(); err != nil {
					b.Error(err)
					return
				}
				mine = append(mine, time.Since(began))
			}
			mu.Lock()
			took = append(took, mine...)
			mu.Unlock()
		})
	}
	all.Wait()
	return took
}

func middle(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// benchDesk is store, wheel and service on an embedded etcd, as the product wires them.
type benchDesk struct {
	*reserve.Service
	plain *clientv3.Client
	mu    sync.Mutex
	kept  []reserve.ID
}

const benchTenant = "default"

func openBenchDesk(b *testing.B) *benchDesk {
	b.Helper()
	client := etcdtest.Start(b, etcdtest.Quota(8<<30)).Client()
	const replica = "bench"
	s, err := store.New(client, client, store.Config{Replica: replica, MaxOps: store.EmbeddedMaxOps})
	if err != nil {
		b.Fatal(err)
	}
	wheel, err := lease.NewWheel(lease.Config{
		Lease: client, KV: client, MarkerKey: s.ReplicaKey(replica), Now: time.Now,
		MarkerValue: func(at time.Time) []byte { return store.EncodeReplica(reserve.Replica{ID: replica, Clock: at}) },
	})
	if err != nil {
		b.Fatal(err)
	}
	service, err := reserve.New(reserve.Config{
		Store: s, Lister: s, Leases: benchLeaser{wheel}, Packer: store.Packer{}, Now: time.Now, Replica: replica, MaxOps: store.EmbeddedMaxOps,
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = wheel.Run(ctx) })
	running.Go(func() { _ = service.Run(ctx) })
	b.Cleanup(func() { cancel(); running.Wait() })
	defineBenchLimits(b, s)
	awaitReady(b, service)
	return &benchDesk{Service: service, plain: client}
}

// defineBenchLimits puts one concurrent limit and one window, as most checks meet.
func defineBenchLimits(b *testing.B, s *store.Store) {
	b.Helper()
	g := reserve.Group{Tenant: benchTenant, Catalog: reserve.AnyCatalog}
	for id, w := range map[string]windows.Window{"slots": {Kind: windows.Concurrent}, "days": {Kind: windows.Day, Rolling: true}} {
		l := &limits.Limit{ID: id, Name: id, SubjectKind: "user", Action: "work", Amount: 1_000_000_000, Window: w, Enabled: true, Generation: 1}
		g.Writes = append(g.Writes, reserve.Write{Ref: reserve.Ref{Tenant: benchTenant, Kind: reserve.RefLimit, Limit: id}, Value: l})
	}
	g.Writes = append(g.Writes, reserve.Write{Ref: reserve.Ref{Tenant: benchTenant, Kind: reserve.RefCatalog}, Value: reserve.Seq(1)})
	res, err := s.Apply(b.Context(), reserve.Batch{Groups: []reserve.Group{g}})
	if err != nil || !res.Outcomes[0].Committed {
		b.Fatalf("limits: %+v, %v", res, err)
	}
}

func awaitReady(b *testing.B, s *reserve.Service) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), etcdtest.ReadyWithin)
	defer cancel()
	for s.Ready(ctx) != nil {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			b.Fatal("the desk was not ready in time")
		}
	}
}

func (d *benchDesk) reserve(ctx context.Context, subject int) error {
	res, decision, err := d.Reserve(ctx, reserve.Request{
		Tenant: benchTenant, Subject: limits.Subject{Kind: "user", ID: "s" + strconv.Itoa(subject)}, Action: "work",
		Cost: 1, TTL: 5 * time.Minute, Principal: "bench", Route: "bench",
	})
	if err != nil {
		return err
	}
	if !decision.Allowed {
		return fmt.Errorf("subject %d was refused", subject)
	}
	d.mu.Lock()
	d.kept = append(d.kept, res.ID)
	d.mu.Unlock()
	return nil
}

func (d *benchDesk) put(ctx context.Context, key int) error {
	_, err := d.plain.Put(ctx, "/bench/"+strconv.Itoa(key), string(make([]byte, 100)))
	return err
}

// release gives back what the last turn reserved, so that every turn begins alike.
func (d *benchDesk) release(b *testing.B, workers int) {
	b.Helper()
	ids := d.kept
	d.kept = nil
	var next atomic.Int64
	d.inTurn(b, workers, len(ids), func() error {
		ref := reserve.HoldRef{ID: ids[next.Add(1)-1], By: reserve.Caller{Tenant: benchTenant, Principal: "bench"}}
		_, err := d.Release(b.Context(), ref, "")
		return err
	})
}

// benchLeaser is the wheel as the desk wants it.
type benchLeaser struct{ wheel *lease.Wheel }

func (l benchLeaser) Lease(ctx context.Context, keep, grain time.Duration, have reserve.LeaseID) (reserve.LeaseID, error) {
	id, err := l.wheel.Lease(ctx, keep, grain, int64(have))
	return reserve.LeaseID(id), err
}
func (l benchLeaser) Marker(ctx context.Context) (int64, error) { return l.wheel.Marker(ctx) }
func (l benchLeaser) Gone(id reserve.LeaseID)                   { l.wheel.Gone(int64(id)) }
