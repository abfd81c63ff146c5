package limits

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func lim(id, kind string, action Action, amount int64) Limit {
	return Limit{ID: id, SubjectKind: kind, Action: action, Amount: amount, Enabled: true}
}

var (
	ann = Subject{"user", "ann"}
	bob = Subject{"user", "bob"}
	org = Subject{"org", "acme"}
)

// told spells rules as id=amount.
func told(rules []Rule) string {
	var all []string
	for _, r := range rules {
		all = append(all, fmt.Sprintf("%s=%d", r.ID, r.Amount))
	}
	return strings.Join(all, " ")
}

func TestCatalog_AppendMatch(t *testing.T) {
	t.Parallel()
	off := lim("e-off", "user", "call", 5)
	off.Enabled = false
	paused := lim("f-paused", "user", "call", 6)
	paused.Paused, paused.PausedUntil = true, time.Unix(1, 0) // long over, but only a new catalogue says so
	c := NewCatalog(7, 3, []Limit{
		paused, off, lim("d", "*", "*", 4), lim("c", "user", "*", 3), lim("b", "*", "call", 2), lim("a", "user", "call", 1),
	}, nil, nil)
	for _, q := range []struct {
		subject Subject
		action  Action
		want    string
	}{
		{ann, "call", "a=1 b=2 c=3 d=4 f-paused=6"},
		{ann, "export", "c=3 d=4"},
		{org, "call", "b=2 d=4"},
		{org, "export", "d=4"},
		{ann, "Call", "c=3 d=4"},
		{ann, "*", "c=3 d=4"}, // an action of that name is an action, matched once
		{Subject{"*", "x"}, "call", "b=2 d=4"},
		{Subject{"*", "x"}, "*", "d=4"},
	} {
		if got := told(c.AppendMatch(nil, q.subject, q.action)); got != q.want {
			t.Errorf("AppendMatch(%s, %q) = %s, want %s", q.subject, q.action, got, q.want)
		}
	}
	if got := c.AppendMatch(make([]Rule, 1, 9), ann, "export"); len(got) != 3 || got[0].Limit != nil {
		t.Errorf("AppendMatch did not append: %v", got)
	}
	if c.Revision() != 7 || c.Seq() != 3 {
		t.Errorf("revision %d, seq %d, want 7 and 3", c.Revision(), c.Seq())
	}
}

func TestCatalog_NothingMatches(t *testing.T) {
	t.Parallel()
	empty := NewCatalog(0, 0, nil, nil, nil)
	if got := empty.AppendMatch(nil, ann, "call"); got != nil {
		t.Errorf("an empty catalogue matches %v", got)
	}
	if got := empty.Nearest(ann, "call", 3); len(got) != 0 {
		t.Errorf("an empty catalogue knows %v", got)
	}
	if _, ok := empty.NextEnd(time.Time{}); ok {
		t.Error("an empty catalogue has an end")
	}
}

// API.md section 3: most specific wins. DESIGN.md section 3: ends change nothing by themselves.
func TestCatalog_Overrides(t *testing.T) {
	t.Parallel()
	long := time.Unix(1, 0)
	c := NewCatalog(1, 1,
		[]Limit{lim("a", "*", "call", 1), lim("b", "*", "call", 2), lim("c", "*", "call", 3)},
		[]Override{
			{Limit: "a", Amount: 10, Until: long},
			{Limit: "a", Subject: ann, Amount: 11, Until: long},
			{Limit: "b", Subject: bob, Unlimited: true},
			{Limit: "b", Subject: ann, Amount: 0},
			{Limit: "gone", Amount: 99},
		}, nil)
	for s, want := range map[Subject]string{
		ann: "a=11 b=0 c=3",
		bob: fmt.Sprintf("a=10 b=%d c=3", NoCeiling),
		org: "a=10 b=2 c=3",
	} {
		rules := c.AppendMatch(nil, s, "call")
		if got := told(rules); got != want {
			t.Errorf("AppendMatch(%s) = %s, want %s", s, got, want)
		}
		for _, r := range rules {
			if l, _ := c.Limit(r.ID); !reflect.DeepEqual(c.Rule(l, s), r) {
				t.Errorf("Rule(%s, %s) = %+v, want %+v", r.ID, s, c.Rule(l, s), r)
			}
			if r.Unlimited != (r.Amount == NoCeiling) || (r.Override == nil) != (r.Amount == r.Limit.Amount) {
				t.Errorf("%s for %s: unlimited %v, amount %d, override %v", r.ID, s, r.Unlimited, r.Amount, r.Override)
			}
		}
	}
	if got := c.Overrides("a"); len(got) != 2 || !got[0].Subject.IsZero() || got[1].Subject != ann {
		t.Errorf("Overrides(a) = %+v", got)
	}
	if got := c.Overrides("b"); len(got) != 2 || got[0].Subject != ann || got[1].Subject != bob {
		t.Errorf("Overrides(b) = %+v, want them by id", got)
	}
	if got := c.Overrides("gone"); got != nil {
		t.Errorf("Overrides(gone) = %+v, want none", got)
	}
	if o, ok := c.Override("a", Subject{}); !ok || o.Amount != 10 {
		t.Errorf("Override(a, everyone) = %+v, %v", o, ok)
	}
	if o, ok := c.Override("a", ann); !ok || o.Amount != 11 {
		t.Errorf("Override(a, ann) = %+v, %v", o, ok)
	}
	for _, none := range []struct {
		limit   string
		subject Subject
	}{{"b", Subject{}}, {"a", bob}, {"c", ann}, {"gone", Subject{}}} {
		if o, ok := c.Override(none.limit, none.subject); ok {
			t.Errorf("Override(%s, %s) = %+v, want none", none.limit, none.subject, o)
		}
	}
}

func TestCatalog_RuleOfAStrangerHasNoOverride(t *testing.T) {
	t.Parallel()
	c := NewCatalog(1, 1, []Limit{lim("a", "*", "call", 1)}, []Override{{Limit: "a", Amount: 10}}, nil)
	stranger, edited := lim("z", "*", "call", 5), lim("a", "*", "call", 7)
	if r := c.Rule(&stranger, ann); r.Amount != 5 || r.Limit != &stranger {
		t.Errorf("Rule(stranger) = %+v", r)
	}
	if r := c.Rule(&edited, ann); r.Amount != 10 || r.Limit != &edited {
		t.Errorf("Rule(edited) = %+v", r)
	}
}

// One count for all, or one each: whose count a rule adds to.
func TestRule_Scope(t *testing.T) {
	t.Parallel()
	shared := lim("a", "*", "call", 1)
	shared.Share = All
	c := NewCatalog(1, 1, []Limit{shared, lim("b", "*", "call", 1)}, nil, nil)
	rules := c.AppendMatch(nil, ann, "call")
	if a, b := rules[0].Scope(ann), rules[1].Scope(ann); a != "_" || b != "user/ann" {
		t.Errorf("scopes %q and %q, want _ and user/ann", a, b)
	}
}

func TestCatalog_IsItsOwn(t *testing.T) {
	t.Parallel()
	ls := []Limit{lim("a", "user", "call", 1), lim("b", "user", "call", 2)}
	ls[0].Labels = map[string]string{"k": "v"}
	os := []Override{{Limit: "a", Subject: ann, Amount: 9}}
	bs := []Block{{Subject: bob, Reason: "r"}}
	c := NewCatalog(1, 1, ls, os, bs)
	before := told(c.AppendMatch(nil, ann, "call"))
	ls[0].Amount, ls[1].ID, os[0].Amount, bs[0].Reason = 100, "z", 100, "changed"
	ls[0].Labels["k"] = "changed"
	c.Limits()[0] = nil
	c.Overrides("a")[0].Amount = 100
	if after := told(c.AppendMatch(nil, ann, "call")); after != before {
		t.Errorf("what it was made of changed it: %s, was %s", after, before)
	}
	if l, _ := c.Limit("a"); l.Labels["k"] != "v" {
		t.Errorf("labels %v, want what they were", l.Labels)
	}
	if b, ok := c.Block(bob); !ok || b.Reason != "r" {
		t.Errorf("Block(bob) = %+v, %v", b, ok)
	}
}

func TestCatalog_LimitsById(t *testing.T) {
	t.Parallel()
	off := lim("b", "user", "call", 2)
	off.Enabled = false
	c := NewCatalog(1, 1, []Limit{lim("c", "user", "x", 3), off, lim("a", "user", "x", 1), lim("c", "user", "y", 33)}, nil, nil)
	var got []string
	for _, l := range c.Limits() {
		got = append(got, fmt.Sprintf("%s=%d", l.ID, l.Amount))
	}
	if want := []string{"a=1", "b=2", "c=33"}; !slices.Equal(got, want) {
		t.Errorf("Limits() = %v, want %v: by id, the last of a name", got, want)
	}
	if l, ok := c.Limit("b"); !ok || l.Amount != 2 {
		t.Errorf("Limit(b) = %v, %v", l, ok)
	}
	if l, ok := c.Limit("bb"); ok {
		t.Errorf("Limit(bb) = %v, want none", l)
	}
	if b, ok := c.Block(ann); ok {
		t.Errorf("Block(ann) = %v, want none", b)
	}
}

func TestCatalog_NextEnd(t *testing.T) {
	t.Parallel()
	at := func(s int64) time.Time { return time.Unix(s, 0).UTC() }
	paused, over := lim("a", "user", "x", 1), lim("b", "user", "x", 1)
	paused.Paused, paused.PausedUntil = true, at(30)
	over.PausedUntil = at(5) // not paused: no end to wait for
	c := NewCatalog(1, 1, []Limit{paused, over}, []Override{
		{Limit: "a", Until: at(20)}, {Limit: "a", Subject: ann, Until: at(10)}, {Limit: "b"}, {Limit: "gone", Until: at(1)},
	}, []Block{{Subject: ann, Until: at(2)}})
	for after, want := range map[int64]int64{0: 10, 9: 10, 10: 20, 19: 20, 20: 30, 29: 30} {
		if got, ok := c.NextEnd(at(after)); !ok || !got.Equal(at(want)) {
			t.Errorf("NextEnd(%d) = %v, %v, want %d", after, got, ok, want)
		}
	}
	if got, ok := c.NextEnd(time.Time{}); !ok || !got.Equal(at(10)) {
		t.Errorf("NextEnd(zero) = %v, %v, want the earliest", got, ok)
	}
	if got, ok := c.NextEnd(at(30)); ok {
		t.Errorf("NextEnd(30) = %v, want none", got)
	}
}

func TestCatalog_Nearest(t *testing.T) {
	t.Parallel()
	c := NewCatalog(1, 1, []Limit{
		lim("a", "user", "export", 1), lim("b", "user", "import", 1), lim("c", "*", "train", 1), lim("d", "org", "exports", 1),
		lim("e", "user", "*", 1), lim("f", "*", "export", 1),
	}, nil, nil)
	for _, q := range []struct {
		subject Subject
		action  Action
		n       int
		want    []Action
	}{
		{ann, "exprot", 2, []Action{"export", "import"}},
		{ann, "EXPORT", 1, []Action{"export"}},
		{ann, "exports", 9, []Action{"export", "import", "train"}},
		{org, "exprots", 1, []Action{"exports"}},
		{Subject{"host", "h"}, "trian", 1, []Action{"train"}},
		{ann, "x", 0, []Action{}},
		{ann, "x", -1, []Action{}},
	} {
		if got := c.Nearest(q.subject, q.action, q.n); !slices.Equal(got, q.want) {
			t.Errorf("Nearest(%s, %q, %d) = %v, want %v", q.subject, q.action, q.n, got, q.want)
		}
	}
	onlyUsers := NewCatalog(1, 1, []Limit{lim("a", "user", "export", 1)}, nil, nil)
	if got := onlyUsers.Nearest(org, "export", 3); !slices.Equal(got, []Action{"export"}) {
		t.Errorf("a kind nothing counts: Nearest = %v, want what others may do", got)
	}
}

// A long name of odd bytes and a full catalogue: no panic, and the neighbours in spelling are seen.
func TestCatalog_NearestIsBounded(t *testing.T) {
	t.Parallel()
	c := fullCatalog(1)
	if got := c.Nearest(ann, "act-2500x", 1); !slices.Equal(got, []Action{"act-2500"}) {
		t.Errorf("Nearest = %v, want act-2500", got)
	}
	for _, a := range []Action{"", "~", Action(strings.Repeat("\xff", 128)), Action(strings.Repeat("Ⱥ", 42))} {
		if got := c.Nearest(ann, a, 5); len(got) != 5 {
			t.Errorf("Nearest(%q) = %v, want five", a, got)
		}
	}
}

// The index says what a look at every limit says.
func TestCatalog_AppendMatchIsTheNaiveMatch(t *testing.T) {
	t.Parallel()
	word := rapid.SampledFrom([]string{"*", "u", "v"})
	rapid.Check(t, func(t *rapid.T) {
		var ls []Limit
		for i := range rapid.IntRange(0, 12).Draw(t, "limits") {
			l := lim(fmt.Sprintf("l%02d", i), word.Draw(t, "kind"), Action(word.Draw(t, "action")), int64(i))
			l.Enabled = rapid.IntRange(0, 4).Draw(t, "enabled") > 0
			ls = append(ls, l)
		}
		c := NewCatalog(1, 1, rapid.Permutation(ls).Draw(t, "order"), nil, nil)
		s, a := Subject{word.Draw(t, "kind"), "x"}, Action(word.Draw(t, "action"))
		var want []string
		for _, l := range ls {
			if l.Counts(s, a) {
				want = append(want, fmt.Sprintf("%s=%d", l.ID, l.Amount))
			}
		}
		if got := told(c.AppendMatch(nil, s, a)); got != strings.Join(want, " ") {
			t.Fatalf("AppendMatch(%s, %q) = %s, want %v", s, a, got, want)
		}
	})
}

// fullCatalog has MaxLimits limits, each limits to an action, and overrides for ann.
func fullCatalog(each int) *Catalog {
	var ls []Limit
	var os []Override
	for i := range MaxLimits {
		l := lim(fmt.Sprintf("limit-%d", i), "user", Action(fmt.Sprintf("act-%d", i/each)), 10)
		ls = append(ls, l)
		os = append(os, Override{Limit: l.ID, Subject: ann, Amount: 20})
	}
	return NewCatalog(1, 1, ls, os, nil)
}

func TestCatalog_AppendMatchDoesNotAllocate(t *testing.T) {
	c := fullCatalog(10)
	dst := make([]Rule, 0, MaxMatching)
	allocs := testing.AllocsPerRun(100, func() { dst = c.AppendMatch(dst[:0], ann, "act-250") })
	if len(dst) != 10 || allocs != 0 {
		t.Errorf("%d rules, %v allocations, want 10 and none", len(dst), allocs)
	}
}

func BenchmarkCatalog_AppendMatch(b *testing.B) {
	for _, each := range []int{1, 10} {
		b.Run(fmt.Sprintf("%d of %d", each, MaxLimits), func(b *testing.B) {
			c := fullCatalog(each)
			dst := make([]Rule, 0, MaxMatching)
			b.ReportAllocs()
			for b.Loop() {
				dst = c.AppendMatch(dst[:0], ann, "act-250")
			}
			if len(dst) != each {
				b.Fatalf("%d rules, want %d", len(dst), each)
			}
		})
	}
}

func BenchmarkCatalog_Nearest(b *testing.B) {
	c := fullCatalog(1)
	for b.Loop() {
		c.Nearest(ann, Action(strings.Repeat("x", 128)), 3)
	}
}

func BenchmarkNewCatalog(b *testing.B) {
	ls := fullCatalog(1).Limits()
	all := make([]Limit, len(ls))
	for i, l := range ls {
		all[i] = *l
	}
	os := make([]Override, MaxOverrides)
	for i := range os {
		os[i] = Override{Limit: ls[i%len(ls)].ID, Subject: Subject{"user", fmt.Sprint(i)}, Amount: 1}
	}
	for b.Loop() {
		NewCatalog(1, 1, all, os, nil)
	}
}
