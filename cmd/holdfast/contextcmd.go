package main

import (
	"path/filepath"

	"github.com/spf13/cobra"
)

func (a *app) contextCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "context",
		Short: "Save servers under names, and select one",
		Example: "  holdfast context add prod --server https://holdfast.example --token-file ~/.holdfast-token\n" +
			"  holdfast context use prod\n" +
			"  holdfast context ls",
		Args: cobra.ArbitraryArgs,
		RunE: noCommand,
	}
	cmd.AddCommand(a.contextAddCommand(), a.contextUseCommand(), a.contextListCommand(), a.contextRemoveCommand())
	return cmd
}

func (a *app) contextAddCommand() *cobra.Command {
	var made savedContext
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Save a server under a name and select it; one of that name is replaced",
		Example: "  holdfast context add prod --server https://holdfast.example --token-file ~/.holdfast-token\n" +
			"  holdfast context add lab --server http://10.0.0.7:7420 --admin-server http://10.0.0.7:7421 --key signing.pem --issuer lab --sub me --scope admin",
		Args: args(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			made.Name, made.URL, made.AdminURL = args[0], a.client.Server, a.client.AdminServer
			return a.addContext(made, a.client.TokenFile)
		},
	}
	cmd.Flags().StringVar(&made.KeyFile, "key", "", "make tokens with the private key in `FILE`")
	cmd.Flags().StringVar(&made.Issuer, "issuer", "", "claim iss of those tokens")
	cmd.Flags().StringVar(&made.Audience, "audience", devAudience, "claim aud of those tokens")
	cmd.Flags().StringVar(&made.Subject, "sub", "", "claim sub of those tokens")
	cmd.Flags().StringVar(&made.Scope, "scope", "", "claim scope of those tokens")
	return cmd
}

func (a *app) addContext(c savedContext, tokenFile string) error {
	if c.Name == "" || c.URL == "" {
		return usage("a context needs a name and a server").next("written as", "holdfast context add NAME --server URL")
	}
	if c.KeyFile == "" {
		c.Issuer, c.Audience, c.Subject, c.Scope = "", "", "", ""
	} else if c.Issuer == "" || c.Subject == "" {
		return usage("tokens made with --key need --issuer and --sub").
			next("written as", "holdfast context add "+quoted(c.Name)+" --server "+c.URL+" --key "+quoted(c.KeyFile)+" --issuer NAME --sub ID")
	}
	for from, to := range map[string]*string{tokenFile: &c.TokenFile, c.KeyFile: &c.KeyFile} {
		if from == "" {
			continue
		}
		full, err := filepath.Abs(from) // the context is used from other folders too
		if err != nil {
			return fail(exitFailed, "%w", err)
		}
		*to = full
	}
	file, err := a.contexts()
	if err != nil {
		return err
	}
	file.put(c)
	if err := a.saveContexts(file); err != nil {
		return err
	}
	a.say("context %q saved and selected", c.Name)
	return nil
}

func (a *app) contextUseCommand() *cobra.Command {
	return &cobra.Command{
		Use: "use NAME", Short: "Select a saved context",
		Example: "  holdfast context use prod",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			file, err := a.contexts()
			if err != nil {
				return err
			}
			if file.index(args[0]) < 0 {
				return file.unknown(args[0])
			}
			file.Current = args[0]
			if err := a.saveContexts(file); err != nil {
				return err
			}
			a.say("context %q selected", args[0])
			return nil
		},
	}
}

func (a *app) contextListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "List the saved contexts",
		Example: "  holdfast context ls",
		Args:    args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			file, err := a.contexts()
			if err != nil {
				return err
			}
			if len(file.Contexts) == 0 {
				a.say("no context is saved yet; holdfast dev saves one, and so does holdfast context add")
			}
			answer := map[string]any{"current": file.Current, "contexts": file.Contexts}
			return a.emit(answer, func() string {
				t := newTable("CONTEXT", "SERVER", "ADMIN", "SIGNS IN WITH", "SELECTED")
				for _, c := range file.Contexts {
					with, selected := "HOLDFAST_TOKEN", ""
					switch {
					case c.KeyFile != "":
						with = "key " + c.KeyFile
					case c.TokenFile != "":
						with = "token " + c.TokenFile
					}
					if c.Name == file.Current {
						selected = "yes"
					}
					t.row(c.Name, c.URL, c.AdminURL, with, selected)
				}
				return t.render("")
			}, file.names)
		},
	}
}

func (a *app) contextRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use: "rm NAME", Short: "Forget a saved context",
		Example: "  holdfast context rm prod",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			file, err := a.contexts()
			if err != nil {
				return err
			}
			i := file.index(args[0])
			if i < 0 {
				return file.unknown(args[0])
			}
			file.Contexts = append(file.Contexts[:i], file.Contexts[i+1:]...)
			if file.Current == args[0] {
				file.Current = ""
			}
			if err := a.saveContexts(file); err != nil {
				return err
			}
			a.say("context %q forgotten", args[0])
			return nil
		},
	}
}
