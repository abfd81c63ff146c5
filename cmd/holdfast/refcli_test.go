package main

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// exits are the exit codes as the reference has them.
var exits = []struct {
	code  int
	means string
}{
	{exitDone, "done"},
	{exitFailed, "failed; of `check`: it can never fit"},
	{exitUsage, "not how it is written, or a value that cannot be; of `limits plan`: it found changes"},
	{exitNotFound, "not found"},
	{exitDenied, "not signed in, or not allowed"},
	{exitChanged, "changed meanwhile: look again"},
	{exitUnavailable, "the server or its store is not available; nothing is known to have happened"},
	{exitNoSlot, "no free slot (in time), or a limit said no"},
	{exitLost, "the hold is lost, and the command was stopped"},
	{exitBefore, "`exec` failed before its command started"},
	{exitNotRun, "the command of `exec` cannot be run"},
	{exitNoCommand, "the command of `exec` is not there"},
}

// variables are those that are no setting: all settings have one too.
var variables = [][2]string{
	{"HOLDFAST_CONFIG", "the settings file, as `--config`"},
	{"HOLDFAST_TOKEN", "the token to sign in with"},
	{"HOLDFAST_RESERVATION_ID", "set by `exec` for its command: the hold"},
	{"HOLDFAST_LIMIT", "set by `exec`: the limits whose slots are held, separated by commas"},
	{"HOLDFAST_SLOT", "set by `exec`: the slots, in the order of the limits"},
	{"HOLDFAST_SUBJECT", "set by `exec`: the subject, `kind:id`"},
	{"HOLDFAST_FENCE", "set by `exec`: the fence to pass to what is written to"},
	{"HOLDFAST_EXPIRES_AT", "set by `exec`: when the hold would have ended, as it was at the start"},
	{"NO_COLOR", "any value: no colour"},
	{"TERM", "`dumb`: no colour"},
	{"VISUAL", "the editor of `limits edit`"},
	{"EDITOR", "the editor of `limits edit` without `VISUAL`"},
	{"HOME", "contexts are kept in `~/.config/holdfast`"},
	{"XDG_CONFIG_HOME", "contexts are kept in its folder `holdfast` instead"},
}

// commandPage is every command, as it tells of itself.
func commandPage() string {
	var b strings.Builder
	b.WriteString("# The command line\n\n" + generated +
		"`holdfast COMMAND --help` says the same. SUBJECT is `kind:id`; left out, it is the token's own. Data is on stdout, talk on stderr; `-o json`, `yaml` and `name` are for programs.\n" +
		"\nOn this page: [exit codes](#exit-codes), [variables](#variables), [flags of every command](#flags-of-every-command), then the commands.\n" +
		"\n## Exit codes\n\n| code | means |\n|---|---|\n")
	for _, e := range exits {
		fmt.Fprintf(&b, "| %d | %s |\n", e.code, e.means)
	}
	fmt.Fprintf(&b, "| %d + N | ended by signal N |\n| any other | that of the command which `exec` ran |\n", exitSignal)
	b.WriteString("\n## Variables\n\nEach flag in [configuration](configuration.md) has a variable, `HOLDFAST_` and its name. These are not flags:\n\n| variable | meaning |\n|---|---|\n")
	for _, v := range variables {
		b.WriteString("| `" + v[0] + "` | " + v[1] + " |\n")
	}
	root := referenceTree()
	b.WriteString("\n## Flags of every command\n")
	flagTable(&b, root.PersistentFlags())
	eachCommand(root, func(c *cobra.Command) { describe(&b, c) })
	return b.String()
}

func referenceTree() *cobra.Command {
	root := newApp(nil, nil, &bytes.Buffer{}, &bytes.Buffer{}).root()
	root.InitDefaultVersionFlag()
	return root
}

// eachCommand visits the commands that people see, by path.
func eachCommand(c *cobra.Command, do func(*cobra.Command)) {
	do(c)
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			eachCommand(sub, do)
		}
	}
}

func describe(b *strings.Builder, c *cobra.Command) {
	text := c.Short
	if c.Long != "" {
		text = strings.TrimSpace(c.Long)
	}
	fmt.Fprintf(b, "\n## %s\n\n", c.CommandPath())
	if c.Parent() != nil && c.Parent().Name() == "completion" {
		text = c.Short // cobra's own words are a page for each shell
	}
	b.WriteString(prose(text) + "\n\n```\n" + c.UseLine() + "\n")
	if c.Example != "" {
		b.WriteString("\n" + outdent(c.Example) + "\n")
	}
	b.WriteString("```\n")
	flagTable(b, c.LocalNonPersistentFlags())
}

// prose keeps what looks like Markdown in a help text from being it.
func prose(text string) string {
	return strings.NewReplacer("<", "&lt;", "\n\n", "\n\n", "\n", " ").Replace(text)
}

func outdent(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], "  ")
	}
	return strings.Join(lines, "\n")
}

func flagTable(b *strings.Builder, flags *pflag.FlagSet) {
	rows := 0
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		if rows++; rows == 1 {
			b.WriteString("\n| flag | default | meaning |\n|---|---|---|\n")
		}
		value, help := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		def := f.DefValue
		if def == "[]" || def == "false" || f.Value.Type() == "duration" && def == "0s" || f.Value.Type() == "int64" && def == "0" {
			def = ""
		}
		b.WriteString("| `" + strings.TrimSpace(name+" "+value) + "` | " + orNothing(def) + " | " + cell(help) + " |\n")
	})
}

// What the help shows works: each example is a command that is there, with flags that are
// there and as many arguments as it takes.
func TestHelp_ExamplesAreCommands(t *testing.T) {
	t.Parallel()
	seen := 0
	eachCommand(referenceTree(), func(c *cobra.Command) {
		if c.Example == "" && c.Parent() != nil && c.Parent().Name() != "completion" && c.Name() != "completion" {
			t.Errorf("%s has no example", c.CommandPath())
		}
		for line := range strings.Lines(strings.ReplaceAll(c.Example, "\\\n", " ")) {
			for _, words := range commandsIn(line) {
				seen++
				if err := parses(words); err != nil {
					t.Errorf("%s shows\n%s\n%v", c.CommandPath(), line, err)
				}
			}
		}
	})
	if seen < 80 {
		t.Errorf("only %d examples were looked at", seen)
	}
	for _, planted := range []string{"limits lst", "limits ls --no-such", "extend", "check", "subjects plan a b c"} {
		if parses(strings.Fields(planted)) == nil {
			t.Errorf("holdfast %s is taken for right", planted)
		}
	}
}

// parses says what is wrong with a command line, without running it.
func parses(words []string) error {
	cmd, rest, err := referenceTree().Find(words)
	if err != nil {
		return err
	}
	if cmd.DisableFlagParsing {
		return nil
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	given := cmd.Flags().Args()
	if cmd.HasSubCommands() && len(given) > 0 {
		return fmt.Errorf("%s has no command %s", cmd.CommandPath(), given[0])
	}
	return cmd.ValidateArgs(given)
}

var (
	invocation = regexp.MustCompile(`(?:^|\$\(|[|;] |[A-Z_]+=\S+ )\s*holdfast((?: +(?:"[^"]*"|'[^']*'|\$\([^)]*\)|[^\s"')|;#…&>])+)*)`)
	oneWord    = regexp.MustCompile(`(?:"[^"]*"|'[^']*'|\$\([^)]*\)|[^\s"'])+`)
)

// commandsIn are the words after each "holdfast" that a line runs.
func commandsIn(line string) (all [][]string) {
	for _, m := range invocation.FindAllStringSubmatch(line, -1) {
		all = append(all, oneWord.FindAllString(m[1], -1))
	}
	return all
}

// Every exit code and every variable that the program knows is in the reference.
func TestDocs_ExitCodesAndVariablesAreAllThere(t *testing.T) {
	t.Parallel()
	var told []string
	for _, e := range exits {
		told = append(told, fmt.Sprint(e.code))
	}
	named := 0
	for _, m := range regexp.MustCompile(`(?m)^\texit\w+ += (\d+)`).FindAllStringSubmatch(sources(t)["exit.go"], -1) {
		if named++; m[1] != fmt.Sprint(exitSignal) && !slices.Contains(told, m[1]) {
			t.Errorf("exit code %s has no row", m[1])
		}
	}
	if named != len(exits)+1 {
		t.Errorf("exit.go has %d codes, the reference %d", named, len(exits)+1)
	}
	read := map[string]bool{markName: true}
	for _, text := range sources(t) {
		for _, m := range regexp.MustCompile(`env\["([A-Z_]+)"\]`).FindAllStringSubmatch(text, -1) {
			read[m[1]] = true
		}
	}
	for _, list := range settingsOf {
		for _, s := range list {
			delete(read, s.variable())
		}
	}
	for _, v := range variables {
		if !read[v[0]] {
			t.Errorf("the reference has the variable %s, which nothing reads or sets", v[0])
		}
		delete(read, v[0])
	}
	for name := range read {
		t.Errorf("the variable %s is not in the reference", name)
	}
}
