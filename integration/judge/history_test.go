package judge_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/integration/judge"
)

// op is an act on slot 0 of one place between two instants.
func op(act judge.Act, told judge.Told, call, end time.Duration, fence int64) judge.Op {
	return judge.Op{Place: "l/user/u", Act: act, Told: told, Call: call, Return: end, Fence: fence}
}

func at(slot int64, o judge.Op) judge.Op {
	o.Slot = slot
	return o
}

func amount(told judge.Told, n int, call, end time.Duration) judge.Op {
	o := op(judge.Amount, told, call, end, 0)
	o.Amount = n
	return o
}

const (
	reserve, extend, release, commit, end = judge.Reserve, judge.Extend, judge.Release, judge.Commit, judge.End
	done, refused, gone, unknown          = judge.Done, judge.Refused, judge.Gone, judge.Unknown
)

// Hand-made histories of a limit of 1.
var histories = []struct {
	name  string
	legal bool
	ops   []judge.Op
}{
	{"one after the other", true, []judge.Op{
		op(reserve, done, 0, 1, 5), op(extend, done, 2, 3, 5), op(release, done, 4, 5, 5), op(reserve, done, 6, 7, 9), op(commit, done, 8, 9, 9),
	}},
	{"two grants at once, and one ended between them", true, []judge.Op{
		op(reserve, done, 0, 9, 5), op(release, done, 2, 8, 5), op(reserve, done, 1, 9, 7),
	}},
	{"two hold one slot", false, []judge.Op{
		op(reserve, done, 0, 1, 5), op(reserve, done, 2, 3, 7), op(release, done, 4, 5, 5), op(release, done, 4, 5, 7),
	}},
	{"two hold where one may", false, []judge.Op{
		op(reserve, done, 0, 1, 5), at(1, op(reserve, done, 2, 3, 7)),
	}},
	{"a refusal while it is full", true, []judge.Op{op(reserve, done, 0, 5, 5), op(reserve, refused, 1, 2, 0)}},
	{"a refusal, and nobody is there", false, []judge.Op{op(reserve, refused, 0, 1, 0), op(reserve, done, 2, 3, 5)}},
	{"a refusal after a release was answered", false, []judge.Op{
		op(reserve, done, 0, 1, 5), op(release, done, 2, 3, 5), op(reserve, refused, 4, 5, 0),
	}},
	{"a fence below one that was given before", false, []judge.Op{
		op(reserve, done, 0, 1, 9), op(release, done, 2, 3, 9), op(reserve, done, 4, 5, 7),
	}},
	{"extended after it was released", false, []judge.Op{
		op(reserve, done, 0, 1, 5), op(release, done, 2, 3, 5), op(extend, done, 4, 5, 5),
	}},
	{"told gone while it is held", false, []judge.Op{
		op(reserve, done, 0, 1, 5), op(extend, gone, 2, 3, 5), op(extend, done, 4, 5, 5),
	}},
	{"released twice by two callers", false, []judge.Op{
		op(reserve, done, 0, 1, 5), op(release, done, 2, 3, 5), op(commit, done, 4, 5, 5),
	}},
	{"ended in time, and told so", true, []judge.Op{
		op(reserve, done, 0, 1, 5), op(end, done, 10, 12, 5), op(extend, gone, 11, 12, 5), op(reserve, done, 11, 13, 7),
	}},
	{"ended before its time: another had it when it was not yet over", false, []judge.Op{
		op(reserve, done, 0, 1, 5), op(reserve, done, 2, 3, 7), op(end, done, 10, 12, 5), op(release, done, 13, 14, 7),
	}},
	{"ended before its time: its owner was told so", false, []judge.Op{
		op(reserve, done, 0, 1, 5), op(extend, gone, 2, 3, 5), op(end, done, 10, 12, 5),
	}},
	{"a grant nobody was told of is in the way", true, []judge.Op{
		op(reserve, unknown, 0, 1, 0), op(reserve, refused, 2, 3, 0), op(end, done, 10, 11, 5), op(reserve, done, 12, 13, 7),
	}},
	{"a grant nobody was told of comes late", true, []judge.Op{
		op(reserve, unknown, 0, 1, 0), op(reserve, done, 2, 3, 5), op(release, done, 4, 5, 5), op(reserve, refused, 6, 7, 0), op(end, done, 10, 11, 8),
	}},
	{"a grant nobody was told of never was", true, []judge.Op{
		op(reserve, unknown, 0, 1, 0), op(reserve, done, 2, 3, 5), op(reserve, refused, 4, 5, 0),
	}},
	{"one unknown grant is not in the way twice", false, []judge.Op{
		op(reserve, unknown, 0, 1, 0), op(reserve, refused, 2, 3, 0), op(end, done, 4, 5, 5), op(reserve, refused, 6, 7, 0),
	}},
	{"an unknown release did free it", true, []judge.Op{
		op(reserve, done, 0, 1, 5), op(release, unknown, 2, 3, 5), op(reserve, done, 4, 5, 7),
	}},
	{"an unknown release did not yet free it", true, []judge.Op{
		op(reserve, done, 0, 1, 5), op(release, unknown, 2, 3, 5), op(reserve, refused, 4, 5, 0), op(reserve, done, 6, 7, 7),
	}},
	{"an unknown release frees it once", false, []judge.Op{
		op(reserve, done, 0, 1, 5), op(release, unknown, 2, 3, 5), op(reserve, done, 4, 5, 7), op(reserve, done, 6, 7, 9),
	}},
	{"an unknown act takes effect no sooner than it is sent", false, []judge.Op{
		op(reserve, refused, 0, 1, 0), op(reserve, unknown, 2, 3, 0),
	}},
	{"granted, and over before anybody was told", true, []judge.Op{op(reserve, gone, 0, 9, 0), op(reserve, done, 10, 11, 5)}},
	{"raised", true, []judge.Op{
		op(reserve, done, 0, 1, 5), amount(done, 2, 2, 3), at(1, op(reserve, done, 4, 5, 7)),
	}},
	{"raised perhaps", true, []judge.Op{
		op(reserve, done, 0, 1, 5), amount(unknown, 2, 2, 3), op(reserve, refused, 4, 5, 0), at(1, op(reserve, done, 6, 7, 7)),
	}},
	{"lowered, and granted all the same", false, []judge.Op{
		amount(done, 2, 0, 1), op(reserve, done, 2, 3, 5), amount(done, 1, 4, 5), at(1, op(reserve, done, 6, 7, 7)),
	}},
	{"lowered, and who holds stays", true, []judge.Op{
		amount(done, 2, 0, 1), op(reserve, done, 2, 3, 5), at(1, op(reserve, done, 2, 3, 6)), amount(done, 1, 4, 5),
		at(1, op(extend, done, 6, 7, 6)), op(release, done, 8, 9, 5), op(reserve, refused, 10, 11, 0),
	}},
}

func TestHistory(t *testing.T) {
	t.Parallel()
	for _, c := range histories {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v := judge.History(c.ops, 1)
			if len(v.Undecided) > 0 || (len(v.Illegal) == 0) != c.legal {
				t.Errorf("legal: %t, want %t: %+v", len(v.Illegal) == 0, c.legal, v)
			}
		})
	}
}

// Places do not disturb each other, and one that is illegal is named with what cannot be.
func TestHistory_NamesThePlace(t *testing.T) {
	t.Parallel()
	other := op(reserve, done, 2, 3, 7)
	other.Place = "l/user/other"
	twice := []judge.Op{op(reserve, done, 0, 1, 5), other}
	if v := judge.History(twice, 1); !v.OK() || v.Places != 2 {
		t.Errorf("two places: %+v, want no fault", v)
	}
	v := judge.History(append(twice, op(reserve, done, 4, 5, 9)), 1)
	if len(v.Illegal) != 1 || !strings.HasPrefix(v.Illegal[0], "l/user/u: 1 of 2") || !strings.Contains(v.Illegal[0], "fence 9") {
		t.Errorf("%+v, want the place l/user/u and the grant with fence 9", v)
	}
}

// What is too much to decide is a failure.
func TestHistory_TooMuchIsUndecided(t *testing.T) {
	t.Parallel()
	ops := make([]judge.Op, judge.MostOps+1)
	for i := range ops {
		ops[i] = op(reserve, refused, 0, 1, 0)
	}
	if v := judge.History(ops, 0); v.OK() || len(v.Undecided) != 1 {
		t.Errorf("%+v, want undecided", v)
	}
}

func TestKeep(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "history.json")
	for _, c := range histories {
		if err := judge.Keep(file, c.ops); err != nil {
			t.Fatal(err)
		}
		ops, err := judge.ReadHistory(file)
		if err != nil {
			t.Fatal(err)
		}
		if v := judge.History(ops, 1); (len(v.Illegal) == 0) != c.legal {
			t.Errorf("%s: legal %t after it was kept, want %t", c.name, len(v.Illegal) == 0, c.legal)
		}
	}
}
