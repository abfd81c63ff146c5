package judge

import (
	"fmt"
	"time"
)

// Promise is a grant as its caller knows it.
type Promise struct {
	Place       string
	Slot, Fence int64
	Call        time.Duration // it was asked for
	Until       time.Duration // by its latest extend, counted from the call: it may not end before by itself
	Settled     bool          // a release or a commit was told as done
	Unsure      bool          // one was sent, and its outcome is unknown
}

// Ends completes a history with what only the log of the store knows: slots that came free by
// themselves, and grants that nobody was told of. What it objects to needs no order to be wrong: a
// grant that never was, or was given twice, and a hold that ended before its time.
func Ends(seen Seen, told []Promise) (ops []Op, faults []string) {
	known := map[string]bool{}
	for _, p := range told {
		name := Name(p.Place, p.Slot, p.Fence)
		l := seen.Named[name]
		switch {
		case l == nil:
			faults = append(faults, name+" was granted, and the store never had it")
			continue
		case known[name]:
			faults = append(faults, name+" was granted to two")
			continue
		case l.Since < p.Call && l.Until != 0 && l.Until < p.Call:
			faults = append(faults, name+" was over when it was asked for")
		case !p.Settled && !p.Unsure && l.Until != 0 && l.Until < p.Until:
			faults = append(faults, fmt.Sprintf("%s was seen to end at %s, and its time was over at %s", name, l.Until, p.Until))
		}
		known[name] = true
		if l.Until == 0 || p.Settled {
			continue
		}
		end := Op{Place: p.Place, Act: End, Told: Done, Slot: p.Slot, Fence: p.Fence, Call: p.Until, Return: l.Until}
		if p.Unsure {
			end.Call = 0
		}
		ops = append(ops, end)
	}
	for _, l := range seen.Lives {
		if known[Name(l.Place, l.Slot, l.Fence)] {
			continue
		}
		op := Op{Client: -1, Place: l.Place, Act: Reserve, Told: Done, Slot: l.Slot, Fence: l.Fence, Return: l.Since}
		ops = append(ops, op)
		if l.Until != 0 {
			op.Act, op.Return = End, l.Until
			ops = append(ops, op)
		}
	}
	return ops, faults
}
