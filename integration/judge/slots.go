package judge

import (
	"hash/maphash"
	"slices"

	"github.com/anishathalye/porcupine"
)

// The model of one place: which slots are taken, by which fence, and the last fence of each. It is
// all that a concurrent limit promises to one subject.

// anyFence is the fence of a hold that nobody was told of.
const anyFence = -1

// taken is a state; it is never changed, a step makes another.
type taken struct {
	amount int
	slots  []slot // ascending by n
}

// slot remembers its last fence when it is free.
type slot struct {
	n, fence, last int64 // fence is 0 when it is free
}

func (s taken) count() (n int) {
	for _, x := range s.slots {
		if x.fence != 0 {
			n++
		}
	}
	return n
}

func (s taken) at(n int64) slot {
	for _, x := range s.slots {
		if x.n == n {
			return x
		}
	}
	return slot{n: n}
}

func (s taken) holds(op Op) bool {
	f := s.at(op.Slot).fence
	return f != 0 && (f == op.Fence || f == anyFence && op.Fence > s.at(op.Slot).last)
}

func (s taken) with(x slot) taken {
	out := taken{amount: s.amount, slots: slices.Clone(s.slots)}
	i, found := slices.BinarySearchFunc(out.slots, x.n, func(y slot, n int64) int { return int(y.n - n) })
	if !found {
		out.slots = slices.Insert(out.slots, i, x)
	}
	out.slots[i] = x
	return out
}

// without frees the slot that op is about.
func (s taken) without(op Op) taken {
	return s.with(slot{n: op.Slot, last: max(op.Fence, s.at(op.Slot).last)})
}

// grants is every way in which op can take a slot.
func (s taken) grants(op Op) (out []any) {
	if s.count() >= s.amount {
		return nil
	}
	if op.Told == Done {
		if x := s.at(op.Slot); op.Slot < int64(s.amount) && x.fence == 0 && op.Fence > x.last {
			return []any{s.with(slot{op.Slot, op.Fence, x.last})}
		}
		return nil
	}
	for n := range int64(s.amount) { // nobody knows which
		if x := s.at(n); x.fence == 0 {
			out = append(out, s.with(slot{n, anyFence, x.last}))
		}
	}
	return out
}

// step is every state that op can lead to from s.
func (s taken) step(op Op) (out []any) {
	if op.Told == Unknown {
		out = append(out, s) // it never took effect
	}
	holds := s.holds(op)
	switch {
	case op.Act == Reserve && op.Told == Refused:
		if s.count() >= s.amount {
			out = append(out, s)
		}
	case op.Act == Reserve && op.Told == Gone: // granted, and ended before anybody was told
		out = append(out, s)
	case op.Act == Reserve:
		out = append(out, s.grants(op)...)
	case op.Act == Amount && op.Told != Refused:
		out = append(out, taken{op.Amount, s.slots})
	case op.Told == Gone: // of an extend, a release or a commit
		if !holds {
			out = append(out, s)
		}
	case op.Act == Extend && holds && op.Told == Done:
		out = append(out, s)
	case (op.Act == Release || op.Act == Commit || op.Act == End) && holds:
		out = append(out, s.without(op))
	}
	return out
}

// slots is the model with a first amount.
func slots(amount int) porcupine.Model {
	seed := maphash.MakeSeed()
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{taken{amount: amount}} },
		Step: func(state, input, _ any) []any { return state.(taken).step(input.(Op)) },
		Equal: func(x, y any) bool {
			return x.(taken).amount == y.(taken).amount && slices.Equal(x.(taken).slots, y.(taken).slots)
		},
		Hash: func(state any) uint64 {
			h := uint64(state.(taken).amount)
			for _, x := range state.(taken).slots {
				h = h*31 + maphash.Comparable(seed, x)
			}
			return h
		},
	}
	return m.ToModel()
}
