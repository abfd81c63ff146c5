package etcdtest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/holdfast-dev/holdfast/integration/etcdtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func put(t *testing.T, kv clientv3.KV, key, val string) {
	t.Helper()
	if _, err := kv.Put(bounded(t), key, val); err != nil {
		t.Fatalf("put %s=%s: %v", key, val, err)
	}
}

func value(t *testing.T, kv clientv3.KV, key string) string {
	t.Helper()
	resp, err := kv.Get(bounded(t), key)
	if err != nil {
		t.Fatalf("get %s: %v", key, err)
	}
	if len(resp.Kvs) == 0 {
		return ""
	}
	return string(resp.Kvs[0].Value)
}

func TestStart_RestartKeepsDataAndRevision(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t, etcdtest.NoFsync(), etcdtest.LogToTest())
	put(t, s.Client(), "k", "v")
	before := s.Revision(t)
	s.Restart(t)
	if got := value(t, s.Client(), "k"); got != "v" {
		t.Errorf("k after restart: got %q, want %q", got, "v")
	}
	if got := s.Revision(t); got != before {
		t.Errorf("revision after restart: got %d, want %d", got, before)
	}
	if got := s.Endpoint(); got != "" {
		t.Errorf("client listener without Listen: got %q, want none", got)
	}
	s.Stop()
	if s.Client() != nil {
		t.Error("client of a stopped server: got one, want nil")
	}
}

func TestStart_ListenServesGRPC(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t, etcdtest.NoFsync(), etcdtest.Listen())
	put(t, s.Client(), "k", "v")
	if got := value(t, s.GRPC(t), "k"); got != "v" {
		t.Errorf("k over gRPC: got %q, want %q", got, "v")
	}
}

func TestThree_SurvivesALeaderAndTakesItBack(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts three members and an election")
	}
	c := etcdtest.Three(t, etcdtest.NoFsync())
	first := c.Leader(t)
	put(t, c.Member(first).Client(), "k", "1")
	c.Stop(first)
	second := c.Leader(t)
	if second == first {
		t.Fatalf("leader after stopping %d: got %d", first, second)
	}
	put(t, c.Member(second).Client(), "k", "2")
	c.Start(t, first)
	if got := value(t, c.Member(first).Client(), "k"); got != "2" {
		t.Errorf("k on the member that came back: got %q, want %q", got, "2")
	}
	c.MoveLeader(t, first)
	if got := c.Leader(t); got != first {
		t.Errorf("leader after moving it: got %d, want %d", got, first)
	}
	if got := value(t, c.GRPC(t), "k"); got != "2" {
		t.Errorf("k over gRPC: got %q, want %q", got, "2")
	}
	for i := range etcdtest.Members {
		c.Stop(i)
	}
	c.StartAll(t)
	if got := value(t, c.Member(0).Client(), "k"); got != "2" {
		t.Errorf("k after all members came back: got %q, want %q", got, "2")
	}
}

func TestFaultKV_EachFaultOnEachMethod(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t, etcdtest.NoFsync())
	writes := map[string]func(kv clientv3.KV, key string) error{
		"put": func(kv clientv3.KV, key string) error { _, err := kv.Put(bounded(t), key, "x"); return err },
		"do": func(kv clientv3.KV, key string) error {
			_, err := kv.Do(bounded(t), clientv3.OpPut(key, "x"))
			return err
		},
		"txn": func(kv clientv3.KV, key string) error {
			absent := clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
			_, err := kv.Txn(bounded(t)).If(absent).Then(clientv3.OpPut(key, "x")).Else(clientv3.OpGet(key)).Commit()
			return err
		},
	}
	faults := []struct {
		name           string
		fault          etcdtest.Fault
		err            error
		atOnce, atLast string // value of the key after the call, and after ReleaseLate
	}{
		{"none", etcdtest.None, nil, "x", "x"},
		{"before", etcdtest.Before, etcdtest.ErrBefore, "", ""},
		{"after", etcdtest.After, context.DeadlineExceeded, "x", "x"},
		{"late", etcdtest.Late, context.DeadlineExceeded, "", "x"},
	}
	for method, write := range writes {
		for _, c := range faults {
			t.Run(method+" "+c.name, func(t *testing.T) {
				key := method + "/" + c.name
				var asked []string
				kv := etcdtest.NewFaultKV(s.Client(), func(n int, op string) etcdtest.Fault {
					asked = append(asked, op)
					return c.fault
				})
				if err := write(kv, key); !errors.Is(err, c.err) {
					t.Fatalf("%s: got error %v, want %v", key, err, c.err)
				}
				if len(asked) != 1 || asked[0] != method {
					t.Errorf("%s: hook asked for %v, want [%s]", key, asked, method)
				}
				if got := value(t, s.Client(), key); got != c.atOnce {
					t.Errorf("%s at once: got %q, want %q", key, got, c.atOnce)
				}
				if err := kv.ReleaseLate(); err != nil {
					t.Errorf("%s: release: %v", key, err)
				}
				if got := value(t, s.Client(), key); got != c.atLast {
					t.Errorf("%s at last: got %q, want %q", key, got, c.atLast)
				}
			})
		}
	}
}

// The fault decides whether a write is committed, not the caller's own deadline.
func TestFaultKV_AfterCommitsForACallerWhoHungUp(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t, etcdtest.NoFsync())
	kv := etcdtest.NewFaultKV(s.Client(), func(int, string) etcdtest.Fault { return etcdtest.After })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := kv.Put(ctx, "k", "v"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("put: got %v, want %v", err, context.DeadlineExceeded)
	}
	if got := value(t, s.Client(), "k"); got != "v" {
		t.Errorf("k: got %q, want %q", got, "v")
	}
}

func TestCountingKV_CountsNestedOperations(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t, etcdtest.NoFsync())
	kv := etcdtest.NewCountingKV(s.Client())
	absent := func(k string) clientv3.Cmp { return clientv3.Compare(clientv3.CreateRevision(k), "=", 0) }
	inner := clientv3.OpTxn([]clientv3.Cmp{absent("a"), absent("b")},
		[]clientv3.Op{clientv3.OpPut("a", "1"), clientv3.OpDelete("b")}, []clientv3.Op{clientv3.OpGet("a")})
	if _, err := kv.Txn(bounded(t)).If(absent("c")).Then(inner, clientv3.OpPut("c", "1")).Commit(); err != nil {
		t.Fatalf("txn: %v", err)
	}
	put(t, kv, "d", "1")
	want := etcdtest.KVCalls{Put: 1, Txn: 1, InTxn: etcdtest.Ops{Compares: 3, Gets: 1, Puts: 2, Deletes: 1, Nested: 1}}
	if got := kv.Reset(); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
	if got := kv.Calls().All(); got != 0 {
		t.Errorf("after Reset: counted %d calls, want 0", got)
	}
	if got := value(t, s.Client(), "a"); got != "1" {
		t.Errorf("a: got %q, want %q: the transaction must pass unchanged", got, "1")
	}
}

func TestCountingLease_CountsAndPasses(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t, etcdtest.NoFsync())
	l := etcdtest.NewCountingLease(s.Client())
	g, err := l.Grant(bounded(t), 7)
	if err != nil {
		t.Fatalf("grant: %v", err)
	}
	if _, err := l.KeepAliveOnce(bounded(t), g.ID); err != nil {
		t.Fatalf("keep alive: %v", err)
	}
	if _, err := l.Revoke(bounded(t), g.ID); err != nil {
		t.Fatalf("revoke: %v", err)
	}
	want := etcdtest.LeaseCalls{Grant: 1, KeepAliveOnce: 1, Revoke: 1}
	if got := l.Calls(); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
	if got := l.TTLs(); len(got) != 1 || got[0] != 7 {
		t.Errorf("TTLs: got %v, want [7]", got)
	}
}
