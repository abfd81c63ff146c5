package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
	etcdversion "go.etcd.io/etcd/api/v3/version"

	"github.com/holdfast-dev/holdfast/api"
)

// version and commit are set by the linker for a release: -X main.version=1.2.3. Without it the
// commit is what go noted of the checkout.
var (
	version = "0.1.0"
	commit  = ""
)

// buildVersion says what this binary is made of.
func buildVersion() api.Version {
	v := api.Version{Version: version, Commit: commit, Go: runtime.Version(), Etcd: etcdversion.Version}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && v.Commit == "" {
				v.Commit = s.Value
			}
		}
	}
	return v
}

func (a *app) versionCommand() *cobra.Command {
	var bill string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Say what this binary is made of",
		Example: "  holdfast version\n" +
			"  holdfast version -o json\n" +
			"  holdfast version --sbom holdfast-linux-amd64    # every module in a binary, as CycloneDX",
		Args: args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if bill != "" {
				return a.printBill(bill)
			}
			v := buildVersion()
			return a.emit(v, func() string {
				t := newTable()
				t.row("holdfast", v.Version)
				t.row("commit", v.Commit)
				t.row("etcd", v.Etcd)
				t.row("go", v.Go)
				return t.render("")
			}, func() []string { return []string{v.Version} })
		},
	}
	cmd.Flags().StringVar(&bill, "sbom", "", "print the bill of materials of the binary `FILE` (CycloneDX 1.6, JSON)")
	return cmd
}
