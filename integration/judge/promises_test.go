package judge_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/integration/judge"
)

func TestEnds(t *testing.T) {
	t.Parallel()
	const place = "l/user/u"
	life := func(fence int64, since, until int) *judge.Life {
		return &judge.Life{Place: place, Fence: fence, Since: sec(since), Until: sec(until)}
	}
	told := func(fence int64, call, until int) judge.Promise {
		return judge.Promise{Place: place, Fence: fence, Call: sec(call), Until: sec(until)}
	}
	settled, unsure := told(5, 1, 6), told(5, 1, 6)
	settled.Settled, unsure.Unsure = true, true
	for name, c := range map[string]struct {
		lives []*judge.Life
		told  []judge.Promise
		ops   []string // act and interval
		want  string
	}{
		"ended by itself":               {[]*judge.Life{life(5, 2, 7)}, []judge.Promise{told(5, 1, 6)}, []string{"end 6 7"}, ""},
		"ended by its owner":            {[]*judge.Life{life(5, 2, 3)}, []judge.Promise{settled}, nil, ""},
		"ended by its owner, perhaps":   {[]*judge.Life{life(5, 2, 3)}, []judge.Promise{unsure}, []string{"end 0 3"}, ""},
		"it stands":                     {[]*judge.Life{life(5, 2, 0)}, []judge.Promise{told(5, 1, 6)}, nil, ""},
		"nobody was told":               {[]*judge.Life{life(5, 2, 7)}, nil, []string{"reserve 0 2", "end 0 7"}, ""},
		"ended too early":               {[]*judge.Life{life(5, 2, 4)}, []judge.Promise{told(5, 1, 6)}, []string{"end 6 4"}, "seen to end at 4s"},
		"granted, and not in the store": {nil, []judge.Promise{told(5, 1, 6)}, nil, "never had it"},
		"granted to two":                {[]*judge.Life{life(5, 2, 7)}, []judge.Promise{told(5, 1, 6), told(5, 1, 6)}, []string{"end 6 7"}, "to two"},
		"an old one is told as new":     {[]*judge.Life{life(5, 2, 7)}, []judge.Promise{told(5, 8, 9)}, []string{"end 9 7"}, "was over when it was asked for"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := judge.Seen{Lives: c.lives, Named: map[string]*judge.Life{}}
			for _, l := range c.lives {
				seen.Named[judge.Name(l.Place, l.Slot, l.Fence)] = l
			}
			ops, faults := judge.Ends(seen, c.told)
			var got []string
			for _, op := range ops {
				got = append(got, strings.Join([]string{string(op.Act), number(op.Call), number(op.Return)}, " "))
			}
			all := strings.Join(faults, "\n")
			if !slices.Equal(got, c.ops) || (all == "") != (c.want == "") || !strings.Contains(all, c.want) {
				t.Errorf("%q, objections %q; want %q, %q", got, all, c.ops, c.want)
			}
		})
	}
}

func sec(n int) time.Duration { return time.Duration(n) * time.Second }

func number(d time.Duration) string { return strconv.Itoa(int(d / time.Second)) }
