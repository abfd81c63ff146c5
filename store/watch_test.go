package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-dev/holdfast/integration/etcdtest"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/store"
)

// toldWithin is how long a test waits for what must come.
const toldWithin = 20 * time.Second

// listener is one Follow.
type listener struct {
	t       *testing.T
	updates chan reserve.Update
	resets  int
	cancel  context.CancelFunc
	ended   chan error
}

func follow(t *testing.T, s *store.Store) *listener {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &listener{t: t, updates: make(chan reserve.Update), cancel: cancel, ended: make(chan error, 1)}
	go func() {
		l.ended <- s.Follow(ctx, func(u reserve.Update) {
			select {
			case l.updates <- u:
			case <-ctx.Done():
			}
		})
	}()
	t.Cleanup(l.stop)
	return l
}

// stop ends the Follow and awaits it.
func (l *listener) stop() {
	l.cancel()
	select {
	case err := <-l.ended:
		l.ended <- err
		if !errors.Is(err, context.Canceled) {
			l.t.Errorf("Follow returned %v, want the end of its context", err)
		}
	case <-time.After(toldWithin):
		l.t.Errorf("Follow still runs %v after its context ended", toldWithin)
	}
}

// until takes updates up to the first for which enough holds.
func (l *listener) until(what string, enough func(reserve.Update) bool) reserve.Update {
	l.t.Helper()
	deadline := time.NewTimer(toldWithin)
	defer deadline.Stop()
	for {
		select {
		case u := <-l.updates:
			if u.Reset {
				l.resets++
			}
			if enough(u) {
				return u
			}
		case <-deadline.C:
			l.t.Fatalf("%v have passed without %s", toldWithin, what)
		}
	}
}

func (l *listener) reset() reserve.Update {
	l.t.Helper()
	return l.until("a Reset", func(u reserve.Update) bool { return u.Reset })
}

func (l *listener) rev(rev int64) reserve.Update {
	l.t.Helper()
	return l.until(fmt.Sprintf("revision %d", rev), func(u reserve.Update) bool { return u.Rev >= rev })
}

// Revisions made by others are told of as soon as somebody has read the store at them: a
// refusal waits for the watch to reach its read.
func TestFollow_KeepsUpWithRevisionsOfOthers(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.NoFsync(), etcdtest.Listen())
	for name, c := range map[string]*clientv3.Client{"in process": server.Client(), "over gRPC": server.GRPC(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t, c, c, store.Config{})
			l := follow(t, s)
			l.reset()
			check := reserve.Group{Catalog: reserve.AnyCatalog, Guards: []reserve.Guard{{Ref: slotRef(0), Cond: reserve.CreateIs}}}
			for i := range 20 {
				if _, err := c.Put(t.Context(), "/elsewhere/"+name, "x"); err != nil {
					t.Fatal(err)
				}
				var rev int64
				if i%2 == 0 {
					rev = apply(t, s, batch(check)).Rev
				} else {
					loaded, err := s.Load(t.Context(), nil, true)
					if err != nil {
						t.Fatal(err)
					}
					rev = loaded.Rev
				}
				if u := l.rev(rev); len(u.Entries)+len(u.Deleted) > 0 || u.Reset {
					t.Errorf("told of %+v, want nothing but the revision", u)
				}
			}
			if l.resets != 1 {
				t.Errorf("got %d Resets, want 1", l.resets)
			}
		})
	}
}

// Also of one that was read while the Reset was on its way.
func TestFollow_KeepsUpWithWhatWasReadDuringTheReset(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.NoFsync())
	c := server.Client()
	s := newStore(t, c, c, store.Config{})
	var once sync.Once
	read := make(chan int64, 1)
	told := make(chan int64, 100)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- s.Follow(ctx, func(u reserve.Update) {
			once.Do(func() {
				if _, err := c.Put(ctx, "/elsewhere", "x"); err != nil {
					t.Error(err)
				}
				loaded, err := s.Load(ctx, nil, true)
				if err != nil || loaded.Rev <= u.Rev {
					t.Errorf("Load during the Reset at %d: got %d, %v", u.Rev, loaded.Rev, err)
				}
				read <- loaded.Rev
			})
			told <- u.Rev
		})
	}()
	want := <-read
	start := time.Now()
	for rev := range told {
		if rev >= want {
			break
		}
	}
	if took := time.Since(start); took > 5*time.Second { // it looks for news by itself each 10 s
		t.Errorf("told of revision %d after %v", want, took)
	}
	cancel()
	<-ended
}

func TestFollow_LeavesForeignKeysAlone(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.NoFsync())
	c, root := server.Client(), newRoot()
	s := newStore(t, c, c, store.Config{Root: root})
	foreign := []string{"t/default/elsewhere/exports/user/u", "t/default/limits/a/b", "schema", "t/default/slots/exports/user/u/01"}
	write := func() int64 {
		var rev int64
		for _, key := range foreign {
			put, err := c.Put(t.Context(), root+key, "not ours")
			if err != nil {
				t.Fatal(err)
			}
			rev = put.Header.Revision
		}
		return rev
	}
	write()
	at := apply(t, s, batch(put(slotRef(0), slot("x")))).Rev
	l := follow(t, s)
	if u := l.reset(); u.Rev < at || len(u.Entries) != 1 || u.Entries[0].Ref != slotRef(0) {
		t.Errorf("Reset: got %+v, want the one slot", u)
	}
	last := write()
	l.until("the last foreign key", func(u reserve.Update) bool {
		if len(u.Entries)+len(u.Deleted) > 0 {
			t.Errorf("told of %+v, want no changes", u)
		}
		return u.Rev == last
	})
}

// oldWatcher begins the first watch far in the past.
type oldWatcher struct {
	clientv3.Watcher
	once sync.Once
	rev  int64
}

func (w *oldWatcher) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	w.once.Do(func() { opts = append(opts, clientv3.WithRev(w.rev)) })
	return w.Watcher.Watch(ctx, key, opts...)
}

// What etcd says when history has gone makes the watch begin anew; FAULTS section 1.2.
func TestFollow_StartsOverAfterCompaction(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.NoFsync(), etcdtest.Listen())
	for name, c := range map[string]*clientv3.Client{"in process": server.Client(), "over gRPC": server.GRPC(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			metrics := prometheus.NewPedanticRegistry()
			s := newStore(t, c, &oldWatcher{Watcher: c, rev: 1}, store.Config{Metrics: metrics})
			at := apply(t, s, batch(put(slotRef(0), slot("x")))).Rev
			if _, err := c.Compact(t.Context(), at); err != nil {
				t.Fatal(err)
			}
			l := follow(t, s)
			l.reset()
			if u := l.reset(); len(u.Entries) != 1 || u.Entries[0].Mod != at {
				t.Errorf("the second Reset: got %+v, want the slot of revision %d", u, at)
			}
			now := apply(t, s, batch(put(slotRef(0), nil))).Rev
			if u := l.rev(now); len(u.Deleted) != 1 || u.Deleted[0] != (reserve.Deleted{Ref: slotRef(0), Rev: now}) {
				t.Errorf("then: got %+v, want the deletion at %d", u, now)
			}
			if got := counted(t, metrics, "holdfast_store_watch_resets_total"); got != "2" {
				t.Errorf("counted Resets: got %q, want 2", got)
			}
		})
	}
}

// Events from before the Reset, as a server may send them, are not told again.
func TestFollow_DropsWhatTheResetHasTold(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.NoFsync())
	c := server.Client()
	s := newStore(t, c, &oldWatcher{Watcher: c, rev: 1}, store.Config{})
	for n := range int64(5) {
		apply(t, s, batch(put(slotRef(n), slot("old"))))
	}
	l := follow(t, s)
	start := l.reset().Rev
	last := apply(t, s, batch(put(slotRef(0), slot("new")))).Rev
	if u := l.until("the next change", func(reserve.Update) bool { return true }); u.Rev != last || len(u.Entries) != 1 {
		t.Errorf("after the Reset at %d: got %+v, want the change of %d first", start, u, last)
	}
}

// A Reset is at one revision, however many pages it takes and whatever is written meanwhile.
func TestFollow_ResetIsAtOneRevision(t *testing.T) {
	t.Parallel()
	const slots = 2_500 // pages are of 1,000
	server := etcdtest.Start(t, etcdtest.NoFsync())
	c := server.Client()
	s := newStore(t, c, c, store.Config{MaxOps: store.EmbeddedMaxOps})
	write := func(name string) {
		g := reserve.Group{Tenant: "default", Catalog: reserve.AnyCatalog}
		for n := range int64(slots) {
			g.Writes = append(g.Writes, reserve.Write{Ref: slotRef(n), Value: slot(name)})
		}
		if _, err := s.Apply(t.Context(), batch(g)); err != nil && t.Context().Err() == nil {
			t.Errorf("writing %d slots: %v", slots, err)
		}
	}
	write("first")
	var writer sync.WaitGroup
	defer writer.Wait()
	stop := make(chan struct{})
	defer close(stop)
	writer.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				write(fmt.Sprint(i))
			}
		}
	})
	for range 5 {
		l := follow(t, s)
		u := l.reset()
		for _, e := range u.Entries {
			if e.Mod != u.Entries[0].Mod || e.Mod > u.Rev {
				t.Fatalf("Reset at %d: %+v and %+v were always written together", u.Rev, u.Entries[0], e)
			}
		}
		if len(u.Entries) != slots {
			t.Fatalf("Reset at %d: got %d entries, want %d", u.Rev, len(u.Entries), slots)
		}
		l.stop()
	}
}

// While etcd is away Follow goes on trying, and begins when it is back.
func TestFollow_OutlivesAnEtcdThatIsAway(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.NoFsync())
	c := server.Client()
	var mu sync.Mutex
	away := true
	kv := etcdtest.NewFaultKV(c, func(int, string) etcdtest.Fault {
		mu.Lock()
		defer mu.Unlock()
		if away {
			return etcdtest.Before
		}
		return etcdtest.None
	})
	log := &lines{}
	s := newStore(t, kv, c, store.Config{Log: slog.New(slog.NewTextHandler(log, nil))})
	l := follow(t, s)
	if !log.waitFor(t, "begins anew", 2) {
		t.Fatalf("two tries: got the log %q", log)
	}
	mu.Lock()
	away = false
	mu.Unlock()
	l.reset()
}

// lines is a log that can be read while it is written.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
	new chan struct{}
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.new != nil {
		close(l.new)
		l.new = nil
	}
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// waitFor waits until text has been logged n times.
func (l *lines) waitFor(t *testing.T, text string, n int) bool {
	deadline := time.NewTimer(toldWithin)
	defer deadline.Stop()
	for {
		l.mu.Lock()
		if strings.Count(l.buf.String(), text) >= n {
			l.mu.Unlock()
			return true
		}
		if l.new == nil {
			l.new = make(chan struct{})
		}
		more := l.new
		l.mu.Unlock()
		select {
		case <-more:
		case <-deadline.C:
			return false
		case <-t.Context().Done():
			return false
		}
	}
}

// counted is the counter of that name: its labels, by name, and its value, for each set of them.
func counted(t *testing.T, g prometheus.Gatherer, name string) string {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() != name {
				continue
			}
			var words []string
			for _, l := range m.GetLabel() {
				words = append(words, l.GetValue())
			}
			all = append(all, strings.Join(append(words, fmt.Sprint(m.GetCounter().GetValue())), " "))
		}
	}
	return strings.Join(all, ", ")
}

// FAULTS rows 53 and 54: a value that cannot be read is told as such wherever it is met, is
// counted each time and logged once, and the log names no subject.
func TestQuarantine(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.NoFsync())
	c, root, metrics, log := server.Client(), newRoot(), prometheus.NewPedanticRegistry(), &lines{}
	s := newStore(t, c, c, store.Config{Root: root, Metrics: metrics, Log: slog.New(slog.NewTextHandler(log, nil))})
	spoil := func(key, value string) {
		t.Helper()
		if _, err := c.Put(t.Context(), root+key, value); err != nil {
			t.Fatal(err)
		}
	}
	limitRef := reserve.Ref{Tenant: "default", Kind: reserve.RefLimit, Limit: "exports"}
	spoil("t/default/slots/exports/user/u_42/0", "\x01garbage")
	spoil("t/default/limits/exports", "\x63{}")
	want := map[reserve.Ref]error{slotRef(0): reserve.ErrCorrupt, limitRef: reserve.ErrNewer}
	check := func(where string, entries []reserve.Entry) {
		t.Helper()
		if len(entries) != len(want) {
			t.Errorf("%s: got %d entries, want %d", where, len(entries), len(want))
		}
		for _, e := range entries {
			if !errors.Is(e.Fault, want[e.Ref]) || e.Value != nil || e.Mod == 0 || e.Create == 0 {
				t.Errorf("%s: got %+v, want the fault %v", where, e, want[e.Ref])
			}
		}
	}
	loaded, err := s.Load(t.Context(), []reserve.Ref{slotRef(0), limitRef}, true)
	if err != nil {
		t.Fatal(err)
	}
	check("Load", loaded.Entries)
	l := follow(t, s)
	check("Reset", l.reset().Entries)
	spoil("t/default/slots/exports/user/u_42/0", "")
	u := l.until("the event", func(u reserve.Update) bool { return len(u.Entries) > 0 })
	if len(u.Entries) != 1 || !errors.Is(u.Entries[0].Fault, reserve.ErrCorrupt) {
		t.Errorf("event: got %+v, want one corrupt entry", u)
	}
	lost := apply(t, s, batch(put(slotRef(0), slot("x"), reserve.Guard{Ref: slotRef(0), Cond: reserve.CreateIs}))).Outcomes[0]
	if lost.Committed || len(lost.Seen) != 1 || !errors.Is(lost.Seen[0].Fault, reserve.ErrCorrupt) {
		t.Errorf("what a group lost to: got %+v, want one corrupt entry", lost)
	}
	l.stop()
	const faults = "corrupt slots 4, newer limits 2"
	if got := counted(t, metrics, "holdfast_store_faulty_values_total"); got != faults {
		t.Errorf("counted faults: got %q, want %q", got, faults)
	}
	if got := strings.Count(log.String(), "level=ERROR"); got != 2 {
		t.Errorf("logged %d times, want once for each of 2 keys:\n%s", got, log)
	}
	if strings.Contains(log.String(), "u_42") {
		t.Errorf("the log names a subject:\n%s", log)
	}
}
