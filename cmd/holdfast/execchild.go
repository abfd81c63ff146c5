//go:build unix

package main

import (
	"errors"
	"io/fs"
	"maps"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/holdfast-dev/holdfast/api"
)

// child is the command as it runs.
type child struct {
	pid  int
	done chan ended // its exit status, once
}

// find looks the command up before a slot is taken for it.
func (j *job) find() error {
	path, err := exec.LookPath(j.argv[0])
	if err != nil && !errors.Is(err, exec.ErrDot) { // a dot in PATH is the caller's wish
		return cannotRun(j.argv[0], err)
	}
	j.path = path
	return nil
}

// cannotRun tells a command that is not there from one that cannot be run.
func cannotRun(name string, err error) *failure {
	var hint string
	exit := exitNotRun
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		exit, hint = exitNoCommand, "its name, and PATH; a script needs its interpreter too"
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.EMFILE):
		exit, hint = exitBefore, "how many processes and files this machine allows"
	default:
		hint = "chmod +x, and that it begins with #! when it is a script"
	}
	if inner, ok := errors.AsType[*exec.Error](err); ok {
		err = inner.Err
	}
	return fail(exit, "%s cannot be run: %w", name, err).next("look at", hint)
}

// start runs the command. A thread is kept for it alone until it ends: the kernel takes the end
// of the thread that started it for the end of us.
func (a *app) start(j *job, env []string, own bool) (*child, error) {
	cmd := exec.Command(j.path)
	cmd.Args, cmd.Env = j.argv, env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.stdin, a.stdout, a.stderr
	cmd.SysProcAttr = childAttr(own)
	c := &child{done: make(chan ended, 1)}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			c.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			_ = cmd.Wait() // what it says is in the state
			c.done <- statusOf(cmd.ProcessState.Sys())
		}
	}()
	if err := <-started; err != nil {
		return nil, cannotRun(j.argv[0], err)
	}
	return c, nil
}

// statusOf is an exit status as a shell tells it.
func statusOf(sys any) ended {
	state, ok := sys.(syscall.WaitStatus)
	switch {
	case !ok:
		return ended{exitBefore}
	case state.Signaled():
		return ended{exitSignal + int(state.Signal())}
	default:
		return ended{state.ExitStatus()}
	}
}

// environment is what the command finds: ours without the token, and what it holds.
func (r *execution) environment(hold api.Reservation) ([]string, error) {
	env := maps.Clone(r.app.env)
	delete(env, "HOLDFAST_TOKEN")
	if r.job.passToken {
		token, err := r.call.target.token()
		if err != nil {
			return nil, err
		}
		env["HOLDFAST_TOKEN"], env["HOLDFAST_URL"] = token, r.call.target.url
	}
	var limits, slots []string
	for _, s := range hold.Slots {
		limits, slots = append(limits, s.Limit), append(slots, number(s.Slot))
	}
	env[markName] = hold.ID
	env["HOLDFAST_LIMIT"], env["HOLDFAST_SLOT"] = strings.Join(limits, ","), strings.Join(slots, ",")
	env["HOLDFAST_SUBJECT"] = hold.Subject.Kind + ":" + hold.Subject.ID
	env["HOLDFAST_FENCE"] = strconv.FormatInt(hold.Fence, 10)
	env["HOLDFAST_EXPIRES_AT"] = ""
	if hold.ExpiresAt != nil {
		text, err := hold.ExpiresAt.MarshalText()
		if err != nil {
			return nil, err
		}
		env["HOLDFAST_EXPIRES_AT"] = string(text)
	}
	pairs := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		pairs = append(pairs, name+"="+env[name])
	}
	return pairs, nil
}
