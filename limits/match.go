package limits

import "slices"

// matchKey is what a limit counts; either part may be Any.
type matchKey struct {
	kind   string
	action Action
}

// buildIndex groups the enabled limits by what they count. A request then meets at most four
// groups, each already by id.
func (c *Catalog) buildIndex() {
	c.index = make(map[matchKey][]int32, len(c.entries))
	for i, e := range c.entries {
		if !e.limit.Enabled {
			continue
		}
		key := matchKey{e.limit.SubjectKind, e.limit.Action}
		if c.index[key] = append(c.index[key], int32(i)); len(c.index[key]) == 1 && key.action != Any {
			c.known = append(c.known, known{key.action, key.kind})
		}
	}
	slices.SortFunc(c.known, known.compare)
}

// AppendMatch appends the enabled limits that count action a of subject s, by id, each with
// the amount in force: the subject's override, else its plan's, else everyone's, else the
// schedule's, else the limit's own. It
// appends all of them; above MaxMatching the request is to be refused.
// Cost: four map look-ups, one more a limit that has overrides, two more a limit where subjects
// have plans; no allocation but of dst.
func (c *Catalog) AppendMatch(dst []Rule, s Subject, a Action) []Rule {
	groups := [4][]int32{c.index[matchKey{s.Kind, a}]}
	anyKind, anyAction := s.Kind == Any, a == Any // then groups below would be the same ones again
	if !anyKind {
		groups[1] = c.index[matchKey{Any, a}]
	}
	if !anyAction {
		groups[2] = c.index[matchKey{s.Kind, Any}]
	}
	if !anyKind && !anyAction {
		groups[3] = c.index[matchKey{Any, Any}]
	}
	for {
		least := -1
		for g := range groups {
			if len(groups[g]) > 0 && (least < 0 || groups[g][0] < groups[least][0]) {
				least = g
			}
		}
		if least < 0 {
			return dst
		}
		place := int(groups[least][0])
		dst = append(dst, c.rule(c.entries[place].limit, place, s))
		groups[least] = groups[least][1:]
	}
}

// Counts reports whether l counts action a of subject s: it is enabled, and both match.
func (l *Limit) Counts(s Subject, a Action) bool {
	return l.Enabled && (l.SubjectKind == Any || l.SubjectKind == s.Kind) && (l.Action == Any || l.Action == a)
}

// Rule is l as it applies to s, whether or not l matches s. l must be a limit of c, or have
// the id of one for its overrides to count.
func (c *Catalog) Rule(l *Limit, s Subject) Rule {
	place, ok := c.find(l.ID)
	if !ok {
		return Rule{Limit: l, Amount: l.Base()}
	}
	return c.rule(l, place, s)
}

// rule is l with what stands in for its amount, for s: the subject's override, else its plan,
// else the override for everyone, else the schedule, else the limit's own (ADR 15). place is the limit's, of the entries.
func (c *Catalog) rule(l *Limit, place int, s Subject) Rule {
	o := c.ownOf(place, s)
	if o == nil {
		if name, a, ok := c.planned(l, s); ok {
			r := Rule{Limit: l, Amount: a.Amount, Unlimited: a.Unlimited, Plan: name}
			if a.Unlimited {
				r.Amount = NoCeiling
			}
			return r
		}
		o = c.entries[place].everyone
	}
	switch {
	case o == nil:
		return Rule{Limit: l, Amount: l.Base()}
	case o.Unlimited:
		return Rule{Limit: l, Amount: NoCeiling, Unlimited: true, Override: o}
	default:
		return Rule{Limit: l, Amount: o.Amount, Override: o}
	}
}
