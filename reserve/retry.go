package reserve

import (
	"errors"
	"math/rand/v2"
	"time"
)

// giveUp answers what has been undecided for longer than its budget.
func (d *desk) giveUp(now time.Time) {
	drop := func(js []*job) []*job {
		kept := js[:0]
		for _, j := range js {
			if now.Before(j.until) {
				kept = append(kept, j)
				continue
			}
			d.reply(j, result{err: j.trouble()})
		}
		return kept
	}
	d.ready, d.waiting, d.lasting, d.own = drop(d.ready), drop(d.waiting), drop(d.lasting), drop(d.own)
	for r, js := range d.parked {
		d.parked[r] = drop(js)
	}
}

// trouble is the error of a job that was not decided in time. After a lost answer nobody may
// say that nothing happened.
func (j *job) trouble() error {
	if j.sent {
		return ErrUnknownOutcome
	}
	if j.why != nil {
		return j.why
	}
	return ErrUnavailable
}

// again decides j once more, soon the first time, then after a random pause that grows.
func (d *desk) again(j *job, why error) {
	j.tries++
	j.why = why
	d.meter.retry(why)
	if j.tries == 1 {
		d.ready = append(d.ready, j)
		return
	}
	most := mostBackOff
	if !errors.Is(why, ErrContended) {
		most = mostRest
	}
	pause := rand.N(min(most, time.Millisecond<<min(j.tries, 10)))
	time.AfterFunc(pause, func() {
		d.inbox.Lock()
		d.inbox.jobs = append(d.inbox.jobs, j)
		d.inbox.Unlock()
		d.kick()
	})
}
