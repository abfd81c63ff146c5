//go:build unix

package integration

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/integration/etcdtest"
	"github.com/holdfast-dev/holdfast/lease"
)

// Issue "Waiting in line", 3: callers hang up, a replica dies or sleeps, etcd's leader goes, all
// while a line stands. No place is lost but the dead's, no grant lost or doubled.

// lineFaults is a line at three replicas on three members, with a hold before it.
type lineFaults struct {
	*fleet
	cluster *etcdtest.Cluster
	out     chan served
	leave   []context.CancelFunc
	held    api.Reservation
	granted int // to those who waited
}

const inFaultyLine = 12

func newLineFaults(t *testing.T) *lineFaults {
	t.Helper()
	notInShort(t)
	t.Parallel()
	cluster := etcdtest.Three(t, etcdtest.NoFsync(), etcdtest.MaxTxnOps(128))
	f := &lineFaults{
		fleet: newFleet(t, 3, cluster.GRPC(t).Endpoints()...).startAll(), cluster: cluster,
		out: make(chan served, inFaultyLine), leave: make([]context.CancelFunc, inFaultyLine),
	}
	f.at[0].limit(fmt.Sprintf(lineLimit, 1))
	f.held = read[api.Reservation](t, f.at[0].post("/v1/reservations", fmt.Sprintf(lineBody, "u", 0)), http.StatusCreated)
	for n := range f.leave {
		ctx, leave := context.WithCancel(t.Context())
		t.Cleanup(leave)
		f.leave[n] = leave
		joins(ctx, f.at[n%3], "u", n, f.out)
		f.stand(n%2, n+1)
	}
	return f
}

// loseLeader stops the member that leads; the test goes on without it.
func (f *lineFaults) loseLeader(t *testing.T) {
	t.Helper()
	was := f.cluster.Leader(t)
	f.cluster.Stop(was)
	t.Logf("member %d led and is gone, member %d leads", was, f.cluster.Leader(t))
}

// handOn gives the slot back, as often as it takes, and says who has it next.
func (f *lineFaults) handOn(t *testing.T) int {
	t.Helper()
	eventually(t, f.at[0], http.MethodPost, "/v1/reservations/"+f.held.ID+"/release", "", http.StatusOK)
	for {
		next := <-f.out
		if next.err != nil || next.got.status == http.StatusServiceUnavailable {
			continue // one that left, or was at the replica that died
		}
		f.held = read[api.Reservation](t, next.got, http.StatusCreated)
		f.granted++
		return next.n
	}
}

// judge hands the slot through those who still stand, in the order of want, and looks at every
// revision of the store.
func (f *lineFaults) judge(t *testing.T, want []int) {
	t.Helper()
	var got []int
	for range want {
		got = append(got, f.handOn(t))
	}
	if !slices.Equal(got, want) {
		t.Errorf("served in the order %v, want %v", got, want)
	}
	eventually(t, f.at[0], http.MethodPost, "/v1/reservations/"+f.held.ID+"/release", "", http.StatusOK)
	f.stand(0, 0)
	seen := replayStore(t, f.cluster.GRPC(t))
	if seen.Grants != f.granted+1 || seen.Ends != seen.Grants || seen.Most != 1 {
		t.Errorf("the store tells of %d grants and %d ends, %d at once; want %d, as many, 1", seen.Grants, seen.Ends, seen.Most, f.granted+1)
	}
}

func without(dropped func(n int) bool) (rest []int) {
	for n := range inFaultyLine {
		if !dropped(n) {
			rest = append(rest, n)
		}
	}
	return rest
}

func TestLine_AReplicaDiesAndTheLeaderGoes(t *testing.T) {
	f := newLineFaults(t)
	f.leave[3]()
	f.at[2].s.kill() // 2, 5, 8 and 11 waited there
	died := time.Now()
	f.loseLeader(t)
	first := f.handOn(t)
	f.at = f.at[:2]
	f.stand(1, inFaultyLine-1-4-1)
	t.Logf("the dead one's places had gone %s after it died", time.Since(died).Round(100*time.Millisecond))
	if first != 0 {
		t.Errorf("number %d was served first, want 0", first)
	}
	f.judge(t, without(func(n int) bool { return n == 0 || n == 3 || n%3 == 2 })) // and the first is served
	f.overtakesNobody()
}

// A replica that sleeps longer than its session lasts loses its places, and those who wait there
// join again at the end.
func TestLine_AReplicaSleeps(t *testing.T) {
	if !long() {
		t.Skip("sleeps longer than a session lasts")
	}
	f := newLineFaults(t)
	if err := f.at[2].s.signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	f.stand(0, inFaultyLine-4)
	until(t, time.Now().Add(lease.SessionTTL/4))
	f.loseLeader(t)
	if err := f.at[2].s.signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	f.stand(0, inFaultyLine)
	awake := without(func(n int) bool { return n%3 == 2 })
	var got []int
	for range awake {
		got = append(got, f.handOn(t))
	}
	if !slices.Equal(got, awake) {
		t.Errorf("served in the order %v, want %v and then those of the replica that slept", got, awake)
	}
	slept := []int{f.handOn(t), f.handOn(t), f.handOn(t), f.handOn(t)}
	if slices.Sort(slept); !slices.Equal(slept, []int{2, 5, 8, 11}) {
		t.Errorf("then %v were served, want those of the replica that slept", slept)
	}
	f.judge(t, nil)
	f.overtakesNobody()
}
