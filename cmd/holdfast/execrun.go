//go:build unix

package main

import (
	"context"
	"os"
	"time"
)

// Bounds of a run.
const (
	killPatience = 5 * time.Second // for what KILL does not end: a process in the kernel
	askPatience  = 5 * time.Second // for the guard to say whether it got a signal too
	guardGoodbye = time.Second     // for the guard to end
)

// execution is one command under one hold. Its loop owns everything here; what waits (the
// server, the command, the guard) tells it by channels.
type execution struct {
	app    *app
	job    *job
	ctx    context.Context // main's: its end is one more way to be told to stop
	call   *caller
	caught <-chan os.Signal

	id        string
	from      instant // the first sending of the last act that took effect: the hold's time counts from it
	keep      keeping
	guard     *guard
	group     group
	child     *child
	own       bool       // the command has a process group of its own
	asked     []question // signals that the guard was asked about, the oldest first
	questions int        // so many were asked

	result   *ended  // of the command; nil while it runs
	lost     error   // why it had to stop; nil while the hold is held
	cut      bool    // it was stopped because of that
	overdue  bool    // it had ended when we looked, past the deadline: the guard may have done it
	stopping bool    // TERM was sent
	termed   instant // when
	killed   instant // when KILL was sent first; zero: not yet
}

// begin does everything up to the start of the command. On an error nothing runs and no slot
// is held, as far as that can be known.
func (r *execution) begin() (err error) {
	if err := r.job.find(); err != nil {
		return err
	}
	if r.call, err = r.app.caller(); err != nil {
		return err
	}
	got, err := r.takeSlot()
	if err != nil {
		return err
	}
	r.id, r.from = got.hold.ID, got.from
	defer func() {
		if err != nil {
			r.keep.stop()
			r.giveBack(r.id, "the command did not start")
		}
	}()
	env, err := r.environment(got.hold)
	if err != nil {
		return err
	}
	r.keep.plan(r)
	r.own = !terminal(r.app.stdin) && !terminal(r.app.stdout) && !terminal(r.app.stderr)
	if err := r.putGuard(); err != nil {
		return err
	}
	r.guard.tell("starts %s", r.id) // we may be killed between the start and the line that tells of it
	if r.child, err = r.app.start(r.job, env, r.own); err != nil {
		r.guard.end(guardGoodbye)
		return err
	}
	r.group = group{child: r.child.pid, mark: r.id}
	if r.own {
		r.group.pgid = r.child.pid
	}
	r.guard.until(r.job.terms, r.from)
	r.guard.tell("group %d %d %s", r.group.pgid, r.group.child, r.group.mark)
	return nil
}

// putGuard starts the guard and waits until it is in place, keeping the hold meanwhile.
func (r *execution) putGuard() (err error) {
	if r.guard, err = startGuard(!r.own, r.app.clocks); err != nil {
		return fail(exitBefore, "the guard process cannot be started: %w", err).next("look at", "how many processes this machine allows")
	}
	ticker := time.NewTicker(r.job.tick())
	defer ticker.Stop()
	for {
		select {
		case <-r.guard.ready:
			return nil
		case <-r.guard.dead:
			return fail(exitBefore, "the guard process ended at once")
		case s := <-r.caught:
			err = r.quit(s)
		case <-r.ctx.Done():
			err = r.quit(signalOf(r.ctx))
		case b := <-r.keep.beats:
			r.beat(b)
		case <-ticker.C:
			r.look()
		}
		if r.lost != nil {
			err = fail(exitLost, "hold lost before the command started: %w", r.lost)
		}
		if err != nil {
			r.guard.end(guardGoodbye)
			return err
		}
	}
}

// quit is how a run ends that a signal stops before the command started; nil for a signal that
// stops nothing.
func (r *execution) quit(s os.Signal) error {
	if !ends(s) {
		return nil
	}
	r.app.say("holdfast: stopped by signal: %s", s)
	return signalled(s)
}

// watchOver runs until the command and its group have ended.
func (r *execution) watchOver() ended {
	ticker := time.NewTicker(r.job.tick())
	defer ticker.Stop()
	stop, alone := r.ctx.Done(), r.guard.dead
	for r.result == nil || r.leftover() {
		select {
		case s := <-r.caught:
			r.passOn(s)
		case <-stop:
			r.passOn(signalOf(r.ctx))
			stop = nil
		case a := <-r.guard.answers:
			r.answered(a)
		case b := <-r.keep.beats:
			r.beat(b)
		case status := <-r.child.done:
			r.reaped(status)
			ticker.Reset(leastTick)
		case <-alone:
			r.app.say("holdfast: the guard process is gone: if holdfast exec is killed now, what the command started may live on")
			alone = nil
			r.passOnAsked(0)
		case <-ticker.C:
			r.look()
		}
	}
	r.keep.stop() // no extend leaves us after the hold is settled
	r.guard.end(guardGoodbye)
	return *r.result
}

// look compares the clocks with the deadline, and does what is due. An extend that has taken
// effect is heard of first: on a busy machine both may be waiting for us.
func (r *execution) look() {
	now := r.app.clocks()
	r.hearBeat()
	gone := now.since(r.from)
	if !r.stopping && gone >= r.job.termAt() {
		r.lose(errOutOfTime)
	}
	if r.stopping && r.child != nil && (now.since(r.termed) >= r.job.killAfter || gone >= r.job.killAt()) {
		if r.killed == (instant{}) {
			r.killed = now
		}
		r.group.kill()
	}
	r.keep.due(r, now)
	r.passOnAsked(askPatience)
}

// hearBeat takes the outcome of a try that has ended, if one has.
func (r *execution) hearBeat() {
	select {
	case b := <-r.keep.beats:
		r.beat(b)
	default:
	}
}

// lose stops the command because the hold is lost, or cannot be kept in time.
func (r *execution) lose(why error) {
	if r.lost != nil {
		return
	}
	r.lost = why
	if r.child != nil {
		r.cut = r.result == nil
		r.app.say("holdfast: hold lost: %s; the command is stopped", printable(r.app.explain(why).what))
		r.stop()
	}
}

// stop sends TERM once; look sends KILL later.
func (r *execution) stop() {
	if r.stopping {
		return
	}
	r.stopping, r.termed = true, r.app.clocks()
	r.guard.tell("stopping")
	r.group.stop()
}

// reaped notes how the command ended. What it left behind is stopped before the slot is given
// back.
func (r *execution) reaped(status ended) {
	r.result, r.group.child = &status, 0
	r.guard.tell("reaped")
	r.hearBeat()
	if r.lost == nil && r.app.clocks().since(r.from) >= r.job.termAt() {
		r.overdue = true // we were stopped, and the guard may have acted
	}
}

// leftover reports whether processes of the command are left, and stops them.
func (r *execution) leftover() bool {
	if !r.group.alive() {
		return false
	}
	r.stop()
	if r.killed != (instant{}) && r.app.clocks().since(r.killed) > killPatience {
		r.app.say("holdfast: processes of the command are left that KILL does not end")
		return false
	}
	return true
}
