package janitor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/robfig/cron/v3"
)

// Bounds of the janitor. All are monotonic.
const (
	DefaultBatch  = 256              // records a batch, where a Job names none
	DefaultBudget = 30 * time.Second // of one run, where a Job names none
	DefaultJitter = 10 * time.Second // most a run is put off; never more than a tenth of its interval
	MaxJobs       = 32               // a name is a metric label
)

// ErrUnknownJob is returned by RunOnce for a name that no job bears.
var ErrUnknownJob = errors.New("janitor: no such job")

// Config is what a Janitor needs. Now is required.
type Config struct {
	Now     func() time.Time // with a monotonic reading
	Jitter  time.Duration    // 0: DefaultJitter; below 0: none
	Log     *slog.Logger     // nil: discard
	Metrics prometheus.Registerer
}

// Job is one named sweep. Sweep handles at most max records and says how many it did; fewer
// than max means there are no more for now. It must stop soon after ctx has ended.
type Job struct {
	Name    string
	Spec    string        // cron's five fields in UTC, or @every 30s
	Batch   int           // records a batch; 0: DefaultBatch
	Budget  time.Duration // of one run, after which the rest waits for the next; 0: DefaultBudget
	Timeout time.Duration // of one batch; 0: 5 s
	Sweep   func(ctx context.Context, max int) (int, error)
}

// Janitor runs the jobs it was made with. Make one with New.
type Janitor struct {
	now   func() time.Time
	log   *slog.Logger
	jobs  []*job
	count *counters
}

// New checks the jobs and makes a Janitor that has started nothing.
// Errors: everything wrong with cfg and jobs, joined.
func New(cfg Config, jobs ...Job) (*Janitor, error) {
	var faults []error
	if cfg.Now == nil {
		faults = append(faults, errors.New("janitor: Config.Now is missing"))
	}
	if len(jobs) > MaxJobs {
		faults = append(faults, fmt.Errorf("janitor: %d jobs, at most %d", len(jobs), MaxJobs))
	}
	log := cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	j := &Janitor{now: cfg.Now, log: log, count: newCounters()}
	seen := make(map[string]bool, len(jobs))
	for _, spec := range jobs {
		one, err := j.newJob(spec, cfg.Jitter)
		if err == nil && seen[spec.Name] {
			err = fmt.Errorf("janitor: job %q is there twice", spec.Name)
		}
		seen[spec.Name] = true
		j.jobs = append(j.jobs, one)
		faults = append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return j, j.count.register(cfg.Metrics)
}

// Jobs lists the names of the jobs, in the order they were given.
func (j *Janitor) Jobs() []string {
	names := make([]string, len(j.jobs))
	for i, one := range j.jobs {
		names[i] = one.Name
	}
	return names
}

// Last is what the last run of the job named name did here, when it ended, and with what error.
// at is zero when there was none, or no such job.
func (j *Janitor) Last(name string) (r Report, at time.Time, err error) {
	for _, one := range j.jobs {
		if one.Name == name {
			one.mu.Lock()
			defer one.mu.Unlock()
			return one.last, one.ended, one.lastErr
		}
	}
	return Report{}, time.Time{}, nil
}

// Run runs every job on its schedule until ctx ends, and returns nil after the sweeps that
// were running have ended. Errors of a sweep are logged and counted: nobody else sees them.
func (j *Janitor) Run(ctx context.Context) error {
	clock := cron.New(cron.WithLocation(time.UTC), cron.WithLogger(cron.DiscardLogger))
	started := j.now()
	ticks := make([]cron.Job, len(j.jobs))
	for i, one := range j.jobs {
		one.setStarted(started)
		ticks[i] = one.tick(ctx)
		clock.Schedule(one.schedule, ticks[i])
	}
	clock.Start()
	j.watch(ctx, ticks)
	<-clock.Stop().Done()
	return nil
}

// RunOnce runs the job named name now, whatever its schedule, and waits for it. When it is
// running already, that run is awaited first.
//
// Errors: ErrUnknownJob; ctx's own; what the sweep returned, a panic included. The report
// tells what was done up to the error. Cost: at most the job's budget beside the wait.
func (j *Janitor) RunOnce(ctx context.Context, name string) (Report, error) {
	for _, one := range j.jobs {
		if one.Name == name {
			return one.safely(ctx)
		}
	}
	return Report{}, fmt.Errorf("%w: %q", ErrUnknownJob, name)
}
