package janitor

import (
	"context"
	"sync"
	"time"

	"github.com/robfig/cron/v3"
)

// How often the watchdog looks: at the shortest interval of all jobs, within these bounds.
const (
	minWatch = time.Second
	maxWatch = time.Minute
)

// watch looks after cron until ctx ends, and returns once what it started has ended. cron
// waits by the wall clock; one.now() is read for its monotonic part alone, which nobody sets.
func (j *Janitor) watch(ctx context.Context, ticks []cron.Job) {
	var running sync.WaitGroup
	defer running.Wait()
	look := time.NewTicker(j.lookEvery())
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			now := j.now()
			for i, one := range j.jobs {
				if one.silent(now) <= 2*one.every {
					continue
				}
				one.setStarted(now) // also when it is skipped: the next look comes soon enough
				one.count.rescued.WithLabelValues(one.Name).Inc()
				one.log.Warn("not started for two intervals: started by the watchdog")
				running.Go(ticks[i].Run)
			}
		}
	}
}

func (j *Janitor) lookEvery() time.Duration {
	every := maxWatch
	for _, one := range j.jobs {
		every = min(every, one.every)
	}
	return max(every, minWatch)
}
