package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/api"
)

func (a *app) limitsCreateCommand() *cobra.Command {
	var fields limitFlags
	var id, file string
	cmd := &cobra.Command{
		Use: "create", Short: "Make a limit, from flags or from a file",
		Example: "  holdfast limits create --name \"Exports at once\" --id exports --subject-kind user --action export --amount 3 --window concurrent\n" +
			"  holdfast limits create --name \"Calls a day\" --subject-kind user --action call --amount 100 --window day --rolling\n" +
			"  holdfast limits create -f limit.yaml",
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			body, err := fields.fields()
			if err != nil {
				return err
			}
			if id != "" {
				body["id"] = id
			}
			if file != "" {
				if len(body) > 0 {
					return usage("a limit comes from a file or from flags, not from both").next("from a file", "holdfast limits create -f "+quoted(file))
				}
				if body, err = a.limitFromFile(file); err != nil {
					return err
				}
			}
			return a.createLimit(cmd.Context(), body)
		},
	}
	fields.register(cmd.Flags())
	cmd.Flags().StringVar(&id, "id", "", "its `ID` (default: made from the name)")
	cmd.Flags().StringVarP(&file, "file", "f", "", "read it from `FILE`, YAML or JSON; - is stdin")
	return cmd
}

func (a *app) createLimit(ctx context.Context, body map[string]any) error {
	call, err := a.caller()
	if err != nil {
		return err
	}
	var made api.Limit
	if _, err := call.do(ctx, act{method: http.MethodPost, path: "/v1/limits", body: body, into: &made}); err != nil {
		return err
	}
	return a.emitLimit(made)
}

// limitFromFile reads one limit, in YAML or in JSON, which is YAML too.
func (a *app) limitFromFile(path string) (map[string]any, error) {
	data, err := a.readInput(path)
	if err != nil {
		return nil, err
	}
	return yamlObject(path, data)
}

// readInput reads a file, or stdin for "-", up to the largest body a server takes.
func (a *app) readInput(path string) ([]byte, error) {
	from := a.stdin
	if path != "-" {
		opened, err := os.Open(path)
		if err != nil {
			return nil, usage("the file cannot be read: %w", err).next("is it there?", "ls -l "+quoted(path)).next("from stdin", "- in place of the file's name")
		}
		defer func() { _ = opened.Close() }()
		from = opened
	}
	data, err := io.ReadAll(io.LimitReader(from, maxConfigFile+1))
	if err != nil {
		return nil, usage("%s cannot be read: %w", path, err)
	}
	if len(data) > maxConfigFile {
		return nil, usage("%s is larger than %d bytes", path, maxConfigFile)
	}
	return data, nil
}

func yamlObject(name string, data []byte) (map[string]any, error) {
	out := map[string]any{}
	if err := yaml.UnmarshalWithOptions(data, &out, yaml.Strict()); err != nil {
		return nil, usage("%s: %s", name, strings.TrimSpace(yaml.FormatError(err, false, false))).
			next("a limit as it must be", "holdfast limits get ID -o yaml")
	}
	return out, nil
}

func (a *app) limitsEditCommand() *cobra.Command {
	var fields limitFlags
	cmd := &cobra.Command{
		Use: "edit ID", Short: "Change a limit, by flags or in your editor",
		Example: "  holdfast limits edit exports --amount 5\n  holdfast limits edit exports              # opens $VISUAL or $EDITOR",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			patch, err := fields.fields()
			if err != nil {
				return err
			}
			if len(patch) > 0 {
				return a.patchLimit(cmd.Context(), args[0], patch)
			}
			return a.editLimit(cmd.Context(), args[0])
		},
	}
	fields.register(cmd.Flags())
	return cmd
}

// editLimit puts the limit into the user's editor and sends back what it became.
func (a *app) editLimit(ctx context.Context, id string) error {
	call, limit, etag, err := a.limitToChange(ctx, id)
	if err != nil {
		return err
	}
	before, err := toYAML(limit)
	if err != nil {
		return err
	}
	after, err := a.inEditor(ctx, id, before)
	if err != nil {
		return err
	}
	if string(after) == string(before) {
		a.say("nothing was changed")
		return nil
	}
	body, err := yamlObject("the edited limit", after)
	if err != nil {
		return err
	}
	var changed api.Limit
	if _, err := call.do(ctx, act{method: http.MethodPut, path: limitPath(id), body: body, ifMatch: etag, into: &changed}); err != nil {
		return err
	}
	return a.emitLimit(changed)
}

// inEditor opens text in $VISUAL or $EDITOR and returns what was saved.
func (a *app) inEditor(ctx context.Context, id string, text []byte) ([]byte, error) {
	editor := strings.Fields(a.env["VISUAL"])
	if len(editor) == 0 {
		editor = strings.Fields(a.env["EDITOR"])
	}
	if len(editor) == 0 {
		return nil, usage("there is no editor: neither VISUAL nor EDITOR is set").next("by flags", "holdfast limits edit "+id+" --amount N")
	}
	dir, err := os.MkdirTemp("", "holdfast-edit-")
	if err != nil {
		return nil, fail(exitFailed, "no temporary file: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "limit.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return nil, fail(exitFailed, "no temporary file: %w", err)
	}
	//nolint:gosec // G204: running the user's own editor is the point
	run := exec.CommandContext(ctx, editor[0], append(editor[1:], path)...)
	run.Stdin, run.Stdout, run.Stderr = a.stdin, a.stderr, a.stderr
	if err := run.Run(); err != nil {
		return nil, fail(exitFailed, "the editor %s failed: %w; nothing was changed", editor[0], err).
			next("another editor", "export EDITOR=vi").next("by flags", "holdfast limits edit "+quoted(id)+" --amount N")
	}
	return os.ReadFile(path)
}
