package judge

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// Act is what a caller asked for, or what the store's log shows.
type Act string

// The acts. End is of the log alone: a slot that came free by no caller's doing. Its Call is the
// instant before which that would have broken a promise.
const (
	Reserve Act = "reserve"
	Extend  Act = "extend"
	Release Act = "release"
	Commit  Act = "commit"
	Amount  Act = "amount"
	End     Act = "end"
)

// Told is what the caller was told.
type Told string

// The outcomes. An act whose outcome is Unknown may have taken effect at any instant since its
// call, or never.
const (
	Done    Told = "done"
	Refused Told = "refused" // 429
	Gone    Told = "gone"    // 410
	Unknown Told = "unknown"
)

// Op is one act: when it was sent, when it was decided, and as what. Repeats under one key are one
// Op, from the first call to the answer that decided.
type Op struct {
	Client       int
	Place        string // limit and subject: the acts of one place are judged together
	Act          Act
	Told         Told
	Slot, Fence  int64         // of the hold it is about; of a Reserve, when it is Done
	Amount       int           // of an Amount
	Call, Return time.Duration // on one monotonic clock
}

// Bounds of a history. Beyond them nothing is said, and that is a failure.
const (
	MostOps  = 5000 // of one place
	MostTime = 60 * time.Second
	forEver  = math.MaxInt64
	mostTold = 12 // acts that are told of an illegal history
)

// Verdict is what became of a history.
type Verdict struct {
	Ops, Places int
	Illegal     []string // one line a place, and the last acts that can be put in order
	Undecided   []string
	Took        time.Duration
}

// OK says that every place is legal, and was decided.
func (v Verdict) OK() bool { return len(v.Illegal)+len(v.Undecided) == 0 }

func (v Verdict) String() string {
	return fmt.Sprintf("%d acts in %d places: %d illegal, %d undecided, judged in %s", v.Ops, v.Places, len(v.Illegal), len(v.Undecided), v.Took.Round(time.Millisecond))
}

// History decides for each place whether its acts can have happened one after the other, each
// between its call and its answer, on slots of which at most amount are taken.
func History(ops []Op, amount int) Verdict {
	began := time.Now()
	places := map[string][]Op{}
	for _, op := range ops {
		places[op.Place] = append(places[op.Place], op)
	}
	v := Verdict{Ops: len(ops), Places: len(places)}
	model := slots(amount)
	for place, ops := range places {
		left := MostTime - time.Since(began)
		if len(ops) > MostOps || left <= 0 {
			v.Undecided = append(v.Undecided, fmt.Sprintf("%s: %d acts, %s left", place, len(ops), left))
			continue
		}
		switch result, info := porcupine.CheckOperationsVerbose(model, operations(ops), left); result {
		case porcupine.Illegal:
			v.Illegal = append(v.Illegal, place+": "+explain(ops, info))
		case porcupine.Unknown:
			v.Undecided = append(v.Undecided, fmt.Sprintf("%s: %d acts, not within %s", place, len(ops), left))
		case porcupine.Ok:
		}
	}
	slices.Sort(v.Illegal)
	v.Took = time.Since(began)
	return v
}

func operations(ops []Op) (out []porcupine.Operation) {
	for _, op := range ops {
		end := int64(op.Return)
		if op.Told == Unknown {
			end = forEver
		}
		out = append(out, porcupine.Operation{ClientId: op.Client, Input: op, Call: int64(op.Call), Return: max(end, int64(op.Call))})
	}
	return out
}

// explain names what stands after the longest order that is possible.
func explain(ops []Op, info porcupine.LinearizationInfo) string {
	longest := []porcupine.Operation{}
	for _, part := range info.PartialLinearizationsOperations() {
		for _, order := range part {
			if len(order) > len(longest) {
				longest = order
			}
		}
	}
	placed := map[Op]bool{}
	for _, o := range longest {
		placed[o.Input.(Op)] = true
	}
	var rest []Op
	for _, op := range ops {
		if !placed[op] && op.Told != Unknown {
			rest = append(rest, op)
		}
	}
	slices.SortFunc(rest, func(x, y Op) int { return int(x.Return - y.Return) })
	tail := longest[max(0, len(longest)-mostTold):]
	text := fmt.Sprintf("%d of %d acts can be put in order; the last are", len(longest), len(ops))
	for _, o := range tail {
		text += "\n\t" + o.Input.(Op).String()
	}
	text += "\nand then none of"
	for _, op := range rest[:min(len(rest), mostTold)] {
		text += "\n\t" + op.String()
	}
	return text
}

func (op Op) String() string {
	return fmt.Sprintf("[%s, %s] %d: %s %s slot %d fence %d amount %d", op.Call.Round(time.Millisecond), op.Return.Round(time.Millisecond),
		op.Client, op.Act, op.Told, op.Slot, op.Fence, op.Amount)
}

// Keep writes a history that was found illegal to a file, to be judged again by ReadHistory.
func Keep(file string, ops []Op) error {
	data, err := json.MarshalIndent(ops, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}

// ReadHistory reads what Keep wrote.
func ReadHistory(file string) (ops []Op, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return ops, json.Unmarshal(data, &ops)
}
