package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
)

func (a *app) etcdCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "etcd [FLAGS OF ETCD]",
		Short: "Run a plain etcd server, so that one binary is a whole cluster",
		Long: "Run a plain etcd server out of this binary, so that one image runs a whole cluster. Its flags,\n" +
			"variables (ETCD_…) and log are etcd's own. Give the members certificates: whoever reaches an\n" +
			"etcd owns every hold.",
		Example: "  holdfast etcd --name a --data-dir /var/lib/etcd\n" +
			"  holdfast etcd --help-etcd      # etcd's own flags\n" +
			"  holdfast serve --etcd-endpoints https://etcd-1:2379,https://etcd-2:2379,https://etcd-3:2379 …",
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case slices.Contains(args, "--help") || slices.Contains(args, "-h"):
				return cmd.Help()
			case len(args) > 0 && !strings.HasPrefix(args[0], "-"):
				return usage("%q is no flag of etcd", args[0]).next("etcd's own flags", "holdfast etcd --help-etcd")
			}
			if i := slices.Index(args, "--help-etcd"); i >= 0 {
				args[i] = "--help"
			}
			if standDown, ok := cmd.Context().Value(standDownKey{}).(func()); ok {
				standDown() // etcd handles signals itself, and ends the process
			}
			etcdmain.Main(append([]string{"etcd"}, args...))
			return fmt.Errorf("etcd came back") // it ends the process instead
		},
	}
}
