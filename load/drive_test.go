package load_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-dev/holdfast/load"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// after makes steps that answer after d, in the bubble's time.
func after(d time.Duration, o load.Outcome, err error) func(int) (load.Step, error) {
	return func(int) (load.Step, error) {
		return func(ctx context.Context) (load.Outcome, error) {
			select {
			case <-time.After(d):
			case <-ctx.Done():
				return 0, ctx.Err()
			}
			return o, err
		}, nil
	}
}

// near reports whether a latency is what it should be, to the histogram's three digits.
func near(got, want time.Duration) bool { return (got - want).Abs() <= want/500 }

// HF-1101: a closed loop asks again when it was answered, and counts after the warm-up alone.
func TestDrive_ClosedLoopCountsWhatEndsInTheWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plan := load.Plan{Workers: 3, Warm: time.Second, For: 2 * time.Second, Now: time.Now}
		r, err := load.Drive(t.Context(), plan, after(10*time.Millisecond, load.Refused, nil))
		if err != nil {
			t.Fatalf("Drive(%+v): %v", plan, err)
		}
		// Steps end at 10, 20 … ms; of those at 1.00 to 2.99 s there are 200 a worker.
		if r.Refused != 600 || r.Granted != 0 || r.Failed != 0 || r.Rate() != 300 || !near(r.At(99), 10*time.Millisecond) {
			t.Errorf("Drive(%+v): got %+v, rate %g, p99 %s; want 600 refused, 300/s, 10ms", plan, r, r.Rate(), r.At(99))
		}
	})
}

// HF-1102: no coordinated omission. A server that stands still for a second makes everybody who
// was due meanwhile wait, and the histogram says so.
func TestDrive_OpenLoopCountsFromWhenARequestWasDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		plan := load.Plan{Workers: 1, Rate: 100, For: 2 * time.Second, Now: time.Now}
		r, err := load.Drive(t.Context(), plan, func(int) (load.Step, error) {
			return func(context.Context) (load.Outcome, error) {
				if since := time.Since(began); since < time.Second {
					<-time.After(time.Second - since)
				}
				return load.Granted, nil
			}, nil
		})
		if err != nil {
			t.Fatalf("Drive(%+v): %v", plan, err)
		}
		// 100 of 200 arrivals were due in the first second and answered at its end.
		if r.Granted != 200 || r.Unsent != 0 || r.At(50) > 20*time.Millisecond || !near(r.At(75), 500*time.Millisecond) || !near(r.At(100), time.Second) {
			t.Errorf("Drive(%+v): got %d granted, %d unsent, p50 %s p75 %s max %s; want 200, 0, about 10ms, 500ms, 1s",
				plan, r.Granted, r.Unsent, r.At(50), r.At(75), r.At(100))
		}
	})
}

// HF-1103: arrivals that never start are told, and are in the percentiles.
func TestDrive_OpenLoopTellsWhatNeverStarted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plan := load.Plan{Workers: 2, Rate: 100, For: 10 * time.Second, Now: time.Now}
		r, err := load.Drive(t.Context(), plan, after(time.Second, load.Granted, nil))
		if err != nil {
			t.Fatalf("Drive(%+v): %v", plan, err)
		}
		// Two workers start two a second, for 10 s and the 5 s of grace.
		if got := r.Granted + r.Unsent; got != 1000 || r.Granted < 28 || r.Granted > 32 || r.At(50) < 7*time.Second {
			t.Errorf("Drive(%+v): got %d granted, %d unsent, p50 %s; want about 30 of 1000, and half of them 7s late or more", plan, r.Granted, r.Unsent, r.At(50))
		}
		if got := r.Rate(); got < 1.7 || got > 2.1 {
			t.Errorf("Drive(%+v): got a rate of %g, want about 2", plan, got)
		}
	})
}

// HF-1104: a server that is away is not hammered for the whole run.
func TestDrive_EndsWhenNothingIsAnswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, why := time.Now(), errors.New("nobody there")
		plan := load.Plan{Workers: 4, For: time.Hour, Now: time.Now}
		r, err := load.Drive(t.Context(), plan, after(0, load.Granted, why))
		if !errors.Is(err, why) || r == nil || r.Failed < 200 || r.Errors["nobody there"] != r.Failed {
			t.Errorf("Drive(%+v): got %v, %+v; want %v after 200 failures", plan, err, r, why)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("Drive(%+v): gave up after %s, want about half a second", plan, took)
		}
	})
}

// HF-1104: few kinds of failures are told apart, none is lost.
func TestDrive_CountsFailuresByText(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plan := load.Plan{Workers: 12, For: time.Second, Now: time.Now}
		r, err := load.Drive(t.Context(), plan, func(worker int) (load.Step, error) {
			text := strings.Repeat("x", worker)
			return func(context.Context) (load.Outcome, error) {
				<-time.After(90 * time.Millisecond)
				if worker == 0 {
					return load.Granted, nil
				}
				return 0, errors.New(text)
			}, nil
		})
		if err != nil {
			t.Fatalf("Drive(%+v): %v", plan, err)
		}
		var told int64
		for _, n := range r.Errors {
			told += n
		}
		// A failure costs 90 ms and a rest of 10 ms: ten a worker, less what ends with the window.
		if len(r.Errors) != 9 || told != r.Failed || r.Failed != 11*10 || r.Errors["others"] != 3*10 {
			t.Errorf("Drive(%+v): got %d failures as %v, want 110 as eight texts and 30 others", plan, r.Failed, r.Errors)
		}
	})
}

// HF-1105: whoever stops it gets what was counted until then.
func TestDrive_StoppedGivesWhatItHas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(500*time.Millisecond+time.Microsecond, cancel)
		plan := load.Plan{Workers: 1, For: time.Hour, Now: time.Now}
		r, err := load.Drive(ctx, plan, after(10*time.Millisecond, load.Granted, nil))
		if !errors.Is(err, context.Canceled) || r == nil || r.Granted != 50 || r.Failed != 0 || r.Rate() < 99 || r.Rate() > 101 {
			t.Errorf("Drive(%+v): got %v, %+v; want %v and 50 grants in half a second", plan, err, r, context.Canceled)
		}
	})
}

// HF-1105: progress is told while it runs, with the latencies since the last time.
func TestDrive_TellsProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told atomic.Int64
		plan := load.Plan{Workers: 2, Warm: time.Second, For: 2*time.Second + time.Millisecond, Now: time.Now, Every: 500 * time.Millisecond}
		plan.Progress = func(p load.Progress) {
			n := told.Add(1)
			if p.Total != plan.Warm+plan.For || p.Elapsed != time.Duration(n)*plan.Every || p.WarmingUp != (n < 2) ||
				p.PerSecond < 190 || p.PerSecond > 210 || !near(p.P99, 10*time.Millisecond) {
				t.Errorf("progress %d: got %+v, want 200 a second and p99 10ms", n, p)
			}
		}
		if _, err := load.Drive(t.Context(), plan, after(10*time.Millisecond, load.Granted, nil)); err != nil {
			t.Fatalf("Drive(%+v): %v", plan, err)
		}
		if got := told.Load(); got != 6 {
			t.Errorf("Drive(%+v): progress was told %d times, want 6", plan, got)
		}
	})
}

func TestDrive_RefusesPlansThatCannotBe(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		plan load.Plan
		want []string
	}{
		"nothing given":     {load.Plan{}, []string{"Workers", "For", "Now"}},
		"too much":          {load.Plan{Workers: load.MaxWorkers + 1, Rate: load.MaxRate + 1, For: load.MaxFor + 1, Now: time.Now}, []string{"Workers", "Rate", "For"}},
		"less than nothing": {load.Plan{Workers: 1, Rate: -1, Warm: -1, For: 1, Now: time.Now}, []string{"Rate", "Warm"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := load.Drive(t.Context(), c.plan, after(0, load.Granted, nil))
			if err == nil || r != nil {
				t.Fatalf("Drive(%+v): got %v, %v; want faults", c.plan, r, err)
			}
			for _, field := range c.want {
				if !strings.Contains(err.Error(), field) {
					t.Errorf("Drive(%+v): %q does not name %s", c.plan, err, field)
				}
			}
		})
	}
}
