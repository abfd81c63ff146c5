package main

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

//go:generate go test -run=^TestDocs_ReferenceIsFresh$ -update .

var update = flag.Bool("update", false, "write generated files")

// The reference in docs is made from the settings, the commands and the API's document.
func TestDocs_ReferenceIsFresh(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"configuration.md": configurationPage(), "cli.md": commandPage(), "api.md": apiPage(t),
	} {
		path := filepath.Join("..", "..", "docs", "reference", name)
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != want {
			t.Errorf("%s is not what the code says (%v): run go generate ./cmd/holdfast", path, err)
		}
	}
}

const generated = "<!-- made by go generate ./cmd/holdfast: edit the code, not this -->\n\n"

// configurationPage is every setting of every command.
func configurationPage() string {
	var b strings.Builder
	b.WriteString("# Configuration\n\n" + generated +
		"Flags win over the environment, the environment over the file named by `--config` or `HOLDFAST_CONFIG`, the file over the context (of a client), all over defaults. " +
		"Keys of the file are the names of flags. A key that is not here is refused, with the nearest name. `holdfast config show` tells what is in force and where each value came from. " +
		"Secrets are in files, and in `HOLDFAST_TOKEN`; none is ever shown.\n")
	for _, of := range []string{"client", "serve", "dev"} {
		title := map[string]string{"client": "Every command that talks to a server", "serve": "holdfast serve", "dev": "holdfast dev"}[of]
		b.WriteString("\n## " + title + "\n\n| flag, file key | variable | default | meaning |\n|---|---|---|---|\n")
		settings := slices.Clone(settingsOf[of])
		slices.SortFunc(settings, func(x, y setting) int { return strings.Compare(x.name, y.name) })
		for _, s := range settings {
			b.WriteString("| `" + s.name + "` | `" + s.variable() + "` | " + orNothing(s.def) + " | " + cell(s.help) + " |\n")
		}
		if of == "client" {
			b.WriteString("| (no flag) | `HOLDFAST_TOKEN` | | the token to sign in with; never a flag, because others can read those |\n")
		}
	}
	return b.String()
}

func orNothing(def string) string {
	if def == "" {
		return ""
	}
	return "`" + cell(def) + "`"
}

func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(text)
}

// sources are the files of the program itself, by name.
func sources(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil || len(names) < 50 {
		t.Fatalf("only %d sources were found: %v", len(names), err)
	}
	all := map[string]string{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(text)
	}
	return all
}
