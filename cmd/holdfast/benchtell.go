package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-dev/holdfast/load"
)

// benchReport is the answer of bench. Latencies are milliseconds; a cycle's is the whole cycle's.
type benchReport struct {
	Server    string           `json:"server"`
	Verb      string           `json:"verb"`
	Loop      string           `json:"loop"` // closed or open
	Keys      string           `json:"keys"`
	Limits    int              `json:"limits"`
	Workers   int              `json:"workers"`
	Batch     int              `json:"batch,omitempty"`   // holds a heartbeat call
	Offered   float64          `json:"offered,omitempty"` // a second, open loop
	Seconds   float64          `json:"seconds"`           // that were counted
	PerSecond float64          `json:"perSecond"`         // answers
	Granted   int64            `json:"granted"`
	Refused   int64            `json:"refused"`
	Failed    int64            `json:"failed"`
	Unsent    int64            `json:"unsent"` // due, and never started; in the latencies all the same
	Failures  map[string]int64 `json:"failures,omitempty"`
	Latency   benchLatency     `json:"latencyMs"`
}

type benchLatency struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99.9"`
	Max  float64 `json:"max"`
}

func newBenchReport(server string, b benched, r *load.Result) benchReport {
	report := benchReport{
		Server: server, Verb: b.verb.String(), Loop: "closed", Keys: b.keys.String(), Limits: b.limits, Workers: b.workers,
		Offered: b.rate, Seconds: r.Window.Seconds(), PerSecond: math.Round(r.Rate()*10) / 10,
		Granted: r.Granted, Refused: r.Refused, Failed: r.Failed, Unsent: r.Unsent, Failures: r.Errors,
		Latency: benchLatency{
			Mean: milliseconds(r.Mean()), P50: milliseconds(r.At(50)), P90: milliseconds(r.At(90)),
			P99: milliseconds(r.At(99)), P999: milliseconds(r.At(99.9)), Max: milliseconds(r.At(100)),
		},
	}
	if b.rate > 0 {
		report.Loop = "open"
	}
	if b.verb == load.Heartbeats {
		report.Batch = b.batch
	}
	return report
}

// tellBench writes the figures to stdout; -o name is the rate alone.
func (a *app) tellBench(call *caller, b benched, r *load.Result) error {
	report := newBenchReport(call.target.url, b, r)
	return a.emit(report, func() string { return benchTable(report, r) }, func() []string {
		return []string{strconv.FormatFloat(report.PerSecond, 'f', 1, 64)}
	})
}

func benchTable(report benchReport, r *load.Result) string {
	head := newTable()
	head.row("server", report.Server)
	head.row("asked", fmt.Sprintf("%s, %s, %d limits, %d workers, %s loop, %.1f s counted",
		report.Verb, report.Keys, report.Limits, report.Workers, report.Loop, report.Seconds))
	if report.Offered > 0 {
		head.row("offered", fmt.Sprintf("%.0f a second, timed from when each was due", report.Offered))
	}
	if report.Batch > 0 {
		head.row("a call", fmt.Sprintf("extends %d holds: %.0f a second", report.Batch, report.PerSecond*float64(report.Batch)))
	}
	t := newTable("PER SECOND", "GRANTED", "REFUSED", "FAILED", "UNSENT", "P50", "P90", "P99", "P99.9", "MAX")
	t.row(fmt.Sprintf("%.0f", report.PerSecond), number(report.Granted), number(report.Refused), number(report.Failed), number(report.Unsent),
		latency(r.At(50)), latency(r.At(90)), latency(r.At(99)), latency(r.At(99.9)), latency(r.At(100)))
	return head.render("") + "\n" + t.render("") + benchFailures(report.Failures)
}

// benchFailures lists what failed, the most frequent first.
func benchFailures(failures map[string]int64) string {
	if len(failures) == 0 {
		return ""
	}
	t := newTable("FAILURE", "TIMES")
	texts := slices.SortedFunc(maps.Keys(failures), func(x, y string) int {
		return cmp.Or(cmp.Compare(failures[y], failures[x]), cmp.Compare(x, y))
	})
	for _, text := range texts {
		t.row(text, number(failures[text]))
	}
	return "\n" + t.render("")
}

// benchFault is why a bench fails after it has told its figures: it was stopped, or some of
// what it asked for was not answered.
func (a *app) benchFault(err error, r *load.Result) error {
	switch {
	case err == nil && r.Failed == 0:
		return nil
	case err != nil && r.Granted+r.Refused == 0 && r.Failed > 0:
		return fail(exitUnavailable, "nothing was answered: %w", err).next("look at", "holdfast doctor")
	case err != nil:
		return err
	default:
		return fail(exitFailed, "%d of %d steps failed", r.Failed, r.Failed+r.Granted+r.Refused).next("look at", "the table of failures, and the server's log")
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// latency is a short time as people read it, to three digits.
func latency(d time.Duration) string {
	ms := milliseconds(d)
	switch {
	case ms < 10:
		return fmt.Sprintf("%.2fms", ms)
	case ms < 100:
		return fmt.Sprintf("%.1fms", ms)
	case ms < 10_000:
		return fmt.Sprintf("%.0fms", ms)
	default:
		return fmt.Sprintf("%.1fs", ms/1000)
	}
}
