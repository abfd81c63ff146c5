package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-dev/holdfast/limits"
)

// nearest is the name closest in spelling to word, "" when none is close enough to be a slip
// of the fingers: more than a third of the letters differ, and neither begins the other.
func nearest(word string, names []string) string {
	word = strings.ToLower(word)
	best, bestDistance := "", len(word)
	for _, name := range slices.Sorted(slices.Values(names)) {
		d := limits.EditDistance(word, strings.ToLower(name))
		if len(word) > 1 && (strings.HasPrefix(name, word) || strings.HasPrefix(word, name)) {
			d = min(d, 1)
		}
		if d < bestDistance && d <= max(1, (max(len(word), len(name))+2)/3) {
			best, bestDistance = name, d
		}
	}
	return best
}

// nearFlag reads the flag out of pflag's complaint and finds the nearest one of cmd.
func nearFlag(cmd *cobra.Command, err error) string {
	unknown, ok := strings.CutPrefix(err.Error(), "unknown flag: --")
	if !ok {
		return ""
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near := nearest(unknown, names); near != "" {
		return "--" + near
	}
	return ""
}
