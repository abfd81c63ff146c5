package store

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-dev/holdfast/reserve"
)

// askedWatcher is a watch that is asked how far it is.
type askedWatcher struct {
	clientv3.Watcher
	asked func(n int) error
	n     int
}

func (w *askedWatcher) RequestProgress(context.Context) error {
	w.n++
	return w.asked(w.n)
}

// newFollower is a follower that was told up to revision 10, over a watch that answers as asked.
func newFollower(t *testing.T, asked func(f *follower, n int) error) (*follower, *askedWatcher) {
	t.Helper()
	m, err := newMetrics(nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &askedWatcher{}
	f := &follower{
		store: &Store{watcher: w, metrics: m, cfg: Config{Timeout: time.Second}},
		tell:  func(reserve.Update) {}, wake: make(chan struct{}, 1),
	}
	w.asked = func(n int) error { return asked(f, n) }
	f.told.Store(10)
	return f, w
}

func TestReach_News(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		asked     func(f *follower, n int) error
		ends      bool // told what was wanted; otherwise found silent
		questions int
		after     time.Duration
	}{
		"by itself": {
			// Told by an event before anybody asks.
			asked: nil, ends: true, questions: 0, after: nudgeAfter,
		},
		"at the first question": {
			asked: func(f *follower, _ int) error { f.told.Store(11); return nil },
			ends:  true, questions: 1, after: 3 * nudgeAfter,
		},
		"at the third, the first two being left unanswered": {
			asked: func(f *follower, n int) error {
				if n == 3 {
					f.told.Store(11)
				}
				return nil
			},
			ends: true, questions: 3, after: 15 * nudgeAfter,
		},
		"never: the watch is silent": {
			asked: func(*follower, int) error { return io.EOF },
			// 5, 10, … 320 ms and then 500 ms each, until 5 s are full.
			ends: false, questions: 7 + 8, after: 635*time.Millisecond + 9*nudgeAtMost,
		},
		"late: the watch has other things to tell": {
			asked: func(f *follower, n int) error {
				f.heard.Add(1)
				if n == 100 {
					f.told.Store(11)
				}
				return nil
			},
			ends: true, questions: 100, after: 635*time.Millisecond + 94*nudgeAtMost,
		},
		"late: whoever is told takes his time": {
			asked: func(f *follower, n int) error {
				f.busy.Store(n < 50)
				if n == 51 {
					f.told.Store(11)
				}
				return nil
			},
			ends: true, questions: 51, after: 635*time.Millisecond + 45*nudgeAtMost,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f, w := newFollower(t, c.asked)
				f.want(11)
				<-f.wake // as nudge does
				if c.asked == nil {
					f.told.Store(11)
				}
				start := time.Now()
				if got := f.reach(t.Context()); got != c.ends {
					t.Errorf("reach: got %v, want %v", got, c.ends)
				}
				if w.n != c.questions {
					t.Errorf("got %d questions, want %d", w.n, c.questions)
				}
				if took := time.Since(start); took != c.after {
					t.Errorf("took %v, want %v", took, c.after)
				}
			})
		})
	}
}

func TestNudge_EndsASilentWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, _ := newFollower(t, func(*follower, int) error { return nil })
		ctx, cancel := context.WithCancelCause(t.Context())
		f.want(11)
		f.nudge(ctx, cancel)
		if got := context.Cause(ctx); !errors.Is(got, errSilent) {
			t.Errorf("the watch was ended by %v, want %v", got, errSilent)
		}
	})
}

// Many readers make one question: single flight.
func TestWant_IsSingleFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, w := newFollower(t, func(f *follower, _ int) error { f.told.Store(f.wanted.Load()); return nil })
		ctx, cancel := context.WithCancelCause(t.Context())
		go f.nudge(ctx, cancel)
		for range 100 {
			f.want(9) // told long ago
			f.want(11)
			f.want(12)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if w.n != 1 || f.told.Load() != 12 {
			t.Errorf("told up to %d after %d questions, want 12 after 1", f.told.Load(), w.n)
		}
		cancel(nil)
		synctest.Wait()
	})
}

// Whoever wants the next revision right after the last was told does not wait as long as was
// waited for the last.
func TestReach_StartsAnewForEachGoal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, _ := newFollower(t, func(f *follower, n int) error {
			if n >= 6 { // the first news is slow to come, further ones are not
				f.told.Store(f.wanted.Load())
			}
			return nil
		})
		ctx, cancel := context.WithCancelCause(t.Context())
		go f.nudge(ctx, cancel)
		for goal := int64(11); goal < 20; goal++ {
			start := time.Now()
			f.want(goal)
			for f.told.Load() < goal {
				time.Sleep(time.Millisecond)
			}
			if took := time.Since(start); goal > 11 && took > 2*nudgeAfter {
				t.Errorf("told of %d after %v, want at most %v", goal, took, 2*nudgeAfter)
			}
		}
		cancel(nil)
		synctest.Wait()
	})
}
