package integration

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The layers of STYLE.md section 2: an import may only point down. This test is the law,
// depguard in .golangci.yaml the early warning. Only what ships is looked at: tests may import
// whatever they need.

const module = "github.com/holdfast-dev/holdfast"

// layer is what one package may import beside the standard library.
type layer struct {
	level int
	ours  []string            // packages of this module
	only  map[string][]string // of one of ours, nothing but these names
	third []string            // import paths of others, whole or up to a "/"
	http  bool                // net/http, the home of statuses
	files bool                // os: files, environment, processes
}

const (
	prometheus = "github.com/prometheus/client_golang/prometheus"
	etcdClient = "go.etcd.io/etcd/client/v3"
	etcdAPI    = "go.etcd.io/etcd/api/v3"
)

var layers = map[string]layer{
	"windows": {level: 0},
	"api":     {level: 0},
	"docs":    {level: 0}, // what the binary serves of this folder

	"limits": {level: 1, ours: []string{"windows"}},

	"reserve": {level: 2, ours: []string{"limits", "windows"}, third: []string{prometheus}},
	"auth": {
		level: 2, ours: []string{"limits"}, http: true, files: true, // keys are fetched, or read from a file
		third: []string{"github.com/golang-jwt/jwt/v5", "github.com/MicahParks/jwkset", prometheus},
	},

	"store": {
		level: 3, ours: []string{"reserve", "limits", "windows"},
		third: []string{
			etcdClient, etcdAPI, "google.golang.org/grpc/codes", "google.golang.org/grpc/metadata", "google.golang.org/grpc/status",
			"github.com/cenkalti/backoff/v5", prometheus,
		},
	},
	"store/memory":    {level: 3, ours: []string{"reserve", "limits", "windows"}},
	"store/storetest": {level: 3, ours: []string{"reserve", "limits", "windows"}, third: []string{"pgregory.net/rapid"}},
	"lease":           {level: 3, ours: []string{"reserve"}, third: []string{etcdClient, etcdAPI, prometheus}},
	"catalogue":       {level: 3, ours: []string{"reserve", "limits", "windows"}, third: []string{prometheus}},
	"events":          {level: 3, ours: []string{"reserve", "limits"}, third: []string{prometheus}},
	"janitor":         {level: 3, third: []string{"github.com/robfig/cron/v3", prometheus}},
	"web":             {level: 3},
	"web/webtest":     {level: 3}, // imported by tests alone
	"session":         {level: 3, ours: []string{"auth", "limits", "reserve"}},

	"webhooks": {level: 4, ours: []string{"events", "reserve"}, http: true, third: []string{prometheus}},

	"httpapi": {
		level: 4, ours: []string{"api", "auth", "catalogue", "docs", "events", "janitor", "limits", "reserve", "web", "windows"}, http: true,
		// It runs a sweep through an interface of its own; these two are what the interface speaks of.
		only:  map[string][]string{"janitor": {"Report", "ErrUnknownJob"}},
		third: []string{"github.com/labstack/echo/v4", "github.com/swaggest/swgui", "github.com/goccy/go-yaml", prometheus},
	},
	"httpapi/pages": {
		level: 4, ours: []string{"api", "auth", "catalogue", "janitor", "limits", "reserve", "session", "web", "windows"}, http: true,
		only: map[string][]string{"janitor": {"Report", "ErrUnknownJob"}},
	},
	"client":            {level: 3, ours: []string{"api"}, http: true, files: true},
	"client/middleware": {level: 4, ours: []string{"api", "client"}, http: true},
	"client/middleware/echomw": {
		level: 5, ours: []string{"api", "client", "client/middleware"}, http: true, third: []string{"github.com/labstack/echo/v4"},
	},
	"client/middleware/grpcmw": {
		level: 5, ours: []string{"api", "client", "client/middleware"}, http: true,
		third: []string{"google.golang.org/grpc", "google.golang.org/genproto/googleapis/rpc/errdetails", "google.golang.org/protobuf"},
	},
	// It starts what users' tests talk to: the real server on the model of the store.
	"client/holdfasttest": {
		level: 5, http: true,
		ours: []string{"api", "auth", "catalogue", "client", "events", "httpapi", "limits", "reserve", "store/memory", "windows"},
	},
	// Programs to read: they use what users use.
	"examples/worker":       {level: 5, ours: []string{"api", "client"}, files: true},
	"examples/roundtripper": {level: 5, ours: []string{"client", "client/middleware"}, http: true, files: true},
	"examples/echo": {
		level: 5, ours: []string{"client", "client/middleware", "client/middleware/echomw"}, http: true, files: true,
		third: []string{"github.com/labstack/echo/v4"},
	},

	"load": {level: 4, ours: []string{"api"}, http: true, third: []string{"github.com/HdrHistogram/hdrhistogram-go"}},

	"cmd/holdfast": {
		level: 5, ours: everything, http: true, files: true,
		third: []string{
			"go.etcd.io/", "go.uber.org/zap", "github.com/spf13/cobra", "github.com/spf13/pflag",
			"github.com/knadh/koanf", "github.com/coreos/go-systemd", "github.com/goccy/go-yaml", "github.com/mattn/go-isatty", prometheus,
			"golang.org/x/sys/unix",            // a terminal's modes, for top (ADR 25)
			"google.golang.org/protobuf/proto", // of a key written into a restored database
		},
	},
	"integration":          {level: 5, ours: everything, http: true, files: true, third: []string{"go.etcd.io/", "go.uber.org/zap"}},
	"integration/judge":    {level: 5, files: true, third: []string{etcdClient, "github.com/anishathalye/porcupine"}},
	"integration/etcdtest": {level: 5, ours: everything, http: true, files: true, third: []string{"go.etcd.io/", "go.uber.org/zap"}},
}

// everything is for those that compose the rest; cmd is a program, and nobody's to import.
var everything = []string{
	"api", "auth", "catalogue", "client", "client/middleware", "docs", "events", "httpapi", "httpapi/pages", "integration/etcdtest", "integration/judge", "janitor",
	"lease", "limits", "load", "reserve", "session", "store", "store/memory", "store/storetest", "web", "webhooks", "windows",
}

// STYLE.md section 2, "Layers".
func TestLayers_ImportsPointDown(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for _, f := range sources(t) {
		seen[f.pkg]++
		for _, fault := range layerFaults(f) {
			t.Errorf("%s: %s", f.name, fault)
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(layers)) {
		if seen[pkg] == 0 && !foreseen[pkg] {
			t.Errorf("the table has %s, the tree does not: take the row out", pkg)
		}
	}
	if len(seen) < 10 {
		t.Errorf("sources of only %d packages were found: %v", len(seen), seen)
	}
}

// foreseen are packages of STYLE.md's tree that have not landed, or that only hold tests.
var foreseen = map[string]bool{"integration": true}

// Issue 4, "Shown by" 5: whoever imports the client gets the standard library and api with it, and
// nothing else, however far down.
func TestLayers_TheClientBringsNothingAlong(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "../client").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	got := strings.Fields(string(out))
	slices.Sort(got)
	if want := []string{module + "/api", module + "/client"}; !slices.Equal(got, want) {
		t.Errorf("client comes with %q, want %q", got, want)
	}
}

// The table itself must not allow what the layers forbid.
func TestLayers_TheTablePointsDown(t *testing.T) {
	t.Parallel()
	for pkg, row := range layers {
		for _, other := range row.ours {
			below, known := layers[other]
			if !known {
				t.Errorf("%s may import %s, which has no row", pkg, other)
			}
			if below.level >= row.level && row.level < 5 {
				t.Errorf("%s (level %d) may import %s (level %d)", pkg, row.level, other, below.level)
			}
		}
		for other := range row.only {
			if !slices.Contains(row.ours, other) {
				t.Errorf("%s narrows %s, which it may not import at all", pkg, other)
			}
		}
	}
}

// A checker that finds nothing proves nothing: each kind of wrong import must be found.
func TestLayers_FindsPlantedImports(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pkg, source string
		want        string // "" for none
	}{
		"an arrow up":                      {"windows", `import "` + module + `/limits"; var _ limits.Limit`, "imports limits"},
		"a core package that knows etcd":   {"reserve", `import v3 "go.etcd.io/etcd/client/v3"; var _ v3.KV`, "imports go.etcd.io/etcd/client/v3"},
		"siblings of level 3":              {"store", `import "` + module + `/lease"; var _ lease.ID`, "imports lease"},
		"echo outside its home":            {"janitor", `import _ "github.com/labstack/echo/v4"`, "imports github.com/labstack/echo/v4"},
		"a module whose name begins alike": {"httpapi", `import _ "github.com/labstack/echo/v45"`, "imports github.com/labstack/echo/v45"},
		"statuses outside their home":      {"catalogue", `import "net/http"; var _ = http.StatusOK`, "imports net/http"},
		"files in the core":                {"limits", `import "os"; var _ = os.Args`, "imports os"},
		"cmd as a library":                 {"httpapi", `import _ "` + module + `/cmd/holdfast"`, "imports cmd/holdfast"},
		"more of the janitor than agreed":  {"httpapi", `import "` + module + `/janitor"; var _ = janitor.New`, "uses janitor.New"},
		"the same under another name":      {"httpapi", `import j "` + module + `/janitor"; var _ j.Janitor`, "uses janitor.Janitor"},
		"a package with a dot":             {"limits", `import . "` + module + `/windows"`, "imports windows into its own names"},
		"a folder without a row":           {"util", `import "strings"; var _ = strings.ToUpper`, "has no row"},

		"what is agreed":          {"httpapi", `import "` + module + `/janitor"; var _ janitor.Report`, ""},
		"a name inside a struct":  {"httpapi", `import "` + module + `/janitor"; type s struct{ r janitor.Report }`, ""},
		"the standard library":    {"windows", `import "time"; var _ time.Time`, ""},
		"a package below a third": {"httpapi", `import _ "github.com/swaggest/swgui/v5emb"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, err := parser.ParseFile(token.NewFileSet(), "planted.go", "package p; "+c.source, parser.SkipObjectResolution)
			if err != nil {
				t.Fatalf("the planted source %q does not parse: %v", c.source, err)
			}
			got := strings.Join(layerFaults(source{c.pkg, "planted.go", file}), "; ")
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("faults of %q in %s: %q, want %q", c.source, c.pkg, got, c.want)
			}
		})
	}
}

// source is one file that ships.
type source struct {
	pkg, name string
	file      *ast.File
}

// layerFaults is what a file imports or names and may not.
func layerFaults(f source) (faults []string) {
	row, known := layers[f.pkg]
	if !known {
		return []string{fmt.Sprintf("package %s has no row in the table: a new folder needs an ADR", f.pkg)}
	}
	for _, spec := range f.file.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return append(faults, err.Error())
		}
		short, ours := strings.CutPrefix(name, module+"/")
		switch {
		case !mayImport(row, name):
			faults = append(faults, fmt.Sprintf("imports %s, which %s may not", short, f.pkg))
		case spec.Name != nil && spec.Name.Name == ".":
			faults = append(faults, fmt.Sprintf("imports %s into its own names", short))
		case ours && row.only[short] != nil:
			faults = append(faults, wrongNames(f.file, spec, short, row.only[short])...)
		}
	}
	return faults
}

func mayImport(row layer, name string) bool {
	if ours, ok := strings.CutPrefix(name, module+"/"); ok {
		return slices.Contains(row.ours, ours)
	}
	first, _, _ := strings.Cut(name, "/")
	switch {
	case name == "net/http" || strings.HasPrefix(name, "net/http/"):
		return row.http
	case name == "os" || strings.HasPrefix(name, "os/"):
		return row.files
	case !strings.Contains(first, "."):
		return true // the standard library
	}
	return slices.ContainsFunc(row.third, func(third string) bool {
		return name == third || strings.HasPrefix(name, strings.TrimSuffix(third, "/")+"/")
	})
}

// wrongNames is what a file uses of a package beyond the names agreed on.
func wrongNames(file *ast.File, spec *ast.ImportSpec, pkg string, agreed []string) (faults []string) {
	local := path.Base(pkg)
	if spec.Name != nil {
		local = spec.Name.Name
	}
	ast.Inspect(file, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := s.X.(*ast.Ident); ok && x.Name == local && !slices.Contains(agreed, s.Sel.Name) {
			faults = append(faults, fmt.Sprintf("uses %s.%s; only %s is agreed", pkg, s.Sel.Name, strings.Join(agreed, ", ")))
		}
		return true
	})
	return faults
}

// isModule reports whether a folder is a module of its own, with imports of its own.
func isModule(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, "go.mod"))
	return err == nil
}

// sources parses every file of the module that is no test.
func sources(t *testing.T) (found []source) {
	t.Helper()
	const root = ".."
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		switch base := path.Base(name); {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "testdata"):
			return fs.SkipDir
		case d.IsDir() && name != "." && isModule(filepath.Join(root, name)):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		found = append(found, source{path.Dir(name), name, file})
		return nil
	})
	if err != nil {
		t.Fatalf("the sources cannot be read: %v", err)
	}
	return found
}
