package janitor

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/robfig/cron/v3"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func nothing(context.Context, int) (int, error) { return 0, nil }

// start makes a janitor of one job without jitter and runs it until the returned stop, which
// waits for Run.
func start(t *testing.T, spec Job) (j *Janitor, stop func()) {
	t.Helper()
	j = make1(t, spec)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- j.Run(ctx) }()
	return j, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: got %v, want nil", err)
		}
	}
}

func make1(t *testing.T, spec Job) *Janitor {
	t.Helper()
	j, err := New(Config{Now: time.Now, Jitter: -1}, spec)
	if err != nil {
		t.Fatalf("New(%q, %q): %v", spec.Name, spec.Spec, err)
	}
	return j
}

// value reads the one series that c has.
func value(t *testing.T, c prometheus.Collector) float64 {
	t.Helper()
	reg := prometheus.NewRegistry()
	if err := reg.Register(c); err != nil {
		t.Fatalf("Register: %v", err)
	}
	families, err := reg.Gather()
	if err != nil || len(families) != 1 || len(families[0].GetMetric()) != 1 {
		t.Fatalf("Gather: got %v, %v, want one series", families, err)
	}
	m := families[0].GetMetric()[0]
	return m.GetCounter().GetValue() + m.GetGauge().GetValue()
}

func TestRun_APanicIsFollowedByTheNextRun(t *testing.T) { // CASES O28, kind K31
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int32
		j, stop := start(t, Job{Name: "expire", Spec: "@every 1m", Sweep: func(context.Context, int) (int, error) {
			if runs.Add(1) == 1 {
				panic("once")
			}
			return 0, nil
		}})
		time.Sleep(3*time.Minute + time.Second)
		stop()
		if got := runs.Load(); got != 3 {
			t.Errorf("runs in 3 min of @every 1m, the first of which panics: got %d, want 3", got)
		}
		if got := value(t, j.count.panics); got != 1 {
			t.Errorf("panics counted: got %v, want 1", got)
		}
		if got := value(t, j.count.skipped); got != 0 {
			t.Errorf("skips counted: got %v, want 0", got)
		}
	})
}

// The reason for the order of wrappers in tick: when this fails, cron gives its token back by
// itself and the order no longer matters.
func TestCron_RecoverOutsideSkipSilencesAJob(t *testing.T) {
	t.Parallel()
	runs := 0
	wrong := cron.NewChain(cron.Recover(cron.DiscardLogger), cron.SkipIfStillRunning(cron.DiscardLogger))
	job := wrong.Then(cron.FuncJob(func() { runs++; panic("once") }))
	job.Run()
	job.Run()
	if runs != 1 {
		t.Errorf("runs of a job that panics, recover outside skip: got %d, want 1", runs)
	}
}

func TestRun_NeverTwoAtOnceAndSkipsAreCounted(t *testing.T) { // CASES O28, second run
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var now, most, runs atomic.Int32
		j, stop := start(t, Job{
			Name: "rollup", Spec: "30 2 * * *", Budget: 100 * time.Hour,
			Sweep: func(context.Context, int) (int, error) {
				runs.Add(1)
				most.Store(max(most.Load(), now.Add(1)))
				time.Sleep(30 * time.Hour) // longer than its period of a day
				now.Add(-1)
				return 0, nil
			},
		})
		time.Sleep(6 * 24 * time.Hour)
		stop()
		if most.Load() != 1 {
			t.Errorf("sweeps at once: got %d, want 1", most.Load())
		}
		if got := runs.Load(); got != 3 {
			t.Errorf("runs of 30 h in 6 days, daily at 02:30: got %d, want 3", got)
		}
		if got := value(t, j.count.skipped); got != 3 {
			t.Errorf("skips in 6 days, runs of 30 h: got %v, want 3", got)
		}
	})
}

// stuck is cron under a wall clock that was set back: the next turn is far away.
type stuck struct{}

func (stuck) Next(t time.Time) time.Time { return t.Add(1000 * time.Hour) }

func TestRun_WatchdogStartsWhatCronDoesNot(t *testing.T) { // FAULTS row 21
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int32
		j := make1(t, Job{Name: "expire", Spec: "@every 1m", Sweep: func(context.Context, int) (int, error) {
			runs.Add(1)
			return 0, nil
		}})
		j.jobs[0].schedule = stuck{}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- j.Run(ctx) }()
		time.Sleep(10*time.Minute + time.Second)
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: got %v, want nil", err)
		}
		if got := runs.Load(); got != 3 { // at 3, 6 and 9 minutes: after each two whole intervals
			t.Errorf("runs in 10 min of a 1-minute job that cron never starts: got %d, want 3", got)
		}
		if got := value(t, j.count.rescued); got != 3 {
			t.Errorf("rescued: got %v, want 3", got)
		}
	})
}

func TestRun_WatchdogLeavesAloneWhatCronStarts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j, stop := start(t, Job{Name: "expire", Spec: "@every 1m", Sweep: nothing})
		time.Sleep(24 * time.Hour)
		stop()
		if got := value(t, j.count.rescued); got != 0 {
			t.Errorf("rescued in a day of a healthy clock: got %v, want 0", got)
		}
	})
}

func TestRun_ReturnsAfterRunningSweepsEnded(t *testing.T) { // FAULTS row 55
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ended := false
		_, stop := start(t, Job{Name: "expire", Spec: "@every 1m", Sweep: func(ctx context.Context, _ int) (int, error) {
			<-ctx.Done()
			time.Sleep(time.Second) // tidying up
			ended = true
			return 0, ctx.Err()
		}})
		time.Sleep(time.Minute + time.Second)
		stop()
		if !ended {
			t.Error("Run returned while a sweep was running")
		}
	})
}

func TestRun_StartStopStress(t *testing.T) {
	t.Parallel()
	for range 50 {
		_, stop := start(t, Job{Name: "expire", Spec: "@every 1s", Sweep: nothing})
		stop()
	}
}

func TestNew_TellsAllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	good := Job{Name: "a", Spec: "@every 1m", Sweep: nothing}
	_, err := New(Config{},
		Job{Name: "spec", Spec: "* * *", Sweep: nothing},
		Job{Name: "sweepless", Spec: "@every 1m"},
		Job{Name: "batch", Spec: "@every 1m", Batch: -1, Sweep: nothing})
	for _, want := range []string{"Config.Now", `"spec"`, `"sweepless"`, `"batch"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New of four faults: got %v, want one that names %s", err, want)
		}
	}
	if _, err := New(Config{Now: time.Now}, good, good); err == nil {
		t.Error("New with one name twice: got nil, want an error")
	}
	if _, err := New(Config{Now: time.Now}, Job{Name: "feb", Spec: "0 0 30 2 *", Sweep: nothing}); err == nil {
		t.Error("New with a schedule that never comes (30 February): got nil, want an error")
	}
	if _, err := New(Config{Now: time.Now}, make([]Job, MaxJobs+1)...); err == nil {
		t.Errorf("New with %d jobs: got nil, want an error", MaxJobs+1)
	}
}

func TestRunOnce_UnknownJob(t *testing.T) {
	t.Parallel()
	j := make1(t, Job{Name: "expire", Spec: "@every 1m", Sweep: nothing})
	if _, err := j.RunOnce(t.Context(), "nope"); !errors.Is(err, ErrUnknownJob) {
		t.Errorf("RunOnce(nope): got %v, want ErrUnknownJob", err)
	}
	if got := j.Jobs(); len(got) != 1 || got[0] != "expire" {
		t.Errorf("Jobs: got %v, want [expire]", got)
	}
}
