//go:build unix

package main

import (
	"context"
	"net/http"
	"syscall"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

// lastRelease is the least that a settling may take, also of a hold that is out of time.
const lastRelease = 2 * time.Second

// end settles the hold and gives the exit code: the command's own, or 76 when it was stopped
// because of the hold, or ended well after the hold may have been lost.
func (r *execution) end(status ended) error {
	if r.overdue {
		r.app.say("holdfast: hold lost: holdfast itself was stopped until its time was over")
	}
	if r.lost != nil {
		if !isLost(r.lost) {
			_ = r.settle("release", api.ReleaseRequest{Reason: "the hold could not be extended in time"}, lastRelease) // else it runs out
		}
		return r.verdict(status)
	}
	verb, body := "commit", any(api.CommitRequest{})
	if status.code != exitDone && r.job.onFailure != "commit" {
		verb, body = "release", api.ReleaseRequest{Reason: "the command " + status.Error()}
	}
	left := r.job.terms.ttl - r.app.clocks().since(r.from)
	err := r.settle(verb, body, min(max(left, lastRelease), r.app.client.Timeout))
	switch {
	case err == nil:
	case isLost(err):
		r.lost = err
		r.app.say("holdfast: hold lost before the command had ended: %s", printable(r.app.explain(err).what))
	default:
		r.app.say("holdfast: %s could not be settled: %s; it runs out in at most %s", r.id, printable(r.app.explain(err).what), short(left))
	}
	return r.verdict(status)
}

// verdict is the exit code. A failure of the command itself is its own to tell; success under a
// hold that was lost is none.
func (r *execution) verdict(status ended) error {
	switch {
	case r.cut, r.overdue, r.lost != nil && status.code == exitDone:
		return ended{exitLost}
	default:
		return status
	}
}

// settle commits or releases, again and again while the server is away, until within is over or
// a signal says that it is enough. Nothing runs any more, so nobody is harmed by being late.
func (r *execution) settle(verb string, body any, within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), within)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		r.call.http.CloseIdleConnections()
		said := false
		for wait := firstAgain; ; wait = min(2*wait, longestAgain) {
			_, err := r.call.do(ctx, act{method: http.MethodPost, path: of(r.id, verb), body: body, repeatable: true})
			if err == nil || !mayPass(err) || !sleep(ctx, jitter(wait)) {
				done <- err
				return
			}
			if !said {
				said = true
				r.app.say("holdfast: %s cannot be settled yet: %s; trying on, for up to %s", r.id, printable(r.app.explain(err).what), short(within))
			}
		}
	}()
	for {
		select {
		case err := <-done:
			return err
		case s := <-r.caught:
			if s == syscall.SIGINT || s == syscall.SIGTERM || s == syscall.SIGQUIT || s == syscall.SIGHUP {
				cancel()
			}
		}
	}
}
