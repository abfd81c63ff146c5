package load

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Result is what a drive counted.
type Result struct {
	Window  time.Duration // that was counted
	Granted int64
	Refused int64
	Failed  int64
	Unsent  int64            // arrivals of an open loop that never started
	Errors  map[string]int64 // failures by text, at most 8 texts; the rest under "others"

	inTime int64 // answered before the window's end
	times  *hdrhistogram.Histogram
}

// others is what failures beyond maxKinds texts are counted under.
const others = "others"

// Rate is the answers a second: grants and refusals within the window.
func (r *Result) Rate() float64 { return perSecond(r.inTime, r.Window) }

// At is the latency that percent of the answers did not exceed, to three digits; 0 without any.
// Failures have no latency. percent is 0 to 100, and 100 is the longest.
func (r *Result) At(percent float64) time.Duration { return at(r.times, percent) }

// Mean is the average latency.
func (r *Result) Mean() time.Duration {
	return time.Duration(r.times.Mean() * float64(time.Microsecond))
}

func at(h *hdrhistogram.Histogram, percent float64) time.Duration {
	if h.TotalCount() == 0 {
		return 0
	}
	return time.Duration(h.ValueAtPercentile(percent)) * time.Microsecond
}

func perSecond(n int64, in time.Duration) float64 {
	if in <= 0 {
		return 0
	}
	return float64(n) / in.Seconds()
}

func (r *Result) answer(o Outcome, inTime bool) {
	if o == Refused {
		r.Refused++
	} else {
		r.Granted++
	}
	if inTime {
		r.inTime++
	}
}

func (r *Result) fail(err error) { r.failed(err.Error(), 1) }

func (r *Result) failed(text string, n int64) {
	r.Failed += n
	if r.Errors == nil {
		r.Errors = map[string]int64{}
	}
	if _, known := r.Errors[text]; !known && len(r.Errors) >= maxKinds {
		text = others
	}
	r.Errors[text] += n
}

func (r *Result) add(o *Result) {
	r.Granted += o.Granted
	r.Refused += o.Refused
	r.Unsent += o.Unsent
	r.inTime += o.inTime
	for text, n := range o.Errors {
		r.failed(text, n)
	}
	r.times.Merge(o.times)
}
