package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// app is one run of the program: what it was given, and what it read from it.
type app struct {
	env            map[string]string
	stdin          io.Reader
	stdout, stderr io.Writer
	now            func() time.Time

	client    clientConfig // read before any verb runs
	origins   map[string]string
	file      string // --config
	asJSON    bool   // the answer on stdout is for a program
	colourful bool
	signsIn   credential // set by target
	running   *cobra.Command
	stray     error // help was asked for about a command that is not there
}

func newApp(env []string, stdin io.Reader, stdout, stderr io.Writer) *app {
	a := &app{env: map[string]string{}, stdin: stdin, stdout: stdout, stderr: stderr, now: time.Now}
	for _, pair := range env {
		if name, value, ok := strings.Cut(pair, "="); ok {
			a.env[name] = value
		}
	}
	return a
}

// root is the command tree of CLI.md section 2. Nothing in it is shared between two runs.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "holdfast",
		Short: "Limits what is done at once, and how often, and lets go by itself",
		Long: "Holdfast limits what is done at once, and how often, for each of your users. A worker takes a\n" +
			"slot, works, and gives it back; a worker that dies gives it back too.",
		Example: "  holdfast dev                              # a server, in a terminal of its own\n" +
			"  holdfast exec export user:u_42 -- make    # run something while holding a slot\n" +
			"  holdfast reserve export user:u_42         # take a slot by hand\n" +
			"  holdfast holds                            # who holds what",
		Version:           buildVersion().Version,
		SilenceErrors:     true,
		SilenceUsage:      true,
		Args:              cobra.ArbitraryArgs,
		RunE:              noCommand,
		PersistentPreRunE: a.begin,
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetVersionTemplate("holdfast {{.Version}}\n")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return badFlag(c, err) })
	register(root.PersistentFlags(), clientSettings)
	root.PersistentFlags().StringVar(&a.file, "config", "", "read settings from this YAML `FILE`")
	root.AddCommand(
		a.devCommand(), a.serveCommand(), a.etcdCommand(), a.backupCommand(), a.restoreCommand(),
		a.reserveCommand(), a.extendCommand(), a.commitCommand(), a.releaseCommand(),
		a.execCommand(), a.guardCommand(), a.checkCommand(), a.holdsCommand(), a.waitersCommand(), a.eventsCommand(), a.limitsCommand(), a.subjectsCommand(), a.forceCommand(),
		a.usageCommand(), a.topCommand(), a.auditCommand(),
		a.tokenCommand(), a.keysCommand(), a.contextCommand(), a.configCommand(),
		a.benchCommand(), a.uiCommand(), a.doctorCommand(), a.healthCommand(), a.versionCommand(),
	)
	a.closeGroups(root)
	return root
}

// begin reads the client's settings before any command runs.
func (a *app) begin(cmd *cobra.Command, _ []string) error {
	a.running = cmd
	if err := nothingEmpty(cmd); err != nil {
		return err
	}
	read, err := a.read(cmd.Flags(), clientSettings)
	if err != nil {
		return err
	}
	if err := read.into(&a.client); err != nil {
		return err
	}
	a.origins = read.origins
	a.asJSON = a.client.Output == "json" || a.client.Output == "yaml"
	a.colourful = !a.client.NoColor && a.env["NO_COLOR"] == "" && a.env["TERM"] != "dumb" && terminal(a.stdout)
	return a.client.validate()
}

// noCommand runs when no command was named, or one that is not there.
func noCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	path := cmd.CommandPath()
	failed := usage("%q is not a command of %s", args[0], path)
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(append(names, sub.Name()), sub.Aliases...)
		}
	}
	if near := nearest(args[0], names); near != "" {
		failed.next("did you mean", path+" "+near)
	}
	return failed.next("all commands", path+" --help")
}

// badFlag names the flag that comes nearest to one that is not there.
func badFlag(cmd *cobra.Command, err error) error {
	failed := usage("%s: %v", cmd.CommandPath(), err)
	if value, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		failed = badValue(cmd, value.GetFlag().Name, value.GetFlag().Value.Type(), value.GetValue())
	}
	if near := nearFlag(cmd, err); near != "" {
		failed.next("did you mean", near)
	}
	return failed.next("all flags", cmd.CommandPath()+" --help")
}

// args turns cobra's complaint about arguments into one that says how it is written.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		if err := check(cmd, given); err != nil {
			return badArguments(cmd, check, given).next("written as", cmd.UseLine()).
				next("help", cmd.CommandPath()+" --help")
		}
		return nil
	}
}

// finish says what went wrong, on stderr, and gives the exit code.
func (a *app) finish(ctx context.Context, err error) int {
	code := exitOf(ctx, err)
	if _, said := errors.AsType[ended](err); said || err == nil {
		return code
	}
	failed := a.explain(err)
	if code >= exitSignal && errors.Is(err, context.Canceled) {
		failed = &failure{what: context.Cause(ctx).Error()}
	}
	a.complain(failed)
	return code
}
