package webhooks

import (
	"context"
	"time"
)

// begin sends what may go, and says how long there is nothing to do.
func (c *courier) begin(hurry context.Context) time.Duration {
	now := c.d.cfg.Now()
	wait := placeEvery
	if c.dirty {
		wait = min(wait, max(flushEvery-now.Sub(c.flushed), 0))
	}
	if c.inTrouble() {
		return max(c.trouble.Sub(now), 0)
	}
	for c.flights < mostFlights && c.d.onDuty() {
		l, due := c.q.next(now)
		if l == nil {
			if !due.IsZero() {
				wait = min(wait, max(due.Sub(now), 0))
			}
			break
		}
		c.send(hurry, l)
	}
	return wait
}

func (c *courier) send(hurry context.Context, l *letter) {
	l.flying = true
	c.flights++
	hook := c.hook.Load()
	go func() { c.landed <- landing{l, c.d.poster.post(hurry, hook, &l.Letter)} }()
}

// settle takes in what became of a delivery.
func (c *courier) settle(l landing) {
	c.flights--
	l.letter.flying, c.dirty = false, true
	now := c.d.cfg.Now().UTC().Truncate(time.Millisecond)
	c.d.metrics.deliveries.WithLabelValues(l.trouble).Inc()
	c.state.Status, c.state.Trouble = int64(l.status), ""
	if l.trouble == accepted {
		c.state.Accepted++
		c.state.AcceptedAt = now
		c.d.metrics.delay.Observe(now.Sub(l.letter.At).Seconds())
		c.q.finish(l.letter)
		c.count()
		return
	}
	c.state.Failed++
	c.state.FailedAt, c.state.Trouble = now, l.trouble
	l.letter.tries++
	if l.letter.tries >= MaxTries || now.Sub(l.letter.At) >= GiveUpAfter {
		c.giveUp("tries")
		c.q.finish(l.letter)
		c.count()
		return
	}
	l.letter.due = now.Add(backOff(l.letter.tries, c.d.cfg.FirstRetry, c.d.cfg.MostRetry))
}

func (c *courier) giveUp(why string) {
	c.state.Dropped++
	c.d.metrics.dropped.WithLabelValues(why).Inc()
}

// count tells the metrics how much waits.
func (c *courier) count() { c.d.queued(c.key, waits{c.q.left, c.q.full()}) }

// finish lets what is under way end, within reason, and writes down what was accepted.
func (c *courier) finish(hurry context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(hurry), callWithin)
	defer cancel()
	late := time.NewTimer(lastFlights)
	defer late.Stop()
	for c.flights > 0 {
		select {
		case l := <-c.landed:
			c.settle(l)
			continue
		case <-hurry.Done():
		case <-late.C:
		}
		break
	}
	err := c.flush(ctx)
	c.abandon()
	return err
}

// abandon waits for the deliveries under way, whose answers nobody hears: each has its own end.
func (c *courier) abandon() {
	c.d.queued(c.key, waits{})
	c.cut()
	for ; c.flights > 0; c.flights-- {
		<-c.landed
	}
}

// rest reports whether d has passed, false when ctx ended before.
func rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
