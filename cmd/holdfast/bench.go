package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/load"
)

// benched is what a bench was asked for.
type benched struct {
	verb     load.Verb
	keys     load.Keys
	limits   int
	workers  int
	rate     float64
	warm     time.Duration
	length   time.Duration
	ttl      time.Duration
	batch    int
	private  bool
	progress time.Duration
}

// maxBenchLimits is how many limits one check of a bench may meet.
const maxBenchLimits = 10

func (a *app) benchCommand() *cobra.Command {
	var b benched
	var keys string
	cmd := &cobra.Command{
		Use:   "bench [VERB]",
		Short: "Measure a server: how many answers a second, and how late",
		Long: "Measure a server: how many answers a second, and how late. VERB is one of\n" +
			"  " + strings.Join(load.VerbNames(), ", ") + "\n" +
			"and reserve-release when left out; a cycle is measured as a whole.\n\n" +
			"Without --rate each worker asks again when it was answered (closed loop): how much can be done.\n" +
			"With --rate requests start at that constant rate, whatever the server does, and each is timed from\n" +
			"when it was due (open loop, no coordinated omission): how late answers are at that load.\n\n" +
			"It makes limits of its own under a name nobody else has, and removes them with every hold at the\n" +
			"end. It needs a token with limits:write and act-for. See BENCHMARKS.md.",
		Example: "  holdfast bench --private                            # a server of its own, fsync on, gone afterwards\n" +
			"  holdfast bench consume --limits 10 --workers 256    # the server of the context\n" +
			"  holdfast bench --rate 2000 --for 1m                 # latencies at 2,000 cycles a second\n" +
			"  holdfast bench refusal --keys hot -o json",
		Args: args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := b.take(args, keys); err != nil {
				return err
			}
			return a.bench(cmd.Context(), b)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&keys, "keys", "spread", "which subjects are asked for: `HOW` is spread, zipf or hot")
	flags.IntVar(&b.keys.Subjects, "subjects", 100_000, "ask for `N` subjects")
	flags.IntVar(&b.limits, "limits", 2, "`N` limits match each check, 1 to 10: one concurrent and windows, for consume windows alone")
	flags.IntVar(&b.workers, "workers", 64, "`N` requests at once, at most")
	flags.Float64Var(&b.rate, "rate", 0, "open loop: start `N` a second (default: closed loop)")
	flags.DurationVar(&b.warm, "warm", 2*time.Second, "warm up for `TIME` before counting")
	flags.DurationVar(&b.length, "for", 10*time.Second, "count for `TIME`")
	flags.DurationVar(&b.ttl, "ttl", 5*time.Minute, "hold for `TIME`")
	flags.IntVar(&b.batch, "batch", 100, "heartbeats: `N` holds a call")
	flags.BoolVar(&b.private, "private", false, "start a server for it in a temporary folder, and stop it afterwards")
	flags.DurationVar(&b.progress, "progress", time.Second, "tell on stderr every `TIME` how it goes")
	return cmd
}

// take judges what was asked for; what the load itself can judge it does.
func (b *benched) take(args []string, keys string) error {
	if len(args) == 1 {
		var err error
		if b.verb, err = load.ParseVerb(args[0]); err != nil {
			failed := usage("%q is no verb of bench", args[0])
			if near := nearest(args[0], load.VerbNames()); near != "" {
				failed.next("did you mean", "holdfast bench "+near)
			}
			return failed.next("all verbs", strings.Join(load.VerbNames(), ", "))
		}
	}
	spreads := map[string]load.Spread{"spread": load.Even, "zipf": load.Zipf, "hot": load.Hot}
	spread, known := spreads[keys]
	switch {
	case !known:
		return usage("--keys: %q is not one of spread, zipf, hot", keys)
	case b.limits < 1 || b.limits > maxBenchLimits:
		return usage("--limits must be within 1 and %d", maxBenchLimits)
	case b.progress < 0:
		return usage("--progress must not be negative")
	}
	b.keys.Spread = spread
	return nil
}

// bench measures the server of this run, or one it starts.
func (a *app) bench(ctx context.Context, b benched) error {
	if b.private {
		return a.onPrivate(ctx, func(ctx context.Context, own *caller) error { return a.benchAt(ctx, own, b) })
	}
	call, err := a.caller()
	if err != nil {
		return err
	}
	return a.benchAt(ctx, call, b)
}

// benchAt makes the limits, drives, tells, and takes everything away again.
func (a *app) benchAt(ctx context.Context, call *caller, b benched) (err error) {
	token, err := call.target.token()
	if err != nil {
		return err
	}
	end, err := load.NewEndpoint(call.target.url, token, a.client.Timeout, a.now)
	if err != nil {
		return usage("%w", err)
	}
	own := newBenchLimits(call)
	work := load.Work{Verb: b.verb, Keys: b.keys, Kind: benchKind, Name: own.name + "-", Act: own.name, TTL: b.ttl, Batch: b.batch, Kept: &load.Kept{}}
	prepare, hangUp, err := work.Prepare(ctx, end)
	if err != nil {
		return usage("%w", err)
	}
	defer hangUp()
	defer func() {
		if left := a.benchDone(ctx, end, own, work.Kept, b); left != nil && err == nil {
			err = left
		}
	}()
	if err := own.make(ctx, b); err != nil {
		return err
	}
	result, err := load.Drive(ctx, a.plan(b), prepare)
	if result == nil {
		return usage("%w", err)
	}
	if told := a.tellBench(call, b, result); told != nil {
		return told
	}
	return a.benchFault(err, result)
}

// benchCleanup bounds the giving back of what a bench holds, and then the removal of its limits.
// What is left held expires by itself.
const benchCleanup = 30 * time.Second

// benchDone gives back holds and limits, also when the bench was stopped.
func (a *app) benchDone(ctx context.Context, end *load.Endpoint, own *benchLimits, kept *load.Kept, b benched) error {
	ids := kept.Take()
	if b.private {
		return nil // all is gone with its server
	}
	ctx = context.WithoutCancel(ctx)
	if len(ids) > 0 {
		a.say("giving back %d holds", len(ids))
		giving, cancel := context.WithTimeout(ctx, benchCleanup)
		left := load.Release(giving, end, ids, b.workers)
		cancel()
		if left > 0 {
			a.say("%d holds could not be given back; they expire within %s", left, short(b.ttl))
		}
	}
	ctx, cancel := context.WithTimeout(ctx, benchCleanup)
	defer cancel()
	return own.remove(ctx)
}

func (a *app) plan(b benched) load.Plan {
	p := load.Plan{Workers: b.workers, Rate: b.rate, Warm: b.warm, For: b.length, Now: a.now, Every: b.progress}
	if b.progress > 0 {
		p.Progress = func(at load.Progress) { a.say("%s", benchProgress(at)) }
	}
	return p
}

// benchProgress is one line while it runs.
func benchProgress(p load.Progress) string {
	line := fmt.Sprintf("%5.0f of %.0f s  %9.0f/s  p50 %s  p99 %s", p.Elapsed.Seconds(), p.Total.Seconds(), p.PerSecond, latency(p.P50), latency(p.P99))
	if p.Failed > 0 {
		line += fmt.Sprintf("  %d failed", p.Failed)
	}
	if p.WarmingUp {
		line += "  warming up"
	}
	return line
}
