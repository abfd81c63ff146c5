package memory_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/store/memory"
)

func TestLag_HoldsEachUpdateBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Config{Now: time.Now})
		s.View("slow").SetLag(100 * time.Millisecond)
		quick, slow := follow(t, s), follow(t, s.View("slow"))
		synctest.Wait()
		apply(t, s, putSlot(0, 0)) // 2
		time.Sleep(60 * time.Millisecond)
		apply(t, s, putSlot(0, 0)) // 3
		time.Sleep(60 * time.Millisecond)
		synctest.Wait()
		if got, want := quick(), []int64{1, 2, 3}; !slices.Equal(got, want) {
			t.Errorf("without a lag: told %v, want %v", got, want)
		}
		if got, want := slow(), []int64{1, 2}; !slices.Equal(got, want) {
			t.Errorf("100 ms behind, after 120 ms: told %v, want %v", got, want)
		}
		s.View("slow").SetLag(-1)
		time.Sleep(time.Hour)
		if got, want := slow(), []int64{1, 2}; !slices.Equal(got, want) {
			t.Errorf("held back altogether: told %v, want %v", got, want)
		}
		s.View("slow").SetLag(0)
		synctest.Wait()
		if got, want := slow(), []int64{1, 2, 3}; !slices.Equal(got, want) {
			t.Errorf("let go: told %v, want %v", got, want)
		}
	})
}

// A lease ends in the model when it is due, not when somebody happens to call.
func TestFollow_TellsOfLeasesThatEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Config{Now: time.Now})
		told := follow(t, s)
		synctest.Wait()
		id := lease(t, s.Leases("r1", time.Now), 10*time.Second) // 2: the marker
		apply(t, s, putSlot(0, id))                              // 3
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if got, want := told(), []int64{1, 2, 3, 4}; !slices.Equal(got, want) {
			t.Errorf("after 6 s: told %v, want %v, the last for the marker", got, want)
		}
		time.Sleep(12 * time.Second)
		synctest.Wait()
		if got, want := told(), []int64{1, 2, 3, 4, 5}; !slices.Equal(got, want) {
			t.Errorf("after 18 s: told %v, want %v, the last for the slot", got, want)
		}
	})
}

func TestCompactNow_MakesAllStartOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Config{Now: time.Now})
		s.View("slow").SetLag(-1)
		told, slow := follow(t, s), follow(t, s.View("slow"))
		synctest.Wait()
		apply(t, s, putSlot(0, 0))
		synctest.Wait()
		s.CompactNow()
		s.View("slow").SetLag(0)
		synctest.Wait()
		apply(t, s, putSlot(1, 0))
		synctest.Wait()
		if got, want := told(), []int64{1, 2, 2, 3}; !slices.Equal(got, want) {
			t.Errorf("one that knew everything: told %v, want %v, the second 2 by a Reset", got, want)
		}
		if got, want := slow(), []int64{2, 3}; !slices.Equal(got, want) {
			t.Errorf("one that knew nothing: told %v, want %v", got, want)
		}
	})
}

// The history kept for followers is bounded: one that is told nothing starts over.
func TestFollow_StartsOverWhenFarBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Config{Now: time.Now})
		told := follow(t, s)
		synctest.Wait()
		s.SetLag(-1)
		var last int64
		for range 70_000 {
			last = apply(t, s, putSlot(0, 0)).Rev
		}
		s.SetLag(0)
		synctest.Wait()
		if got, want := told(), []int64{1, last}; !slices.Equal(got, want) {
			t.Errorf("told %v, want a Reset at 1 and one at %d", got, last)
		}
		last = apply(t, s, putSlot(0, 0)).Rev
		synctest.Wait()
		if got := told(); !slices.Contains(got, last) || len(got) != 3 {
			t.Errorf("told %v, want revision %d third", got, last)
		}
	})
}

// History is only for those who listen: a follower that comes after others have gone is told
// what stands, and nothing twice.
func TestFollow_ComesAndGoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Config{Now: time.Now})
		for _, want := range [][]int64{{1, 2, 3}, {5, 6, 7}} {
			ctx, cancel := context.WithCancel(t.Context())
			var got []int64
			ended := make(chan error, 1)
			go func() { ended <- s.Follow(ctx, func(u reserve.Update) { got = append(got, u.Rev) }) }()
			synctest.Wait()
			apply(t, s, putSlot(0, 0))
			apply(t, s, putSlot(1, 0))
			synctest.Wait()
			cancel()
			<-ended
			if !slices.Equal(got, want) {
				t.Errorf("told %v, want %v", got, want)
			}
			apply(t, s, putSlot(0, 0))
			apply(t, s, putSlot(0, 0))
		}
	})
}

var _ reserve.Store = (*memory.Store)(nil)
