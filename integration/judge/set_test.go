package judge_test

import (
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast/integration/judge"
)

// A worker that reads, sleeps past its hold, and writes. With the fence nothing is lost, whenever
// it wakes.
func TestSet(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name            string
		late            func(s *judge.Set, old []string, next func() []string) // how the two mix
		without, fenced []string                                               // what is lost
	}{
		{"the older writes after the newer has written", func(s *judge.Set, old []string, next func() []string) {
			s.Write(0, 2, next(), "new")
			s.Write(0, 1, old, "old")
		}, []string{"new"}, nil},
		{"the older writes after the newer has read", func(s *judge.Set, old []string, next func() []string) {
			read := next()
			s.Write(0, 1, old, "old")
			s.Write(0, 2, read, "new")
		}, []string{"old"}, nil},
		{"one after the other", func(s *judge.Set, old []string, next func() []string) {
			s.Write(0, 1, old, "old")
			s.Write(0, 2, next(), "new")
		}, nil, nil},
	} {
		for fenced, want := range map[bool][]string{false: c.without, true: c.fenced} {
			s := &judge.Set{Fenced: fenced}
			old, _ := s.Read(0, 1)
			c.late(s, old, func() []string {
				read, ok := s.Read(0, 2)
				if !ok {
					t.Errorf("%s, fenced %t: the newer may not read", c.name, fenced)
				}
				return read
			})
			if got := s.Lost(); !slices.Equal(got, want) {
				t.Errorf("%s, fenced %t: lost %q, want %q", c.name, fenced, got, want)
			}
		}
	}
}

func TestSet_EachSlotHasItsOwnFence(t *testing.T) {
	t.Parallel()
	s := &judge.Set{Fenced: true}
	if !s.Write(0, 9, nil, "a") || !s.Write(1, 3, nil, "b") || s.Write(0, 8, nil, "c") {
		t.Error("slot 1 must take fence 3 after 9 in slot 0, which must not take 8")
	}
	if taken, refused := s.Counts(); taken != 2 || refused != 1 || len(s.Lost()) != 0 {
		t.Errorf("%d taken, %d refused, lost %v", taken, refused, s.Lost())
	}
}
