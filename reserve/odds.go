package reserve

// odds tells whether counts that this replica has not met are likely to be absent. It rises by
// one with each that was, and falls by worthOf with each that was not, since a wrong guess costs
// a transaction and a read where a right one saves the read. A replica begins by guessing, and
// soon stops where all subjects have counted before; what it loads then tells it when to begin
// again.
type odds int

// Bounds of odds, in right guesses.
const (
	worthOf  = 3
	mostOdds = 256
)

func (o odds) good() bool { return o >= 0 }

// saw takes in whether counts that had to be loaded, or were guessed, were absent.
func (o *odds) saw(absent bool) {
	if absent {
		*o = min(*o+1, mostOdds)
	} else {
		*o = max(*o-worthOf, -mostOdds)
	}
}

// note takes in what became of a group that rests on guesses.
func (o *odds) note(g *group, out Outcome) {
	if out.Moved {
		return // its guesses were not tried
	}
	for _, c := range g.cells {
		if c.guessed && c.base.Ref.Kind == RefUsage {
			o.saw(out.Committed)
		}
	}
}
