package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/holdfast-dev/holdfast/api"
)

// labels of our metrics, all of them from closed sets.
var closedLabels = []string{
	"answer", "call", "code", "end", "fault", "kind", "le", "listener", "method", "mode", "outcome", "result", "route", "state", "sweep", "trouble", "type", "use",
}

var (
	sampleLine = regexp.MustCompile(`(?m)^(holdfast_[a-z_]+)(\{[^\n]*\})? \S+$`)
	labelName  = regexp.MustCompile(`[{,]([a-z_]+)="`)
	metricName = regexp.MustCompile(`holdfast_[a-z_]+`)
	metricRow  = regexp.MustCompile("(?m)^\\| `(holdfast_[a-z_]+)` \\|.*\\|([a-z, ]*)\\|$")
	partOf     = regexp.MustCompile(`_(bucket|sum|count)$`) // a histogram
)

// labelsAreDocumented compares series with the rows of docs/reference/metrics.md. The labels le
// and listener are not in the rows.
func labelsAreDocumented(t *testing.T, series []string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	for _, m := range metricRow.FindAllSubmatch(page, -1) {
		rows[string(m[1])] = strings.FieldsFunc(string(m[2]), func(r rune) bool { return r == ',' || r == ' ' })
	}
	for _, one := range series {
		name := metricName.FindString(one)
		if _, there := rows[name]; !there {
			name = partOf.ReplaceAllString(name, "")
		}
		want, there := rows[name]
		if !there {
			t.Errorf("docs/reference/metrics.md has no row for %s", one)
			continue
		}
		var got []string
		for _, m := range labelName.FindAllStringSubmatch(one, -1) {
			if m[1] != "le" && m[1] != "listener" {
				got = append(got, m[1])
			}
		}
		slices.Sort(got)
		if want = slices.Sorted(slices.Values(want)); !slices.Equal(got, want) {
			t.Errorf("%s: docs/reference/metrics.md says labels %q", one, want)
		}
	}
}

// scrape is what the server exposes, and the series of ours in it, by name and labels.
func scrape(t *testing.T, s *devServer) (text []byte, series []string) {
	t.Helper()
	resp, err := http.Get(s.run.AdminURL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if text, err = io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET /metrics: %s, %v", resp.Status, err)
	}
	for _, m := range sampleLine.FindAllSubmatch(text, -1) {
		series = append(series, string(m[1])+string(m[2]))
	}
	slices.Sort(series)
	return text, series
}

// consumeBy lets many subjects ask, by several callers at once; it fails the test for a
// transport that does not answer.
func consumeBy(t *testing.T, call *caller, from, to int) {
	t.Helper()
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			for n := from + w; n < to; n += 8 {
				body := api.CheckRequest{Action: "call", Subject: &api.Subject{Kind: "user", ID: "metric-" + strconv.Itoa(n)}}
				var answer api.CheckAnswer
				if _, err := call.do(t.Context(), act{method: http.MethodPost, path: "/v1/checks", key: newKey(), body: body, into: &answer}); err != nil {
					t.Errorf("check %d: %v", n, err)
					return
				}
			}
		})
	}
	all.Wait()
}

// everyWay makes what the metrics count happen at least once.
func everyWay(t *testing.T, call *caller) {
	t.Helper()
	for n := range 5 { // the first is committed, the last refused
		made, err := reserveFor(t.Context(), call, "export", "metric")
		if n == 4 {
			if err == nil {
				t.Error("a fourth export at once is granted")
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			if _, err := call.do(t.Context(), act{method: http.MethodPost, path: of(made.ID, "commit"), repeatable: true}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, sweep := range []string{"expire", "trim", "rollup", "verify"} {
		if _, err := call.do(t.Context(), act{method: http.MethodPost, path: "/admin/v1/janitor/" + sweep + "/run", admin: true, repeatable: true}); err != nil {
			t.Fatalf("%s: %v", sweep, err)
		}
	}
}

// Names, units, help and labels are as Prometheus wants them, and as many series stand for
// 1,000 subjects as for 10. HOLDFAST_TEST_SUBJECTS=100000 asks for more.
func TestMetrics_LintedAndBounded(t *testing.T) {
	t.Parallel()
	most := 1_000
	if text := os.Getenv("HOLDFAST_TEST_SUBJECTS"); text != "" {
		most, _ = strconv.Atoi(text) // 0 fails below
	}
	s, call := setupDev(t, "--memory")
	everyWay(t, call)
	consumeBy(t, call, 0, 10)
	scrape(t, s) // counted itself, from the next one on
	text, few := scrape(t, s)
	problems, err := promlint.New(bytes.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "holdfast_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	for _, one := range few {
		for _, label := range labelName.FindAllStringSubmatch(one, -1) {
			if !slices.Contains(closedLabels, label[1]) {
				t.Errorf("%s: the label %q is of no closed set", one, label[1])
			}
		}
	}
	labelsAreDocumented(t, few)
	consumeBy(t, call, 10, most)
	_, many := scrape(t, s)
	for _, one := range many {
		// What trouble there was on the way differs from run to run; its labels are few words.
		trouble := strings.HasPrefix(one, "holdfast_store_calls_total") || strings.HasPrefix(one, "holdfast_desk_retries_total")
		if !trouble && !slices.Contains(few, one) {
			t.Errorf("after %d subjects there is a series more: %s", most, one)
		}
		if strings.Contains(one, "metric-") {
			t.Errorf("a subject is in %s", one)
		}
	}
	if len(few) < 100 || most < 100 {
		t.Errorf("%d series, %d subjects: is the test right?", len(few), most)
	}
}

// deployed are the expressions of the dashboard and the alerts, and where the alerts' pages are.
func deployed(t *testing.T) (expressions, pages []string) {
	t.Helper()
	read := func(path string) []byte {
		text, err := os.ReadFile(filepath.Join("..", "..", "deploy", path))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				For         string
				Labels      map[string]string
				Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(read("prometheus/alerts.yaml"), &rules); err != nil {
		t.Fatal(err)
	}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			if r.Alert == "" || r.Expr == "" || r.For == "" || r.Labels["severity"] == "" || r.Annotations["summary"] == "" {
				t.Errorf("alert %q is not whole: %+v", r.Alert, r)
			}
			expressions, pages = append(expressions, r.Expr), append(pages, r.Annotations["runbook"])
		}
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(read("grafana/holdfast.json"), &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, p := range dashboard.Panels {
		if p.Title == "" || len(p.Targets) == 0 {
			t.Errorf("panel %q shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			expressions = append(expressions, target.Expr)
		}
	}
	if len(pages) < 10 || len(expressions) < 20 {
		t.Errorf("%d alerts, %d expressions: was all read?", len(pages), len(expressions))
	}
	return expressions, pages
}

// What the dashboard and the alerts ask for is what a server exposes, and each alert has its
// page in the runbook.
func TestMetrics_DashboardAndAlertsAskForWhatThereIs(t *testing.T) {
	t.Parallel()
	s, call := setupDev(t, "--memory")
	everyWay(t, call)
	text, _ := scrape(t, s)
	expressions, pages := deployed(t)
	// Exposed only once there was trouble.
	known := map[string]bool{"holdfast_desk_retries_total": true, "holdfast_store_faulty_values_total": true}
	for _, m := range metricName.FindAll(text, -1) {
		known[string(m)] = true
	}
	for _, e := range expressions {
		for _, name := range metricName.FindAllString(e, -1) {
			if !known[name] {
				t.Errorf("%s asks for %s, which no server exposes", e, name)
			}
		}
	}
	runbook, err := os.ReadFile(filepath.Join("..", "..", "docs", "runbook.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		name, anchor, ok := strings.Cut(page, "#")
		heading := "\n## " + strings.ReplaceAll(anchor, "-", " ") + "\n"
		if name != "docs/runbook.md" || !ok || !strings.Contains(strings.ToLower(string(runbook)), heading) {
			t.Errorf("%s is no page of the runbook", page)
		}
	}
}
