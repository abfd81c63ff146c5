package integration

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/api"
)

// The documents say nothing that the code does not: codes have their pages, the tests and the
// constants that are named exist, and the bodies to send are bodies.

func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", name))
	if err != nil {
		t.Fatalf("%s cannot be read: %v", name, err)
	}
	return string(text)
}

// documents are those that match pattern, by name.
func documents(t *testing.T, pattern string) map[string]string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("..", pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("no document is like %s: %v", pattern, err)
	}
	all := map[string]string{}
	for _, name := range names {
		rel := filepath.ToSlash(strings.TrimPrefix(name, ".."+string(filepath.Separator)))
		all[rel] = document(t, rel)
	}
	return all
}

var problemSection = regexp.MustCompile(`(?m)^## (\S+)\n(\d{3})[.,]`)

// API.md section 7: each type has a page.
func TestDocs_EveryCodeHasItsSection(t *testing.T) {
	t.Parallel()
	told := map[api.Code]string{}
	for _, m := range problemSection.FindAllStringSubmatch(document(t, "docs/problems.md"), -1) {
		told[api.Code(m[1])] = m[2]
	}
	for _, code := range api.Codes() {
		if got, want := told[code], fmt.Sprint(code.Status()); got != want {
			t.Errorf("docs/problems.md says status %q of %s, want %s", got, code, want)
		}
		delete(told, code)
	}
	for code := range told {
		t.Errorf("docs/problems.md has a section %s, which is no code", code)
	}
}

var figureRow = regexp.MustCompile(`(?m)^\|[^|\n]*\|[^|\n]*\|[^|\n]*\|[^|\n]*\|[^|\n]*\|[^|\n]*\|$`)

// The README shows figures of BENCHMARKS.md, and no others.
func TestDocs_FiguresOfTheReadmeAreMeasured(t *testing.T) {
	if testing.Short() {
		t.Skip("figures come at the end of a change: copy their rows into README.md")
	}
	t.Parallel()
	rows := figureRow.FindAllString(document(t, "README.md"), -1)
	if len(rows) < 5 {
		t.Errorf("README.md has %d rows of figures", len(rows))
	}
	for _, row := range rows {
		if !strings.Contains(document(t, "BENCHMARKS.md"), row) {
			t.Errorf("README.md has a row that BENCHMARKS.md has not (copy it from there): %s", row)
		}
	}
}

var (
	caseID    = regexp.MustCompile(`(?m)^\| (HF-\d+) \|`)
	caseTitle = regexp.MustCompile(`^# (\d+)\. `)
	faultCase = regexp.MustCompile(`(?m)^\| (O\d\d) \|`)
)

// STYLE.md, "Habits": each decision has numbered cases.
func TestDocs_CasesAreNumberedByTheirDecision(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for name, text := range documents(t, "docs/conformance/0*.md") {
		title := caseTitle.FindStringSubmatch(text)
		if title == nil {
			t.Errorf("%s: its title has no number", name)
			continue
		}
		ids := caseID.FindAllStringSubmatch(text, -1)
		for _, id := range ids {
			number := strings.TrimPrefix(id[1], "HF-")
			if number[:max(len(number)-2, 0)] != title[1] || seen[id[1]] != "" {
				t.Errorf("%s: case %s is of another decision, or in %q too", name, id[1], seen[id[1]])
			}
			seen[id[1]] = name
		}
		adr := documents(t, "docs/adr/"+path.Base(name)[:len("0000")]+"-*.md")
		for file, decision := range adr {
			if !strings.Contains(decision, ids[0][1]+" to "+ids[len(ids)-1][1]) || !strings.Contains(decision, path.Base(name)) {
				t.Errorf("%s does not point at %s to %s of %s", file, ids[0][1], ids[len(ids)-1][1], name)
			}
		}
	}
	var want, got []string
	for n := range 30 {
		want = append(want, fmt.Sprintf("O%02d", n+1))
	}
	for _, m := range faultCase.FindAllStringSubmatch(document(t, "docs/conformance/cases.md"), -1) {
		got = append(got, m[1])
	}
	if !slices.Equal(got, want) {
		t.Errorf("docs/conformance/cases.md has rows %v, want %v", got, want)
	}
}

var testName = regexp.MustCompile("`([a-z][a-z/]*)\\.((?:Test|Fuzz|Benchmark)\\w*)(?:/([^`]+))?`")

func TestDocs_TestsThatAreNamedExist(t *testing.T) {
	t.Parallel()
	all := documents(t, "docs/conformance/[0cf]*.md")
	all["docs/guarantees.md"] = document(t, "docs/guarantees.md")
	maps.Copy(all, documents(t, "docs/reports/*.md"))
	named := 0
	for name, text := range all {
		for _, m := range testName.FindAllStringSubmatch(text, -1) {
			named++
			if err := testExists(m[1], m[2], m[3]); err != nil {
				t.Errorf("%s names %s: %v", name, m[0], err)
			}
		}
	}
	if named < 50 {
		t.Errorf("only %d tests are named: is their form another?", named)
	}
}

// testExists looks for a test in a folder, and for the name of its subtest in the folder's
// sources; the cases of the suite of stores have theirs in storetest, scripts are files.
func testExists(folder, test, sub string) error {
	if !within("func "+test+"(", filepath.Join("..", folder, "*_test.go")) {
		return fmt.Errorf("there is no such test in %s", folder)
	}
	switch {
	case sub == "":
		return nil
	case test == "TestScript":
		_, err := os.Stat(filepath.Join("..", folder, "testdata", "script", sub+".txtar"))
		return err
	case within(`"`+sub+`"`, filepath.Join("..", folder, "*.go")),
		within(`"`+sub+`"`, filepath.Join("..", "store", "storetest", "*.go")):
		return nil
	}
	return fmt.Errorf("there is no subtest %q", sub)
}

// within reports whether text stands in one of the files.
func within(text, pattern string) bool {
	files, _ := filepath.Glob(pattern) // the pattern is right
	return slices.ContainsFunc(files, func(file string) bool {
		data, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(data), text)
	})
}

var quoted = regexp.MustCompile("`([^`]+)`")

// Every bound of a decision is a constant of the code, and is where the page says.
func TestDocs_BoundsAreNamedAsInTheCode(t *testing.T) {
	t.Parallel()
	for name, text := range documents(t, "docs/adr/0*.md") {
		_, table, found := strings.Cut(text, "\n## Bounds\n")
		if !found {
			t.Errorf("%s has no bounds", name)
		}
		file, named := "", 0
		for _, row := range strings.Split(table, "\n") {
			columns := strings.Split(row, "|")
			if len(columns) < 4 {
				continue
			}
			words := quoted.FindAllStringSubmatch(columns[2], -1)
			for _, w := range words {
				if strings.HasSuffix(w[1], ".go") {
					file = w[1]
				}
			}
			for _, w := range words {
				pkg, ident, qualified := strings.Cut(w[1], ".")
				switch {
				case strings.HasSuffix(w[1], ".go") || strings.HasPrefix(w[1], "-"):
					continue
				case !qualified:
					pkg, ident = file, w[1]
				default:
					pkg = path.Join(pkg, "*.go")
				}
				named++
				if !within(ident, filepath.Join("..", filepath.FromSlash(pkg))) {
					t.Errorf("%s: %s is not in %s", name, ident, pkg)
				}
			}
		}
		if named == 0 {
			t.Errorf("%s: its bounds name no constant", name)
		}
	}
}

// The bodies of `make demo` are what the routes read.
func TestDocs_ExamplesDecode(t *testing.T) {
	t.Parallel()
	into := map[string]any{
		"01-limit.json": &api.LimitInput{}, "02-limit-day.json": &api.LimitInput{}, "03-preview.json": &api.CheckRequest{},
		"04-reserve.json": &api.ReserveRequest{}, "05-extend.json": &api.ExtendRequest{}, "06-commit.json": &api.CommitRequest{},
		"07-release.json": &api.ReleaseRequest{}, "08-consume.json": &api.CheckRequest{},
	}
	script := document(t, "docs/examples/demo.sh")
	for name, text := range documents(t, "docs/examples/*.json") {
		base := path.Base(name)
		if into[base] == nil || !strings.Contains(script, base) {
			t.Errorf("%s is not sent by demo.sh, or not known here", name)
			continue
		}
		if err := api.Decode([]byte(text), into[base]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
