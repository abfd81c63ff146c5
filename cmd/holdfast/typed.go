package main

import (
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/api"
)

// flagOf is how a field of a body is spelt on the command line where that is not its own name.
var flagOf = map[string][]string{
	"/ttlSeconds": {"ttl"}, "/blockSubjectSeconds": {"block"}, "/waitSeconds": {"wait"}, "/owner/name": {"owner"},
	"/pauseReason": {"reason"}, "/pausedUntil": {"until", "for"}, "/until": {"until", "for"}, "/labels": {"label"},
}

// asTyped turns the pointer of a fault into the flag or the word that was typed for it. What
// came from a file or an editor keeps its pointer: that is where it stands.
func (a *app) asTyped(pointer string) string {
	if a.running == nil || pointer == "" {
		return pointer
	}
	flags := a.running.Flags()
	fromFile := flags.Lookup("file") != nil && flags.Changed("file")
	names := append([]string{kebab(strings.TrimPrefix(pointer, "/"))}, flagOf[pointer]...)
	if strings.HasPrefix(pointer, "/labels/") {
		names = append(names, "label")
	}
	for _, name := range names {
		if flags.Lookup(name) != nil && (flags.Changed(name) || !fromFile && a.running.Name() == "create") {
			return "--" + name
		}
	}
	for begin, word := range map[string]string{"/action": "ACTION", "/subject": "SUBJECT", "/plan": "PLAN"} {
		if strings.HasPrefix(pointer, begin) && strings.Contains(a.running.Use, word) {
			return word
		}
	}
	return pointer
}

// kebab is a name of the wire as a flag spells it: refillPerSecond, refill-per-second.
func kebab(name string) string {
	var b strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// filled puts what is known in place of ID and SUBJECT in a next step.
func (a *app) filled(step string, p *api.Problem) string {
	var id, subject string
	switch p.Code {
	case api.LimitPaused, api.QuotaExceeded, api.NeverFits, api.Overage:
		id = p.DecidedBy
	case api.LimitExists:
		id = between(p.Detail, "A limit ", " is there already")
	default:
		id = a.typed("ID")
	}
	if subject = a.typed("SUBJECT"); subject == "" {
		subject = between(p.Detail, "", " is blocked")
	}
	words := strings.Split(step, " ")
	for i, word := range words {
		bare := strings.TrimRight(word, ",;")
		switch {
		case bare == "ID" && id != "":
			words[i] = quoted(id) + word[len(bare):]
		case bare == "SUBJECT" && subject != "":
			words[i] = quoted(subject) + word[len(bare):]
		}
	}
	return strings.Join(words, " ")
}

// typed is the argument that stands where the usage of the running command has word.
func (a *app) typed(word string) string {
	if a.running == nil {
		return ""
	}
	for i, name := range strings.Fields(a.running.Use)[1:] {
		if strings.Trim(name, "[]") == word && i < a.running.Flags().NArg() {
			return a.running.Flags().Arg(i)
		}
	}
	return ""
}

// between is what stands in text between two marks, "" when they are not there.
func between(text, begin, end string) string {
	rest, ok := strings.CutPrefix(text, begin)
	if !ok {
		return ""
	}
	middle, _, ok := strings.Cut(rest, end)
	if !ok {
		return ""
	}
	return middle
}

// badArguments says which argument is missing or too many.
func badArguments(cmd *cobra.Command, check cobra.PositionalArgs, given []string) *failure {
	for n := len(given) - 1; n >= 0; n-- {
		if check(cmd, given[:n]) != nil {
			continue
		}
		failed := usage("%s: %q is one argument too many", cmd.CommandPath(), given[n])
		if given[n] == "true" || given[n] == "false" {
			failed.next("for a flag", "with = and without a space, such as --enabled="+given[n])
		}
		return failed
	}
	words := strings.Fields(cmd.Use)[1:]
	if len(given) < len(words) {
		return usage("%s: %s is missing", cmd.CommandPath(), strings.Trim(words[len(given)], "[]"))
	}
	return usage("%s: that is not how it is written", cmd.CommandPath())
}

// closeGroups makes what cobra adds by itself as strict as the rest: a command that is not
// there is told, be it with --help, of completion or of help.
func (a *app) closeGroups(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "completion":
			cmd.Args, cmd.RunE = cobra.ArbitraryArgs, noCommand
		case "help":
			cmd.Run, cmd.RunE = nil, func(_ *cobra.Command, args []string) error {
				about, rest, err := root.Find(args)
				if err == nil && (len(rest) == 0 || !about.HasSubCommands()) {
					return about.Help()
				}
				return noCommand(about, rest)
			}
		}
	}
	plain := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 {
			a.stray = noCommand(cmd, words)
			return
		}
		plain(cmd, args)
	})
}

// badValue says what a flag wants instead of a value it cannot take.
func badValue(cmd *cobra.Command, flag, kind, value string) *failure {
	path := cmd.CommandPath()
	switch kind {
	case "duration":
		failed := usage("%s: --%s: %q is no length of time", path, flag, value)
		if value != "" && strings.Trim(value, "0123456789") == "" {
			return failed.next("did you mean", "--"+flag+" "+value+"s")
		}
		return failed.next("for example", "--"+flag+" 30s, 15m or 2h")
	case "int", "int64", "uint", "uint64", "int32":
		return usage("%s: --%s: %q is no whole number", path, flag, value)
	case "bool":
		return usage("%s: --%s: %q is neither true nor false", path, flag, value)
	default:
		return usage("%s: --%s: %q cannot be used", path, flag, value)
	}
}
