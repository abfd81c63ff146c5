//go:build unix

package integration

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/integration/etcdtest"
	"github.com/holdfast-dev/holdfast/integration/judge"
)

// story is what the workers of a rig asked for and were told, and what the store's log says.
type story struct {
	zero             time.Time
	log              *judge.Log
	granted, unknown atomic.Int64
	chapter          atomic.Int64 // subjects are new in each: histories stay short enough to be judged
	closing          chan struct{}
	ctx              context.Context // of the workers' calls
	cancel           context.CancelFunc
	done             sync.WaitGroup
	late             atomic.Int64 // how late a timer of this process was at most, since it was last set to 0

	mu   sync.Mutex
	ops  []judge.Op
	told []judge.Promise
}

// begin follows the log over addresses that nothing spoils.
func (s *story) begin(t *testing.T, cluster *etcdtest.Cluster) {
	t.Helper()
	s.zero, s.closing = time.Now(), make(chan struct{})
	s.ctx, s.cancel = context.WithCancel(context.Background())
	var endpoints []string
	for i := range etcdtest.Members {
		endpoints = append(endpoints, etcdtest.NewProxy(t, func() string { return cluster.Member(i).Endpoint() }).Addr())
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, DialKeepAliveTime: 2 * time.Second, DialKeepAliveTimeout: 2 * time.Second, Logger: zap.NewNop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.log = judge.Follow(client, ourKeys, s.zero)
	var clock sync.WaitGroup
	clock.Go(s.watchClock)
	t.Cleanup(func() { s.cancel(); s.done.Wait(); s.log.Stop(); clock.Wait(); _ = client.Close() })
}

// watchClock measures how late this process is itself: what it sees late it must not blame on
// others.
func (s *story) watchClock() {
	const tick = 20 * time.Millisecond
	for {
		began := time.Now()
		if pause(s.ctx, tick) != nil {
			return
		}
		if late := int64(time.Since(began) - tick); late > s.late.Load() {
			s.late.Store(late)
		}
	}
}

func (s *story) now() time.Duration { return time.Since(s.zero) }

// work starts the workers.
func (r *faultRig) work() {
	for n := range faultWorkers {
		r.done.Go(func() {
			for turn := 0; ; turn++ {
				select {
				case <-r.closing:
					return
				default:
					r.hold(n, turn)
				}
			}
		})
	}
}

// call asks one replica after the other, under the same key, until the answer is one that
// decides. It notes the act.
func (r *faultRig) call(op judge.Op, path, body string, want int, headers ...string) (reply, judge.Told) {
	op.Call, op.Told = r.now(), judge.Unknown
	var got reply
	for try := op.Client + len(path); op.Told == judge.Unknown && r.ctx.Err() == nil; try++ {
		ctx, cancel := context.WithTimeout(r.ctx, faultTry)
		var err error
		got, err = r.at(try).try(ctx, http.MethodPost, path, body, headers...)
		cancel()
		switch {
		case err != nil, got.status == http.StatusServiceUnavailable, got.status == http.StatusConflict:
			r.unknown.Add(1)
			_ = pause(r.ctx, 50*time.Millisecond)
		case got.status == want:
			op.Told = judge.Done
		case got.status == http.StatusTooManyRequests:
			op.Told = judge.Refused
		case got.status == http.StatusGone:
			op.Told = judge.Gone
		default:
			r.t.Errorf("%s, want %d, 410 or 429", got, want)
			r.cancel()
		}
	}
	op.Return = r.now()
	if op.Act == judge.Reserve && op.Told == judge.Done {
		if hold, err := decoded[api.Reservation](got); err == nil && len(hold.Slots) == 1 {
			op.Slot, op.Fence = hold.Slots[0].Slot, hold.Fence
		} else {
			r.t.Errorf("%s: %v", got, err)
		}
	}
	r.mu.Lock()
	r.ops = append(r.ops, op)
	r.mu.Unlock()
	return got, op.Told
}

// hold reserves, extends once, and gives back or abandons.
func (r *faultRig) hold(n, turn int) {
	user := fmt.Sprintf("f%d-%d", n%3, r.chapter.Load())
	op := judge.Op{Client: n, Place: "faults/user/" + user, Act: judge.Reserve}
	p := judge.Promise{Place: op.Place, Call: r.now()}
	got, told := r.call(op, "/v1/reservations", fmt.Sprintf(`{"subject":{"kind":"user","id":%q},"action":"fault","ttlSeconds":%d}`, user, faultTTL/time.Second),
		http.StatusCreated, "Idempotency-Key", fmt.Sprintf("w%d-%d", n, turn))
	if told != judge.Done {
		_ = pause(r.ctx, 50*time.Millisecond)
		return
	}
	hold, err := decoded[api.Reservation](got)
	if err != nil || len(hold.Slots) != 1 {
		return // call has said so
	}
	p.Slot, p.Fence, p.Until = hold.Slots[0].Slot, hold.Fence, p.Call+faultTTL
	op.Slot, op.Fence = p.Slot, p.Fence
	r.granted.Add(1)
	_ = pause(r.ctx, 100*time.Millisecond)
	sent := r.now()
	op.Act = judge.Extend
	if _, told := r.call(op, "/v1/reservations/"+hold.ID+"/extend", "", http.StatusOK); told == judge.Done {
		p.Until = sent + faultTTL
	}
	if turn%3 != 0 {
		verb := []string{"release", "commit"}[turn%2]
		op.Act = map[string]judge.Act{"release": judge.Release, "commit": judge.Commit}[verb]
		_, told := r.call(op, "/v1/reservations/"+hold.ID+"/"+verb, "", http.StatusOK)
		p.Settled, p.Unsure = told == judge.Done, told == judge.Unknown
	}
	r.mu.Lock()
	r.told = append(r.told, p)
	r.mu.Unlock()
}

// stop begins the time without faults, lets the workers end what they have in hand, waits until
// what they abandoned has come free, and judges.
func (r *faultRig) stop(run *faultRun) {
	r.t.Helper()
	r.late.Store(0)
	calm := judge.Calm{Since: r.now(), Decide: faultDecide, TTL: faultTTL, Free: faultFree}
	close(r.closing)
	decided := make(chan struct{})
	go func() { r.done.Wait(); close(decided) }()
	select {
	case <-decided:
	case <-time.After(generous):
		r.t.Errorf("there are calls without a decision %s after the last fault", generous)
	}
	for r.now() < calm.Since+calm.TTL+calm.Free || len(every[api.Reservation](r.at(0), "/v1/reservations?pageSize=500&action=fault")) > 0 {
		if r.now() > calm.Since+generous {
			r.t.Fatalf("there are holds %s after the last call", generous)
		}
		until(r.t, time.Now().Add(50*time.Millisecond))
	}
	calm.Until = r.now()
	ctx, cancel := context.WithTimeout(r.t.Context(), generous)
	defer cancel()
	seen, err := r.log.Finish(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	calm.Slack = time.Duration(r.late.Load())
	run.Revisions, run.Grants, run.Repeated = seen.Revisions, seen.Grants, r.unknown.Load()
	run.Acts = r.judge(seen, calm)
	for i := range r.replicas {
		r.at(i).noDrift()
	}
}

// judge asks all checkers, and says how many acts were put in order.
func (r *faultRig) judge(seen judge.Seen, calm judge.Calm) (acts int) {
	r.t.Helper()
	ends, faults := judge.Ends(seen, r.told)
	faults = append(append(faults, seen.Faults...), calm.Judge(r.ops, seen.Lives)...)
	for _, f := range faults {
		r.t.Error(f)
	}
	history := make([]judge.Op, 0, len(r.ops)+len(ends))
	for _, op := range append(r.ops, ends...) {
		lost := op.Act == judge.Reserve && op.Told == judge.Unknown // the log says what became of it
		if strings.HasPrefix(op.Place, "faults/") && !lost {
			history = append(history, op)
		}
	}
	v := judge.History(history, faultAmount)
	if !v.OK() {
		file := filepath.Join(r.t.ArtifactDir(), "history.json")
		r.t.Errorf("%s, kept in %s (%v):\n%s", v, file, judge.Keep(file, history), strings.Join(append(v.Illegal, v.Undecided...), "\n"))
	}
	if seen.Grants != seen.Ends {
		r.t.Errorf("%d grants, %d ends: a slot leaked", seen.Grants, seen.Ends)
	}
	if seen.Most < faultAmount || r.unknown.Load() == 0 {
		r.t.Errorf("at most %d held at once, %d calls without a decision: too tame to show anything", seen.Most, r.unknown.Load())
	}
	r.t.Logf("%d revisions, %d grants (%d told), at most %d at once; %d calls had no decision and were repeated; history: %s; free again %s after the last fault (this process itself was %s late at most)",
		seen.Revisions, seen.Grants, len(r.told), seen.Most, r.unknown.Load(), v, (calm.Until - calm.Since).Round(time.Millisecond), calm.Slack.Round(time.Millisecond))
	return v.Ops
}
