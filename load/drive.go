package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of a Plan.
const (
	MaxWorkers = 16_384
	MaxRate    = 1_000_000.0 // arrivals a second
	MaxFor     = 24 * time.Hour

	grace      = 5 * time.Second       // an open loop has after its end to work off what is late
	failPause  = 10 * time.Millisecond // a worker rests after a failure: a dead server is not hammered
	hopeless   = 200                   // failures without one answer that end a drive
	stepReport = time.Second           // default of Plan.Every
)

// Plan says how much is asked for and how long. Workers, For and Now are required.
type Plan struct {
	Workers int           // steps at once, at most
	Rate    float64       // arrivals a second over all workers; 0: a closed loop
	Warm    time.Duration // before anything is counted
	For     time.Duration // that is counted

	Now func() time.Time // a clock with a monotonic reading

	Progress func(Progress) // called about each Every until the end; nil: never
	Every    time.Duration  // 0: one second
}

// Progress is how far a drive has come. Steps of the warm-up count.
type Progress struct {
	Elapsed, Total time.Duration
	Done, Failed   int64
	PerSecond      float64 // done since the last Progress
	P50, P99       time.Duration
	WarmingUp      bool
}

// Outcome is what a step came to when it did not fail.
type Outcome uint8

// The outcomes. A refusal is an answer like a grant.
const (
	Granted Outcome = iota
	Refused
)

// Step does one unit of work. An error is a failure of the server or the way to it.
type Step func(ctx context.Context) (Outcome, error)

func (p Plan) faults() error {
	var faults []error
	wrong := func(bad bool, format string, args ...any) {
		if bad {
			faults = append(faults, fmt.Errorf("load: "+format, args...))
		}
	}
	wrong(p.Workers < 1 || p.Workers > MaxWorkers, "Workers %d: want 1 to %d", p.Workers, MaxWorkers)
	wrong(p.Rate < 0 || p.Rate > MaxRate, "Rate %g: want 0 to %g", p.Rate, MaxRate)
	wrong(p.For <= 0 || p.For > MaxFor, "For %s: want above 0, at most %s", p.For, MaxFor)
	wrong(p.Warm < 0 || p.Warm > MaxFor, "Warm %s: want 0 to %s", p.Warm, MaxFor)
	wrong(p.Now == nil, "Now is required")
	return errors.Join(faults...)
}

// driver is one drive under way.
type driver struct {
	Plan
	began, from, until, last time.Time // start · counting from, until · an open loop's last word
	next                     atomic.Int64
	book                     *book
	giveUp                   context.CancelCauseFunc
}

// errHopeless ends a drive that nobody answers.
var errHopeless = errors.New("load: every step fails")

// Drive runs steps by the plan and measures them. It calls prepare once a worker, one after the
// other, before the clock starts, and returns after all workers have ended.
//
// A closed loop counts the steps that end between Warm and Warm+For, and times each from its own
// start. An open loop counts the arrivals due in that time, each timed from when it was due;
// those that have not been started 5 s after the end are counted as Unsent and enter the
// percentiles with the time they had waited by then.
//
// Errors: all faults of p, joined; what prepare returned; the first failure when 200 steps failed
// and none was answered; the cause of ctx's end, and then the Result is what was counted until
// then. Result is nil only for the first two.
func Drive(ctx context.Context, p Plan, prepare func(worker int) (Step, error)) (*Result, error) {
	if err := p.faults(); err != nil {
		return nil, err
	}
	steps := make([]Step, p.Workers)
	for i := range steps {
		var err error
		if steps[i], err = prepare(i); err != nil {
			return nil, err
		}
	}
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	began := p.Now()
	d := &driver{
		Plan: p, began: began, from: began.Add(p.Warm), until: began.Add(p.Warm + p.For), last: began.Add(p.Warm + p.For + grace),
		book: newBook(), giveUp: giveUp,
	}
	var workers, reporter sync.WaitGroup
	for i, step := range steps {
		workers.Go(func() {
			if p.Rate > 0 {
				d.arrive(ctx, i, step)
			} else {
				d.loop(ctx, i, step)
			}
		})
	}
	ended := make(chan struct{})
	if p.Progress != nil {
		reporter.Go(func() { d.report(ended) })
	}
	workers.Wait()
	close(ended)
	reporter.Wait()
	return d.result(ctx)
}

// loop is one worker of a closed loop.
func (d *driver) loop(ctx context.Context, worker int, step Step) {
	for ctx.Err() == nil {
		began := d.Now()
		if !began.Before(d.until) {
			return
		}
		outcome, err := step(ctx)
		now := d.Now()
		d.count(ctx, worker, now.Sub(began), outcome, err, !now.Before(d.from) && now.Before(d.until), true)
		if err != nil && !pause(ctx, failPause) {
			return
		}
	}
}

// arrive is one worker of an open loop: it takes the next arrival, waits until it is due, and is
// late when it was busy for longer.
func (d *driver) arrive(ctx context.Context, worker int, step Step) {
	for ctx.Err() == nil {
		n := d.next.Add(1) - 1
		due := d.began.Add(d.after(n))
		if !due.Before(d.until) {
			return
		}
		now := d.Now()
		if !now.Before(d.last) {
			d.book.unsent(worker, d.last.Sub(due), !due.Before(d.from))
			continue
		}
		if !pause(ctx, due.Sub(now)) {
			return
		}
		outcome, err := step(ctx)
		now = d.Now()
		d.count(ctx, worker, now.Sub(due), outcome, err, !due.Before(d.from), now.Before(d.until))
	}
}

// after is when arrival n is due.
func (d *driver) after(n int64) time.Duration {
	return time.Duration(float64(n) / d.Rate * float64(time.Second))
}

// count books a step. What ended because ctx did is nobody's fault.
func (d *driver) count(ctx context.Context, worker int, took time.Duration, o Outcome, err error, counts, inTime bool) {
	if err != nil && ctx.Err() != nil {
		return
	}
	if answers, failures := d.book.step(worker, took, o, err, counts, inTime); answers == 0 && failures >= hopeless {
		d.giveUp(fmt.Errorf("%w: %w", errHopeless, err))
	}
}

// pause waits for d, or less when ctx ends; it reports whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
