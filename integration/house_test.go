package integration

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// STYLE.md, "Tests": no sleeps. In a bubble of testing/synctest a sleep takes no time, and
// bubbles are often opened by a helper in another file of the package.
func TestHouse_SleepsOnlyInBubbles(t *testing.T) {
	t.Parallel()
	sleepers, bubbles := map[string][]string{}, map[string]bool{}
	looked := 0
	for pkg := range layers {
		files, _ := filepath.Glob(filepath.Join("..", pkg, "*_test.go")) // the pattern is right
		for _, name := range files {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			looked++
			if imports(file, "testing/synctest") {
				bubbles[pkg] = true
			}
			if sleeps(file) {
				sleepers[pkg] = append(sleepers[pkg], name)
			}
		}
	}
	for pkg, files := range sleepers {
		if !bubbles[pkg] {
			t.Errorf("%s sleep in real time; wait for what they wait for, or use a bubble", strings.Join(files, ", "))
		}
	}
	if looked < 20 || len(sleepers) == 0 {
		t.Errorf("only %d test files were found, %d packages with sleeps", looked, len(sleepers))
	}
}

func imports(file *ast.File, name string) bool {
	return slices.ContainsFunc(file.Imports, func(s *ast.ImportSpec) bool { return s.Path.Value == `"`+name+`"` })
}

// sleeps reports whether time.Sleep is named in a file.
func sleeps(file *ast.File) (found bool) {
	ast.Inspect(file, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok || s.Sel.Name != "Sleep" {
			return true
		}
		if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" {
			found = true
		}
		return true
	})
	return found
}
