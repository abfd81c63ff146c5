package judge

import (
	"slices"
	"sync"
)

// Set is a resource behind slots, and what fences are for: whoever may work in a slot reads its
// set, adds to it, and writes all of it back. A worker that writes what it read before it lost its
// hold takes back what the next one added. With Fenced the set keeps the highest fence it has seen
// in each slot and lets no lower one read or write; without it takes everybody, and a rig in which
// it loses nothing then is too tame.
type Set struct {
	Fenced bool

	mu      sync.Mutex
	highest map[int64]int64
	all     map[int64][]string
	newest  map[int64]int64 // of the fences that have written
	told    map[string]bool // what was taken, and its writer told so
	refused int
}

// enter says whether a fence may act in a slot. Reading counts as well: an older holder that
// writes after a newer one has read would be lost otherwise.
func (s *Set) enter(slot, fence int64) bool {
	if s.all == nil {
		s.highest, s.newest, s.all, s.told = map[int64]int64{}, map[int64]int64{}, map[int64][]string{}, map[string]bool{}
	}
	if s.Fenced && fence < s.highest[slot] {
		s.refused++
		return false
	}
	s.highest[slot] = max(fence, s.highest[slot])
	return true
}

// Read is what stands in the slot's set; false when the fence is too old.
func (s *Set) Read(slot, fence int64) ([]string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.enter(slot, fence) {
		return nil, false
	}
	return slices.Clone(s.all[slot]), true
}

// Write puts read and added in place of the slot's set; false when the fence is too old.
func (s *Set) Write(slot, fence int64, read []string, added string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.enter(slot, fence) {
		return false
	}
	s.all[slot] = append(slices.Clone(read), added)
	s.told[added] = true
	s.newest[slot] = max(fence, s.newest[slot])
	return true
}

// Newest is the highest fence that has written in a slot.
func (s *Set) Newest(slot int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newest[slot]
}

// Lost is what was taken and is not there any more.
func (s *Set) Lost() (lost []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	there := map[string]bool{}
	for _, all := range s.all {
		for _, x := range all {
			there[x] = true
		}
	}
	for x := range s.told {
		if !there[x] {
			lost = append(lost, x)
		}
	}
	slices.Sort(lost)
	return lost
}

// Counts is how many writes were taken, and how many acts were refused for their fence.
func (s *Set) Counts() (taken, refused int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.told), s.refused
}
