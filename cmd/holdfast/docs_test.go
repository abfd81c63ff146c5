package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// written are the documents of the repository, by path from its root.
func written(t *testing.T) map[string]string {
	t.Helper()
	root, all := filepath.Join("..", ".."), map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".md"):
			return nil
		}
		text, err := os.ReadFile(path)
		rel, _ := filepath.Rel(root, path)
		all[filepath.ToSlash(rel)] = string(text)
		return err
	})
	if err != nil || len(all) < 40 {
		t.Fatalf("only %d documents were found: %v", len(all), err)
	}
	return all
}

var (
	fencedBlock = regexp.MustCompile("(?ms)^```[a-z]*\n(.*?)^```")
	codeSpan    = regexp.MustCompile("`([^`\n]+)`")
	ofCommand   = regexp.MustCompile(`(?m) -- .*$`) // what exec runs
	longFlag    = regexp.MustCompile(`(?:^|[\s(\["'])--([a-z][a-z0-9-]+)`)
	ourVariable = regexp.MustCompile(`\bHOLDFAST_[A-Z0-9_]*[A-Z0-9]\b`)
)

// known reports what is wrong with a command that a text names; words may be left out of it.
func known(words []string) error {
	root := referenceTree()
	if i := slices.IndexFunc(words, func(w string) bool { return w[0] == '[' || w == "--help" }); i >= 0 {
		words = words[:i] // [flags], [SUBJECT]
	}
	cmd, rest, err := root.Find(words)
	if err != nil || cmd.DisableFlagParsing {
		return err
	}
	if cmd.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") && strings.ToUpper(rest[0]) != rest[0] {
		return noCommand(cmd, rest)
	}
	err = cmd.ParseFlags(rest)
	if err != nil && (strings.Contains(err.Error(), "flag needs an argument") || strings.Contains(err.Error(), `invalid argument "N"`)) {
		return nil // the text only names the flag
	}
	return err
}

// Every command of the documents is one, with flags that it has.
func TestDocs_CommandsAreThere(t *testing.T) {
	t.Parallel()
	seen := 0
	for name, text := range written(t) {
		if strings.HasPrefix(name, "docs/adr/") {
			continue // decisions speak of what was thought of, too
		}
		var lines []string
		for _, block := range fencedBlock.FindAllStringSubmatch(text, -1) {
			for line := range strings.Lines(strings.ReplaceAll(block[1], "\\\n", " ")) {
				lines = append(lines, strings.TrimPrefix(line, "$ "))
			}
		}
		for _, span := range codeSpan.FindAllStringSubmatch(fencedBlock.ReplaceAllString(text, ""), -1) {
			lines = append(lines, span[1])
		}
		for _, line := range lines {
			for _, words := range commandsIn(line) {
				seen++
				if err := known(words); err != nil && words[0] != "COMMAND" {
					t.Errorf("%s has\n%s\n%v", name, line, err)
				}
			}
		}
	}
	if seen < 150 {
		t.Errorf("only %d commands were looked at", seen)
	}
	for _, planted := range []string{"holdfast limit ls", "holdfast limits lst", "holdfast exec --no-such"} {
		if words := commandsIn(planted)[0]; known(words) == nil {
			t.Errorf("%s is taken for a command", planted)
		}
	}
}

// foreign are flags of other programs that the documents name.
var foreign = map[string]bool{
	"max-txn-ops": true, "max-request-bytes": true, "auto-compaction-mode": true, "auto-compaction-retention": true, "quota-backend-bytes": true,
	"snapshot-count": true, "heartbeat-interval": true, "election-timeout": true, // etcd
	"help-etcd": true, "listen-metrics-urls": true, "data-binary": true, // of holdfast etcd, etcd, curl
	"detach": true, "volumes": true, "no-install-recommends": true, "network": true, // docker, apt
}

// Every flag and every variable that the documents name is there.
func TestDocs_FlagsAndVariablesAreThere(t *testing.T) {
	t.Parallel()
	flags, names := map[string]bool{"help": true}, map[string]bool{}
	eachCommand(referenceTree(), func(c *cobra.Command) {
		for _, set := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
			set.VisitAll(func(f *pflag.Flag) { flags[f.Name] = true })
		}
	})
	for _, settings := range settingsOf {
		for _, s := range settings {
			names[s.variable()] = true
		}
	}
	for _, v := range variables {
		names[v[0]] = true
	}
	seen := 0
	for name, text := range written(t) {
		var codes []string
		for _, block := range fencedBlock.FindAllStringSubmatch(text, -1) {
			codes = append(codes, block[1])
		}
		for _, span := range codeSpan.FindAllStringSubmatch(fencedBlock.ReplaceAllString(text, ""), -1) {
			codes = append(codes, span[1])
		}
		for _, code := range codes {
			for _, m := range longFlag.FindAllStringSubmatch(ofCommand.ReplaceAllString(code, ""), -1) {
				if seen++; !flags[m[1]] && !foreign[m[1]] {
					t.Errorf("%s names the flag --%s, which no command has: %s", name, m[1], code)
				}
			}
			for _, v := range ourVariable.FindAllString(code, -1) {
				if seen++; !names[v] && !strings.HasPrefix(v, "HOLDFAST_TEST_") && v != "HOLDFAST_BINARY" {
					t.Errorf("%s names the variable %s, which nothing reads or sets", name, v)
				}
			}
		}
	}
	if seen < 200 {
		t.Errorf("only %d flags and variables were looked at", seen)
	}
}
