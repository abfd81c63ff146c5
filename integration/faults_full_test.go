//go:build unix

package integration

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// -faults=full runs each row of the rig with faultSeeds seeds, a new rig for each. What was run is
// kept in a file, so that it can be stopped at any time and goes on with the seeds that are
// missing; the report says how far it has come.

var faultsFor = flag.Duration("faults-for", 0, "with -faults=full: begin no further seed after so long (0: until all are done)")

const (
	faultSeeds  = 20
	faultsState = "../docs/reports/faults.json"
	faultsPage  = "../docs/reports/faults.md"
)

// faultRun is one seed: every row once, in the seed's order.
type faultRun struct {
	Seed         uint64
	Commit       string
	Seconds      int
	Rows         []string
	Revisions    int
	Grants, Acts int
	Repeated     int64 // calls without a decision, asked again
	Failed       bool
}

// faultNames are the rows as reports tell of them.
func faultNames() (names []string) {
	for _, f := range faultRows {
		names = append(names, f.row+" | "+f.name)
	}
	return names
}

// missing are the seeds in which not all rows were run.
func missing(runs []faultRun, rows []string) (seeds []uint64) {
	for seed := uint64(1); seed <= faultSeeds; seed++ {
		done := slices.ContainsFunc(runs, func(r faultRun) bool {
			return r.Seed == seed && !slices.ContainsFunc(rows, func(row string) bool { return !slices.Contains(r.Rows, row) })
		})
		if !done {
			seeds = append(seeds, seed)
		}
	}
	return seeds
}

// faultReport is the page.
func faultReport(runs []faultRun, rows []string) string {
	var b strings.Builder
	b.WriteString("# Runs of the fault rig\n\nWritten by `go test ./integration -run TestFaults_Never -faults=full -timeout 0`, which goes on with the seeds that are missing here. " +
		"The rig, and what is judged after each seed: [34](../adr/0034-judges.md), [36](../adr/0036-fault-runs.md).\n\n")
	n := map[string]int{}
	failed := 0
	var revisions, grants, acts int
	var repeated int64
	for _, r := range runs {
		for _, row := range r.Rows {
			n[row]++
		}
		if r.Failed {
			failed++
		}
		revisions, grants, acts, repeated = revisions+r.Revisions, grants+r.Grants, acts+r.Acts, repeated+r.Repeated
	}
	fmt.Fprintf(&b, "%d seeds run, %d with a violation. %d revisions were replayed and %d acts put in order, %d grants among them; %d calls had no decision at first and were repeated.\n\n",
		len(runs), failed, revisions, acts, grants, repeated)
	fmt.Fprintf(&b, "| rows of [faults](../conformance/faults.md), 2.*n* | fault | runs, of %d |\n|---|---|---|\n", faultSeeds)
	for _, row := range rows {
		fmt.Fprintf(&b, "| %s | %d |\n", row, n[row])
	}
	b.WriteString("\n| seed | commit | seconds | revisions | grants | acts | repeated | violation |\n|---|---|---|---|---|---|---|---|\n")
	for _, r := range runs {
		fmt.Fprintf(&b, "| %d | %s | %d | %d | %d | %d | %d | %s |\n", r.Seed, r.Commit, r.Seconds, r.Revisions, r.Grants, r.Acts, r.Repeated,
			map[bool]string{false: "none", true: "yes"}[r.Failed])
	}
	return b.String()
}

func readRuns(file string) (runs []faultRun, err error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return runs, json.Unmarshal(data, &runs)
}

// writeRuns puts the state in place in one step: whoever is stopped here has the old one.
func writeRuns(state, page string, runs []faultRun, rows []string) error {
	data, err := json.MarshalIndent(runs, "", " ")
	if err != nil {
		return err
	}
	next := state + ".next"
	return errors.Join(os.MkdirAll(filepath.Dir(state), 0o750), os.WriteFile(next, append(data, '\n'), 0o600), os.Rename(next, state),
		os.WriteFile(page, []byte(faultReport(runs, rows)), 0o600))
}

// commit is what is tested, as far as git can tell.
func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// fullFaults runs the seeds that are missing. A seed with a violation is kept as such, with the
// test's failure, and is run again only when its line is taken out of the state.
func fullFaults(t *testing.T) {
	t.Helper()
	runs, err := readRuns(faultsState)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for _, seed := range missing(runs, faultNames()) {
		if *faultsFor > 0 && time.Since(began) > *faultsFor {
			break
		}
		run := faultRun{Seed: seed, Commit: commit(), Rows: faultNames()}
		start := time.Now()
		run.Failed = !t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { oneOfFaults(t, seed, &run) })
		run.Seconds = int(time.Since(start).Seconds())
		runs = append(runs, run)
		if err := writeRuns(faultsState, faultsPage, runs, faultNames()); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d seeds are missing", len(missing(runs, faultNames())))
}

// What is run again after a stop, and what the report counts.
func TestFaults_RunsAreResumed(t *testing.T) {
	t.Parallel()
	rows := []string{"9 | the leader", "14 | all"}
	state, page := filepath.Join(t.TempDir(), "reports", "s.json"), filepath.Join(t.TempDir(), "p.md")
	runs, err := readRuns(state)
	if err != nil || len(missing(runs, rows)) != faultSeeds {
		t.Fatalf("nothing was run, and %v is missing, %v", missing(runs, rows), err)
	}
	runs = []faultRun{
		{Seed: 1, Rows: rows, Revisions: 10, Grants: 3, Acts: 7},
		{Seed: 2, Rows: rows[:1], Revisions: 5, Grants: 2, Acts: 4},
		{Seed: 20, Rows: rows, Failed: true},
	}
	if err := writeRuns(state, page, runs, rows); err != nil {
		t.Fatal(err)
	}
	again, err := readRuns(state)
	got := missing(again, rows)
	if err != nil || len(got) != faultSeeds-2 || got[0] != 2 || slices.Contains(got, 20) {
		t.Errorf("missing: %v, %v, want 2 to 19: seed 2 has not run every row", got, err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"3 seeds run, 1 with a violation. 15 revisions were replayed and 11 acts put in order, 5 grants among them",
		"| 9 | the leader | 3 |", "| 14 | all | 2 |", "| 20 |  | 0 | 0 | 0 | 0 | 0 | yes |",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the report does not say %q:\n%s", want, text)
		}
	}
}
