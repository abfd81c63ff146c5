//go:build unix

package main

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-dev/holdfast/api"
)

// job is what exec was told: what to hold, and what to run under it.
type job struct {
	asked
	terms
	argv         []string
	path         string // of argv[0], as found
	onFailure    string // release or commit
	conflictExit int    // in place of 75
	passToken    bool
	body         api.ReserveRequest
}

func (a *app) execCommand() *cobra.Command {
	var j job
	cmd := &cobra.Command{
		Use:   "exec ACTION [SUBJECT] -- CMD ARG…",
		Short: "Run a command while holding a slot",
		Long: "Take a slot, run CMD while extending the hold, and give the slot back. No shell is put between,\n" +
			"and input, output and the terminal are the command's. When the hold cannot be kept, the command\n" +
			"gets TERM, and KILL before the slot may be given on.\n\n" +
			"CMD finds HOLDFAST_RESERVATION_ID, _LIMIT, _SUBJECT, _SLOT, _FENCE and _EXPIRES_AT in its\n" +
			"environment. Pass slot and fence to what you write to.\n\n" +
			"Exit code: that of CMD, 128+N when signal N ended it; 75 no free slot (in time), 76 hold lost and\n" +
			"CMD stopped; 126 CMD cannot be run, 127 CMD not found, 125 holdfast failed before CMD started\n" +
			"(2, 3, 4 and 69 as everywhere).",
		Example: "  holdfast exec export user:u_42 -- ./export.sh --all\n" +
			"  holdfast exec train --wait 2h -- python3 train.py         # wait for a slot\n" +
			"  holdfast exec backup --ttl 60s --kill-after 20s -- tar -cf /backup/home.tar /home\n" +
			"  holdfast exec report --conflict-exit-code 0 -- ./report   # in cron: another one runs, and that is fine",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := j.read(cmd, args); err != nil {
				return err
			}
			return a.exec(cmd.Context(), &j)
		},
	}
	j.flags(cmd.Flags())
	return cmd
}

func (j *job) flags(flags *pflag.FlagSet) {
	flags.DurationVar(&j.asked.ttl, "ttl", 30*time.Second, "hold for `TIME` from each extend, one every third of it")
	flags.DurationVar(&j.killAfter, "kill-after", 5*time.Second, "send KILL `TIME` after TERM")
	flags.DurationVar(&j.margin, "margin", 2*time.Second, "be gone `TIME` before the slot may be given on")
	flags.DurationVar(&j.wait, "wait", 0, "wait up to `TIME` for a free slot (default: refuse at once)")
	flags.Int64Var(&j.cost, "cost", 1, "charge `N` to counting limits")
	flags.StringVar(&j.owner, "owner", "", "`NAME` of who works under it (default: the command's)")
	flags.StringArrayVar(&j.labels, "label", nil, "remember `KEY=VALUE` with it (may be repeated)")
	flags.StringVar(&j.onFailure, "on-failure", "release", "`WHAT` becomes of the charge when CMD fails: release or commit")
	flags.IntVar(&j.conflictExit, "conflict-exit-code", exitNoSlot, "exit with `N` when there is no free slot")
	flags.BoolVar(&j.passToken, "pass-token", false, "give CMD the token and the URL too")
}

// read judges arguments and flags; what is wrong with them is exit 2.
func (j *job) read(cmd *cobra.Command, args []string) error {
	dash := cmd.ArgsLenAtDash()
	if dash < 1 || dash > 2 || dash == len(args) {
		return usage("exec wants an action, perhaps a subject, then -- and a command").
			next("written as", cmd.UseLine()).next("for example", "holdfast exec export user:u_42 -- ./export.sh").
			next("help", cmd.CommandPath()+" --help")
	}
	j.argv = args[dash:]
	if j.argv[0] == "--" && len(j.argv) > 1 {
		j.argv = j.argv[1:] // no command is called that; whoever builds the line wrote it once too often
	}
	if err := j.take(args[:dash]); err != nil {
		return err
	}
	if j.owner == "" {
		j.owner = filepath.Base(j.argv[0])
	}
	var err error
	if j.body, err = j.request(cmd.Flags()); err != nil {
		return err
	}
	j.body.TTLSeconds = wholeSeconds(j.asked.ttl) // also when it is the default: we count with it
	j.terms.ttl = time.Duration(*j.body.TTLSeconds) * time.Second
	return j.judge()
}

// judge looks at the flags together.
func (j *job) judge() error {
	switch {
	case j.asked.ttl < 0 || j.killAfter < 0 || j.margin < 0 || j.wait < 0:
		return usage("--ttl, --kill-after, --margin and --wait must not be below 0")
	case !j.fit():
		return usage("--ttl %s is too short: it must be above %s, which is twice --kill-after and --margin together",
			short(j.terms.ttl), 2*(j.killAfter+j.margin)).
			next("longer", "--ttl "+(2*(j.killAfter+j.margin)+time.Second).Truncate(time.Second).String()).
			next("or quicker to kill", "--kill-after 1s --margin 1s")
	case j.onFailure != "release" && j.onFailure != "commit":
		return usage("--on-failure %q is neither release nor commit", j.onFailure)
	case j.conflictExit < 0 || j.conflictExit > 255:
		return usage("--conflict-exit-code %d is not within 0 and 255", j.conflictExit)
	}
	return nil
}

// exec takes a slot, runs the command, and settles.
func (a *app) exec(ctx context.Context, j *job) error {
	caught, letGo := takeSignals(ctx)
	defer letGo()
	r := &execution{app: a, job: j, ctx: ctx, caught: caught}
	if err := r.begin(); err != nil {
		return a.before(ctx, err, j)
	}
	return r.end(r.watchOver())
}

// before is how a run ends whose command did not start.
func (a *app) before(ctx context.Context, err error, j *job) error {
	if said, ok := errors.AsType[ended](err); ok {
		return said
	}
	failed := *a.explain(err)
	if problem, ok := errors.AsType[*api.Problem](err); ok && problem.Code == api.NoFreeSlot {
		failed.hints = nil
		if len(problem.Holders) > 0 {
			failed.table = holdersTable(problem.Holders).render("  ")
		}
		failed.next("wait for one", "holdfast exec "+j.words()+" --wait 2m -- …")
	}
	switch failed.exit = exitOf(ctx, err); failed.exit {
	case exitFailed:
		failed.exit = exitBefore
	case exitNoSlot:
		failed.exit = j.conflictExit
	}
	return &failed
}
