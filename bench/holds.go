package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/load"
)

// What the parts that wait for time to pass use.
const (
	shortHold   = 2 * time.Second  // the least TTL
	settleFor   = 6 * time.Second  // memory is looked at this long: at rest it is given back within two looks
	alignHold   = 45 * time.Second // holds are made with it before they are set to end together, at least
	warmCycles  = 2000
	beatWorkers = 8
	tallyEvery  = 100 * time.Millisecond
	calm        = 5 * time.Second // of load before the end that all is compared with
	endsWithin  = 60 * time.Second
)

// partHolds is many live holds: their memory, their heartbeats, their common end, and a start
// from a database that is full of them.
func (r *rig) partHolds(ctx context.Context) error {
	dir, err := r.folder("dev")
	if err != nil {
		return err
	}
	s, _, err := r.startDev(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { s.stop() }()
	t := table{title: fmt.Sprintf("%d live holds (concurrent and one window, a subject each)", r.many), header: []string{"what", "figure"}}
	ids, length, err := r.memory(ctx, s, &t)
	if err != nil {
		return err
	}
	if err := r.together(ctx, s, ids, length, &t); err != nil {
		return err
	}
	r.tables = append(r.tables, t)
	return r.restarts(ctx, &s, dir)
}

// manyHolds makes n holds, from a subject each.
func (r *rig) manyHolds(ctx context.Context, s *server, name string, n int, length time.Duration) ([]string, error) {
	w := asked(load.Reserve, "both", name, load.Keys{Subjects: n})
	w.TTL, w.Kept, w.Seed = length, &load.Kept{}, uint64(now().UnixNano())
	err := times(ctx, s.end, w, 64, n)
	return w.Kept.Take(), err
}

// memory is what a live hold costs the process, in bytes no file backs. The holds last length,
// longer than it takes to make them all here.
func (r *rig) memory(ctx context.Context, s *server, t *table) (ids []string, length time.Duration, err error) {
	warm := now()
	if err := times(ctx, s.end, asked(load.ReserveRelease, "both", "warm", spread), 64, warmCycles); err != nil {
		return nil, 0, err
	}
	length = max(alignHold, (now().Sub(warm) * time.Duration(2*r.many/warmCycles)).Round(time.Second))
	before, heapBefore := settled(s), s.value(ctx, "go_memstats_heap_inuse_bytes")
	began := now()
	ids, err = r.manyHolds(ctx, s, "m", r.many, length)
	if err != nil {
		return nil, 0, err
	}
	took := now().Sub(began)
	after, heapAfter := settled(s), s.value(ctx, "go_memstats_heap_inuse_bytes")
	kib := float64(after-before) / float64(len(ids)) / 1024
	r.found["memory"] = once(kib)
	t.add("made, a second (c=64)", "%.0f", float64(len(ids))/took.Seconds())
	t.add("memory of the process no file backs, before and after", "%.0f MiB, %.0f MiB: %.2f KiB a hold", float64(before)/(1<<20), float64(after)/(1<<20), kib)
	r.say("%d holds made in %s: %.2f KiB a hold", len(ids), took.Round(time.Second), kib)
	t.add("heap in use, before and after", "%.0f MiB, %.0f MiB", heapBefore/(1<<20), heapAfter/(1<<20))
	return ids, length, nil
}

// settled is the least memory within a while: a collection may be due.
func settled(s *server) int64 {
	least := s.anonymous()
	for end := now().Add(settleFor); now().Before(end); {
		<-time.After(tallyEvery)
		least = min(least, s.anonymous())
	}
	return least
}

func (s *server) value(ctx context.Context, name string) float64 {
	v, _ := s.metric(ctx, name) // a figure for a table beside the bars
	return v
}

// together sets all holds to end at one moment, and looks how soon they have and what others
// are granted meanwhile.
func (r *rig) together(ctx context.Context, s *server, ids []string, length time.Duration, t *table) error {
	live := float64(len(ids))
	end, took, err := align(ctx, s, ids, length)
	if err != nil {
		return err
	}
	t.add(fmt.Sprintf("heartbeats, holds a second (500 a call, %d calls at once)", beatWorkers), "%.0f", live/took.Seconds())
	expired := s.value(ctx, `holdfast_reservations_ended_total{state="expired"}`)
	loading, stop := context.WithCancel(ctx)
	var tally tally
	var others sync.WaitGroup
	others.Go(func() { tally.run(loading, s.end) })
	done, err := awaitEnd(ctx, s, end, expired+live)
	<-time.After(time.Second)
	stop()
	others.Wait()
	if err != nil {
		return err
	}
	before, during := tally.rate(end.Add(-calm), end), tally.rate(end, done.Add(tallyEvery))
	r.found["expiry"], r.found["others"] = once(done.Sub(end).Seconds()), once(during/before)
	t.add("all ended, free and settled, after the last was to", "%.1f s", done.Sub(end).Seconds())
	t.add("cycles of others meanwhile (c=64), before and during", "%.0f/s, %.0f/s", before, during)
	return nil
}

// align extends every hold to the same moment, and tells when the last of them is to end and
// how long the calls took.
func align(ctx context.Context, s *server, ids []string, length time.Duration) (end time.Time, took time.Duration, err error) {
	began := now()
	goal := began.Add(length + 5*time.Second)
	var next atomic.Int64
	var mu sync.Mutex
	var all sync.WaitGroup
	for range beatWorkers {
		all.Go(func() {
			conn := s.end.Conn()
			defer conn.Close()
			for {
				from := int(next.Add(api.MaxHeartbeats)) - api.MaxHeartbeats
				if from >= len(ids) {
					return
				}
				sent := now()
				left := time.Duration(int64(goal.Sub(sent)/time.Second)+1) * time.Second
				fault := beatUntilDone(ctx, conn, ids[from:min(from+api.MaxHeartbeats, len(ids))], left)
				mu.Lock()
				err = cmp.Or(err, fault)
				end = later(end, sent.Add(left))
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return end, now().Sub(began), err
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// beatAttempts is how often a call is sent until none of its holds says to try again.
const beatAttempts = 5

// beatUntilDone repeats a call that a server under load did not wholly carry out; an extend done
// twice is done once.
func beatUntilDone(ctx context.Context, conn *load.Conn, ids []string, length time.Duration) (err error) {
	for range beatAttempts {
		if err = beat(ctx, conn, ids, length); err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}

func beat(ctx context.Context, conn *load.Conn, ids []string, length time.Duration) error {
	var body bytes.Buffer
	body.WriteString(`{"ids":[`)
	for i, id := range ids {
		if i > 0 {
			body.WriteByte(',')
		}
		body.WriteString(strconv.Quote(id))
	}
	fmt.Fprintf(&body, `],"ttlSeconds":%d}`, int64(length/time.Second))
	status, answer, err := conn.Post(ctx, "/v1/heartbeats", body.Bytes())
	if err == nil && (status != 200 || bytes.Contains(answer, []byte(`"ok":false`))) {
		err = fmt.Errorf("heartbeats: %d %.200s", status, answer)
	}
	return err
}

// awaitEnd waits until the server says that so many have expired, and that none is live but
// those of the load.
func awaitEnd(ctx context.Context, s *server, end time.Time, expired float64) (time.Time, error) {
	for now().Before(end.Add(endsWithin)) {
		ended, err := s.metric(ctx, `holdfast_reservations_ended_total{state="expired"}`)
		if err != nil {
			return end, err
		}
		if ended >= expired && s.value(ctx, "holdfast_holds") <= 64 {
			return now(), nil
		}
		select {
		case <-time.After(tallyEvery):
		case <-ctx.Done():
			return end, ctx.Err()
		}
	}
	return end, fmt.Errorf("not all holds had ended %s after their end", endsWithin)
}

// tally counts cycles by the moment they ended.
type tally struct {
	mu    sync.Mutex
	ended map[int64]int64 // by tallyEvery since the epoch
}

// run cycles on subjects of its own until ctx ends.
func (t *tally) run(ctx context.Context, end *load.Endpoint) {
	t.ended = map[int64]int64{}
	w := asked(load.ReserveRelease, "both", "others", thousand)
	prepare, hangUp, err := w.Prepare(ctx, end)
	if err != nil {
		return
	}
	defer hangUp()
	_, _ = load.Drive(ctx, load.Plan{Workers: 64, For: load.MaxFor, Now: now}, func(worker int) (load.Step, error) {
		step, err := prepare(worker)
		return func(ctx context.Context) (load.Outcome, error) {
			outcome, err := step(ctx)
			if err == nil {
				t.mu.Lock()
				t.ended[now().UnixNano()/int64(tallyEvery)]++
				t.mu.Unlock()
			}
			return outcome, err
		}, err
	}) // it ends by ctx
}

// rate is the cycles a second between two moments.
func (t *tally) rate(from, to time.Time) float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	var n, slices int64
	for at := from.UnixNano()/int64(tallyEvery) + 1; at <= to.UnixNano()/int64(tallyEvery); at++ {
		n += t.ended[at]
		slices++
	}
	if slices == 0 {
		return 0
	}
	return float64(n) / (float64(slices) * tallyEvery.Seconds())
}
