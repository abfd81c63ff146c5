package integration

import (
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/docs"
	"github.com/holdfast-dev/holdfast/httpapi"
)

var (
	consoleBlock = regexp.MustCompile("(?s)```console\n(.*?)```")
	yamlBlock    = regexp.MustCompile("(?s)```yaml\n(.*?)```")
	startedBy    = regexp.MustCompile(`(?m)^holdfast dev --memory (--.+)$`) // what a document asks of its server
)

// consoleSteps reads the console blocks of a document: "$ " begins a command, "> " goes on with
// it, everything else is what it prints.
func consoleSteps(text string) (steps []sessionStep) {
	for _, block := range consoleBlock.FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(block[1]) {
			last := len(steps) - 1
			switch {
			case strings.HasPrefix(line, "$ "):
				steps = append(steps, sessionStep{command: strings.TrimSuffix(line[2:], "\n")})
			case strings.HasPrefix(line, "> ") && steps[last].want == "":
				steps[last].command += "\n" + strings.TrimSuffix(line[2:], "\n")
			default:
				steps[last].want += line
			}
		}
	}
	return steps
}

// Issue 8, shown by 2: every how-to does what it says, on a server of its own.
func TestHowto_SessionsRunAsPrinted(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server for each document")
	}
	t.Parallel()
	ran := 0
	all := documents(t, "docs/howto/*.md")
	for _, pattern := range []string{"docs/*.md", "docs/explanation/*.md"} {
		maps.Copy(all, documents(t, pattern))
	}
	for name, text := range all {
		steps := consoleSteps(text)
		if len(steps) == 0 {
			continue
		}
		ran++
		t.Run(path.Base(name), func(t *testing.T) {
			t.Parallel()
			for _, tool := range []string{"python3", "openssl"} {
				uses := slices.ContainsFunc(steps, func(s sessionStep) bool { return strings.Contains(s.command, tool+" ") })
				if _, err := exec.LookPath(tool); uses && err != nil {
					t.Skipf("the document uses %s, which is not here", tool)
				}
			}
			home := t.TempDir()
			data := filepath.Join(home, "holdfast-data")
			limits := filepath.Join(home, "none.yaml")
			if err := os.WriteFile(limits, []byte("limits: []\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			args := []string{"dev", "--memory", "--limits", limits, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir", data}
			if m := startedBy.FindStringSubmatch(text); m != nil {
				args = append(args, strings.Fields(m[1])...)
			}
			p, err := start(home, nil, args...)
			if err != nil {
				t.Fatal(err)
			}
			defer p.kill()
			addresses := waitDev(t, p, data)
			for i, got := range replayIn(t, home, addresses, steps) {
				if want := steps[i].want; !looksLike(got, want) {
					t.Errorf("$ %s\nprinted\n%s\nwant\n%s", steps[i].command, got, want)
				}
			}
		})
	}
	if ran < 8 {
		t.Errorf("only %d how-tos have a session", ran)
	}
}

// replayIn is replay in an empty folder, where a document may write its files.
func replayIn(t *testing.T, home string, addresses func(string) string, steps []sessionStep) []string {
	t.Helper()
	bin, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	const mark = "--- next ---"
	script := "cd \"$HOME\"; holdfast() { '" + bin + "' \"$@\"; }\n"
	for _, s := range steps {
		script += addresses(s.command) + "\necho '" + mark + "'\n"
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
	cmd.Env = []string{"HOME=" + home, "XDG_CONFIG_HOME=" + home, "PATH=" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("the session: %v\n%s", err, out)
	}
	parts := strings.Split(string(out), mark+"\n")
	if len(parts) != len(steps)+1 {
		t.Fatalf("%d of %d commands ran:\n%s", len(parts)-1, len(steps), out)
	}
	return parts[:len(steps)]
}

// Every YAML in a how-to is a limits file that the server reads.
func TestHowto_LimitsFilesAreRight(t *testing.T) {
	t.Parallel()
	for name, text := range documents(t, "docs/*/*.md") {
		for _, block := range yamlBlock.FindAllStringSubmatch(text, -1) {
			if _, err := httpapi.ReadLimitsFile([]byte(block[1]), true); err != nil {
				t.Errorf("%s: %v in\n%s", name, err, block[1])
			}
		}
	}
}

var markdownLink = regexp.MustCompile(`\[[^\]]*\]\(([^)\s]+)\)`)

// Issue 8, shown by 2: every link leads somewhere, to its heading too.
func TestDocs_EveryLinkLeadsSomewhere(t *testing.T) {
	t.Parallel()
	all := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		for name, text := range documents(t, pattern) {
			all[name] = text
		}
	}
	seen := 0
	for name, text := range all {
		for _, m := range markdownLink.FindAllStringSubmatch(text, -1) {
			seen++
			if problem := broken(name, m[1], all); problem != "" {
				t.Errorf("%s: %s %s", name, m[1], problem)
			}
		}
	}
	if seen < 100 {
		t.Errorf("only %d links were found", seen)
	}
}

// broken says what is wrong with a link of a document; "" when it leads somewhere. What is on
// the web is not asked for: tests have no way there.
func broken(from, to string, all map[string]string) string {
	if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
		return ""
	}
	file, fragment, _ := strings.Cut(to, "#")
	target := from
	if file != "" {
		target = path.Join(path.Dir(from), file)
		if _, err := os.Stat(filepath.Join("..", filepath.FromSlash(target))); err != nil {
			return "is not there"
		}
	}
	text, isDoc := all[target]
	if fragment == "" || !isDoc {
		return ""
	}
	for line := range strings.Lines(text) {
		if heading := strings.TrimLeft(line, "#"); heading != line && docs.Anchor(strings.TrimSpace(heading)) == fragment {
			return ""
		}
	}
	return "has no such heading"
}

// Issue 8, shown by 2: what is documented of metrics and settings is there, and the other way.
// They are in the quick tests, for whoever adds one.
var (
	metricShown   = regexp.MustCompile("(?m)^\\| `(holdfast_[a-z0-9_]+)` \\|")
	metricUsed    = regexp.MustCompile(`holdfast_[a-z0-9_]+`)
	settingName   = regexp.MustCompile(`\{name: "([a-z0-9-]+)".*help: "((?:[^"\\]|\\.)*)"`)
	settingShown  = regexp.MustCompile("(?m)^\\| `([a-z0-9-]+)` \\| `HOLDFAST_")
	histogramPart = regexp.MustCompile(`_(bucket|sum|count)$`)
)

// metricNames are how the sources name metrics: in full, or within a subsystem of their folder.
var metricNames = []struct {
	folder, prefix string
	find           *regexp.Regexp
}{
	{"", "", regexp.MustCompile(`Name:\s*"(holdfast_[a-z0-9_]+)",\s*Help:`)},
	{"webhooks/", "", regexp.MustCompile(`of\("(holdfast_webhooks_[a-z_]+)"`)},
	{"events/", "holdfast_events_", regexp.MustCompile(`of\("([a-z_]+)"`)},
	{"reserve/", "", regexp.MustCompile(`gauge\("(holdfast_line_[a-z_]+)"`)},
	{"cmd/holdfast/", "", regexp.MustCompile(`gauge\("(holdfast_[a-z0-9_]+)"`)},
	{"httpapi/", "holdfast_http_", regexp.MustCompile(`(?:of\(|Subsystem: "http",\s+Name: )"([a-z_]+)"`)},
	{"janitor/", "holdfast_janitor_", regexp.MustCompile(`(?:counter\(|Subsystem: "janitor", Name: )"([a-z_]+)"`)},
}

func metricsOf(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, f := range sources(t) {
		text := document(t, f.name)
		for _, how := range metricNames {
			if !strings.HasPrefix(f.name, how.folder) {
				continue
			}
			for _, m := range how.find.FindAllStringSubmatch(text, -1) {
				found[how.prefix+m[1]] = true
			}
		}
	}
	return found
}

func namesIn(t *testing.T, find *regexp.Regexp, texts ...string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, text := range texts {
		for _, m := range find.FindAllStringSubmatch(text, -1) {
			found[m[1]] = true
		}
	}
	if len(found) < 10 {
		t.Fatalf("only %d names are like %s: is their form another?", len(found), find)
	}
	return found
}

func sameNames(t *testing.T, what string, code, page map[string]bool) {
	t.Helper()
	for name := range code {
		if !page[name] {
			t.Errorf("%s has no row for %s", what, name)
		}
	}
	for name := range page {
		if !code[name] {
			t.Errorf("%s has a row for %s, which the code has not", what, name)
		}
	}
}

func TestHouse_MetricsAreDocumented(t *testing.T) {
	t.Parallel()
	metrics := metricsOf(t)
	sameNames(t, "docs/reference/metrics.md", metrics, namesIn(t, metricShown, document(t, "docs/reference/metrics.md")))
	for name, text := range documents(t, "docs/*.md") {
		for _, used := range metricUsed.FindAllString(text, -1) {
			if !metrics[used] && !metrics[histogramPart.ReplaceAllString(used, "")] {
				t.Errorf("%s speaks of the metric %s, which the code has not", name, used)
			}
		}
	}
}

func TestHouse_SettingsAreDocumented(t *testing.T) {
	t.Parallel()
	const name, mend = "docs/reference/configuration.md", ": run go generate ./cmd/holdfast"
	page := document(t, name)
	named := map[string]bool{}
	for file, text := range documents(t, "cmd/holdfast/*.go") {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, m := range settingName.FindAllStringSubmatch(text, -1) {
			named[m[1]] = true
			help := strings.NewReplacer(`\"`, `"`, "|", `\|`, "<", "&lt;").Replace(m[2])
			if !strings.Contains(page, " | "+help) { // the rest may be a constant
				t.Errorf("%s does not say of %s: %s%s", name, m[1], help, mend)
			}
		}
	}
	shown := namesIn(t, settingShown, page)
	sameNames(t, name+mend, named, shown)
}
