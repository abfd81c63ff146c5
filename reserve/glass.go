package reserve

import (
	"container/heap"
	"time"
)

// glass is the sand-glasses of all live holds, the one that runs out first on top.
//
// A hold's glass starts when this replica sees a change of its slot and runs for the TTL the
// slot carries, on the monotonic clock. The change was committed before it was seen, so when
// the glass has run out and the slot still stands at the same revision, the hold is over for
// certain, whatever any wall clock says. Source: DESIGN.md section 6.
type glass []*live

func (g glass) Len() int           { return len(g) }
func (g glass) Less(i, j int) bool { return g[i].due < g[j].due }
func (g glass) Swap(i, j int) {
	g[i], g[j] = g[j], g[i]
	g[i].index, g[j].index = i, j
}

// Push and Pop are heap.Interface's; use put and take.
func (g *glass) Push(x any) {
	l := x.(*live)
	l.index = len(*g)
	*g = append(*g, l)
}

func (g *glass) Pop() any {
	old := *g
	l := old[len(old)-1]
	old[len(old)-1] = nil
	*g = old[:len(old)-1]
	l.index = -1
	return l
}

// put starts l's glass, or turns it when its end has changed.
func (g *glass) put(l *live) {
	if l.index >= 0 {
		heap.Fix(g, l.index)
		return
	}
	heap.Push(g, l)
}

func (g *glass) take(l *live) {
	if l.index >= 0 {
		heap.Remove(g, l.index)
	}
}

// due takes out at most most holds that are due at now.
func (g *glass) due(now moment, most int) (out []*live) {
	for len(*g) > 0 && len(out) < most && (*g)[0].due <= now {
		out = append(out, heap.Pop(g).(*live))
	}
	return out
}

// next is when the first glass is due; ok is false when none runs.
func (g glass) next() (at moment, ok bool) {
	if len(g) == 0 {
		return 0, false
	}
	return g[0].due, true
}

// secondAfter is how long after the end another replica's hold is left to that replica.
const secondAfter = 500 * time.Millisecond

// owns says whether this replica is the one that ends id: live replicas share the work by a
// hash of the id, so that they do not all send the same transaction.
func (p *picture) owns(id ID) bool {
	if len(p.members) < 2 {
		return true
	}
	return p.members[int(id[0])%len(p.members)] == p.replica
}

// hurry ends what has run out in a set at once, whoever should: a caller is being refused.
func (p *picture) hurry(s *slotSet, now moment) {
	for _, l := range s.soonest() {
		if l.index >= 0 && l.ends <= now && l.due > now {
			l.due = now
			p.glass.put(l)
		}
	}
}
