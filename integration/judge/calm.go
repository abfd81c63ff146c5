package judge

import (
	"fmt"
	"time"
)

// Calm is the time after the last fault (GUARANTEES.md section 3, liveness): whatever is asked is
// decided, and whatever was abandoned comes free.
type Calm struct {
	Since  time.Duration // the last fault was over
	Until  time.Duration // nobody looked any longer
	Decide time.Duration // an act is decided within this
	TTL    time.Duration // of every hold
	Free   time.Duration // a slot is free this much after the TTL, counted from its last put or from Since
	Slack  time.Duration // by so much the observer itself was late
}

// Judge is what breaks the promise; empty when nothing does.
func (c Calm) Judge(ops []Op, lives []*Life) (faults []string) {
	for _, op := range ops {
		from := max(op.Call, c.Since)
		if op.Act == End {
			continue
		}
		if op.Told == Unknown {
			if c.Until-from > c.Decide+c.Slack {
				faults = append(faults, fmt.Sprintf("not decided within %s: %s", c.Decide, op))
			}
		} else if op.Return-from > c.Decide+c.Slack {
			faults = append(faults, fmt.Sprintf("decided %s after the last fault and its call: %s", op.Return-from, op))
		}
	}
	for _, l := range lives {
		from := max(l.Moved, c.Since)
		due := from + c.TTL + c.Free + c.Slack
		switch {
		case l.Until == 0 && c.Until <= due:
			faults = append(faults, fmt.Sprintf("%s was held when nobody looked any longer", Name(l.Place, l.Slot, l.Fence)))
		case l.Until == 0 || l.Until > due:
			faults = append(faults, fmt.Sprintf("%s: its last sign of life, or the last fault, was at %s; it ended at %s (0: never), and %s was the last moment",
				Name(l.Place, l.Slot, l.Fence), from, l.Until, due))
		}
	}
	return faults
}
