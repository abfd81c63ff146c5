package main

import (
	"log/slog"
	"strconv"
	"testing"

	"github.com/holdfast-dev/holdfast/integration/etcdtest"
	"github.com/holdfast-dev/holdfast/store"
)

// FAULTS 1.2, DESIGN.md section 9: 3.7.1, 3.6.14 and 3.5.33 are the least.
func TestFloors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		version string
		ok      bool
	}{
		{"3.7.1", true},
		{"3.7.3", true},
		{"3.7.10", true},
		{"3.7.0", false},
		{"3.6.14", true},
		{"3.6.13", false},
		{"3.6.9", false},
		{"3.5.33", true},
		{"3.5.32", false},
		{"3.5.4", false},
		{"3.8.0", true},
		{"4.0.0", true},
		{"3.4.99", false},
		{"2.3.8", false},
		{"3.7.1-rc.0", true},
		{"", false},
		{"three", false},
	} {
		if err := aboveFloor(c.version); (err == nil) != c.ok {
			t.Errorf("etcd %q: got %v, want ok %t", c.version, err, c.ok)
		}
	}
}

func TestExternal_AsksForTheVersion(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t, etcdtest.Listen(), etcdtest.NoFsync())
	c := &serverConfig{EtcdEndpoints: []string{"http://127.0.0.1:1", s.Endpoint()}}
	client, lines, err := dialEtcd(t.Context(), c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatalf("one of two endpoints answers: got %v, want a client", err)
	}
	_ = client.Close()
	lines.close()

	c.EtcdEndpoints = c.EtcdEndpoints[:1]
	if _, _, err := dialEtcd(t.Context(), c, slog.New(slog.DiscardHandler)); exitOf(t.Context(), err) != exitUnavailable {
		t.Errorf("no endpoint answers: got %v, want exit %d", err, exitUnavailable)
	}
}

// How many operations an etcd takes is found out, not taken on trust.
func TestExternal_FindsOutHowManyOperationsATransactionTakes(t *testing.T) {
	t.Parallel()
	for set, want := range map[uint]int{128: 128, 1000: 512, 5000: store.EmbeddedMaxOps, 100: 64, 20: 0} {
		t.Run(strconv.Itoa(int(set)), func(t *testing.T) {
			t.Parallel()
			s := etcdtest.Start(t, etcdtest.Listen(), etcdtest.NoFsync(), etcdtest.MaxTxnOps(set))
			client, lines, err := dialEtcd(t.Context(), &serverConfig{EtcdEndpoints: []string{s.Endpoint()}}, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			defer lines.close()
			defer func() { _ = client.Close() }()
			got, err := takesOps(t.Context(), client, slog.New(slog.DiscardHandler))
			if got != want || (err == nil) != (want > 0) {
				t.Errorf("--max-txn-ops %d: got %d, %v, want %d", set, got, err, want)
			}
		})
	}
}
