package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/api"
)

// fileFlags are what plan and apply have in common: whose file, and what it may delete.
type fileFlags struct {
	file  string
	prune bool
}

func (f *fileFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.file, "file", "f", "", "read `FILE`, YAML or JSON; - is stdin (or name it without -f)")
	cmd.Flags().BoolVar(&f.prune, "prune", false, "delete limits that came from a file, and plans, that this one has not")
}

// path is the file that was named, by flag or by argument.
func (f *fileFlags) path(cmd *cobra.Command, args []string) (string, error) {
	switch {
	case f.file != "" && len(args) == 0:
		return f.file, nil
	case f.file == "" && len(args) == 1:
		return args[0], nil
	}
	return "", usage("name one file").next("for example", cmd.CommandPath()+" limits.yaml")
}

func (a *app) limitsPlanCommand() *cobra.Command {
	var f fileFlags
	cmd := &cobra.Command{
		Use: "plan [-f] FILE", Short: "Show what a limits file would change; nothing happens",
		Long: "Show what a limits file would change; nothing happens. It exits 0 when the file changes\n" +
			"nothing and 2 when it does, so that a pipeline can tell.",
		Example: "  holdfast limits plan limits.yaml\n  holdfast limits plan -f limits.yaml --prune",
		Args:    args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := f.path(cmd, args)
			if err != nil {
				return err
			}
			answer, err := a.sendFile(cmd.Context(), "plan", path, f.prune)
			if err != nil {
				return err
			}
			if err := a.emitFile(answer); err != nil || !changes(answer) {
				return err
			}
			return ended{exitUsage}
		},
	}
	f.register(cmd)
	return cmd
}

func (a *app) limitsApplyCommand() *cobra.Command {
	var f fileFlags
	cmd := &cobra.Command{
		Use: "apply [-f] FILE", Short: "Make a limits file stand: all of it, or nothing",
		Long: "Make a limits file stand: all of it in one transaction, or nothing. Overrides stay, and so does\n" +
			"what the file does not name unless --prune is given. It exits 6 when others changed the same\n" +
			"limits at the same time.",
		Example: "  holdfast limits apply limits.yaml\n  holdfast limits apply -f limits.yaml --prune",
		Args:    args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := f.path(cmd, args)
			if err != nil {
				return err
			}
			answer, err := a.sendFile(cmd.Context(), "apply", path, f.prune)
			if err != nil {
				return err
			}
			return a.emitFile(answer)
		},
	}
	f.register(cmd)
	return cmd
}

func (a *app) limitsExportCommand() *cobra.Command {
	return &cobra.Command{
		Use: "export", Short: "Write all limits and plans as a limits file, in YAML or with -o json in JSON",
		Example: "  holdfast limits export > limits.yaml\n  holdfast limits export -o json",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			call, err := a.caller()
			if err != nil {
				return err
			}
			one := act{method: http.MethodGet, path: "/v1/limits-file", accept: yamlForm}
			if a.client.Output == "json" {
				one.accept = jsonForm
			}
			got, err := call.do(cmd.Context(), one)
			if err != nil {
				return err
			}
			if one.accept == jsonForm {
				var file json.RawMessage = got.raw
				return a.emit(file, nil, nil)
			}
			_, err = a.stdout.Write(got.raw)
			return err
		},
	}
}

// The two forms of a limits file.
const (
	yamlForm = "application/yaml"
	jsonForm = "application/json"
)

// sendFile has the server plan or apply a file. The server reads it: it is the one that must
// agree with every line.
func (a *app) sendFile(ctx context.Context, what, path string, prune bool) (answer api.FileAnswer, err error) {
	data, err := a.readInput(path)
	if err != nil {
		return answer, err
	}
	call, err := a.caller()
	if err != nil {
		return answer, err
	}
	one := act{method: http.MethodPost, path: "/v1/limits-file/" + what, raw: data, form: yamlForm, repeatable: true, into: &answer}
	if isJSONFile(path) {
		one.form = jsonForm
	}
	if prune {
		one.query = url.Values{"prune": {"true"}}
	}
	_, err = call.do(ctx, one)
	if problem, ok := asProblem(err); ok {
		return answer, fileFailure(ctx, path, problem)
	}
	return answer, err
}

// fileFailure says what is wrong with the file, all of it, in the words of an editor: the line
// first.
func fileFailure(ctx context.Context, path string, p *api.Problem) error {
	switch {
	case p.Code == api.PreconditionFailed:
		return fail(exitChanged, "%s: the limits were changed by somebody else at the same time; nothing was applied", path).
			next("look again", "holdfast limits plan "+quoted(path))
	case len(p.Errors) > 0:
		failed := faultsIn(path, p.Errors)
		failed.exit = exitOf(ctx, p)
		return failed
	}
	return p
}

// changes reports whether a file changes anything.
func changes(f api.FileAnswer) bool {
	return len(f.Create)+len(f.Change)+len(f.Delete)+len(f.Plans.Create)+len(f.Plans.Change)+len(f.Plans.Delete) > 0
}

// emitFile shows what a file changes: one line a limit, + made, ~ changed, - deleted.
func (a *app) emitFile(answer api.FileAnswer) error {
	return a.emit(answer, func() string { return a.fileDiff(answer) }, func() []string {
		names := slices.Concat(answer.Create, answer.Delete)
		for _, c := range answer.Change {
			names = append(names, c.ID)
		}
		slices.Sort(names)
		return names
	})
}

func (a *app) fileDiff(f api.FileAnswer) string {
	var b strings.Builder
	lines := func(sign, colour, what string, names []string) {
		for _, name := range names {
			fmt.Fprintf(&b, "%s %s\n", a.paint(colour, sign), printable(what+name))
		}
	}
	lines("+", green, "", f.Create)
	for _, c := range f.Change {
		fmt.Fprintf(&b, "~ %s\n", printable(c.ID))
		for _, name := range slices.Sorted(maps.Keys(c.Diff)) {
			fmt.Fprintf(&b, "    %s: %s -> %s\n", name, orNone(c.Diff[name].From), orNone(c.Diff[name].To))
		}
	}
	lines("-", red, "", f.Delete)
	lines("+", green, "plan ", f.Plans.Create)
	lines("~", "0", "plan ", f.Plans.Change)
	lines("-", red, "plan ", f.Plans.Delete)
	fmt.Fprintf(&b, "%d created, %d changed, %d deleted, %d as they are\n", len(f.Create), len(f.Change), len(f.Delete), f.Unchanged)
	return b.String()
}

// orNone is one value of a diff.
func orNone(value json.RawMessage) string {
	if len(value) == 0 {
		return "(none)"
	}
	return printable(string(value))
}

// asProblem is err as the server's problem document.
func asProblem(err error) (*api.Problem, bool) {
	p, ok := errors.AsType[*api.Problem](err)
	return p, ok
}
