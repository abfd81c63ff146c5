package limits

import (
	"cmp"
	"slices"
	"strings"
)

// known is an action that some enabled limit counts, and for which kind.
type known struct {
	action Action
	kind   string
}

func (k known) compare(other known) int {
	if byAction := strings.Compare(string(k.action), string(other.action)); byAction != 0 {
		return byAction
	}
	return strings.Compare(k.kind, other.kind)
}

// Bounds of the work for one answer of Nearest: about a million steps at most.
const (
	maxNearestSeen  = 1_000 // known actions looked at, those that sort next to the asked one
	maxNearestBytes = 32    // of each action compared
)

// Nearest names up to n known actions closest in spelling to a, for an answer that says no
// limit matches: those counted for the kind of s, or when there are none, those of any kind.
// Cost: bounded, below a millisecond or two.
func (c *Catalog) Nearest(s Subject, a Action, n int) []Action {
	at, _ := slices.BinarySearchFunc(c.known, known{action: a}, known.compare)
	from := max(0, min(at-maxNearestSeen/2, len(c.known)-maxNearestSeen))
	seen := c.known[from:min(len(c.known), from+maxNearestSeen)]
	if nearest := rank(seen, a, n, func(k known) bool { return k.kind == s.Kind || k.kind == Any }); len(nearest) > 0 {
		return nearest
	}
	return rank(seen, a, n, func(known) bool { return true })
}

// rank orders the actions that pass keep by distance from a, then by name, and keeps n.
func rank(from []known, a Action, n int, keep func(known) bool) []Action {
	type scored struct {
		action   Action
		distance int
	}
	var all []scored
	for _, k := range from {
		if keep(k) && (len(all) == 0 || all[len(all)-1].action != k.action) { // sorted: twins are neighbours
			all = append(all, scored{k.action, EditDistance(cut(a), cut(k.action))})
		}
	}
	slices.SortStableFunc(all, func(x, y scored) int { return cmp.Compare(x.distance, y.distance) })
	all = all[:min(max(n, 0), len(all))]
	names := make([]Action, len(all))
	for i, one := range all {
		names[i] = one.action
	}
	return names
}

func cut(a Action) string { return strings.ToLower(string(a[:min(len(a), maxNearestBytes)])) }

// EditDistance is the least number of bytes inserted, dropped, exchanged, or swapped with their
// neighbour that turns a into b. Cost: the product of the lengths, which the caller bounds; no
// memory for a b of up to 128 bytes.
func EditDistance(a, b string) int {
	var space [3][4*maxNearestBytes + 1]int
	before, last, row := space[0][:], space[1][:], space[2][:]
	if len(b) >= len(row) {
		before, last, row = make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	}
	for j := range len(b) + 1 {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			exchange := last[j-1]
			if a[i-1] != b[j-1] {
				exchange++
			}
			row[j] = min(exchange, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
