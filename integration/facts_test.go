package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-dev/holdfast/integration/etcdtest"
)

// The facts of etcd that Holdfast rests on, GUARANTEES.md section 5. Each is a test, so that an
// upgrade of etcd that changes one is noticed before it is shipped.

// facts is one embedded etcd and the client to ask it with.
type facts struct {
	*etcdtest.Server
	kv  *clientv3.Client
	ctx context.Context
}

func newFacts(t *testing.T, opts ...etcdtest.Option) *facts {
	t.Helper()
	s := etcdtest.Start(t, append([]etcdtest.Option{etcdtest.NoFsync()}, opts...)...)
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	t.Cleanup(cancel)
	return &facts{Server: s, kv: s.Client(), ctx: ctx}
}

func skipShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes more than 3 s")
	}
}

func (f *facts) grant(t *testing.T, ttl int64) clientv3.LeaseID {
	t.Helper()
	resp, err := f.kv.Grant(f.ctx, ttl)
	if err != nil {
		t.Fatalf("grant %d s: %v", ttl, err)
	}
	return resp.ID
}

// put puts key and returns the revision.
func (f *facts) put(t *testing.T, key string, opts ...clientv3.OpOption) int64 {
	t.Helper()
	resp, err := f.kv.Put(f.ctx, key, "v", opts...)
	if err != nil {
		t.Fatalf("put %s: %v", key, err)
	}
	return resp.Header.Revision
}

// createRevision is that of key, 0 when it is absent.
func (f *facts) createRevision(t *testing.T, key string) int64 {
	t.Helper()
	resp, err := f.kv.Get(f.ctx, key)
	if err != nil {
		t.Fatalf("get %s: %v", key, err)
	}
	if len(resp.Kvs) == 0 {
		return 0
	}
	return resp.Kvs[0].CreateRevision
}

func (f *facts) count(t *testing.T, prefix string) int64 {
	t.Helper()
	resp, err := f.kv.Get(f.ctx, prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		t.Fatalf("count %s: %v", prefix, err)
	}
	return resp.Count
}

func (f *facts) txn(t *testing.T, cmps []clientv3.Cmp, then ...clientv3.Op) *clientv3.TxnResponse {
	t.Helper()
	resp, err := f.kv.Txn(f.ctx).If(cmps...).Then(then...).Commit()
	if err != nil {
		t.Fatalf("txn: %v", err)
	}
	return resp
}

// deletes passes the delete events under prefix to each until it returns false.
func (f *facts) deletes(t *testing.T, prefix string, from int64, each func(key string, rev int64) bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	opts := []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithRev(from), clientv3.WithFilterPut()}
	for w := range f.kv.Watch(ctx, prefix, opts...) {
		for _, e := range w.Events {
			if !each(string(e.Kv.Key), e.Kv.ModRevision) {
				return
			}
		}
	}
	t.Fatalf("the deletes under %s did not come in time", prefix)
}

func created(key, op string, rev int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(key), op, rev)
}

func one(c clientv3.Cmp) []clientv3.Cmp { return []clientv3.Cmp{c} }

func TestFact_TTLIsRaisedToTwoSecondsAndBounded(t *testing.T) {
	t.Parallel()
	f := newFacts(t)
	for asked, want := range map[int64]int64{-5: 2, 0: 2, 1: 2, 2: 2, 3: 3, 9_000_000_000: 9_000_000_000} {
		resp, err := f.kv.Grant(f.ctx, asked)
		if err != nil || resp.TTL != want {
			t.Errorf("grant of TTL %d: got %+v, %v, want %d", asked, resp, err, want)
		}
	}
	if _, err := f.kv.Grant(f.ctx, 9_000_000_001); !errors.Is(err, rpctypes.ErrLeaseTTLTooLarge) {
		t.Errorf("grant of TTL 9,000,000,001: got %v, want %v", err, rpctypes.ErrLeaseTTLTooLarge)
	}
}

func TestFact_KeyIsDeletedNoEarlierThanTheTTL(t *testing.T) {
	t.Parallel()
	skipShort(t)
	f := newFacts(t)
	for _, ttl := range []int64{2, 3} {
		asked := time.Now()
		rev := f.put(t, "k", clientv3.WithLease(f.grant(t, ttl)))
		f.deletes(t, "k", rev, func(string, int64) bool { return false })
		lived := time.Since(asked)
		t.Logf("TTL %d s: deleted %v after its end", ttl, lived-time.Duration(ttl)*time.Second)
		if lived < time.Duration(ttl)*time.Second {
			t.Errorf("TTL %d s: deleted after %v", ttl, lived)
		}
	}
}

// One lease a hold would free 1,000 holds a second; a shared one frees all its keys at once.
func TestFact_LeasesEndAThousandASecondKeysOfOneTogether(t *testing.T) {
	t.Parallel()
	skipShort(t)
	f := newFacts(t)
	const leases, workers = 4000, 16
	shared := f.grant(t, 4)
	puts := make([]clientv3.Op, 1000)
	for i := range puts {
		puts[i] = clientv3.OpPut(fmt.Sprintf("of/one/%d", i), "", clientv3.WithLease(shared))
	}
	from := f.txn(t, nil, puts...).Header.Revision
	began := time.Now()
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := w; i < leases; i += workers {
				g, err := f.kv.Grant(f.ctx, 4)
				if err == nil {
					_, err = f.kv.Put(f.ctx, fmt.Sprintf("of/many/%d", i), "", clientv3.WithLease(g.ID))
				}
				if err != nil {
					t.Errorf("lease %d: %v", i, err)
					return
				}
			}
		})
	}
	all.Wait()
	granting := time.Since(began)

	revs := map[int64]bool{} // at which keys of the shared lease were deleted
	var first, last time.Time
	left := leases + len(puts)
	f.deletes(t, "of/", from, func(key string, rev int64) bool {
		if strings.HasPrefix(key, "of/one/") {
			revs[rev] = true
		} else if last = time.Now(); first.IsZero() {
			first = last
		}
		left--
		return left > 0
	})
	if len(revs) != 1 {
		t.Errorf("1,000 keys of one lease: deleted at %d revisions, want 1", len(revs))
	}
	spread := last.Sub(first)
	t.Logf("%d leases: granted within %v, ended within %v", leases, granting, spread)
	// etcd ends at most 500 in each scan of 500 ms, so the spread has a floor.
	if floor := leases / 1000 * time.Second / 2; spread < floor {
		t.Errorf("%d leases ended within %v, want the throttle's %v at least", leases, spread, floor)
	}
}

func TestFact_RestartStartsTheTTLAnew(t *testing.T) {
	t.Parallel()
	skipShort(t)
	f := newFacts(t)
	id := f.grant(t, 20)
	f.put(t, "k", clientv3.WithLease(id))
	timeLeft := func() int64 {
		resp, err := f.kv.TimeToLive(f.ctx, id)
		if err != nil {
			t.Fatalf("time to live: %v", err)
		}
		return resp.TTL
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for timeLeft() > 15 {
		<-tick.C
	}
	before, revision := timeLeft(), f.Revision(t)
	f.Restart(t)
	f.kv = f.Client()
	after := timeLeft()
	t.Logf("left of 20 s: %d s before, %d s after the restart", before, after)
	if after < before+3 {
		t.Errorf("left after the restart: got %d s, want about 20 s", after)
	}
	if got := f.Revision(t); got != revision {
		t.Errorf("revision after the restart: got %d, want %d", got, revision)
	}
}

func TestFact_KeyMovedToAnotherLeaseOutlivesTheFirst(t *testing.T) {
	t.Parallel()
	f := newFacts(t)
	first, second := f.grant(t, 60), f.grant(t, 60)
	f.put(t, "k", clientv3.WithLease(first))
	f.put(t, "k", clientv3.WithLease(second))
	if _, err := f.kv.Revoke(f.ctx, first); err != nil {
		t.Fatalf("revoke: %v", err)
	}
	if f.createRevision(t, "k") == 0 {
		t.Error("key moved to a second lease: gone with the first")
	}
	if _, err := f.kv.Revoke(f.ctx, second); err != nil {
		t.Fatalf("revoke: %v", err)
	}
	if f.createRevision(t, "k") != 0 {
		t.Error("key on the second lease: stands after that was revoked")
	}
}

func TestFact_PutOnADeadLeaseRefusesTheWholeTransaction(t *testing.T) {
	t.Parallel()
	f := newFacts(t)
	before := f.Revision(t)
	_, err := f.kv.Txn(f.ctx).Then(
		clientv3.OpPut("good", ""),
		clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpPut("bad", "", clientv3.WithLease(4711))}, nil),
	).Commit()
	if !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		t.Errorf("put on lease 4711: got %v, want %v", err, rpctypes.ErrLeaseNotFound)
	}
	if f.createRevision(t, "good") != 0 || f.Revision(t) != before {
		t.Errorf("the other put: applied, want nothing written")
	}
}

func TestFact_SameKeyPutTwiceIsRefused(t *testing.T) {
	t.Parallel()
	f := newFacts(t)
	nested := func(key string) clientv3.Op {
		return clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpPut(key, "")}, nil)
	}
	for name, ops := range map[string][]clientv3.Op{
		"side by side":        {clientv3.OpPut("k", "1"), clientv3.OpPut("k", "2")},
		"in two nested ones":  {nested("k"), nested("k")},
		"deleted and put":     {clientv3.OpDelete("k"), clientv3.OpPut("k", "2")},
		"range around a put":  {clientv3.OpDelete("a", clientv3.WithRange("z")), clientv3.OpPut("k", "2")},
		"outer and in nested": {clientv3.OpPut("k", "1"), nested("k")},
	} {
		if _, err := f.kv.Txn(f.ctx).Then(ops...).Commit(); !errors.Is(err, rpctypes.ErrDuplicateKey) {
			t.Errorf("%s: got %v, want %v", name, err, rpctypes.ErrDuplicateKey)
		}
	}
}

func TestFact_TransactionsAreBoundedInOperations(t *testing.T) {
	t.Parallel()
	puts := func(n int, prefix string) []clientv3.Op {
		ops := make([]clientv3.Op, n)
		for i := range ops {
			ops[i] = clientv3.OpPut(fmt.Sprintf("%s%d", prefix, i), "")
		}
		return ops
	}
	nest := func(n, width int) []clientv3.Op {
		ops := make([]clientv3.Op, n)
		for i := range ops {
			ops[i] = clientv3.OpTxn(nil, puts(width, fmt.Sprintf("n%d/", i)), nil)
		}
		return ops
	}
	f := newFacts(t, etcdtest.MaxTxnOps(128)) // etcd's default
	for _, c := range []struct {
		name    string
		ops     []clientv3.Op
		refused bool
	}{
		{"128 puts", puts(128, "a"), false},
		{"129 puts", puts(129, "a"), true},
		{"126 nested ones of 2 puts: 126 + 2", nest(126, 2), false},
		{"127 nested ones of 2 puts: 127 + 2", nest(127, 2), true},
	} {
		_, err := f.kv.Txn(f.ctx).Then(c.ops...).Commit()
		if got := errors.Is(err, rpctypes.ErrTooManyOps); got != c.refused || (err != nil) != c.refused {
			t.Errorf("%s: got %v, want refused %v", c.name, err, c.refused)
		}
	}
}

// An answer "no space" does not say that nothing happened.
func TestFact_SomeWritesRefusedForSpaceAreCommitted(t *testing.T) {
	t.Parallel()
	skipShort(t)
	const writers, rounds = 64, 3
	var refused, committed int64
	for range rounds {
		f := newFacts(t, etcdtest.Quota(4<<20))
		value := string(make([]byte, 16<<10))
		var mu sync.Mutex
		var keys []string
		var all sync.WaitGroup
		for w := range writers {
			all.Go(func() {
				for i, refusals := 0, 0; refusals < 4 && f.ctx.Err() == nil; i++ {
					key := fmt.Sprintf("k/%d/%d", w, i)
					if _, err := f.kv.Put(f.ctx, key, value); errors.Is(err, rpctypes.ErrNoSpace) {
						refusals++
						mu.Lock()
						keys = append(keys, key)
						mu.Unlock()
					} else if err != nil {
						t.Errorf("put %s: got %v, want nil or %v", key, err, rpctypes.ErrNoSpace)
						return
					}
				}
			})
		}
		all.Wait()
		for _, key := range keys {
			refused++
			if f.createRevision(t, key) != 0 {
				committed++
			}
		}
		f.Stop()
	}
	t.Logf("%d rounds of %d writers: %d answers \"no space\", %d of them committed", rounds, writers, refused, committed)
	if refused == 0 || committed == 0 || committed == refused {
		t.Errorf("answers \"no space\": %d committed of %d, want some but not all", committed, refused)
	}
}

func TestFact_UnderNoSpaceOnlyDeletesPass(t *testing.T) {
	t.Parallel()
	f := newFacts(t, etcdtest.Quota(2<<20))
	id := f.grant(t, 60)
	f.put(t, "slot/1", clientv3.WithLease(id))
	f.put(t, "slot/2", clientv3.WithLease(id))
	full := false
	for i := 0; !full && i < 1000; i++ {
		_, err := f.kv.Put(f.ctx, "filler", string(make([]byte, 256<<10)))
		full = errors.Is(err, rpctypes.ErrNoSpace)
	}
	if !full {
		t.Fatal("1,000 puts of 256 KiB into 2 MiB: the alarm was not raised")
	}
	if _, err := f.kv.Grant(f.ctx, 60); !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Errorf("grant: got %v, want %v", err, rpctypes.ErrNoSpace)
	}
	_, err := f.kv.Txn(f.ctx).Then(clientv3.OpDelete("slot/1"), clientv3.OpPut("ended", "")).Commit()
	if !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Errorf("delete and put: got %v, want %v", err, rpctypes.ErrNoSpace)
	}
	stands := one(created("slot/1", ">", 0))
	if resp := f.txn(t, stands, clientv3.OpDelete("slot/1")); !resp.Succeeded {
		t.Error("guarded delete: its compare failed")
	}
	if f.createRevision(t, "slot/1") != 0 {
		t.Error("guarded delete: the key stands")
	}
	if _, err := f.kv.KeepAliveOnce(f.ctx, id); err != nil {
		t.Errorf("keep-alive: got %v, want it to pass", err)
	}
	if _, err := f.kv.Revoke(f.ctx, id); err != nil {
		t.Errorf("revoke: got %v, want it to pass", err)
	}
}

// A deadline that has passed does not say that nothing happened.
func TestFact_SomeTimedOutTransactionsAreCommitted(t *testing.T) {
	t.Parallel()
	f := newFacts(t)
	const calls, rounds = 400, 10
	timedOut, committed := 0, 0
	// One round is enough on a quiet machine; on a busy one all may be late before they are sent.
	for round := 0; round < rounds && committed == 0; round++ {
		keys := make(chan string, calls)
		var all sync.WaitGroup
		for i := range calls {
			all.Go(func() {
				key := fmt.Sprintf("k/%d/%d", round, i)
				ctx, cancel := context.WithTimeout(f.ctx, time.Duration(200+i*3800/calls)*time.Microsecond)
				defer cancel()
				if _, err := f.kv.Txn(ctx).If(created(key, "=", 0)).Then(clientv3.OpPut(key, "")).Commit(); err != nil {
					keys <- key
				}
			})
		}
		all.Wait()
		close(keys)
		f.put(t, "last") // behind all that was proposed before
		for key := range keys {
			timedOut++
			if f.createRevision(t, key) != 0 {
				committed++
			}
		}
	}
	t.Logf("transactions with deadlines of 0.2 to 4 ms: %d timed out, %d of those committed", timedOut, committed)
	if committed == 0 || committed == timedOut {
		t.Errorf("timed out: %d committed of %d, want some but not all", committed, timedOut)
	}
}

// "No slot ≥ N" as one compare over a range.
func TestFact_RangeCompareHoldsForEveryKeyAndForNone(t *testing.T) {
	t.Parallel()
	f := newFacts(t)
	noneFrom := func(n string) []clientv3.Cmp {
		return one(created("slots/"+n, "=", 0).WithRange("slots0")) // '0' follows '/'
	}
	if !f.txn(t, noneFrom("2")).Succeeded {
		t.Error("no slot ≥ 2 over an empty range: got false, want true")
	}
	f.put(t, "slots/1")
	f.put(t, "slots/3")
	for n, want := range map[string]bool{"0": false, "2": false, "3": false, "4": true} {
		if got := f.txn(t, noneFrom(n)).Succeeded; got != want {
			t.Errorf("no slot ≥ %s with slots 1 and 3: got %v, want %v", n, got, want)
		}
	}
}

func TestFact_NestedTransactionsSucceedOneByOne(t *testing.T) {
	t.Parallel()
	f := newFacts(t)
	f.put(t, "taken")
	claim := func(key string) clientv3.Op {
		return clientv3.OpTxn(one(created(key, "=", 0)), []clientv3.Op{clientv3.OpPut(key, "")}, []clientv3.Op{clientv3.OpGet(key)})
	}
	resp := f.txn(t, nil, claim("taken"), claim("free"))
	loser, winner := resp.Responses[0].GetResponseTxn(), resp.Responses[1].GetResponseTxn()
	if loser.Succeeded || !winner.Succeeded {
		t.Errorf("claims of a taken and a free key: got %v and %v, want false and true", loser.Succeeded, winner.Succeeded)
	}
	if got := len(loser.Responses[0].GetResponseRange().Kvs); got != 1 {
		t.Errorf("the loser's Else: got %d keys, want the one it lost to", got)
	}
	if got := f.createRevision(t, "free"); got != resp.Header.Revision {
		t.Errorf("create revision of the free key: got %d, want the transaction's %d", got, resp.Header.Revision)
	}
}

// So two requests that touch one key must never sit in two nested transactions.
func TestFact_AllComparesAreEvaluatedBeforeAnyPut(t *testing.T) {
	t.Parallel()
	f := newFacts(t)
	f.txn(t, nil,
		clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpPut("a", "")}, nil),
		clientv3.OpTxn(one(created("a", "=", 0)), []clientv3.Op{clientv3.OpPut("saw-a-absent", "")}, nil))
	if f.createRevision(t, "a") == 0 || f.createRevision(t, "saw-a-absent") == 0 {
		t.Error("second nested transaction: saw the first one's put, want the state before both")
	}
}

func TestFact_RacersForSlotsGetEachOnce(t *testing.T) {
	t.Parallel()
	f := newFacts(t)
	const racers, slots = 200, 5
	var winners atomic.Int64
	var all sync.WaitGroup
	for range racers {
		all.Go(func() {
			for n := range slots {
				key := fmt.Sprintf("slots/%d", n)
				resp, err := f.kv.Txn(f.ctx).If(created(key, "=", 0)).Then(clientv3.OpPut(key, "")).Commit()
				if err != nil {
					t.Errorf("racer for %s: %v", key, err)
					return
				}
				if resp.Succeeded {
					winners.Add(1)
					return
				}
			}
		})
	}
	all.Wait()
	if got, keys := winners.Load(), f.count(t, "slots/"); got != slots || keys != slots {
		t.Errorf("%d racers for %d slots: got %d winners and %d keys", racers, slots, got, keys)
	}
}

// The create revision is the fence: kept by an extend, risen for the next holder.
func TestFact_CreateRevisionIsAFence(t *testing.T) {
	t.Parallel()
	f := newFacts(t)
	rev := f.put(t, "slot", clientv3.WithLease(f.grant(t, 60)))
	f.put(t, "slot", clientv3.WithLease(f.grant(t, 60)))
	if got := f.createRevision(t, "slot"); got != rev {
		t.Errorf("create revision after a re-put on another lease: got %d, want %d", got, rev)
	}
	last := rev
	for range 3 {
		f.txn(t, one(created("slot", "=", last)), clientv3.OpDelete("slot"))
		f.txn(t, one(created("slot", "=", 0)), clientv3.OpPut("slot", ""))
		got := f.createRevision(t, "slot")
		if got <= last {
			t.Fatalf("create revision for the next holder: got %d, want above %d", got, last)
		}
		last = got
	}
}
