package auth

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-dev/holdfast/limits"
)

func TestScopeSet_GrantsWhatIsIncludedAndNoMore(t *testing.T) { // API section 2
	t.Parallel()
	all := []Scope{ActFor, LimitsRead, LimitsWrite, HoldsRead, HoldsForce, AuditRead, Admin}
	for claim, want := range map[string][]Scope{
		"":                        nil,
		"act-for":                 {ActFor},
		"limits:read":             {LimitsRead},
		"limits:write":            {LimitsRead, LimitsWrite},
		"holds:read":              {HoldsRead},
		"holds:force":             {HoldsRead, HoldsForce},
		"audit:read":              {AuditRead},
		"admin":                   all,
		"audit:read  limits:read": {AuditRead, LimitsRead},
		"Admin ADMIN admin\t \nadmin administrator \u00a0admin": nil,
	} {
		set := ParseScopes(claim)
		granted := map[Scope]bool{}
		for _, s := range want {
			granted[s] = true
		}
		for _, s := range all {
			if got := (Principal{Scopes: set}).Has(s); got != granted[s] {
				t.Errorf("scope %q: Has(%s) = %t, want %t", claim, s, got, granted[s])
			}
		}
		for _, unknown := range []Scope{"", "root"} {
			if set.Has(unknown) {
				t.Errorf("scope %q: Has(%q) = true, want false", claim, unknown)
			}
		}
		if again := ParseScopes(set.String()); again != set {
			t.Errorf("scope %q: String %q reads back as another set", claim, set)
		}
	}
}

func TestPrincipal_MayActFor(t *testing.T) { // FAULTS section 3 row 13
	t.Parallel()
	me, other, org := limits.Subject{Kind: "user", ID: "me"}, limits.Subject{Kind: "user", ID: "other"}, limits.Subject{Kind: "org", ID: "acme"}
	patterns := func(texts ...string) []SubjectPattern {
		list := []SubjectPattern{}
		for _, s := range texts {
			list = append(list, must(ParseSubjectPattern(s))(t))
		}
		return list
	}
	for _, c := range []struct {
		name, scope string
		patterns    []SubjectPattern
		may, mayNot []limits.Subject
	}{
		{"no scope", "", nil, []limits.Subject{me}, []limits.Subject{other, org, {Kind: "org", ID: "me"}, {}}},
		{"patterns without the scope", "holds:force", patterns("user:*"), []limits.Subject{me}, []limits.Subject{other, org}},
		{"any", "act-for", nil, []limits.Subject{me, other, org}, nil},
		{"admin", "admin", nil, []limits.Subject{me, other, org}, nil},
		{"one kind", "act-for", patterns("user:*"), []limits.Subject{me, other}, []limits.Subject{org, {Kind: "users", ID: "a"}}},
		{"one subject", "admin", patterns("org:acme"), []limits.Subject{me, org}, []limits.Subject{other, {Kind: "org", ID: "acme2"}}},
		{"an empty list", "act-for", patterns(), []limits.Subject{me}, []limits.Subject{other, org}},
		{"a star inside is a letter", "act-for", patterns("user:o*"), []limits.Subject{me, {Kind: "user", ID: "o*"}}, []limits.Subject{other}},
	} {
		p := Principal{Subject: me, Scopes: ParseScopes(c.scope), Patterns: c.patterns}
		for _, s := range c.may {
			if !p.MayActFor(s) {
				t.Errorf("%s: MayActFor(%v) = false, want true", c.name, s)
			}
		}
		for _, s := range c.mayNot {
			if p.MayActFor(s) {
				t.Errorf("%s: MayActFor(%v) = true, want false", c.name, s)
			}
		}
	}
}

func TestSubjectPattern_ReadsBack(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"user:*", "org:acme", "user:a:b", "user:**"} {
		if got := must(ParseSubjectPattern(text))(t).String(); got != text {
			t.Errorf("ParseSubjectPattern(%q).String() = %q", text, got)
		}
	}
}

func TestPrincipal_IDIsInjective(t *testing.T) { // FAULTS section 3 row 9
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		// Few letters, the fences among them, so that collisions would be found.
		word := rapid.StringOfN(rapid.SampledFrom([]rune("a:1/")), 0, 6, -1)
		kind := rapid.StringMatching(`[a-z][a1]{0,2}`)
		draw := func() Principal {
			return Principal{Issuer: word.Draw(t, "iss"), Subject: limits.Subject{Kind: kind.Draw(t, "kind"), ID: word.Draw(t, "sub")}}
		}
		a, b := draw(), draw()
		same := a.Issuer == b.Issuer && a.Subject == b.Subject
		if (a.ID() == b.ID()) != same {
			t.Fatalf("%+v has ID %q, %+v has ID %q", a, a.ID(), b, b.ID())
		}
	})
	a := Principal{Issuer: "i", Subject: limits.Subject{Kind: "user", ID: "s"}, TokenID: "1", Tenant: "x"}
	b := Principal{Issuer: "i", Subject: limits.Subject{Kind: "user", ID: "s"}, TokenID: "2", Scopes: ParseScopes("admin")}
	if a.ID() != b.ID() {
		t.Errorf("another token of the same caller: ID %q, want %q", b.ID(), a.ID())
	}
}

// The rule for sub and that for subject.id are one (API section 2): a token must not name a
// subject that no request could name, nor the other way round.
func TestSubjectRules_AreThoseOfLimits(t *testing.T) { // FAULTS section 3 rows 10 and 11
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := limits.Subject{
			Kind: rapid.OneOf(rapid.StringMatching(`[a-zA-Z0-9_:*-]{0,34}`), rapid.String()).Draw(t, "kind"),
			ID: rapid.OneOf(
				rapid.StringN(0, 90, -1),
				rapid.StringOfN(rapid.SampledFrom([]rune("a\x00\x7f\u0085\u00a0\ufffdé")), 0, 4, -1),
				rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 6), func(b []byte) string { return string(b) }),
				rapid.Map(rapid.IntRange(253, 258), func(n int) string { return strings.Repeat("s", n) }),
			).Draw(t, "id"),
		}
		got, fault := validKind(s.Kind) && validText(s.ID), s.Validate()
		if got != (fault == nil) {
			t.Fatalf("subject %+q: accepted here: %t; by limits: %v", s, got, fault)
		}
	})
}
