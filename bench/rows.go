package main

import "fmt"

// row is one bar: what is compared, what must be reached, what is aimed at.
type row struct {
	what      string
	must, aim float64
	atMost    bool   // the figure must not be above the bar
	unit      string // "" for ratios
	of        func(*rig) (ratio, bool)
}

// over is a bar on the ratio of two arms.
func over(what string, must, aim float64, a, b string) row {
	return row{what: what, must: must, aim: aim, of: func(r *rig) (ratio, bool) { return r.figures.over(a, b) }}
}

// found is a bar on a figure that a part found out by itself.
func found(what string, must, aim float64, atMost bool, unit, name string) row {
	return row{what: what, must: must, aim: aim, atMost: atMost, unit: unit, of: func(r *rig) (ratio, bool) {
		is, ok := r.found[name]
		return is, ok
	}}
}

// bars is the table that decides.
func bars() []row {
	const (
		spread, hot, few = "reserve, spread, c=256", "reserve, one hot subject, c=256", "holdfast cycles, 64 keys, c=64"
		plain, inProcess = "etcd Puts over gRPC, c=256", "etcd Puts in process, c=256"
	)
	return []row{
		over("reserve over HTTP with JWT, c=256, 100,000 subjects / etcd Puts over gRPC", 1.0, 1.5, spread, plain),
		over("the same, one hot subject", 1.5, 2.5, hot, plain),
		over("reserve over HTTP / the handler with the desk left out", 0.4, 0.6, spread, "handler without the desk, c=256"),
		over("reserve+release over HTTP, c=64 / lease-per-hold client", 8, 15, "holdfast cycles, 100,000 keys, c=64", "lease-per-hold cycles, c=64"),
		over("… / PostgreSQL SKIP LOCKED behind the front: 64 keys", 2, 3.5, few, "postgres behind the front, 64 keys, c=64"),
		over("… one hot key", 1.5, 3, "holdfast cycles, one hot key, c=64", "postgres behind the front, one hot key, c=64"),
		over("… / Redis, appendfsync always, behind the front", 1.0, 1.5, few, "redis always behind the front, 64 keys, c=64"),
		over("… / Redis that keeps nothing, behind the front", 0.75, 1.0, few, "redis none behind the front, 64 keys, c=64"),
		over("… / in memory behind the front (the ceiling)", 0.5, 0.7, few, "memory behind the front, 64 keys, c=64"),
		over("desk on embedded etcd, c=256 / Puts in process: spread", 0.7, 1.2, "desk, spread, c=256", inProcess),
		over("… one hot subject", 1.4, 3, "desk, one hot subject, c=256", inProcess),
		over("refusals of one full limit, c=256 / grants of one subject", 1.3, 2, "refusals of one full limit, c=256", "grants of one subject, c=256"),
		over("a check with 10 limits of one subject / with 1", 0.5, 0.7, "check with 10 limits, c=256", "check with 1 limit, c=256"),
		over("reserve+release with 10,000 holds on the limit / with 10", 0.8, 0.95, crowdName(10_000), crowdName(10)),
		found("reserve with 1,000,000 subjects / with 1,000, each over its Puts", 0.6, 0.8, false, "", "subjects"),
		{what: "c=1: p50 of the desk / p50 of a Put in process", must: 1.6, aim: 1.3, atMost: true, of: func(r *rig) (ratio, bool) {
			return r.figures.by("desk, c=1", "etcd Puts in process, c=1", func(m figure) float64 { return m.p50.Seconds() })
		}},
		found("memory of the process a live hold, from 0 to 100,000", 2, 1, true, "KiB", "memory"),
		found("a slot is granted again after its hold's end", 1000, 50, true, "ms", "slot"),
		found("100,000 holds expiring together: all free and settled after T", 10, 4, true, "s", "expiry"),
		found("… grants of others meanwhile / before", 0.5, 0.8, false, "", "others"),
		over("two replicas on 1,000 subjects / one", 0.7, 0.95, "two replicas, 1,000 subjects, c=256", "one replica, 1,000 subjects, c=256"),
		found("start of dev to its first answer, empty", 2, 1, true, "s", "start empty"),
		found("… with 100,000 holds in the database", 4, 2, true, "s", "start full"),
	}
}

// verdict says how a figure stands to its bar. What is judged is the median of the rounds; for
// times that must not be above a bar, the longest.
func (w row) verdict(is ratio) (word string, missed bool) {
	value := is.is
	if w.atMost && w.unit != "" {
		value = is.most
	}
	reached := func(bar float64) bool { return value >= bar && !w.atMost || value <= bar && w.atMost }
	switch {
	case reached(w.aim):
		return "aim", false
	case reached(w.must):
		return "must", false
	default:
		return "MISSED", true
	}
}

func (w row) bar(value float64) string {
	text := fmt.Sprintf("%g", value)
	if w.atMost {
		text = "≤ " + text
	}
	if w.unit != "" {
		text += " " + w.unit
	}
	return text
}

// judge makes the table of bars and counts those that are missed.
func (r *rig) judge() (t table, missed int) {
	t = table{title: "Bars", header: []string{"what", "must", "aim", "is", "spread", ""}}
	for _, w := range bars() {
		is, ok := w.of(r)
		if !ok {
			t.rows = append(t.rows, []string{w.what, w.bar(w.must), w.bar(w.aim), "–", "–", "left out"})
			continue
		}
		word, miss := w.verdict(is)
		if miss {
			missed++
		}
		value := two(is.is)
		if w.unit != "" {
			value += " " + w.unit
		}
		t.rows = append(t.rows, []string{w.what, w.bar(w.must), w.bar(w.aim), value, between(is), word})
	}
	return t, missed
}
