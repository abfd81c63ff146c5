package reserve_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/windows"
)

// A replica that has just started has met no counts and guesses that there are none: HF-517.
func TestGuess_CountsThatStandAreNeverForgotten(t *testing.T) {
	t.Parallel()
	day := counted("day", 3, windows.Window{Kind: windows.Day})
	inBubble(t, []limits.Limit{day}, func(r *rig) {
		const subjects = 40 // more than it takes until nothing is guessed any more
		subject := func(i int) limits.Subject { return limits.Subject{Kind: "user", ID: strconv.Itoa(i)} }
		for i := range subjects {
			r.granted(ask(subject(i), 2, time.Minute))
		}
		again, stop := r.replica("another")
		defer stop()
		for i := range subjects {
			for n, want := range []bool{true, false} { // one more fits, and not another
				_, d, err := again.Reserve(r.ctx(), ask(subject(i), 1, time.Minute))
				if err != nil || d.Allowed != want {
					t.Fatalf("subject %d, reserve %d on a replica that has not met its counts: allowed %v, %v, want %v", i, n, d.Allowed, err, want)
				}
			}
		}
	})
}
