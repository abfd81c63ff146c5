//go:build unix

package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

// Bounds of waiting for a slot.
const (
	leastTry    = time.Second            // that one try may take, at the end of --wait too
	tellEvery   = 10 * time.Second       // between two lines about the wait
	graceForTry = 200 * time.Millisecond // for a try under way when a signal ends the wait
)

// grant is a hold, and the moment from which its time counts.
type grant struct {
	hold api.Reservation
	from instant
}

// takeSlot takes a slot, waiting in line for --wait. A signal ends the wait; a slot that was
// granted to the try under way is given back first.
func (r *execution) takeSlot() (grant, error) {
	base := context.WithoutCancel(r.ctx)
	waiting, stopWaiting := context.WithCancel(base)
	defer stopWaiting()
	trying, stopTrying := context.WithCancel(base)
	defer stopTrying()
	type outcome struct {
		grant
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		got, err := r.inLine(waiting, trying)
		done <- outcome{got, err}
	}()
	giveUp := func(s os.Signal) (grant, error) {
		stopWaiting()
		grace := time.AfterFunc(graceForTry, stopTrying)
		defer grace.Stop()
		if o := <-done; o.err == nil {
			r.giveBack(o.hold.ID, "a signal ended the wait")
		}
		return grant{}, r.quit(s)
	}
	for {
		select {
		case o := <-done:
			return o.grant, o.err
		case s := <-r.caught:
			if ends(s) {
				return giveUp(s)
			}
		case <-r.ctx.Done():
			return giveUp(signalOf(r.ctx))
		}
	}
}

// giveBack releases a hold under which nothing was run. If it cannot, the hold runs out.
func (r *execution) giveBack(id, reason string) {
	err := r.call.giveBack(r.ctx, id, reason)
	if err != nil && !isLost(err) {
		r.app.say("holdfast: %s could not be given back (%s); it is free in at most %s", id, printable(r.app.explain(err).what), short(r.job.terms.ttl))
	}
}

// inLine asks for a slot, again and again for --wait while it is refused or the server is away.
func (r *execution) inLine(waiting, trying context.Context) (grant, error) {
	began := r.app.clocks()
	l := line{run: r, key: newKey()}
	for pause := leastPause; ; pause = min(2*pause, longestPause) {
		left := r.job.wait - r.app.clocks().since(began)
		got, err := l.try(trying, left)
		if err != nil && waiting.Err() != nil {
			l.leave()
		}
		if err == nil || waiting.Err() != nil {
			return got, err
		}
		if left = r.job.wait - r.app.clocks().since(began); left <= 0 || !mayPass(err) {
			return got, err
		}
		l.tell(err, left)
		l.joins = true
		if !sleep(waiting, min(left, jitter(beforeLine(err, pause)))) {
			l.leave()
			return got, err
		}
	}
}

// line is one wait, under one Idempotency-Key.
type line struct {
	run     *execution
	key     string
	unknown *instant // the first sending of a try whose outcome is not known
	joins   bool     // it was refused once: from now on it stands in line
	last    act      // what was sent last
	told    instant
	about   string
}

// try asks once. The time of a hold counts from before the sending that may have made it: with
// answers lost on the way that can be an earlier try's, and then it is extended at once.
func (l *line) try(ctx context.Context, left time.Duration) (grant, error) {
	r, body, wait := l.run, l.run.job.body, time.Duration(0)
	if r.job.wait > 0 {
		if l.joins {
			body, wait = inLine(body, left)
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(left, leastTry, wait+leastTry)) // the refusal at the end of the wait is waited for
		defer cancel()
	}
	got := grant{from: r.app.clocks()}
	l.last = act{method: http.MethodPost, path: "/v1/reservations", body: body, wait: wait, key: l.key, into: &got.hold}
	told, err := r.call.do(ctx, l.last)
	switch {
	case err == nil && told.replayed && l.unknown != nil:
		got.from = *l.unknown
		return l.renew(ctx, got)
	case err == nil && r.app.clocks().since(got.from) > leastTry:
		return l.renew(ctx, got) // granted after a wait: its time counts from the sending
	case err != nil && l.unknown == nil && mayHaveHappened(err):
		l.unknown = &got.from
	}
	if p, ok := errors.AsType[*api.Problem](err); ok && p.Code == api.HoldLost {
		l.key, l.unknown = newKey(), nil // what an earlier try was granted has ended: ask anew
		err = &unreachable{url: r.call.target.url, err: p}
	}
	return got, err
}

// leave gives its place up, so that others are not held up by it.
func (l *line) leave() { l.run.call.leaveLine(l.run.ctx, l.last) }

// renew extends a hold whose time began with an earlier try.
func (l *line) renew(ctx context.Context, got grant) (grant, error) {
	from := l.run.app.clocks()
	err := l.run.extend(ctx, got.hold.ID)
	if err == nil {
		got.from = from
	} else if isLost(err) {
		l.key, l.unknown = newKey(), nil
		return got, &unreachable{url: l.run.call.target.url, err: err}
	}
	return got, nil
}

// mayHaveHappened reports whether an act may have taken effect although no answer says so.
func mayHaveHappened(err error) bool {
	if lost, ok := errors.AsType[*unreachable](err); ok {
		return lost.sent
	}
	p, ok := errors.AsType[*api.Problem](err)
	return ok && (p.Code == api.OutcomeUnknown || p.Code == api.IdempotencyInFlight)
}

// tell says what is waited for: at first, when it is something else, and now and then.
func (l *line) tell(err error, left time.Duration) {
	now := l.run.app.clocks()
	about := "away"
	problem, ok := errors.AsType[*api.Problem](err)
	if ok {
		about = string(problem.Code) + problem.DecidedBy
	}
	if about == l.about && now.since(l.told) < tellEvery {
		return
	}
	l.about, l.told = about, now
	words := l.run.app.explain(err).what
	if ok && problem.Code == api.NoFreeSlot {
		words = lineWords(problem)
	}
	l.run.app.say("holdfast: waiting, %s left: %s", short(left), printable(words))
}

// lineWords says how a line stands: how many wait, who holds, the oldest hold, the next expiry.
func lineWords(p *api.Problem) string {
	words := []string{p.DecidedBy + " has no free slot"}
	if p.Used != nil && p.Amount != nil {
		words[0] += " (" + number(*p.Used) + " of " + number(*p.Amount) + " held)"
	}
	if p.Waiting != nil && *p.Waiting > 0 {
		words = append(words, number(*p.Waiting)+" in line")
	}
	var oldest api.Holder
	var names []string
	next := p.RetryAfterSeconds
	for _, h := range p.Holders {
		if h.HeldSeconds >= oldest.HeldSeconds {
			oldest = h
		}
		if next == nil || h.ExpiresInSeconds < *next {
			next = &h.ExpiresInSeconds
		}
		names = append(names, strings.Join(strings.Fields(owner(h.Owner)), " on "))
	}
	if len(names) > 0 {
		words = append(words, "held by "+some(names), "the oldest hold is "+seconds(oldest.HeldSeconds)+" old ("+oldest.ID+")")
	}
	if next != nil {
		words = append(words, "the next expires in "+seconds(*next))
	}
	return strings.Join(words, "; ")
}

// maxNames is how many holders a line names.
const maxNames = 3

// some names a few, and how many more there are.
func some(names []string) string {
	if len(names) <= maxNames {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:maxNames], ", ") + " and " + number(int64(len(names)-maxNames)) + " more"
}
