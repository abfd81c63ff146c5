//go:build unix

package integration

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-dev/holdfast/integration/etcdtest"
	"github.com/holdfast-dev/holdfast/reserve"
)

// Issue "Waiting in line", 2: as many as may wait at one replica, and a hundred slots come free
// at once. In this process, where each call to etcd is counted, and over HTTP.

const (
	manyLines = 10
	manySlots = 10 // in each line: a hundred
	idleFor   = 10 * time.Second
)

// many is how many wait: all that may in a long run.
func many() int {
	if long() {
		return reserve.MaxWaiters
	}
	return 1_000
}

func TestLine_ManyWaitAndNothingPolls(t *testing.T) {
	notInShort(t)
	client := etcdtest.Start(t, etcdtest.NoFsync()).Client()
	p := newPost(t, client, map[string]int64{"many": manySlots})
	held := p.fill(t)
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	heap, began := heapInUse(), time.Now()
	var all sync.WaitGroup
	granted := make(chan reserve.ID, many())
	for n := range many() {
		all.Go(func() {
			if id, err := p.take(ctx, "many", n%manyLines, reserve.MaxWait); err == nil {
				granted <- id
			}
		})
	}
	awaitTickets(t, client, int64(many()))
	t.Logf("%d stand in %d lines after %s; each keeps %d bytes here", many(), manyLines, time.Since(began).Round(time.Millisecond), (heapInUse()-heap)/many())
	calls, wheels, cpu := p.desk.all(), p.wheel.all(), cpuTime()
	until(t, time.Now().Add(idleFor))
	if calls = p.desk.all() - calls; calls > int(idleFor/time.Second) {
		t.Errorf("%d calls to etcd in %s of waiting, want at most one a second", calls, idleFor)
	}
	t.Logf("%s of waiting: %d calls to etcd, and %d of the wheel as when nobody waits; %s of processor time, etcd's own included",
		idleFor, calls, p.wheel.all()-wheels, (cpuTime() - cpu).Round(time.Millisecond))
	calls, cpu, began = p.desk.all(), cpuTime(), time.Now()
	atOnce(len(held), func(i int) {
		if err := p.free(t.Context(), held[i]); err != nil {
			t.Error(err)
		}
	})
	for range held {
		<-granted
	}
	t.Logf("%d slots freed at once: as many granted after %s, %d calls to etcd, %s of processor time",
		len(held), time.Since(began).Round(100*time.Microsecond), p.desk.all()-calls, (cpuTime() - cpu).Round(time.Millisecond))
	awaitTickets(t, client, int64(many()-len(held)))
	hangUp()
	all.Wait()
	if n := len(granted); n != 0 {
		t.Errorf("%d more were granted than slots came free", n)
	}
	awaitTickets(t, client, 0)
}

// fill takes every slot.
func (p *post) fill(t testing.TB) []reserve.ID {
	t.Helper()
	held := make([]reserve.ID, manyLines*manySlots)
	atOnce(len(held), func(i int) {
		var err error
		if held[i], err = p.take(t.Context(), "many", i%manyLines, 0); err != nil {
			t.Error(err)
		}
	})
	return held
}

func heapInUse() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse)
}

// TestLine_ManyWaitOverHTTP holds a connection for each that waits. Two processes have half of
// their files: ten thousand take 10,100 in each.
func TestLine_ManyWaitOverHTTP(t *testing.T) {
	notInShort(t)
	client := etcdtest.Start(t, etcdtest.Listen(), etcdtest.NoFsync(), etcdtest.MaxTxnOps(128)).GRPC(t)
	f := newFleet(t, 1, client.Endpoints()...).startAll()
	c := f.at[0]
	c.limit(fmt.Sprintf(lineLimit, manySlots))
	held := make([]string, manyLines*manySlots)
	for i := range held {
		held[i] = read[struct{ ID string }](t, c.post("/v1/reservations", fmt.Sprintf(lineBody, fmt.Sprint("s", i%manyLines), 0)), http.StatusCreated).ID
	}
	memory, cpu, began := c.metric("process_resident_memory_bytes"), c.metric("process_cpu_seconds_total"), time.Now()
	crowd := c.crowd(many())
	awaitTickets(t, client, int64(many()))
	t.Logf("%d connections stand in %d lines after %s, %.1f s of processor time; the server has %.0f MB more, %.1f KB each",
		many(), manyLines, time.Since(began).Round(time.Millisecond), c.metric("process_cpu_seconds_total")-cpu,
		(c.metric("process_resident_memory_bytes")-memory)/1e6, (c.metric("process_resident_memory_bytes")-memory)/1e3/float64(many()))
	cpu, calls := c.metric("process_cpu_seconds_total"), c.metric("holdfast_store_calls_total")
	until(t, time.Now().Add(idleFor))
	t.Logf("%s of waiting: %.0f calls of the store, %.2f s of processor time", idleFor,
		c.metric("holdfast_store_calls_total")-calls, c.metric("process_cpu_seconds_total")-cpu)
	cpu, began = c.metric("process_cpu_seconds_total"), time.Now()
	atOnce(len(held), func(i int) {
		if got, err := c.try(t.Context(), http.MethodPost, "/v1/reservations/"+held[i]+"/release", ""); err != nil || got.status != http.StatusOK {
			t.Errorf("release: %s, %v", got, err)
		}
	})
	for range held {
		if status := <-crowd.answers; status != http.StatusCreated {
			t.Fatalf("one is answered %d, want 201", status)
		}
	}
	t.Logf("%d slots freed at once: as many granted after %s, %.2f s of processor time",
		len(held), time.Since(began).Round(100*time.Microsecond), c.metric("process_cpu_seconds_total")-cpu)
	awaitTickets(t, client, int64(many()-len(held)))
	crowd.hangUp()
	for status := range crowd.answers {
		if status == http.StatusCreated {
			t.Error("one more is granted than slots came free")
		}
	}
	awaitTickets(t, client, 0)
	f.overtakesNobody()
}

// crowd is callers with a bare connection each: what net/http keeps for one would be most of what
// is measured here.
type crowd struct {
	conns   []net.Conn
	answers chan int // statuses; closed when all are answered or gone
	gone    atomic.Bool
}

// crowd has n callers stand in line, by turns in manyLines.
func (c *caller) crowd(n int) *crowd {
	c.t.Helper()
	out := &crowd{conns: make([]net.Conn, n), answers: make(chan int, n)}
	address := strings.TrimPrefix(c.s.run.URL, "http://")
	var next atomic.Int64
	var dialled, answered sync.WaitGroup
	for range 32 {
		dialled.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				conn, err := net.Dial("tcp", address)
				if err != nil {
					c.t.Error(err)
					return
				}
				body := fmt.Sprintf(lineBody, fmt.Sprint("s", i%manyLines), 60)
				_, err = fmt.Fprintf(conn, "POST /v1/reservations HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
					address, c.token, len(body), body)
				if err != nil {
					c.t.Error(err)
				}
				out.conns[i] = conn
				answered.Go(func() { out.hear(c.t, conn) })
			}
		})
	}
	dialled.Wait()
	go func() { answered.Wait(); close(out.answers) }()
	c.t.Cleanup(out.hangUp)
	return out
}

func (c *crowd) hear(t testing.TB, conn net.Conn) {
	resp, err := http.ReadResponse(bufio.NewReaderSize(conn, 512), nil)
	switch {
	case err == nil:
		_ = resp.Body.Close()
		c.answers <- resp.StatusCode
	case !c.gone.Load():
		t.Errorf("one that waits: %v", err)
	}
}

func (c *crowd) hangUp() {
	c.gone.Store(true)
	for _, conn := range c.conns {
		if conn != nil {
			_ = conn.Close()
		}
	}
}

// BenchmarkLine_GrantsOfOthers has one desk with 5,000 in line and one with none decide on grants
// of another limit, in turns. What counts is x-rate: the rate beside the line over that without.
//
//	go test -run '^$' -bench BenchmarkLine_GrantsOfOthers -benchtime 40000x ./integration
func BenchmarkLine_GrantsOfOthers(b *testing.B) {
	const standing, workers, turn = 5_000, 64, 2_000
	amounts := map[string]int64{"many": manySlots, "other": 1_000_000_000}
	ctx, hangUp := context.WithCancel(context.WithoutCancel(b.Context()))
	defer hangUp()
	var posts [2]*post
	var waiting sync.WaitGroup
	for i := range posts {
		client := etcdtest.Start(b, etcdtest.Quota(8<<30)).Client()
		posts[i] = newPost(b, client, amounts)
		posts[i].fill(b)
		if i == 0 {
			stand(ctx, b, posts[i], client, standing, &waiting)
		}
	}
	defer waiting.Wait()
	defer hangUp()
	var took, cpu [2]time.Duration
	b.ResetTimer()
	for done := 0; done < b.N; {
		n := min(b.N-done, turn)
		for i, p := range posts {
			began, used := time.Now(), cpuTime()
			p.grantAndFree(b, n, workers)
			took[i], cpu[i] = took[i]+time.Since(began), cpu[i]+cpuTime()-used
		}
		done += n
	}
	b.StopTimer()
	b.ReportMetric(took[1].Seconds()/took[0].Seconds(), "x-rate")
	b.ReportMetric(cpu[1].Seconds()/max(cpu[0], 1).Seconds(), "x-rate-cpu")
	b.ReportMetric(float64(b.N)/took[0].Seconds(), "grants/s")
}

// stand has so many wait at p until ctx ends; who is refused when its time is out joins again.
func stand(ctx context.Context, t testing.TB, p *post, client *clientv3.Client, n int, waiting *sync.WaitGroup) {
	t.Helper()
	for i := range n {
		waiting.Go(func() {
			for ctx.Err() == nil {
				_, _ = p.take(ctx, "many", i%manyLines, reserve.MaxWait)
			}
		})
	}
	awaitTickets(t, client, int64(n))
}

// grantAndFree grants n times, to workers at once, and gives each back.
func (p *post) grantAndFree(t testing.TB, n, workers int) {
	t.Helper()
	var next atomic.Int64
	atOnce(workers, func(int) {
		for i := next.Add(1); i <= int64(n); i = next.Add(1) {
			id, err := p.take(t.Context(), "other", int(i), 0)
			if err == nil {
				err = p.free(t.Context(), id)
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
}

// BenchmarkLine_HandOver hands one slot through a line of ten, without HTTP, and times a Put beside
// each. What counts is x-put-p50: from the call of the release to the next grant over a Put.
//
//	go test -run '^$' -bench BenchmarkLine_HandOver -benchtime 2000x ./integration
func BenchmarkLine_HandOver(b *testing.B) {
	for name, dial := range map[string]func(s *etcdtest.Server) *clientv3.Client{
		"embedded": func(s *etcdtest.Server) *clientv3.Client { return s.Client() },
		"grpc":     func(s *etcdtest.Server) *clientv3.Client { return s.GRPC(b) },
	} {
		b.Run(name, func(b *testing.B) {
			client := dial(etcdtest.Start(b, etcdtest.Listen()))
			p := newPost(b, client, map[string]int64{"one": 1})
			ctx, hangUp := context.WithCancel(context.WithoutCancel(b.Context()))
			held, err := p.take(ctx, "one", 0, 0)
			if err != nil {
				b.Fatal(err)
			}
			granted := make(chan reserve.ID)
			var waiting sync.WaitGroup
			defer waiting.Wait()
			defer hangUp()
			for range 10 {
				waiting.Go(func() { p.again(ctx, granted) })
			}
			awaitTickets(b, client, 10)
			var handed, released, puts []time.Duration
			calls := p.desk.all()
			b.ResetTimer()
			for n := range b.N {
				began := time.Now()
				if err := p.free(ctx, held); err != nil {
					b.Fatal(err)
				}
				released = append(released, time.Since(began))
				held = <-granted
				handed = append(handed, time.Since(began))
				puts = append(puts, timedPut(b, client, n))
			}
			b.StopTimer()
			b.ReportMetric(float64(middle(handed))/float64(middle(puts)), "x-put-p50")
			b.ReportMetric(float64(middle(released))/float64(middle(puts)), "x-put-release-p50")
			b.ReportMetric(float64(middle(puts).Microseconds()), "put-p50-us")
			b.ReportMetric(float64(p.desk.all()-calls)/float64(b.N), "calls/op") // release, grant, and who joins again
		})
	}
}

// again waits in line, and again once it was granted, until ctx ends.
func (p *post) again(ctx context.Context, granted chan<- reserve.ID) {
	for ctx.Err() == nil {
		id, err := p.take(ctx, "one", 0, reserve.MaxWait)
		if err != nil {
			continue
		}
		select {
		case granted <- id:
		case <-ctx.Done():
		}
	}
}
