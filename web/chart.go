package web

import (
	"math"
	"strconv"
)

// Chart is numbers over time, drawn on the server. Everything is placed in percent of the
// drawing, so that it is as wide as there is room and its text stays readable. What it shows is
// said in Says, and in full in its table.
type Chart struct {
	Name, Title, Says string
	Legend            []Legend
	Grid              []GridLine
	Marks             []Mark
	Ticks             []string // along time, evenly spread
	Head              []string
	Rows              [][]string
}

// Legend says what a mark of a class is.
type Legend struct{ Class, Text string }

// GridLine is a height and what it stands for. Class is "" or that of a line that matters.
type GridLine struct{ Y, Class, Text string }

// Mark is one bar.
type Mark struct{ X, Y, W, H, Class, Says string }

// Series is one number for each step of time.
type Series struct {
	Class, Title string // the class is one of those that page.css has a colour for
	Values       []int64
	Down         bool // drawn below the line, as what went wrong
}

// Bars is what a chart is made of.
type Bars struct {
	Name, Title, Says string
	Steps             []string // what each step is called
	Series            []Series // stacked in this order
	Level             int64    // a line at this height; 0: none
	LevelSays         string
	Solid             bool // no gaps between steps: a level rather than counts
}

// Bounds of a chart.
const (
	maxSteps = 200
	chartGap = 0.18 // of a step, between two bars
)

// NewChart places everything. What is beyond maxSteps is left out.
func NewChart(b Bars) *Chart {
	n := min(len(b.Steps), maxSteps)
	c := &Chart{Name: b.Name, Title: b.Title, Says: b.Says, Head: []string{"Time"}}
	up, down := make([]int64, n), make([]int64, n)
	for _, s := range b.Series {
		c.Head = append(c.Head, s.Title)
		c.Legend = append(c.Legend, Legend{s.Class, s.Title})
		sum := up
		if s.Down {
			sum = down
		}
		for i := range n {
			sum[i] += max(s.Values[i], 0)
		}
	}
	top, bottom := round(max(highest(up), b.Level)), int64(0)
	if most := highest(down); most > 0 {
		bottom = max(round(most), (top+4)/5)
	}
	scale := 94 / float64(max(top+bottom, 1)) // a little air above
	zero := 6 + float64(top)*scale
	place := func(v float64) string { return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64) + "%" }
	c.Grid = []GridLine{{Y: place(zero), Text: ""}}
	if half := top / 2; half > 0 && half*2 == top {
		c.Grid = append(c.Grid, GridLine{Y: place(zero - float64(half)*scale), Text: strconv.FormatInt(half, 10)})
	}
	c.Grid = append(c.Grid, GridLine{Y: place(zero - float64(top)*scale), Text: strconv.FormatInt(top, 10)})
	if b.Level > 0 {
		c.Grid = append(c.Grid, GridLine{Y: place(zero - float64(b.Level)*scale), Class: "level"})
		c.Legend = append(c.Legend, Legend{"level", b.LevelSays})
	}
	gap := chartGap
	if b.Solid {
		gap = 0
	}
	step := 100 / float64(max(n, 1))
	for i := range n {
		row := []string{b.Steps[i]}
		above, below := zero, zero
		for _, s := range b.Series {
			row = append(row, strconv.FormatInt(s.Values[i], 10))
			h := float64(max(s.Values[i], 0)) * scale
			if h == 0 {
				continue
			}
			h = max(h, 1)
			y := below
			if s.Down {
				below += h
			} else {
				above -= h
				y = above
			}
			c.Marks = append(c.Marks, Mark{
				X: place(float64(i)*step + step*gap/2), Y: place(y), W: place(step * (1 - gap)), H: place(h), Class: s.Class,
				Says: b.Steps[i] + ": " + strconv.FormatInt(s.Values[i], 10) + " " + s.Title,
			})
		}
		c.Rows = append(c.Rows, row)
	}
	for i := range min(n, 4) {
		c.Ticks = append(c.Ticks, b.Steps[i*(n-1)/max(min(n, 4)-1, 1)])
	}
	return c
}

func highest(ns []int64) (most int64) {
	for _, n := range ns {
		most = max(most, n)
	}
	return most
}

// round is the next number that is easy to read off an axis: 1, 2, 4, 5, 10, 20, 40, 50 …
func round(n int64) int64 {
	for ten := int64(1); ten > 0 && ten < math.MaxInt64/10; ten *= 10 {
		for _, nice := range []int64{1, 2, 4, 5} {
			if n <= nice*ten {
				return nice * ten
			}
		}
	}
	return n
}
