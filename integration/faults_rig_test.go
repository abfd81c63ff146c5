//go:build unix

package integration

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/integration/etcdtest"
)

// The rig of FAULTS section 2: three members of etcd in this process, each behind a network that
// can be spoilt, two replicas as processes, and workers that note all they were told.

const (
	faultTTL     = 5 * time.Second
	faultAmount  = 2
	faultWorkers = 8
	faultTry     = 8 * time.Second  // a worker gives one call
	faultDecide  = 20 * time.Second // after the last fault everything is decided within this
	faultFree    = 3 * time.Second  // and a slot is free so long after its TTL
)

type faultRig struct {
	t        *testing.T
	cluster  *etcdtest.Cluster
	proxies  [etcdtest.Members]*etcdtest.Proxy
	fleet    *fleet
	replicas [2]atomic.Pointer[caller]

	story
}

func newFaultRig(t *testing.T) *faultRig {
	t.Helper()
	r := &faultRig{t: t}
	r.cluster = etcdtest.Three(t, etcdtest.NoFsync(), etcdtest.MaxTxnOps(128))
	r.begin(t, r.cluster)
	var endpoints []string
	for i := range r.proxies {
		r.proxies[i] = etcdtest.NewProxy(t, func() string { return r.cluster.Member(i).Endpoint() })
		endpoints = append(endpoints, r.proxies[i].Addr())
	}
	r.fleet = newFleet(t, len(r.replicas), endpoints...)
	for i := range r.replicas {
		r.launch(i)
	}
	r.at(0).limit(fmt.Sprintf(`{"id":"faults","name":"Faults","subjectKind":"user","action":"fault","amount":%d,"window":"concurrent"}`, faultAmount))
	return r
}

// launch starts replica i and waits until it serves.
func (r *faultRig) launch(i int) {
	r.t.Helper()
	r.replicas[i].Store(r.fleet.launch(i))
}

func (r *faultRig) at(i int) *caller { return r.replicas[i%2].Load() }

// goesOn waits until both replicas are ready and grants are made again.
func (r *faultRig) goesOn(what string) {
	r.t.Helper()
	before, began := r.granted.Load(), time.Now()
	for i := range r.replicas {
		eventually(r.t, r.at(i), http.MethodGet, "/readyz", "", http.StatusOK)
	}
	for r.granted.Load() < before+faultWorkers {
		if time.Since(began) > generous {
			r.t.Fatalf("%s: %d grants within %s afterwards", what, r.granted.Load()-before, generous)
		}
		until(r.t, time.Now().Add(20*time.Millisecond))
	}
	r.t.Logf("%s: ready and %d grants %s later", what, r.granted.Load()-before, time.Since(began).Round(time.Millisecond))
}
