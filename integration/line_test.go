//go:build unix

package integration

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/integration/etcdtest"
)

// Waiting in line, end to end: real replicas, real etcd, HTTP. The figures that these tests print
// are in docs/reports/waiting.md.

const (
	lineTTL  = "600"
	lineBody = `{"subject":{"kind":"user","id":%q},"action":"line","waitSeconds":%d,"ttlSeconds":` + lineTTL + `}`
)

// served is an answer to somebody in line.
type served struct {
	n   int // which one, by when it came
	at  time.Time
	got reply
	err error
}

// joins has number n stand in the line of subject at a replica; its answer goes to out.
func joins(ctx context.Context, c *caller, subject string, n int, out chan<- served, headers ...string) {
	go func() {
		got, err := c.try(ctx, http.MethodPost, "/v1/reservations", fmt.Sprintf(lineBody, subject, 60), headers...)
		out <- served{n, time.Now(), got, err}
	}()
}

// stand waits until so many stand in line, as replica i tells when it can.
func (f *fleet) stand(i, want int) {
	f.t.Helper()
	var last reply
	for began := time.Now(); time.Since(began) < generous; {
		var err error
		last, err = f.at[i].try(f.t.Context(), http.MethodGet, "/v1/waiters?pageSize=500", "")
		if err != nil {
			f.t.Fatal(err)
		}
		if page, err := decoded[api.WaiterPage](last); err == nil && len(page.Data) == want {
			return
		}
	}
	f.t.Fatalf("%s, want %d in line within %s", last, want, generous)
}

// lineRuns has n stand in one line, one after the other, by turns at all replicas, and the slot
// handed through: runs times. A Put to the same etcd, by another process, is timed beside each hand-over.
func (f *fleet) lineRuns(runs, n int, plain *putter) (handed, released, puts []time.Duration) {
	f.t.Helper()
	for run := range runs {
		subject := fmt.Sprint("run-", run)
		held := read[api.Reservation](f.t, f.at[0].post("/v1/reservations", fmt.Sprintf(lineBody, subject, 0)), http.StatusCreated)
		out := make(chan served, n)
		for i := range n {
			joins(f.t.Context(), f.at[i%len(f.at)], subject, i, out)
			f.stand(0, i+1)
		}
		for i := range n {
			began := time.Now()
			read[api.Reservation](f.t, f.at[(i+run)%len(f.at)].post("/v1/reservations/"+held.ID+"/release", ""), http.StatusOK)
			released = append(released, time.Since(began))
			next := <-out
			if next.err != nil || next.n != i {
				f.t.Fatalf("run %d: number %d is served after %d others: %s, %v", run, next.n, i, next.got, next.err)
			}
			handed = append(handed, next.at.Sub(began))
			held = read[api.Reservation](f.t, next.got, http.StatusCreated)
			puts = append(puts, plain.put())
		}
		read[api.Reservation](f.t, f.at[0].post("/v1/reservations/"+held.ID+"/release", ""), http.StatusOK)
	}
	return handed, released, puts
}

// timedPut is how long a Put of 100 bytes takes.
func timedPut(t testing.TB, plain *clientv3.Client, n int) time.Duration {
	t.Helper()
	began := time.Now()
	if _, err := plain.Put(t.Context(), fmt.Sprint("/beside/", n%1000), string(make([]byte, 100))); err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}

const lineLimit = `{"id":"line","name":"Line","subjectKind":"user","action":"line","amount":%d,"window":"concurrent"}`

// lineForms are one replica and three on an etcd of one member, and three on three members.
func lineForms(t *testing.T, form func(t *testing.T, f *fleet, plain *putter)) {
	t.Helper()
	for _, rig := range []struct {
		name              string
		replicas, members int
	}{{"one replica", 1, 1}, {"three replicas", 3, 1}, {"three replicas on three members", 3, etcdtest.Members}} {
		t.Run(rig.name, func(t *testing.T) {
			var plain *clientv3.Client
			if rig.members == 1 {
				plain = etcdtest.Start(t, etcdtest.Listen(), etcdtest.MaxTxnOps(128)).GRPC(t)
			} else {
				plain = etcdtest.Three(t, etcdtest.MaxTxnOps(128)).GRPC(t)
			}
			form(t, newFleet(t, rig.replicas, plain.Endpoints()...).startAll(), newPutter(t, plain.Endpoints()))
		})
	}
}

// Issue "Waiting in line", 1: ten wait for one slot and are served in order.
func TestLine_TenAreServedInOrder(t *testing.T) {
	notInShort(t)
	runs := 5
	if long() {
		runs = 200
	}
	lineForms(t, func(t *testing.T, f *fleet, plain *putter) {
		if !long() {
			t.Parallel()
		}
		f.at[0].limit(fmt.Sprintf(lineLimit, 1))
		handed, released, puts := f.lineRuns(runs, 10, plain)
		t.Logf("%d of %d runs in order; from release to the next grant's answer, over HTTP: %s (the release's own answer %s); an etcd Put beside it: %s; p50 is %.1f Puts",
			runs, runs, spread(handed), spread(released), spread(puts), float64(middle(handed))/float64(middle(puts)))
		f.overtakesNobody()
	})
}

// spread is the p50 and p99 of some.
func spread(some []time.Duration) string {
	p50 := middle(some) // sorts
	return fmt.Sprintf("p50 %s, p99 %s", p50.Round(10*time.Microsecond), some[len(some)*99/100].Round(10*time.Microsecond))
}

// overtakesNobody checks the replicas' own count of grants that went before somebody who stood.
func (f *fleet) overtakesNobody() {
	f.t.Helper()
	for i, c := range f.at {
		if n := c.metric("holdfast_line_overtakes_total"); n != 0 {
			f.t.Errorf("replica %d counts %v overtakes, want 0", i, n)
		}
	}
}
