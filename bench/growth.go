package main

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/load"
)

// times runs n steps of w by workers at once and ends at the first failure.
func times(ctx context.Context, end *load.Endpoint, w load.Work, workers, n int) error {
	prepare, hangUp, err := w.Prepare(ctx, end)
	if err != nil {
		return err
	}
	defer hangUp()
	steps := make([]load.Step, workers)
	for i := range steps {
		if steps[i], err = prepare(i); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var all sync.WaitGroup
	for _, step := range steps {
		all.Go(func() {
			for next.Add(1) <= int64(n) && ctx.Err() == nil {
				if _, err := step(ctx); err != nil {
					cancel(err)
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// partCrowd is reserve and release on limits that many hold already.
func (r *rig) partCrowd(ctx context.Context) error {
	var open stack
	defer open.close()
	s, err := r.serve(ctx, "")
	if err != nil {
		return err
	}
	open.push(s.stop)
	var arms []arm
	for _, n := range crowds {
		w := asked(load.Reserve, "crowd", fmt.Sprintf("c%d-", n), oneKey)
		w.TTL, w.Kept = time.Hour, &load.Kept{}
		if err := times(ctx, s.end, w, 64, n); err != nil {
			return fmt.Errorf("%d holds on one limit: %w", n, err)
		}
		w.Verb, w.TTL = load.ReserveRelease, ttl
		arms = append(arms, posts(crowdName(n), 64, s.endpoint, w))
	}
	if err := r.measure(ctx, arms); err != nil {
		return err
	}
	r.growth("Holds on one limit (reserve+release of one subject, c=64)", "holds", crowds, crowdName)
	return nil
}

var crowds = []int{1, 10, 100, 1000, 10_000}

func crowdName(n int) string { return fmt.Sprintf("cycles beside %d holds of the limit, c=64", n) }

// partLimits is a check by the number of limits it meets.
func (r *rig) partLimits(ctx context.Context) error {
	var open stack
	defer open.close()
	s, err := r.serve(ctx, "")
	if err != nil {
		return err
	}
	open.push(s.stop)
	var arms []arm
	for _, n := range limitTable {
		arms = append(arms, posts(limitName(n), 256, s.endpoint, asked(load.Consume, fmt.Sprintf("w%d", n), fmt.Sprintf("l%d-", n), spread)))
	}
	if err := r.measure(ctx, arms); err != nil {
		return err
	}
	r.growth("Limits a check (consume, 100,000 subjects, c=256)", "limits", limitTable, limitName)
	return nil
}

func limitName(n int) string { return fmt.Sprintf("consume with %d limits, c=256", n) }

// growth adds a table of one arm a number, each over the first.
func (r *rig) growth(title, what string, numbers []int, name func(int) string) {
	t := table{title: title, header: []string{what, "a second", "p50", "p99", "over the first", "spread"}}
	for _, n := range numbers {
		fs := r.figures[name(n)]
		over, ok := r.figures.over(name(n), name(numbers[0]))
		if !ok {
			continue
		}
		t.rows = append(t.rows, []string{
			strconv.Itoa(n), fmt.Sprintf("%.0f", r.figures.median(name(n))), short(p50(fs)), short(p99(fs)), two(over.is), between(over),
		})
	}
	r.tables = append(r.tables, t)
}

// partSubjects is reserving from few and from very many subjects, each over the Puts of its own
// server. All of the many have a count already.
func (r *rig) partSubjects(ctx context.Context) error {
	var open stack
	defer open.close()
	few, plainFew, err := r.serveWithPuts(ctx, &open)
	if err != nil {
		return err
	}
	many, plainMany, err := r.serveWithPuts(ctx, &open)
	if err != nil {
		return err
	}
	r.say("counting something for each of %d subjects", r.most)
	began := now()
	err = times(ctx, many.end, load.Work{Verb: load.Consume, Act: "w1", Kind: kind, Name: "s", Keys: load.Keys{Subjects: r.most}, TTL: ttl}, 256, r.most)
	if err != nil {
		return err
	}
	r.say("done in %s", now().Sub(began).Round(time.Second))
	const c = 256
	arms := []arm{
		puts(subjectPuts(1000), c, plainFew),
		posts(subjectName(1), c, few.endpoint, asked(load.Reserve, "both", "s", oneKey)),
		posts(subjectName(1000), c, few.endpoint, asked(load.Reserve, "both", "s", thousand)),
		posts(subjectName(spreadSubjects), c, few.endpoint, asked(load.Reserve, "both", "s", spread)),
		puts(subjectPuts(r.most), c, plainMany),
		posts(subjectName(r.most), c, many.endpoint, asked(load.Reserve, "both", "s", load.Keys{Subjects: r.most})),
	}
	if err := r.measure(ctx, arms); err != nil {
		return err
	}
	r.growth("Subjects (reserve, concurrent and one window, c=256)", "subjects", []int{1, 1000, spreadSubjects, r.most}, subjectName)
	if a, ok := r.figures.over(subjectName(r.most), subjectPuts(r.most)); ok {
		if b, ok := r.figures.over(subjectName(1000), subjectPuts(1000)); ok {
			r.found["subjects"] = ratio{a.is / b.is, a.least / b.most, a.most / b.least}
		}
	}
	return nil
}

func subjectName(n int) string { return fmt.Sprintf("reserve from %d subjects, c=256", n) }
func subjectPuts(n int) string { return fmt.Sprintf("Puts beside %d subjects, c=256", n) }

// partReplicas is one and two stateless replicas on a plain etcd, on the same 1,000 subjects.
func (r *rig) partReplicas(ctx context.Context) error {
	var open stack
	defer open.close()
	dir, err := r.folder("etcd")
	if err != nil {
		return err
	}
	p, endpoint, err := self(r.dir, "etcd", dir)
	if err != nil {
		return err
	}
	open.push(p.stop)
	first, err := r.serve(ctx, endpoint)
	if err != nil {
		return err
	}
	open.push(first.stop)
	const c = 256
	w := asked(load.Reserve, "both", "s", thousand)
	one := posts("one replica, 1,000 subjects, c=256", c, first.endpoint, w)
	two := arm{name: "two replicas, 1,000 subjects, c=256", workers: c, begin: func(ctx context.Context) (func(int) (load.Step, error), func(context.Context) error, error) {
		second, err := r.serve(ctx, endpoint)
		if err != nil {
			return nil, nil, err
		}
		prepare, done, err := half(ctx, first, second, w)
		if err != nil {
			second.stop()
			return nil, nil, err
		}
		return prepare, func(ctx context.Context) error {
			defer second.stop()
			return done(ctx)
		}, nil
	}}
	return r.measure(ctx, []arm{one, two})
}

// half sends every other worker to the second server.
func half(ctx context.Context, first, second *server, w load.Work) (func(int) (load.Step, error), func(context.Context) error, error) {
	w.Kept, w.Seed = &load.Kept{}, uint64(now().UnixNano())
	a, closeA, err := w.Prepare(ctx, first.end)
	if err != nil {
		return nil, nil, err
	}
	b, closeB, err := w.Prepare(ctx, second.end)
	if err != nil {
		return nil, nil, err
	}
	prepare := func(worker int) (load.Step, error) {
		if worker%2 == 0 {
			return a(worker)
		}
		return b(worker)
	}
	return prepare, func(ctx context.Context) error {
		closeA()
		closeB()
		if left := load.Release(ctx, first.end, w.Kept.Take(), 256); left > 0 {
			return fmt.Errorf("%d holds could not be given back", left)
		}
		return nil
	}, nil
}

// machine says what all this ran on.
func machine() []string {
	said := func(name string, args ...string) string {
		out, err := exec.Command(name, args...).Output()
		if err != nil {
			return "unknown"
		}
		return strings.TrimSpace(string(out))
	}
	return []string{said("uname", "-srm"), said("go", "version")}
}
