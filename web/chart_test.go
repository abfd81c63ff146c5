package web

import (
	"strconv"
	"strings"
	"testing"
)

func percent(t *testing.T, s string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(strings.TrimSuffix(s, "%"), 64)
	if err != nil || !strings.HasSuffix(s, "%") {
		t.Fatalf("%q is no percentage", s)
	}
	return n
}

func TestChart_EverythingIsWithinTheDrawing(t *testing.T) { // HF-4201
	t.Parallel()
	for name, values := range map[string][]int64{"nothing": {0, 0, 0}, "one": {1, 0, 0}, "much": {3, 1_000_000_007, 2}, "none at all": {}} {
		steps := make([]string, len(values))
		for i := range steps {
			steps[i] = strconv.Itoa(i) + ":00"
		}
		c := NewChart(Bars{Name: "c", Steps: steps, Level: 3, LevelSays: "amount", Series: []Series{
			{Class: "started", Title: "started", Values: values}, {Class: "refused", Title: "refused", Values: values}, {Class: "lost", Title: "expired", Values: values, Down: true},
		}})
		marks := 0
		for _, v := range values {
			if v > 0 {
				marks += 3
			}
		}
		if len(c.Marks) != marks || len(c.Rows) != len(values) {
			t.Errorf("%s: %d marks, %d rows; want %d and %d", name, len(c.Marks), len(c.Rows), marks, len(values))
		}
		for _, m := range c.Marks {
			x, y, w, h := percent(t, m.X), percent(t, m.Y), percent(t, m.W), percent(t, m.H)
			if x < 0 || y < 0 || w <= 0 || h <= 0 || x+w > 100.01 || y+h > 102.1 {
				t.Errorf("%s: %+v is outside", name, m)
			}
		}
		for _, g := range c.Grid {
			if y := percent(t, g.Y); y < 0 || y > 100.01 {
				t.Errorf("%s: the line %+v is outside", name, g)
			}
		}
	}
	long := make([]int64, 3*maxSteps)
	if c := NewChart(Bars{Steps: make([]string, len(long)), Series: []Series{{Values: long}}}); len(c.Rows) != maxSteps {
		t.Errorf("%d steps were drawn, want %d at most", len(c.Rows), maxSteps)
	}
}

func TestRound(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]int64{0: 1, 1: 1, 3: 4, 5: 5, 6: 10, 41: 50, 99: 100, 1 << 62: 1 << 62} {
		if got := round(n); got != want {
			t.Errorf("round(%d): got %d, want %d", n, got, want)
		}
	}
}
