package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Issue 8: a release built twice, in two folders and with two caches of go's, is the same to the
// bit. HOLDFAST_TEST_RELEASE says for which targets ("linux/amd64 darwin/arm64"): it compiles
// everything twice for each.
func TestRelease_TwiceIsTheSame(t *testing.T) {
	targets := os.Getenv("HOLDFAST_TEST_RELEASE")
	if targets == "" {
		t.Skip("it compiles everything twice: HOLDFAST_TEST_RELEASE=linux/amd64 runs it")
	}
	var sums [2]string
	for i := range sums {
		tree := filepath.Join(t.TempDir(), strings.Repeat("x", i+1))
		for _, args := range [][]string{
			{"git", "clone", "--quiet", "--no-hardlinks", "..", tree},
			{"bash", filepath.Join(tree, ".ci", "release"), filepath.Join(tree, "dist")},
		} {
			cmd := exec.Command(args[0], args[1:]...)
			cmd.Env = append(os.Environ(), "TARGETS="+targets, "VERSION=1.2.3")
			if i == 1 {
				cmd.Env = append(cmd.Env, "GOCACHE="+filepath.Join(t.TempDir(), "cache"))
			}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %v\n%s", args, err, out)
			}
		}
		data, err := os.ReadFile(filepath.Join(tree, "dist", "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		sums[i] = string(data)
	}
	if sums[0] != sums[1] || strings.Count(sums[0], "\n") < 2 {
		t.Errorf("built twice:\n%s\nand\n%s", sums[0], sums[1])
	}
}
