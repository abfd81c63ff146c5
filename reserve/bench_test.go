package reserve_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/windows"
)

// BenchmarkDesk is a whole reserve and its release on the store in memory: what deciding,
// folding and answering cost when the store costs next to nothing. The ratios to etcd are
// integration.BenchmarkDesk's.
func BenchmarkDesk(b *testing.B) {
	day := counted("days", 1_000_000_000, windows.Window{Kind: windows.Day, Rolling: true})
	for name, c := range map[string]struct {
		limits   []limits.Limit
		workers  int
		subjects int64
	}{
		"c=1/1-limit":           {[]limits.Limit{slots("s", 1_000_000_000)}, 1, 1000},
		"c=1/2-limits":          {[]limits.Limit{slots("s", 1_000_000_000), day}, 1, 1000},
		"c=64/2-limits":         {[]limits.Limit{slots("s", 1_000_000_000), day}, 64, 1000},
		"c=64/2-limits/hot":     {[]limits.Limit{slots("s", 1_000_000_000), day}, 64, 1},
		"c=64/10-limits":        {append([]limits.Limit{slots("s", 1_000_000_000)}, nineWindows()...), 64, 1000},
		"c=64/2-limits/100,000": {[]limits.Limit{slots("s", 1_000_000_000), day}, 64, 100_000},
	} {
		b.Run(name, func(b *testing.B) {
			d := benchDesk(b, c.limits)
			d.each(b, c.workers, func(n int64) error {
				s := limits.Subject{Kind: "user", ID: strconv.FormatInt(n*7919%c.subjects, 10)}
				res, decision, err := d.Reserve(b.Context(), ask(s, 1, time.Minute))
				if err != nil || !decision.Allowed {
					b.Errorf("Reserve(%v): %+v, %v", s, decision, err)
					return err
				}
				_, err = d.Release(b.Context(), reserve.HoldRef{ID: res.ID, By: reserve.Caller{Tenant: tenant, Principal: "p/" + s.ID}}, "")
				return err
			})
		})
	}
}

// BenchmarkDesk_Refusal is a reserve of a limit that is full, on the store in memory.
func BenchmarkDesk_Refusal(b *testing.B) {
	for _, held := range []int64{1, 1000} {
		b.Run(strconv.FormatInt(held, 10)+"-holders", func(b *testing.B) {
			d := benchDesk(b, []limits.Limit{slots("s", held)})
			for range held {
				if _, decision, err := d.Reserve(b.Context(), ask(u42, 1, time.Hour)); err != nil || !decision.Allowed {
					b.Fatalf("filling the limit: %+v, %v", decision, err)
				}
			}
			d.each(b, 64, func(int64) error {
				_, decision, err := d.Reserve(b.Context(), ask(u42, 1, time.Minute))
				if err == nil && decision.Allowed {
					b.Error("a full limit was granted")
				}
				return err
			})
		})
	}
}

// nineWindows are counting limits of nine kinds, all of one subject.
func nineWindows() (ls []limits.Limit) {
	for i, w := range []windows.Window{
		{Kind: windows.Day, Rolling: true},
		{Kind: windows.Hour},
		{Kind: windows.Minute, Rolling: true},
		{Kind: windows.Month},
		{Kind: windows.Hour, Rolling: true},
		{Kind: windows.Week},
		{Kind: windows.Minute},
		{Kind: windows.Day},
		{Kind: windows.Total},
	} {
		ls = append(ls, counted("w"+strconv.Itoa(i), 1_000_000_000, w))
	}
	return ls
}

// deskUnderBench is a service on a keyspace in memory, in real time.
type deskUnderBench struct{ *reserve.Service }

func benchDesk(b *testing.B, ls []limits.Limit) deskUnderBench {
	b.Helper()
	m := memory.New(memory.Config{Now: time.Now})
	g := reserve.Group{Tenant: tenant, Catalog: reserve.AnyCatalog}
	for _, l := range ls {
		l.Enabled, l.Generation = true, 1
		g.Writes = append(g.Writes, reserve.Write{Ref: reserve.Ref{Tenant: tenant, Kind: reserve.RefLimit, Limit: l.ID}, Value: &l})
	}
	g.Writes = append(g.Writes, reserve.Write{Ref: reserve.Ref{Tenant: tenant, Kind: reserve.RefCatalog}, Value: reserve.Seq(1)})
	if _, err := m.Apply(b.Context(), reserve.Batch{Groups: []reserve.Group{g}}); err != nil {
		b.Fatal(err)
	}
	wheel, view := m.Leases("", time.Now), m.View("")
	s, err := reserve.New(reserve.Config{Store: view, Lister: view, Leases: wheel, Now: time.Now})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx) })
	running.Go(func() { wheel.Run(ctx) })
	b.Cleanup(func() { cancel(); running.Wait() })
	return deskUnderBench{s}
}

// each does f b.N times by workers at once.
func (deskUnderBench) each(b *testing.B, workers int, f func(n int64) error) {
	b.Helper()
	var next atomic.Int64
	var all sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for range workers {
		all.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				if err := f(n); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}
