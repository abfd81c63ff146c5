package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/load"
)

// arm is one thing that is measured in every round of its part.
type arm struct {
	name    string
	workers int
	// begin makes the steps of one measurement; done, when not nil, cleans up after it, untimed.
	begin func(ctx context.Context) (prepare func(worker int) (load.Step, error), done func(context.Context) error, err error)
}

// figure is one measurement.
type figure struct {
	rate     float64 // answers a second
	p50, p99 time.Duration
}

// figures are all measurements of a run, by arm, one a round.
type figures map[string][]figure

// median of the rates of an arm; 0 when it was not measured.
func (f figures) median(name string) float64 { return median(rates(f[name])) }

func rates(fs []figure) []float64 {
	var out []float64
	for _, m := range fs {
		out = append(out, m.rate)
	}
	return out
}

func median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	all = slices.Clone(all)
	slices.Sort(all)
	n := len(all)
	return (all[n/2] + all[(n-1)/2]) / 2
}

// ratio is what a bar is compared with: of the medians, with the least and the most of any round.
type ratio struct{ is, least, most float64 }

// over is the ratio of two arms' rates; ok is false when one was not measured.
func (f figures) over(a, b string) (ratio, bool) {
	return f.by(a, b, func(m figure) float64 { return m.rate })
}

func (f figures) by(a, b string, of func(figure) float64) (ratio, bool) {
	n := min(len(f[a]), len(f[b]))
	if n == 0 {
		return ratio{}, false
	}
	var as, bs, each []float64
	for i := range n {
		x, y := of(f[a][i]), of(f[b][i])
		as, bs = append(as, x), append(bs, y)
		if y > 0 {
			each = append(each, x/y)
		}
	}
	if median(bs) == 0 || len(each) == 0 {
		return ratio{}, false
	}
	return ratio{median(as) / median(bs), slices.Min(each), slices.Max(each)}, true
}

// once is the ratio of a figure that was measured by itself, or several times.
func once(all ...float64) ratio { return ratio{median(all), slices.Min(all), slices.Max(all)} }

// measure runs every arm once a round. Each round begins with another arm, so that none always
// follows the same one.
func (r *rig) measure(ctx context.Context, arms []arm) error {
	for round := range r.rounds {
		for i := range arms {
			a := arms[(i+round)%len(arms)]
			m, err := r.once(ctx, a)
			if err != nil {
				return fmt.Errorf("%s: %w", a.name, err)
			}
			r.figures[a.name] = append(r.figures[a.name], m)
			r.say("round %d of %d  %-44s %9.0f/s  p50 %-9s p99 %s", round+1, r.rounds, a.name, m.rate, m.p50, m.p99)
		}
	}
	return nil
}

func (r *rig) once(ctx context.Context, a arm) (figure, error) {
	prepare, done, err := a.begin(ctx)
	if err != nil {
		return figure{}, err
	}
	result, err := load.Drive(ctx, load.Plan{Workers: a.workers, Warm: r.warm, For: r.length, Now: now}, prepare)
	if done != nil {
		if fault := done(ctx); fault != nil && err == nil {
			err = fault
		}
	}
	if err != nil {
		return figure{}, err
	}
	if result.Failed > 0 {
		r.note("%s: %d steps failed: %v", a.name, result.Failed, result.Errors)
	}
	return figure{result.Rate(), result.At(50), result.At(99)}, nil
}

func (r *rig) say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// note is something the reader of the tables must know.
func (r *rig) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.say("note: %s", text)
	if !slices.Contains(r.notes, text) {
		r.notes = append(r.notes, text)
	}
}
