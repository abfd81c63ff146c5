//go:build unix

package integration

import (
	"flag"
	"math/rand/v2"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/integration/etcdtest"
)

// faults says how long the rows of FAULTS section 2 are run: short is each once, full is each
// with faultSeeds seeds.
var (
	faults     = flag.String("faults", "short", "rows of the fault matrix: short (each once) or full (each with 20 seeds, resumed)")
	faultsSeed = flag.Uint64("faults-seed", 1, "short: the order of the faults, and what is random in them")
)

// fault is one row, or a part of one. It spoils something, and mends it.
type fault struct {
	row, name string
	run       func(r *faultRig, rnd *rand.Rand)
}

var faultRows = []fault{
	{"2, 30", "a replica is killed and started again", func(r *faultRig, rnd *rand.Rand) {
		i := rnd.IntN(2)
		r.at(i).s.kill()
		r.launch(i)
	}},
	{"3, 26", "a replica is stopped past every hold, and goes on", func(r *faultRig, rnd *rand.Rand) {
		s := r.at(rnd.IntN(2)).s
		r.t.Cleanup(func() { _ = s.signal(syscall.SIGCONT) })
		if err := s.signal(syscall.SIGSTOP); err != nil {
			r.t.Fatal(err)
		}
		until(r.t, time.Now().Add(faultTTL+time.Second))
		if err := s.signal(syscall.SIGCONT); err != nil {
			r.t.Fatal(err)
		}
	}},
	{"9", "the leader is stopped", func(r *faultRig, _ *rand.Rand) {
		i := r.cluster.Leader(r.t)
		r.cluster.Stop(i)
		r.goesOn("without the leader")
		r.cluster.Start(r.t, i)
	}},
	{"12", "a member is cut from the replicas", func(r *faultRig, rnd *rand.Rand) {
		p := r.proxies[rnd.IntN(etcdtest.Members)]
		p.Set(etcdtest.Cut)
		r.goesOn("with a member cut")
		p.Set(etcdtest.Through)
	}},
	{"12", "a member hangs: connections stand, and nothing passes", func(r *faultRig, rnd *rand.Rand) {
		p := r.proxies[rnd.IntN(etcdtest.Members)]
		p.Set(etcdtest.HalfOpen)
		until(r.t, time.Now().Add(3*time.Second))
		p.Set(etcdtest.Through)
	}},
	{"30", "what a member answers is lost", func(r *faultRig, rnd *rand.Rand) {
		for range 3 {
			p := r.proxies[rnd.IntN(etcdtest.Members)]
			p.Set(etcdtest.NoAnswers)
			until(r.t, time.Now().Add(time.Second))
			p.Set(etcdtest.Through)
		}
	}},
	{"18", "the network to every member is slow", func(r *faultRig, _ *rand.Rand) {
		for _, p := range r.proxies {
			p.Set(etcdtest.Slow)
		}
		until(r.t, time.Now().Add(2*time.Second))
		for _, p := range r.proxies {
			p.Set(etcdtest.Through)
		}
	}},
	{"13", "the majority is lost past every hold", func(r *faultRig, _ *rand.Rand) {
		kept := read[api.Reservation](r.t, eventually(r.t, r.at(0), http.MethodPost, "/v1/reservations",
			`{"subject":{"kind":"user","id":"kept"},"action":"fault","ttlSeconds":3600}`, http.StatusCreated), http.StatusCreated)
		lead := r.cluster.Leader(r.t)
		r.cluster.Stop(lead)
		r.cluster.Stop((lead + 1) % etcdtest.Members)
		for i := range r.replicas {
			eventually(r.t, r.at(i), http.MethodGet, "/readyz", "", http.StatusServiceUnavailable)
		}
		before := r.granted.Load()
		until(r.t, time.Now().Add(faultTTL))
		if n := r.granted.Load(); n != before {
			r.t.Errorf("%d grants without a majority", n-before)
		}
		r.cluster.StartAll(r.t)
		eventually(r.t, r.at(0), http.MethodPost, "/v1/reservations/"+kept.ID+"/release", "", http.StatusOK)
	}},
	{"14", "every member is down", func(r *faultRig, _ *rand.Rand) {
		for i := range etcdtest.Members {
			r.cluster.Stop(i)
		}
		for i := range r.replicas {
			eventually(r.t, r.at(i), http.MethodGet, "/readyz", "", http.StatusServiceUnavailable)
			eventually(r.t, r.at(i), http.MethodGet, "/livez", "", http.StatusOK)
		}
		r.cluster.StartAll(r.t)
	}},
}

// FAULTS section 2, rows 2, 3, 9, 12, 13, 14, 18, 26 and 30, under load, one after the other.
func TestFaults_NeverMoreThanTheAmountAndNothingLost(t *testing.T) {
	notInShort(t)
	t.Parallel()
	if *faults == "full" {
		fullFaults(t)
		return
	}
	oneOfFaults(t, *faultsSeed, &faultRun{})
}

// oneOfFaults runs every row once, in the order of the seed.
func oneOfFaults(t *testing.T, seed uint64, run *faultRun) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 55))
	r := newFaultRig(t)
	r.work()
	r.goesOn("before any fault")
	for _, i := range rnd.Perm(len(faultRows)) {
		r.chapter.Add(1)
		faultRows[i].run(r, rnd)
		r.goesOn(faultRows[i].row + ": " + faultRows[i].name)
		if t.Failed() {
			t.Fatalf("the seed was %d", seed)
		}
	}
	r.stop(run)
}
