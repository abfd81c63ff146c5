package load

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// What a latency is kept to.
const (
	leastLatency = 1                                   // microseconds
	mostLatency  = int64(time.Hour / time.Microsecond) // longer ones count as this
	digits       = 3                                   // significant decimal digits

	pages    = 16 // of the book, so that workers seldom meet
	maxKinds = 8  // of failures told apart
)

// book is what all workers write down.
type book struct {
	pages    [pages]page
	answered atomic.Int64 // warm-up included
	failed   atomic.Int64
}

type page struct {
	mu      sync.Mutex
	counted Result                  // without its histogram's owner
	recent  *hdrhistogram.Histogram // since the last Progress
	_       [64]byte                // two pages share no cache line
}

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(leastLatency, mostLatency, digits)
}

func newBook() *book {
	b := &book{}
	for i := range b.pages {
		b.pages[i].counted, b.pages[i].recent = Result{times: newHistogram()}, newHistogram()
	}
	return b
}

// step books one step and gives the answers and failures until now. counts: it belongs to the
// time that is counted; inTime: it ended before the end of that time.
func (b *book) step(worker int, took time.Duration, o Outcome, err error, counts, inTime bool) (answers, failures int64) {
	p := &b.pages[worker%pages]
	us := min(took.Microseconds(), mostLatency)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		if counts {
			p.counted.fail(err)
		}
		return b.answered.Load(), b.failed.Add(1)
	}
	_ = p.recent.RecordValue(us) // it is within bounds
	if counts {
		_ = p.counted.times.RecordValue(us)
		p.counted.answer(o, inTime)
	}
	return b.answered.Add(1), b.failed.Load()
}

// unsent books an arrival that never started.
func (b *book) unsent(worker int, waited time.Duration, counts bool) {
	if !counts {
		return
	}
	p := &b.pages[worker%pages]
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counted.Unsent++
	_ = p.counted.times.RecordValue(min(waited.Microseconds(), mostLatency)) // within bounds
}

// sum adds up the pages.
func (b *book) sum() *Result {
	all := &Result{times: newHistogram()}
	for i := range b.pages {
		p := &b.pages[i]
		p.mu.Lock()
		all.add(&p.counted)
		p.mu.Unlock()
	}
	return all
}

// since gives the latencies since it was last called.
func (b *book) since() *hdrhistogram.Histogram {
	all := newHistogram()
	for i := range b.pages {
		p := &b.pages[i]
		p.mu.Lock()
		all.Merge(p.recent)
		p.recent.Reset()
		p.mu.Unlock()
	}
	return all
}

// report tells Progress until the drive has ended.
func (d *driver) report(ended <-chan struct{}) {
	every := d.Every
	if every <= 0 {
		every = stepReport
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	before, done := d.began, int64(0)
	for {
		select {
		case <-ended:
			return
		case <-ticker.C:
		}
		now, recent, answered := d.Now(), d.book.since(), d.book.answered.Load()
		d.Progress(Progress{
			Elapsed: now.Sub(d.began), Total: d.Warm + d.For, Done: answered, Failed: d.book.failed.Load(),
			PerSecond: perSecond(answered-done, now.Sub(before)), P50: at(recent, 50), P99: at(recent, 99),
			WarmingUp: now.Before(d.from),
		})
		before, done = now, answered
	}
}

// result sums up a drive whose workers have ended.
func (d *driver) result(ctx context.Context) (*Result, error) {
	r := d.book.sum()
	r.Window = d.For
	if err := context.Cause(ctx); err != nil {
		r.Window = max(min(d.Now().Sub(d.from), d.For), 0)
		return r, err
	}
	return r, nil
}
