package main

import "testing"

func TestPercentFor_KeepsTheGarbageWithinItsBudget(t *testing.T) {
	t.Parallel()
	for live, want := range map[uint64]int{
		0: mostPercent, 1 << 20: mostPercent, 64 << 20: 400, garbageBudget: 100, 512 << 20: 50, 8 << 30: leastPercent,
	} {
		if got := percentFor(live); got != want {
			t.Errorf("percentFor(%d) = %d, want %d", live, got, want)
		}
	}
}

func TestRest_GivesMemoryBackOnceAfterALoad(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	var r rest
	for i, look := range []struct {
		allocated uint64 // since the last look
		want      bool
	}{
		{10 * mib, false}, {1 * mib, false}, // a start allocates less than is worth it
		{500 * mib, false}, {300 * mib, false}, // under load
		{1 * mib, true}, {1 * mib, false}, {2 * mib, false}, // at rest
		{40 * mib, false}, {0, true},
	} {
		allocated := r.last + look.allocated
		if got := r.worth(allocated); got != look.want {
			t.Errorf("look %d, %d MiB later: worth = %v, want %v", i, look.allocated/mib, got, look.want)
		}
	}
}
