package judge_test

import (
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/integration/judge"
)

const root = "/holdfast/v1/t/default/"

// story is a store's history: a word a change, one revision each; "+" joins one to the revision
// before. a=N is the amount, gN a grant of slot N, xN an extend, -N an end, and "g1!7" a grant
// that claims to have been created at revision 7.
func story(words string) judge.Seen {
	r := judge.NewReplay(root)
	created := map[string]int64{}
	rev := int64(0)
	for _, word := range strings.Fields(words) {
		word, joined := strings.CutPrefix(word, "+")
		if !joined {
			rev++
		}
		c := judge.Change{Revision: rev}
		n := word[1:]
		switch word[0] {
		case 'a':
			c.Key, c.Value = root+"limits/l", "\x01"+`{"ID":"l","Amount":`+word[2:]+`}`
		case 'g':
			n, old, _ := strings.Cut(n, "!")
			c.Key, c.Created = root+"slots/l/user/u/"+n, rev
			if old != "" {
				c.Created = int64(old[0] - '0')
			}
			created[n] = c.Created
		case 'x':
			c.Key, c.Created = root+"slots/l/user/u/"+n, created[n]
		case '-':
			c.Key, c.Deleted = root+"slots/l/user/u/"+n, true
		}
		r.Take(c)
	}
	return r.End()
}

func TestReplay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ story, want string }{
		"held and ended":                      {"a=2 g0 g1 x0 -1 g1 -0 -1", ""},
		"lowered below what is held":          {"a=2 g0 g1 a=1 x0 -1 x0 -0 g0", ""},
		"given on in the revision of its end": {"a=1 g0 -0 +g0", ""},
		"one too many":                        {"a=1 g0 g1", "2 slots taken after a grant, and the amount is 1"},
		"one too many after it was lowered":   {"a=3 g0 g1 a=2 -0 g0 g2", "3 slots taken after a grant, and the amount is 2"},
		"granted while there are too many":    {"a=3 g0 g1 g2 a=1 -0 g0", "3 slots taken after a grant, and the amount is 1"},
		"granted where there is no limit":     {"g0", "the amount is 0"},
		"given away while somebody is in it":  {"a=2 g0 g0", "while 2 stood"},
		"a fence that does not rise":          {"a=1 g0 x0 -0 a=1 a=1 g0!2", "has fence 2"},
		"ended twice":                         {"a=1 g0 -0 -0", "nobody was in it"},
		"extended when it was gone":           {"a=1 g0 -0 x0", "has fence 2, and <nil> stood"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := story(c.story)
			all := strings.Join(got.Faults, "\n")
			if (c.want == "") != (all == "") || !strings.Contains(all, c.want) {
				t.Errorf("%s: objections %q, want %q", c.story, all, c.want)
			}
		})
	}
}

func TestReplay_Counts(t *testing.T) {
	t.Parallel()
	got := story("a=2 g0 g1 x0 -1 g1 -1")
	if got.Revisions != 7 || got.Grants != 3 || got.Ends != 0 || got.Most != 2 {
		t.Errorf("%+v, want 7 revisions, 3 grants, at most 2 at once", got)
	}
	if l := got.Named[judge.Name("l/user/u", 1, 6)]; l == nil || l.Fence != 6 {
		t.Errorf("the grant of revision 6 is %+v in %v", l, got.Named)
	}
}
