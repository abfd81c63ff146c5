package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/api"
)

// The examples of docs/explanation do what the text says of them.

func fenced(t *testing.T, name, language string) (blocks []string) {
	t.Helper()
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(document(t, name), -1) {
		blocks = append(blocks, m[1])
	}
	if len(blocks) == 0 {
		t.Fatalf("%s has no block of %s", name, language)
	}
	return blocks
}

// fenceSQL runs the statements of the page as three holders would, one of them late, and says
// after each whether the fence was taken. It stops at a fence that was not, as the page says.
const fenceSQL = `
import sqlite3, sys
tables, write = open(sys.argv[1]).read(), open(sys.argv[2]).read()
db = sqlite3.connect(":memory:", isolation_level=None)
db.executescript(tables)
for fence, amount in ((1874, 120), (1874, 121), (1900, 130), (1874, 999), (1901, 140)):
    text = "\n".join(l for l in write.splitlines() if not l.lstrip().startswith("--"))
    for one in text.replace("1874", str(fence)).replace("120", str(amount)).split(";"):
        if not one.strip():
            continue
        rows = db.execute(one).fetchall()
        if "RETURNING" in one and not rows:
            db.execute("ROLLBACK")
            print(fence, "late")
            break
    else:
        print(fence, db.execute("SELECT amount, written_by FROM balances").fetchone())
print(db.execute("SELECT amount, written_by FROM balances").fetchone())
`

func TestDocs_FenceInSQLRefusesTheLate(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3, whose SQLite runs the statements")
	}
	blocks := fenced(t, "docs/explanation/fences.md", "sql")
	dir := t.TempDir()
	var files []string
	for i, text := range blocks {
		files = append(files, filepath.Join(dir, strconv.Itoa(i)))
		if err := os.WriteFile(files[i], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), python, append([]string{"-c", fenceSQL}, files...)...).CombinedOutput()
	const want = "1874 (120, 1874)\n1874 (121, 1874)\n1900 (130, 1900)\n1874 late\n1901 (140, 1901)\n(140, 1901)\n"
	if err != nil || string(out) != want {
		t.Errorf("got %v\n%s\nwant\n%s", err, out, want)
	}
}

// objects is an object store as far as the page needs one: it knows If-Match and If-None-Match,
// and keeps the metadata.
type objects struct {
	mu      sync.Mutex
	version int
	fence   string
	body    []byte
	fences  []int64 // of the writes that were taken, in order
}

func (o *objects) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	etag := fmt.Sprintf(`"v%d"`, o.version)
	if r.Method == http.MethodHead {
		if o.version == 0 {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("ETag", etag)
		w.Header().Set("X-Amz-Meta-Fence", o.fence)
		return
	}
	if only := r.Header.Get("If-Match"); only != "" && only != etag || r.Header.Get("If-None-Match") == "*" && o.version > 0 {
		w.WriteHeader(http.StatusPreconditionFailed)
		return
	}
	o.version++
	o.fence = r.Header.Get("X-Amz-Meta-Fence")
	o.body, _ = io.ReadAll(r.Body)
	n, _ := strconv.ParseInt(o.fence, 10, 64)
	o.fences = append(o.fences, n)
}

func TestDocs_FenceInAnObjectStoreRefusesTheLate(t *testing.T) {
	t.Parallel()
	store := &objects{}
	server := httptest.NewServer(store)
	defer server.Close()
	put := fenced(t, "docs/explanation/fences.md", "sh")[0]
	dir := t.TempDir()
	run := func(fence string) int {
		file := filepath.Join(dir, fence)
		if err := os.WriteFile(file, []byte("by "+fence), 0o600); err != nil {
			t.Error(err)
		}
		cmd := exec.CommandContext(t.Context(), "bash", "-c", put+`put "$@"`, "put", file, server.URL+"/slot-0", fence)
		var said bytes.Buffer
		cmd.Stderr = &said
		if err := cmd.Run(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() == 1 {
			t.Errorf("fence %s: %v, %s", fence, err, said.String())
			return -1
		}
		return cmd.ProcessState.ExitCode()
	}
	for _, c := range []struct {
		fence string
		want  int
	}{{"10", 0}, {"10", 0}, {"20", 0}, {"10", 3}, {"21", 0}} {
		if got := run(c.fence); got != c.want {
			t.Errorf("fence %s: got %d, want %d", c.fence, got, c.want)
		}
	}
	var all sync.WaitGroup
	for n := range 6 {
		all.Go(func() { run(strconv.Itoa(30 + n)) })
	}
	all.Wait()
	for i, fence := range store.fences[1:] {
		if fence < store.fences[i] {
			t.Errorf("fences of the writes that were taken: %v, which goes back", store.fences)
		}
	}
	if last := store.fences[len(store.fences)-1]; last != 35 || !strings.HasSuffix(string(store.body), "35") {
		t.Errorf("the last write is of %d (%s), want the greatest fence, 35", last, store.body)
	}
}

var (
	logLine  = regexp.MustCompile(`\b[lL]og\.(Info|Warn|Error)\(\s*"([^"]+)"`)
	logShown = regexp.MustCompile("(?m)^\\| (info|warn|error) \\| `([^`]+)` \\|")
)

// Every line that a server writes to its log is explained, and no other.
func TestHouse_LogLinesAreDocumented(t *testing.T) {
	t.Parallel()
	written := map[string]bool{"info request": true, "warn etcd: lines of its log were dropped": true} // not written by a plain call
	for _, f := range sources(t) {
		if strings.HasPrefix(f.name, "examples/") || strings.HasPrefix(f.name, "bench/") || strings.HasPrefix(f.name, "integration/") {
			continue
		}
		for _, m := range logLine.FindAllStringSubmatch(document(t, f.name), -1) {
			written[strings.ToLower(m[1])+" "+m[2]] = true
		}
	}
	const name = "docs/reference/logs.md"
	shown := map[string]bool{}
	for _, m := range logShown.FindAllStringSubmatch(document(t, name), -1) {
		shown[m[1]+" "+m[2]] = true
	}
	if len(written) < 30 {
		t.Fatalf("only %d lines were found: is their form another?", len(written))
	}
	sameNames(t, name, written, shown)
}

// The types of events are those of the reference, both ways.
func TestHouse_EventTypesAreDocumented(t *testing.T) {
	t.Parallel()
	const name = "docs/reference/events.md"
	told := namesIn(t, regexp.MustCompile(`[A-Z]\w+: "([a-z]+(?:\.[a-z]+)?)"`), document(t, "events/event.go"))
	sameNames(t, name, told, namesIn(t, regexp.MustCompile("(?m)^\\| `([a-z.]+)` \\|"), document(t, name)))
}

var (
	routeNamed = regexp.MustCompile("((?:GET|POST|PUT|PATCH|DELETE)(?:[|·,] ?(?:GET|POST|PUT|PATCH|DELETE))*) (/[^\\s`?\"')]*)")
	pathParam  = regexp.MustCompile(`\{[^}]*\}`)
)

// Every route that the documents name is one of the contract; the reference has them all, since
// it is made of the contract (cmd/holdfast.TestDocs_ReferenceIsFresh).
func TestHouse_RoutesOfTheDocumentsAreThere(t *testing.T) {
	t.Parallel()
	var contract struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	if err := json.Unmarshal(api.OpenAPIJSON(), &contract); err != nil {
		t.Fatal(err)
	}
	routes := map[string]map[string]any{}
	for path, verbs := range contract.Paths {
		routes["^"+pathParam.ReplaceAllString(path, `[^/]+`)+"$"] = verbs
	}
	has := func(method, path string) bool {
		for pattern, verbs := range routes {
			if regexp.MustCompile(pattern).MatchString(path) && verbs[strings.ToLower(method)] != nil {
				return true
			}
		}
		return false
	}
	seen := 0
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/[efhrt]*/*.md"} {
		for name, text := range documents(t, pattern) {
			for _, m := range routeNamed.FindAllStringSubmatch(text, -1) {
				path := strings.TrimRight(m[2], ".,;:")
				if !strings.HasPrefix(path, "/v1") && !strings.HasPrefix(path, "/admin/v1") {
					continue
				}
				for method := range strings.FieldsFuncSeq(m[1], func(r rune) bool { return strings.ContainsRune("|·, ", r) }) {
					if seen++; !has(method, path) {
						t.Errorf("%s names the route %s %s, which the contract has not", name, method, path)
					}
				}
			}
		}
	}
	if seen < 60 || has("GET", "/v1/limit") || has("PATCH", "/v1/limits") || !has("PUT", "/v1/limits/a/overrides/user/b") {
		t.Errorf("%d routes were looked at; routes are told apart wrongly, or their form is another", seen)
	}
}
