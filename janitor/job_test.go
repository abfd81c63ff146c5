package janitor

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// backlog is a sweep over n records that remembers the batches it was asked for.
type backlog struct {
	left  int
	asked []int
	slow  func(max int) bool // a batch that lasts until its deadline
}

func (b *backlog) sweep(ctx context.Context, max int) (int, error) {
	b.asked = append(b.asked, max)
	if b.slow != nil && b.slow(max) {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	n := min(max, b.left)
	b.left -= n
	return n, nil
}

func TestRunOnce_LoopsUntilABatchComesBackShort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &backlog{left: 25}
		j := make1(t, Job{Name: "trim", Spec: "@every 1m", Batch: 10, Sweep: b.sweep})
		got, err := j.RunOnce(t.Context(), "trim")
		want := Report{Job: "trim", Swept: 25, Batches: 3, Took: 2 * batchPause}
		if err != nil || got != want {
			t.Errorf("RunOnce over 25 records by 10: got %+v, %v, want %+v", got, err, want)
		}
	})
}

func TestRunOnce_StopsAtItsBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &backlog{left: 1 << 20}
		j := make1(t, Job{Name: "trim", Spec: "@every 1m", Batch: 10, Budget: time.Second, Sweep: b.sweep})
		got, err := j.RunOnce(t.Context(), "trim")
		want := Report{Job: "trim", Swept: 100, Batches: 10, Took: time.Second, More: true}
		if err != nil || got != want {
			t.Errorf("RunOnce with a budget of 1 s, a batch each 100 ms: got %+v, %v, want %+v", got, err, want)
		}
	})
}

func TestRunOnce_SmallerBatchAfterATimeoutAndBackAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &backlog{left: 6, slow: func(max int) bool { return max > 4 }}
		j := make1(t, Job{Name: "trim", Spec: "@every 1m", Batch: 16, Sweep: b.sweep})
		if _, err := j.RunOnce(t.Context(), "trim"); err != nil {
			t.Fatalf("RunOnce: %v", err)
		}
		if want := []int{16, 8, 4, 4}; !slices.Equal(b.asked, want) {
			t.Errorf("batches asked for, those above 4 time out: got %v, want %v", b.asked, want)
		}
		b.asked, b.slow = nil, nil
		for range 4 {
			if _, err := j.RunOnce(t.Context(), "trim"); err != nil {
				t.Fatalf("RunOnce: %v", err)
			}
		}
		if want := []int{4, 8, 16, 16}; !slices.Equal(b.asked, want) {
			t.Errorf("batches asked for once it is fast again: got %v, want %v", b.asked, want)
		}
	})
}

func TestRunOnce_ABatchOfOneThatTimesOutIsAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &backlog{left: 6, slow: func(int) bool { return true }}
		j := make1(t, Job{Name: "trim", Spec: "@every 1m", Batch: 2, Sweep: b.sweep})
		if _, err := j.RunOnce(t.Context(), "trim"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("RunOnce of a sweep that never answers: got %v, want DeadlineExceeded", err)
		}
	})
}

func TestRunOnce_APanicIsAnErrorAndTheNextRunWorks(t *testing.T) {
	t.Parallel()
	first := true
	j := make1(t, Job{Name: "trim", Spec: "@every 1m", Sweep: func(context.Context, int) (int, error) {
		if first {
			first = false
			panic("once")
		}
		return 3, nil
	}})
	if _, err := j.RunOnce(t.Context(), "trim"); err == nil {
		t.Error("RunOnce of a sweep that panics: got nil, want an error")
	}
	if r, err := j.RunOnce(t.Context(), "trim"); err != nil || r.Swept != 3 {
		t.Errorf("RunOnce after a panic: got %+v, %v, want 3 swept", r, err)
	}
}

func TestRunOnce_WaitsForTheRunBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j, stop := start(t, Job{Name: "trim", Spec: "@every 1m", Sweep: func(context.Context, int) (int, error) {
			time.Sleep(20 * time.Second)
			return 0, nil
		}})
		defer stop()
		time.Sleep(time.Minute + time.Second) // one second into the scheduled run
		began := time.Now()
		hurried, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := j.RunOnce(hurried, "trim"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("RunOnce with 1 s, 19 s of a run left: got %v, want DeadlineExceeded", err)
		}
		if _, err := j.RunOnce(t.Context(), "trim"); err != nil {
			t.Errorf("RunOnce: %v", err)
		}
		if got, want := time.Since(began), 39*time.Second; got != want {
			t.Errorf("RunOnce beside a run with 19 s left, 20 s of its own: took %s, want %s", got, want)
		}
	})
}

func TestRun_JitterStaysWithinATenthOfTheInterval(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]time.Duration{
		"@every 20s": 2 * time.Second,
		"@every 1h":  DefaultJitter,
		"30 2 * * *": DefaultJitter,
	} {
		j, err := New(Config{Now: time.Now}, Job{Name: "a", Spec: spec, Sweep: nothing})
		if err != nil {
			t.Fatalf("New(%q): %v", spec, err)
		}
		if got := j.jobs[0].jitter; got != want {
			t.Errorf("jitter of %q: got %s, want %s", spec, got, want)
		}
	}
}

func TestMetrics_TellWhatWasDone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		fail := false
		j, err := New(Config{Now: time.Now, Metrics: reg}, Job{
			Name: "trim", Spec: "@every 1m",
			Sweep: func(context.Context, int) (int, error) {
				if fail {
					return 2, errors.New("no")
				}
				return 5, nil
			},
		})
		if err != nil {
			t.Fatalf("New: %v", err)
		}
		done := time.Now()
		if _, err := j.RunOnce(t.Context(), "trim"); err != nil {
			t.Fatalf("RunOnce: %v", err)
		}
		time.Sleep(time.Minute)
		fail = true
		if _, err := j.RunOnce(t.Context(), "trim"); err == nil {
			t.Fatal("RunOnce of a sweep that fails: got nil, want its error")
		}
		if got := value(t, j.count.swept); got != 7 {
			t.Errorf("swept: got %v, want 7 (5, then 2 before the error)", got)
		}
		if got := value(t, j.count.failed); got != 1 {
			t.Errorf("failed: got %v, want 1", got)
		}
		got := value(t, j.count.success)
		if want := float64(done.UnixMilli()) / 1000; got != want {
			t.Errorf("last success: got %v, want %v, of the run that did not fail", got, want)
		}
		if families, err := reg.Gather(); err != nil || len(families) != 6 {
			t.Errorf("metrics of one job: got %d, %v, want 6", len(families), err)
		}
	})
}
