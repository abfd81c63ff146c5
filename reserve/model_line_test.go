package reserve_test

import (
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// lineSteps is the length of a history of lines: many short ones meet more joinings, hang-ups and
// lost answers side by side than a few long ones.
const lineSteps = 120

// Issue "Waiting in line", 3: random histories in which whoever reserves waits, with every fault
// of the model. Nobody is overtaken, no grant is lost or doubled, nobody stands for ever.
//
//	HOLDFAST_TEST_LINE_HISTORIES=2500 HOLDFAST_TEST_LINE_DONE=0 go test -run TestModel_Lines ./reserve
func TestModel_Lines(t *testing.T) {
	histories := uint64(120)
	if testing.Short() {
		histories = 30
	}
	if n, err := strconv.ParseUint(os.Getenv("HOLDFAST_TEST_LINE_HISTORIES"), 10, 64); err == nil {
		histories = n
	}
	done, _ := strconv.ParseUint(os.Getenv("HOLDFAST_TEST_LINE_DONE"), 10, 64) // go on after this seed; 0 when it is not set
	var next atomic.Uint64
	var waited, passed atomic.Int64
	next.Store(done)
	t.Run("histories", func(t *testing.T) {
		for range 4 {
			t.Run("seeds", func(t *testing.T) {
				t.Parallel()
				for seed := next.Add(1); seed <= done+histories && !t.Failed(); seed = next.Add(1) {
					synctest.Test(t, func(t *testing.T) {
						m := newModel(t, seed, plant{})
						m.length, m.patient = lineSteps, true
						if err := m.run(); err != nil {
							t.Errorf("seed %d: %v", seed, err)
						}
						waited.Add(int64(m.waited))
						passed.Add(1)
					})
				}
			})
		}
	})
	t.Logf("%d histories, seeds %d to %d: %d grants to callers that stood in line, none of them overtaken", passed.Load(), done+1, done+histories, waited.Load())
	if waited.Load() < int64(histories) {
		t.Errorf("only %d grants out of a line in %d histories: too tame to show anything", waited.Load(), histories)
	}
}
