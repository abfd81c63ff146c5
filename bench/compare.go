package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// compare runs the parts, prints the tables, and fails when a must is missed.
func compare(ctx context.Context, o options) error {
	for _, name := range o.only {
		if !slices.Contains(partNames(), name) {
			return fmt.Errorf("%q is no part; there are %s", name, strings.Join(partNames(), ", "))
		}
	}
	began := now()
	r, err := newRig(ctx, o)
	if err != nil {
		return err
	}
	defer r.close()
	var failed []string
	for _, p := range parts() {
		if len(o.only) > 0 && !slices.Contains(o.only, p.name) || o.smoke && !p.smoke {
			continue
		}
		r.say("== %s, at %s", p.name, now().Sub(began).Round(time.Second))
		if err := p.run(r, ctx); err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			failed = append(failed, p.name) // what the other parts find out is not lost for it
			r.note("the part %s failed, its rows are left out: %v", p.name, err)
		}
	}
	bars, missed := r.judge()
	text := r.report(bars)
	fmt.Print(text)
	if o.out != "" {
		if err := os.WriteFile(o.out, []byte(text), 0o644); err != nil {
			return err
		}
	}
	r.say("done in %s", now().Sub(began).Round(time.Second))
	if len(failed) > 0 {
		return fmt.Errorf("parts failed: %s", strings.Join(failed, ", "))
	}
	if missed > 0 && !o.smoke {
		return fmt.Errorf("%d of the bars that must be reached are missed", missed)
	}
	return nil
}
