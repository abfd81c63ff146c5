package reserve

import (
	"math"
	"slices"
)

// newcomer is the rank of who has none: everybody who stands in line is before them.
const newcomer = int64(math.MaxInt64)

// foldLine is what a batch does to one line, on top of the picture.
type foldLine struct {
	puts []int64
	gone map[int64]struct{}
	upTo int64 // up to this rank, which goes in this batch, nobody else stands; 0: not looked at
	ends bool  // that nobody stands behind the first newcomer is compared
}

// changeLine notes the ticket that a request of the batch puts or deletes.
func (f *fold) changeLine(w *Write) {
	k := lineKey(w.Ref)
	fl := f.lines[k]
	if fl == nil {
		if f.lines == nil {
			f.lines = map[lineName]*foldLine{}
		}
		fl = &foldLine{}
		f.lines[k] = fl
	}
	if w.Value != nil {
		fl.puts = append(fl.puts, w.Ref.N)
		return
	}
	if fl.gone == nil {
		fl.gone = map[int64]struct{}{}
	}
	fl.gone[w.Ref.N] = struct{}{}
}

// ahead says whether anybody stands in the line of k before rank, as the batch leaves it.
func (f *fold) ahead(k lineName, rank int64) bool {
	l := f.p.lines.of(k)
	if l == nil && len(f.lines) == 0 {
		return false
	}
	fl := f.lines[k]
	if fl != nil {
		for _, r := range fl.puts {
			if r < rank {
				return true
			}
		}
	}
	if l == nil {
		return false
	}
	for _, at := range l.tickets {
		if at.ref.N >= rank {
			return false
		}
		if fl == nil {
			return true
		}
		if _, gone := fl.gone[at.ref.N]; !gone {
			return true
		}
	}
	return false
}

// joined says whether somebody joins the line of k in this very batch: a refusal because of
// them would rest on what is not committed.
func (f *fold) joined(k lineName) bool {
	fl := f.lines[k]
	return fl != nil && len(fl.puts) > 0
}

// guardLine compares that nobody stands in the line of k before rank, but for those who leave
// it in this very batch: their tickets, guarded by who deletes them, are in the same group then.
// on is a key of the request's that the comparison is kept with.
func (f *fold) guardLine(dr *draft, on Ref, k lineName, rank int64) {
	end := Ref{Tenant: k.tenant, Kind: RefTicket, Limit: k.limit, Scope: k.scope, N: rank}
	from := int64(0)
	if fl, l := f.lines[k], f.p.lines.of(k); fl != nil && l != nil {
		if fl.upTo < rank {
			from = fl.upTo
		}
		for _, at := range l.tickets {
			if at.ref.N >= rank {
				break
			}
			if _, gone := fl.gone[at.ref.N]; !gone || at.ref.N < from {
				continue
			}
			dr.guard(at.ref, ModIs, at.mod)
			if at.ref.N > from {
				end.N = at.ref.N
				dr.lines = append(dr.lines, lineGuard{on, Guard{end, NoneFrom, from}})
			}
			from = at.ref.N + 1
		}
		end.N = rank
	}
	dr.lines = append(dr.lines, lineGuard{on, Guard{end, NoneFrom, from}})
}

// guardEnd compares that nobody stands at or behind the place of a newcomer, as the store has it.
// The first newcomer of a batch does so for those who come after.
func (f *fold) guardEnd(dr *draft, on, place Ref) {
	if fl := f.lines[lineKey(place)]; fl != nil && fl.ends {
		return
	}
	end := place
	end.N = newcomer
	dr.lines = append(dr.lines, lineGuard{on, Guard{end, NoneFrom, place.N}})
}

// joinLines takes in what a request that joins the batch does to lines, and what it compares.
func (f *fold) joinLines(g *group, d *draft) *group {
	for i := range d.lines {
		lg := &d.lines[i]
		c := f.cell(lg.on)
		g = f.unite(g, c)
		if !slices.Contains(c.guards, lg.Guard) {
			c.guards = append(c.guards, lg.Guard)
			g.guards++
		}
		// Whoever leaves with nobody before them is where the next one's comparisons begin.
		if fl := f.lines[lineKey(lg.Ref)]; fl != nil {
			fl.ends = fl.ends || lg.Ref.N == newcomer
			if _, gone := fl.gone[lg.Ref.N]; gone {
				fl.upTo = max(fl.upTo, lg.Ref.N)
			}
		}
	}
	return g
}

// lineGuard is a comparison of a line, and the key it is kept with.
type lineGuard struct {
	on Ref
	Guard
}

// lostByLine says whether a group can only have lost because somebody stands in a line: every
// other guard of it stands.
func lostByLine(plan *Group, seen []Entry) bool {
	lines := false
	for _, g := range plan.Guards {
		if g.Cond == NoneFrom {
			lines = true
			continue
		}
		for i := range seen {
			if seen[i].Ref == g.Ref && !g.stands(&seen[i]) {
				return false
			}
		}
	}
	return lines
}

// stands says whether what stands under its key satisfies g.
func (g *Guard) stands(e *Entry) bool {
	switch g.Cond {
	case ModIs:
		return e.Mod == g.Rev
	case CreateIs:
		return e.Create == g.Rev
	case CreateIsNot:
		return e.Create != g.Rev
	case NoneFrom: // of a range, which is looked at elsewhere
	}
	return true
}
