//go:build unix

package main

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

// FAULTS rows 6 and 7: a machine that slept moved the wall clock alone; a wall clock that was set
// back moved nothing.
func TestInstant_SinceIsTheLargerOfTwoClocks(t *testing.T) {
	t.Parallel()
	base := time.Now()
	at := func(steady, wall time.Duration) instant {
		return instant{steady: base.Add(steady), wall: base.Round(0).Add(wall)}
	}
	for name, c := range map[string]struct{ steady, wall, want time.Duration }{
		"both run":             {3 * time.Second, 3 * time.Second, 3 * time.Second},
		"the machine slept":    {3 * time.Second, 10 * time.Minute, 10 * time.Minute},
		"the clock was back":   {3 * time.Second, -time.Hour, 3 * time.Second},
		"nothing has happened": {0, 0, 0},
	} {
		if got := at(c.steady, c.wall).since(at(0, 0)); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

// CLI.md section 3: T > 2(K+M); TERM at T−K−M, KILL at T−M; an extend every T/3, never later.
func TestTerms(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		terms
		fit bool
	}{
		{terms{30 * time.Second, 5 * time.Second, 2 * time.Second}, true},
		{terms{15 * time.Second, 5 * time.Second, 2 * time.Second}, true},
		{terms{14 * time.Second, 5 * time.Second, 2 * time.Second}, false},
		{terms{2 * time.Second, 0, 0}, true},
	} {
		if got := c.terms.fit(); got != c.fit {
			t.Errorf("%+v: fits %t, want %t", c.terms, got, c.fit)
		}
		if got, want := c.killAt()-c.termAt(), c.killAfter; got != want {
			t.Errorf("%+v: got %s between TERM and KILL, want %s", c.terms, got, want)
		}
		if got, want := c.ttl-c.killAt(), c.margin; got != want {
			t.Errorf("%+v: got %s between KILL and the end, want %s", c.terms, got, want)
		}
		for range 200 {
			if got, third := c.extendAfter(), c.ttl/3; got > third || got < third*9/10 {
				t.Fatalf("%+v: an extend after %s, want within a tenth before %s", c.terms, got, third)
			}
		}
	}
}

// A guard that read late counts from when the line was written, not from when it read it.
func TestWatch_CountsFromWhenItWasTold(t *testing.T) {
	t.Parallel()
	now := time.Now()
	w := watch{app: &app{now: func() time.Time { return now }}}
	g := guard{in: &pipeText{}, now: func() instant { return instant{steady: now, wall: now.Round(0)} }}
	g.until(terms{30 * time.Second, 5 * time.Second, 2 * time.Second}, instant{now.Add(-time.Second), now.Round(0).Add(-time.Second)})
	now = now.Add(4 * time.Second)
	w.hear(strings.TrimSpace(g.in.(*pipeText).String()))
	if w.toTerm != 22*time.Second || w.toKill != 27*time.Second {
		t.Errorf("told: TERM in %s and KILL in %s, want 22s and 27s", w.toTerm, w.toKill)
	}
	if got := w.app.clocks().since(w.from); got != 4*time.Second {
		t.Errorf("of that, %s have gone, want 4s", got)
	}
	w.hear("group 7 8 rsv_1")
	w.hear("reaped")
	w.hear("stopping")
	w.hear("a word of a later version")
	if want := (group{pgid: 7, mark: "rsv_1"}); w.group != want || !w.armed || !w.stopping {
		t.Errorf("got %+v, armed %t, stopping %t, want %+v and both", w.group, w.armed, w.stopping, want)
	}
}

// A guard that knows a group and not yet until when sends nothing: it once killed commands that
// had just begun, when the second line came late. Nor does it when it knows the time alone.
func TestWatch_SendsNothingBeforeItKnowsAll(t *testing.T) {
	t.Parallel()
	now := time.Now()
	const group, until = "group 7 8 rsv_1", "until 5000000000 6000000000 0"
	for _, lines := range [][]string{{}, {group}, {until}} {
		w := watch{app: &app{now: func() time.Time { return now }}}
		for _, line := range lines {
			w.hear(line)
		}
		if got := w.due(w.app.clocks()); got != 0 {
			t.Errorf("told %q: %s is due, want nothing", lines, got)
		}
	}
	w := watch{app: &app{now: func() time.Time { return now }}}
	w.hear(group)
	w.hear("until 5000000000 6000000000 " + strconv.FormatInt(now.UnixNano(), 10))
	for _, c := range []struct {
		after time.Duration
		want  syscall.Signal
	}{{0, 0}, {5 * time.Second, 0}, {5*time.Second + guardSlack, syscall.SIGTERM}, {6 * time.Second, syscall.SIGKILL}} {
		if got := w.due(instant{now.Add(c.after), now.Round(0).Add(c.after)}); got != c.want {
			t.Errorf("after %s: %d is due, want %d", c.after, got, c.want)
		}
	}
}

type pipeText struct{ syncBuffer }

func (*pipeText) Close() error { return nil }

// CLI.md section 3: while waiting, stderr says the place, who holds, the oldest hold and the next
// expiry.
func TestLineWords(t *testing.T) {
	t.Parallel()
	n := func(v int64) *int64 { return &v }
	p := &api.Problem{Code: api.NoFreeSlot, DecidedBy: "exports", Used: n(5), Amount: n(5), Waiting: n(4)}
	if got, want := lineWords(p), "exports has no free slot (5 of 5 held); 4 in line"; got != want {
		t.Errorf("without holders: got %q, want %q", got, want)
	}
	for i := range int64(5) {
		p.Holders = append(p.Holders, api.Holder{ID: "rsv_" + number(i), Owner: api.Owner{Name: "w" + number(i), Host: "h"}, HeldSeconds: 10 + i, ExpiresInSeconds: 90 - i})
	}
	want := "exports has no free slot (5 of 5 held); 4 in line; held by w0 on h, w1 on h, w2 on h and 2 more; the oldest hold is 14s old (rsv_4); the next expires in 1m26s"
	if got := lineWords(p); got != want {
		t.Errorf("with holders:\n got %q\nwant %q", got, want)
	}
}
