package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// GUARANTEES section 3, sensitivity: a test that passes proves something only if it fails when the
// rule it is about is broken. Each file of testdata/planted is one bug, as text to be put in place
// of other text; it is built by go's -overlay, so that the product has no switch for it, and the
// named tests of the named package must fail on it.

// plantedAlways are tried in every run: what they touch is built in a moment. All are tried with
// HOLDFAST_TEST_LONG=1, or by name with -run.
var plantedAlways = []string{"09-refund-to-now", "10-oldest-slice-half", "11-unguarded-clock", "16-ufffd-accepted"}

const (
	plantedBugs   = 18 // of GUARANTEES section 3
	plantedWithin = 4 * time.Minute
	plantedHangs  = "100s" // a test that takes longer hangs, which finds the bug as well
)

// planted is one bug.
type planted struct {
	name, what, pkg, tests string
	edits                  []plantedEdit
}

type plantedEdit struct{ file, old, new string }

func readPlanted(t *testing.T) (all []planted) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "planted", "*.txt"))
	if err != nil || len(files) != plantedBugs {
		t.Fatalf("%d files in testdata/planted (%v), want %d", len(files), err, plantedBugs)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		what, rest, _ := strings.Cut(string(data), "\n")
		caught, rest, _ := strings.Cut(rest, "\n")
		p := planted{name: strings.TrimSuffix(filepath.Base(file), ".txt"), what: what}
		if _, err := fmt.Sscanf(caught, "caught by %s %s", &p.pkg, &p.tests); err != nil {
			t.Fatalf("%s: %q: %v", file, caught, err)
		}
		for edit := range strings.SplitSeq(rest, "\n>>>\n") {
			if edit == "" {
				continue
			}
			head, body, _ := strings.Cut(edit, "\n<<<\n")
			old, changed, found := strings.Cut(body, "\n===\n")
			if !found {
				t.Fatalf("%s: an edit without its parts:\n%s", file, edit)
			}
			p.edits = append(p.edits, plantedEdit{strings.TrimPrefix(head, "in "), old, changed})
		}
		all = append(all, p)
	}
	return all
}

// apply gives the files as the bug leaves them. The text it replaces must be there once: a bug
// that does not fit any more is mended together with the code.
func (p planted) apply() (map[string]string, error) {
	files := map[string]string{}
	for _, e := range p.edits {
		text, met := files[e.file]
		if !met {
			data, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(e.file)))
			if err != nil {
				return nil, err
			}
			text = string(data)
		}
		if n := strings.Count(text, e.old); n != 1 {
			return nil, fmt.Errorf("%s has the text of %s %d times, want once:\n%s", e.file, p.name, n, e.old)
		}
		files[e.file] = strings.Replace(text, e.old, e.new, 1)
	}
	return files, nil
}

// overlay writes what go's -overlay reads.
func (p planted) overlay(t *testing.T) string {
	t.Helper()
	files, err := p.apply()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var table struct{ Replace map[string]string }
	table.Replace = map[string]string{}
	for file, text := range files {
		was, err := filepath.Abs(filepath.Join("..", filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		is := filepath.Join(dir, strings.ReplaceAll(file, "/", "-"))
		if err := os.WriteFile(is, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		table.Replace[was] = is
	}
	data, err := json.Marshal(table)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// failed are the tests that go test says have failed, or hung.
func failed(out string) (tests []string) {
	_, running, _ := strings.Cut(out, "\nrunning tests:\n")
	running, _, _ = strings.Cut(running, "\n\n")
	for line := range strings.Lines(running) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		tests = append(tests, name)
	}
	for line := range strings.Lines(out) {
		if name, found := strings.CutPrefix(line, "--- FAIL: "); found {
			name, _, _ = strings.Cut(name, " ")
			tests = append(tests, name)
		}
	}
	return tests
}

func TestPlanted_EachIsFound(t *testing.T) {
	notInShort(t)
	named := strings.Contains(strings.Join(os.Args, " "), "TestPlanted_EachIsFound/") // whoever asks for one gets it
	for _, p := range readPlanted(t) {
		t.Run(p.name, func(t *testing.T) {
			if !long() && !named && !slices.Contains(plantedAlways, p.name) {
				t.Skip("its package takes long to build: " + longEnv + "=1")
			}
			ctx, cancel := context.WithTimeout(t.Context(), plantedWithin)
			defer cancel()
			cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-short", "-timeout", plantedHangs, "-overlay", p.overlay(t), "-run", p.tests, "./"+p.pkg)
			cmd.Dir = ".."
			began := time.Now()
			out, err := cmd.CombinedOutput()
			took := time.Since(began).Round(100 * time.Millisecond)
			if tests := failed(string(out)); err == nil || len(tests) == 0 {
				t.Errorf("%s (%s): no test failed within %s, %v:\n%s", p.name, p.what, took, err, out)
			} else {
				t.Logf("%s: found by %s.%s, building included, in %s", p.what, p.pkg, strings.Join(tests, ", "), took)
			}
		})
	}
}

// Every bug fits the code as it is: one that does not would be missed without a word.
func TestPlanted_AllFit(t *testing.T) {
	t.Parallel()
	for _, p := range readPlanted(t) {
		if _, err := p.apply(); err != nil {
			t.Error(err)
		}
	}
}
