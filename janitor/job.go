package janitor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"github.com/robfig/cron/v3"
)

const (
	batchTimeout = 5 * time.Second        // of one call of Sweep, unless the job has its own
	batchPause   = 100 * time.Millisecond // between two, so that requests get their turn
	gapsLooked   = 12                     // successive gaps of a schedule, whose largest is its interval
)

// Report is what one run did.
type Report struct {
	Job     string
	Swept   int // records
	Batches int
	Took    time.Duration
	More    bool // the budget was spent before a batch came back short
}

// job is one Job with the state of its runs.
type job struct {
	Job
	schedule cron.Schedule
	every    time.Duration // largest of the next gaps of schedule
	jitter   time.Duration
	now      func() time.Time
	log      *slog.Logger
	count    *counters
	turn     chan struct{} // holds one token: whoever has it runs
	size     int           // of the next batch; guarded by turn

	mu      sync.Mutex
	started time.Time // the last start by cron or watchdog
	last    Report
	lastErr error
	ended   time.Time // of the last run; zero: there was none
}

func (j *Janitor) newJob(spec Job, jitter time.Duration) (*job, error) {
	schedule, err := cron.ParseStandard(spec.Spec)
	if err != nil {
		return nil, fmt.Errorf("janitor: job %q: %w", spec.Name, err)
	}
	if spec.Name == "" || spec.Sweep == nil || spec.Batch < 0 || spec.Budget < 0 || spec.Timeout < 0 {
		return nil, fmt.Errorf("janitor: job %q: Name and Sweep are required, Batch, Budget and Timeout not below 0", spec.Name)
	}
	if spec.Batch == 0 {
		spec.Batch = DefaultBatch
	}
	if spec.Budget == 0 {
		spec.Budget = DefaultBudget
	}
	if spec.Timeout == 0 {
		spec.Timeout = batchTimeout
	}
	one := &job{
		Job: spec, schedule: schedule, now: j.now, log: j.log.With("job", spec.Name),
		count: j.count, turn: make(chan struct{}, 1), size: spec.Batch,
	}
	one.turn <- struct{}{}
	j.count.open(spec.Name)
	if j.now != nil {
		one.every = interval(schedule, j.now().UTC())
	}
	if one.every <= 0 {
		return one, fmt.Errorf("janitor: job %q: %q never comes", spec.Name, spec.Spec)
	}
	if jitter == 0 {
		jitter = DefaultJitter
	}
	one.jitter = max(0, min(jitter, one.every/10))
	return one, nil
}

// interval is the largest of the next gaps of s; 0 when s never comes.
func interval(s cron.Schedule, from time.Time) (largest time.Duration) {
	at := s.Next(from)
	for range gapsLooked {
		next := s.Next(at)
		if at.IsZero() || next.IsZero() {
			return 0
		}
		largest = max(largest, next.Sub(at))
		at = next
	}
	return largest
}

// tick is what cron and the watchdog start: skip outside, recover inside. The other way
// round a panic would keep cron's token and silence the job for ever.
func (one *job) tick(ctx context.Context) cron.Job {
	skip := cron.SkipIfStillRunning(skips{one})
	return skip(cron.FuncJob(func() {
		one.setStarted(one.now())
		if !sleep(ctx, rand.N(one.jitter+1)) {
			return
		}
		if _, err := one.safely(ctx); err != nil && ctx.Err() == nil {
			one.log.Error("sweep failed", "error", err)
		}
	}))
}

// skips counts what SkipIfStillRunning tells its logger, the only way it tells anybody.
type skips struct{ *job }

func (s skips) Info(string, ...any) { s.count.skipped.WithLabelValues(s.Name).Inc() }

func (s skips) Error(err error, msg string, _ ...any) { s.log.Error(msg, "error", err) }

// safely is run with a panic turned into an error.
func (one *job) safely(ctx context.Context) (r Report, err error) {
	defer func() {
		if p := recover(); p != nil {
			one.count.panics.WithLabelValues(one.Name).Inc()
			one.log.Error("sweep panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			r.Job, err = one.Name, fmt.Errorf("janitor: job %q panicked: %v", one.Name, p)
		}
	}()
	return one.run(ctx)
}

// run loops batches until one comes back short or the budget is spent.
func (one *job) run(ctx context.Context) (Report, error) {
	select {
	case <-one.turn:
	case <-ctx.Done():
		return Report{Job: one.Name}, ctx.Err()
	}
	defer func() { one.turn <- struct{}{} }()
	began := one.now()
	r, err := one.batches(ctx)
	ended := one.now()
	r.Job, r.Took = one.Name, ended.Sub(began)
	one.count.ended(r, err, ended)
	one.mu.Lock()
	one.last, one.lastErr, one.ended = r, err, ended
	one.mu.Unlock()
	return r, err
}

func (one *job) batches(ctx context.Context) (r Report, err error) {
	budget, cancel := context.WithTimeout(ctx, one.Budget)
	defer cancel()
	began, slow := one.now(), false
	for {
		asked := one.size
		n, err := one.batch(budget, asked)
		r.Batches++
		r.Swept += n
		switch {
		case errors.Is(err, context.DeadlineExceeded) && asked > 1:
			one.size, slow = max(1, asked/2), true
		case err != nil:
			return r, err
		case n < asked:
			one.grow(slow)
			return r, nil
		}
		if !sleep(budget, batchPause) || one.now().Sub(began) >= one.Budget {
			r.More = true
			one.grow(slow)
			return r, ctx.Err()
		}
	}
}

// batch is one call of Sweep under its own deadline.
func (one *job) batch(ctx context.Context, max int) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, one.Timeout)
	defer cancel()
	return one.Sweep(ctx, max)
}

// grow lets the batch come back to its size after a run without a time-out.
func (one *job) grow(slow bool) {
	if !slow {
		one.size = min(one.Batch, 2*one.size)
	}
}

func (one *job) setStarted(at time.Time) {
	one.mu.Lock()
	defer one.mu.Unlock()
	one.started = at
}

// silent is how long ago the job was last started on schedule.
func (one *job) silent(now time.Time) time.Duration {
	one.mu.Lock()
	defer one.mu.Unlock()
	return now.Sub(one.started)
}

// sleep waits for d and reports whether ctx is still alive.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}
