package webhooks

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/reserve"
)

func TestQueue_AnEventWaitsForEarlierOnesOfItsLimitsAndForNoOthers(t *testing.T) { // HF-3202
	t.Parallel()
	letter := func(id string, limits ...string) reserve.Letter { return reserve.Letter{ID: id, Limits: limits} }
	var q queue
	q.add(0, &reserve.Parcel{Events: []reserve.Letter{letter("1", "a"), letter("2", "a"), letter("3", "b"), letter("4", "a", "c")}})
	q.add(1, &reserve.Parcel{Events: []reserve.Letter{letter("5", "c"), letter("6"), letter("7"), letter("8", "d")}})
	now := time.Unix(1_796_040_000, 0)
	fly := func() (ids string) {
		for {
			l, _ := q.next(now)
			if l == nil {
				return ids
			}
			l.flying = true
			ids += l.ID
		}
	}
	land := func(id string, ok bool) {
		for _, p := range q.parcels {
			for _, l := range p.letters {
				if l.ID == id {
					if l.flying = false; ok {
						q.finish(l)
					} else {
						l.due = now.Add(time.Second)
					}
				}
			}
		}
	}
	for _, step := range []struct {
		id   string
		ok   bool
		then string
	}{{"", true, "1368"}, {"1", false, ""}, {"3", true, ""}, {"6", true, "7"}, {"8", true, ""}} {
		if step.id != "" {
			land(step.id, step.ok)
		}
		if got := fly(); got != step.then {
			t.Errorf("after %q: %q go, want %q", step.id, got, step.then)
		}
	}
	if _, due := q.next(now); !due.Equal(now.Add(time.Second)) {
		t.Errorf("next due at %v, want a second later", due)
	}
	now = now.Add(time.Second)
	for _, step := range [][2]string{{"", "1"}, {"1", "2"}, {"2", "4"}, {"4", "5"}} {
		if step[0] != "" {
			land(step[0], true)
		}
		if got := fly(); got != step[1] {
			t.Errorf("after %q: %q go, want %q", step[0], got, step[1])
		}
	}
}
