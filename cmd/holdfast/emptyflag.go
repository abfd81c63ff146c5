package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// mayBeEmpty are the flags for which "" says something: no text, no scope.
var mayBeEmpty = map[string]bool{"description": true, "reason": true, "scope": true}

// nothingEmpty refuses a flag that was given with nothing in it. A variable that is not set,
// as in --sub "$WHO", must not stand for the default: that may be more than was asked for
// (another's token, every hold, no end).
func nothingEmpty(cmd *cobra.Command) error {
	var empty []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.Type() == "string" && strings.TrimSpace(f.Value.String()) == "" && !mayBeEmpty[f.Name] {
			empty = append(empty, "--"+f.Name)
		}
	})
	if len(empty) == 0 {
		return nil
	}
	is := " is empty"
	if len(empty) > 1 {
		is = " are empty"
	}
	return usage("%s: %s%s", cmd.CommandPath(), strings.Join(empty, " and "), is).
		next("is a variable not set?", "give a value, or leave the flag out")
}
