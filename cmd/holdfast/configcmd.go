package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/api"
)

func (a *app) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show the settings in force and where each came from, or all there are",
		Example: "  holdfast config show\n" +
			"  holdfast config show serve --config holdfast.yaml --listen :7420\n" +
			"  holdfast config reference",
		Args: cobra.ArbitraryArgs,
		RunE: noCommand,
	}
	cmd.AddCommand(a.configShowCommand(), a.configReferenceCommand())
	return cmd
}

// settingsOf are the settings of one command.
var settingsOf = map[string][]setting{"client": clientSettings, "serve": serveSettings, "dev": devSettings}

func (a *app) configShowCommand() *cobra.Command {
	show := &cobra.Command{
		Use:     "show",
		Short:   "Show the settings in force and where each came from",
		Example: "  holdfast config show\n  HOLDFAST_LISTEN=:7420 holdfast config show serve --config holdfast.yaml",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return noCommand(cmd, args)
			}
			return a.showSettings(cmd, clientSettings)
		},
	}
	show.PersistentFlags().Bool("origin", true, "say where each value came from: flag, env, file, context or default")
	for _, name := range []string{"serve", "dev"} {
		sub := &cobra.Command{
			Use: name, Short: "Show what holdfast " + name + " would run with",
			Example: "  holdfast config show " + name + " --config holdfast.yaml",
			Args:    args(cobra.NoArgs),
			RunE:    func(cmd *cobra.Command, _ []string) error { return a.showSettings(cmd, settingsOf[name]) },
		}
		register(sub.Flags(), settingsOf[name])
		show.AddCommand(sub)
	}
	return show
}

// showSettings prints what was read. Secrets are in files and in HOLDFAST_TOKEN; of that one
// only its being there is told.
func (a *app) showSettings(cmd *cobra.Command, settings []setting) error {
	read, err := a.read(cmd.Flags(), settings)
	if err != nil {
		return err
	}
	answer := api.ConfigAnswer{Data: a.described(read, settings)}
	if err := a.addContextLayer(read, &answer.Data); err != nil {
		return err
	}
	origin, _ := cmd.Flags().GetBool("origin") // it is there: show has it
	return a.emit(answer, func() string {
		t := newTable("SETTING", "VALUE", "FROM")
		if !origin {
			t = newTable("SETTING", "VALUE")
		}
		for _, s := range answer.Data {
			t.row([]string{s.Name, s.Value, s.Origin}[:len(t.header)]...)
		}
		return t.render("")
	}, func() []string {
		names := make([]string, len(answer.Data))
		for i, s := range answer.Data {
			names[i] = s.Name
		}
		return names
	})
}

// addContextLayer puts what the context in force supplies in place of defaults, and says where
// it is saved. A server that was named by hand leaves the context out, as target does.
func (a *app) addContextLayer(read settled, to *[]api.Setting) error {
	if _, client := read.origins["context"]; !client {
		return nil
	}
	saved, err := a.savedContext()
	if err != nil || saved == nil {
		return err
	}
	path, _ := a.contextPath() // it was read a moment ago
	supplied := map[string]string{"context": saved.Name}
	if a.client.Server == "" || a.client.Server == saved.URL {
		supplied["server"], supplied["admin-server"], supplied["token-file"] = saved.URL, saved.AdminURL, saved.TokenFile
	}
	for i := range *to {
		s := &(*to)[i]
		if value := supplied[s.Name]; value != "" && s.Origin == "default" {
			s.Value, s.Origin = value, "context"
		}
	}
	*to = append(*to, api.Setting{Name: "context-file", Value: path, Origin: "default"})
	if saved.KeyFile != "" && supplied["server"] != "" && a.env["HOLDFAST_TOKEN"] == "" {
		*to = append(*to, api.Setting{Name: "token", Value: "(made with " + saved.KeyFile + ")", Origin: "context"})
	}
	slices.SortStableFunc(*to, func(x, y api.Setting) int { return strings.Compare(x.Name, y.Name) })
	return nil
}

// described lists settings as the admin API and `config show` tell them.
func (a *app) described(read settled, settings []setting) []api.Setting {
	var out []api.Setting
	for _, s := range settings {
		value := fmt.Sprint(read.values.Get(s.name))
		if s.kind == list {
			value = strings.Join(read.values.Strings(s.name), ",")
		}
		out = append(out, api.Setting{Name: s.name, Value: value, Origin: read.origins[s.name]})
	}
	if slices.ContainsFunc(settings, func(s setting) bool { return s.name == "token-file" }) && a.env["HOLDFAST_TOKEN"] != "" {
		out = append(out, api.Setting{Name: "token", Value: "(set, not shown)", Origin: "env"})
	}
	slices.SortStableFunc(out, func(x, y api.Setting) int { return strings.Compare(x.Name, y.Name) })
	return out
}

func (a *app) configReferenceCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "reference",
		Short:   "List every setting: flag, variable, default, meaning",
		Example: "  holdfast config reference\n  holdfast config reference -o json",
		Args:    args(cobra.NoArgs),
		RunE:    func(*cobra.Command, []string) error { return a.reference() },
	}
}

// documented is one row of the reference.
type documented struct {
	For      string `json:"for"`
	Name     string `json:"name"`
	Variable string `json:"variable"`
	Default  string `json:"default"`
	Meaning  string `json:"meaning"`
}

func (a *app) reference() error {
	var rows []documented
	for _, of := range []string{"client", "serve", "dev"} {
		for _, s := range settingsOf[of] {
			rows = append(rows, documented{of, s.name, s.variable(), s.def, s.help})
		}
	}
	rows = append(rows, documented{"client", "(no flag)", "HOLDFAST_TOKEN", "", "the token to sign in with; never a flag, because others can read those"})
	return a.emit(rows, func() string {
		t := newTable("FOR", "FLAG OR FILE KEY", "VARIABLE", "DEFAULT", "MEANING")
		for _, r := range rows {
			t.row(r.For, r.Name, r.Variable, r.Default, r.Meaning)
		}
		return t.render("")
	}, func() []string {
		names := make([]string, len(rows))
		for i, r := range rows {
			names[i] = r.Name
		}
		return names
	})
}
