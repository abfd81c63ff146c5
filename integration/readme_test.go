package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestReadme_SessionRunsAsPrinted replays the terminal session of README.md: each "$ " line
// is run in one shell, with the server of the first on free ports, and what it prints must
// look as printed there; "…" stands for anything, a run of blanks counts as one.
func TestReadme_SessionRunsAsPrinted(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	steps := session(t, string(text))
	if !strings.HasPrefix(steps[0].command, "holdfast dev") {
		t.Fatalf("the session begins with %q, want the server", steps[0].command)
	}
	home := t.TempDir()
	data := filepath.Join(home, "holdfast-data")
	p, err := start(home, nil, "dev", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir", data)
	if err != nil {
		t.Fatal(err)
	}
	defer p.kill()
	addresses := waitDev(t, p, data)
	if got := p.out.String(); !looksLike(got, addresses(steps[0].want)) {
		t.Errorf("holdfast dev printed\n%s\nwant\n%s", got, steps[0].want)
	}
	for i, got := range replay(t, home, addresses, steps[1:]) {
		if want := addresses(steps[i+1].want); !looksLike(got, want) {
			t.Errorf("$ %s\nprinted\n%s\nwant\n%s", steps[i+1].command, got, want)
		}
	}
}

type sessionStep struct{ command, want string }

// session reads the console blocks between the markers.
func session(t *testing.T, text string) (steps []sessionStep) {
	t.Helper()
	_, text, ok := strings.Cut(text, "<!-- session:begin -->")
	text, _, ok2 := strings.Cut(text, "<!-- session:end -->")
	if !ok || !ok2 {
		t.Fatal("README.md has no session between its markers")
	}
	for i, block := range strings.Split(text, "```console\n") {
		if i == 0 {
			continue
		}
		block, _, _ = strings.Cut(block, "```")
		for line := range strings.Lines(block) {
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				steps = append(steps, sessionStep{command: strings.TrimSpace(command)})
				continue
			}
			steps[len(steps)-1].want += line
		}
	}
	return steps
}

// waitDev waits until dev is ready, and returns what puts its addresses in the place of the
// usual ones.
func waitDev(t *testing.T, p *process, data string) func(string) string {
	t.Helper()
	banner := regexp.MustCompile(`API\s+http://(\S+)\n\s+Admin\s+http://([^/\s]+)`)
	for deadline := time.Now().Add(generous); time.Now().Before(deadline); {
		if m := banner.FindStringSubmatch(p.out.String()); m != nil && strings.Contains(p.out.String(), "ready in") {
			return strings.NewReplacer("127.0.0.1:7420", m[1], "127.0.0.1:7421", m[2], "./holdfast-data", data).Replace
		}
		select {
		case <-p.ended:
			t.Fatalf("dev ended: %s", &p.out)
		case <-time.After(50 * time.Millisecond):
		}
	}
	t.Fatalf("dev is not ready: %s", &p.out)
	return nil
}

// replay runs the commands in one shell, as a person would, and returns what each printed.
func replay(t *testing.T, home string, addresses func(string) string, steps []sessionStep) []string {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	const mark = "--- next ---"
	script := "holdfast() { '" + path + "' \"$@\"; }\n"
	for _, s := range steps {
		script += "restore() { return $code; }; restore\n" + addresses(s.command) + "\ncode=$?\necho '" + mark + "'\n"
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", "code=0\n"+script)
	cmd.Env = []string{"HOME=" + home, "XDG_CONFIG_HOME=" + home, "PATH=" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("the session: %v\n%s", err, out)
	}
	parts := strings.Split(string(out), mark+"\n")
	return parts[:len(parts)-1]
}

// looksLike compares line by line.
func looksLike(got, want string) bool {
	pattern := `^\s*`
	for i, line := range strings.Split(strings.TrimSpace(want), "\n") {
		if i > 0 {
			pattern += `\s*\n\s*`
		}
		words := strings.Fields(line)
		for k, w := range words {
			words[k] = strings.ReplaceAll(regexp.QuoteMeta(w), "…", `.*?`)
		}
		pattern += strings.Join(words, `\s*`)
	}
	return regexp.MustCompile(pattern + `\s*$`).MatchString(got)
}
