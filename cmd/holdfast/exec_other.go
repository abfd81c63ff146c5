//go:build !unix

package main

import (
	"github.com/spf13/cobra"
)

// execCommand stands in where there are no process groups and no signals to pass on.
func (a *app) execCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "exec ACTION [SUBJECT] -- CMD ARG…",
		Short: "Run a command while holding a slot (on Unix only)",
		RunE: func(*cobra.Command, []string) error {
			return fail(exitBefore, "exec needs a Unix system: it stops a whole process group").
				next("by hand", "holdfast reserve, holdfast extend, holdfast commit")
		},
	}
}

// guardCommand does not exist here.
func (a *app) guardCommand() *cobra.Command {
	return &cobra.Command{Use: "exec-guard", Hidden: true, RunE: func(*cobra.Command, []string) error { return usage("there is no guard on this system") }}
}
