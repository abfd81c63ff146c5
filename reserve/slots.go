package reserve

import (
	"bytes"
	"cmp"
	"iter"
	"math/bits"
	"slices"
	"time"
)

// slotSet is the slots of one concurrent limit within one scope that are taken.
type slotSet struct {
	key    setKey
	one    *live           // most sets have one hold,
	oneAt  int64           // in this slot
	more   map[int64]*live // the others, by slot
	words  []uint64        // bit n: slot n is taken, or chosen by a batch that is not answered yet
	low    int             // words below it are full
	count  int64           // bits set
	learnt int64           // greatest revision of a slot taken that we know of other than by the watch
	asOf   reading         // of the clocks, that endOf counts from
	shown  *shown          // the holds that end first; nil: to be found again
}

// set is the set under k, a new one when there is none.
func (p *picture) set(k setKey) *slotSet {
	s := p.sets[k]
	if s == nil {
		s = &slotSet{key: k}
		p.sets[k] = s
	}
	return s
}

func (s *slotSet) ref(n int64) Ref {
	return Ref{Tenant: s.key.tenant, Kind: RefSlot, Limit: s.key.limit, Scope: s.key.scope, N: n}
}

// holder is the hold in slot n, nil when nobody is known to be.
func (s *slotSet) holder(n int64) *live {
	if s.one != nil && s.oneAt == n {
		return s.one
	}
	return s.more[n]
}

// seat puts l into slot n, where nobody is.
func (s *slotSet) seat(n int64, l *live) {
	switch {
	case s.one == nil:
		s.one, s.oneAt = l, n
	case s.more == nil:
		s.more = map[int64]*live{n: l}
	default:
		s.more[n] = l
	}
}

func (s *slotSet) vacate(n int64) {
	if s.one != nil && s.oneAt == n {
		s.one = nil
		return
	}
	delete(s.more, n)
}

// holds is how many slots have somebody in them.
func (s *slotSet) holds() int64 {
	n := int64(len(s.more))
	if s.one != nil {
		n++
	}
	return n
}

// all are the holds of the set, in no order.
func (s *slotSet) all() iter.Seq[*live] {
	return func(yield func(*live) bool) {
		if s.one != nil && !yield(s.one) {
			return
		}
		for _, l := range s.more {
			if !yield(l) {
				return
			}
		}
	}
}

func (s *slotSet) has(n int64) bool {
	w := n >> 6
	return w < int64(len(s.words)) && s.words[w]&(1<<(uint(n)&63)) != 0
}

func (s *slotSet) mark(n int64) {
	w := int(n >> 6)
	for w >= len(s.words) {
		s.words = append(s.words, 0)
	}
	if bit := uint64(1) << (uint(n) & 63); s.words[w]&bit == 0 {
		s.words[w] |= bit
		s.count++
	}
}

func (s *slotSet) clear(n int64) {
	w := int(n >> 6)
	if !s.has(n) {
		return
	}
	s.words[w] &^= 1 << (uint(n) & 63)
	s.count--
	s.low = min(s.low, w)
}

// lowest is the lowest slot that is not taken.
func (s *slotSet) lowest() int64 {
	for s.low < len(s.words) && s.words[s.low] == ^uint64(0) {
		s.low++
	}
	if s.low == len(s.words) {
		return int64(s.low) << 6
	}
	return int64(s.low)<<6 + int64(bits.TrailingZeros64(^s.words[s.low]))
}

// free is the slot to give out next when at most amount may be held, -1 when none may.
//
// Usable are the slots below a, the largest number ≤ amount with a + (taken slots ≥ a) ≤ amount.
// Going down from amount, each free slot passed lowers that sum by one, so a lies at the e-th
// free slot from the top, e being the taken slots at or above amount. The lowest free slot is
// therefore below a exactly when fewer than amount slots are held: no need to look for a.
// Source: DESIGN.md section 3, "Usable slots"; proved again by TestModel.
func (s *slotSet) free(amount int64) int64 {
	if s.count >= amount {
		return -1
	}
	return s.lowest()
}

// shown is the holds of a set that end first, at most MaxHoldersShown, and their records as far
// as they are known. Remembered until one of them changes, so that a flood of refusals of one
// full limit does not sort and read them each time.
type shown struct {
	first   []*live
	records []*Record
}

// changed forgets which holds end first.
func (s *slotSet) changed() { s.shown = nil }

// soonest are the holds that end first.
func (s *slotSet) soonest() []*live {
	if s.shown != nil {
		return s.shown.first
	}
	var first []*live
	for l := range s.all() {
		if len(first) == MaxHoldersShown && l.promise() >= first[len(first)-1].promise() {
			continue
		}
		i, _ := slices.BinarySearchFunc(first, l, func(a, b *live) int {
			return cmp.Or(cmp.Compare(a.promise(), b.promise()), bytes.Compare(a.id[:], b.id[:]))
		})
		first = slices.Insert(first, i, l)
		first = first[:min(len(first), MaxHoldersShown)]
	}
	s.shown = &shown{first, make([]*Record, len(first))}
	return first
}

// recordOf is the record of the i-th of the soonest, nil when it is not known.
func (s *slotSet) recordOf(p *picture, i int) *Record {
	rec := &s.shown.records[i]
	if *rec == nil {
		l := s.shown.first[i]
		e, _ := p.cache.get(openRef(l.tenant, l.id))
		*rec, _ = e.Value.(*Record)
	}
	return *rec
}

// endOf is in what time from s.asOf the k-th of its holds ends (k from 1); ok is false when
// fewer are held, or that one has no end.
func (s *slotSet) endOf(k int64) (in time.Duration, ok bool) {
	first := s.soonest()
	if k > int64(len(first)) {
		if k > s.holds() {
			return 0, false
		}
		first = slices.SortedFunc(s.all(), func(a, b *live) int { return cmp.Compare(a.promise(), b.promise()) })
	}
	if k < 1 || first[k-1].ttl == 0 {
		return 0, false
	}
	return max(first[k-1].left(s.asOf), time.Millisecond), true
}
