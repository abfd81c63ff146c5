package store

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

var testKeys = newKeyspace(DefaultRoot)

var sampleID = reserve.ID{0x00, 0x44, 0x32, 0x14, 0xc7, 0x42, 0x54, 0xb6, 0x35, 0xcf, 0x84, 0x65, 0x3a, 0x56, 0xd7, 0xc6}

// TestKeys_Golden lists the layout of DESIGN.md section 3, one key of each kind and each
// awkward name. A change here is a change of what is on disk.
func TestKeys_Golden(t *testing.T) {
	t.Parallel()
	id := strings.TrimPrefix(sampleID.String(), idPrefix)
	for _, c := range []struct {
		ref reserve.Ref
		key string
	}{
		{reserve.Ref{Tenant: "default", Kind: reserve.RefCatalog}, "t/default/catalog"},
		{reserve.Ref{Tenant: "default", Kind: reserve.RefFile}, "t/default/file"},
		{reserve.Ref{Tenant: "default", Kind: reserve.RefPlan, Scope: "user/u_42"}, "t/default/plans/user/u_42"},
		{reserve.Ref{Tenant: "default", Kind: reserve.RefLimit, Limit: "exports"}, "t/default/limits/exports"},
		{reserve.Ref{Tenant: "default", Kind: reserve.RefOverride, Limit: "exports"}, "t/default/overrides/exports"},
		{reserve.Ref{Tenant: "default", Kind: reserve.RefOverride, Limit: "exports", Scope: "user/u_42"}, "t/default/overrides/exports/user/u_42"},
		{reserve.Ref{Tenant: "default", Kind: reserve.RefSlot, Limit: "exports", Scope: "user/u_42"}, "t/default/slots/exports/user/u_42/0"},
		{reserve.Ref{Tenant: "default", Kind: reserve.RefSlot, Limit: "exports", Scope: "user/u_42", N: 9223372036854775807}, "t/default/slots/exports/user/u_42/9223372036854775807"},
		{reserve.Ref{Tenant: "default", Kind: reserve.RefSlot, Limit: "gpu", Scope: limits.AllScope, N: 12}, "t/default/slots/gpu/_/12"},
		{reserve.Ref{Tenant: "default", Kind: reserve.RefHold, ID: sampleID}, "t/default/holds/" + id},
		{reserve.Ref{Tenant: "default", Kind: reserve.RefOpen, ID: sampleID}, "t/default/open/" + id},
		{reserve.Ref{Tenant: "default", Kind: reserve.RefEnded, ID: sampleID}, "t/default/ended/" + id},
		{reserve.Ref{Tenant: "default", Kind: reserve.RefUsage, Scope: "user/u_42"}, "t/default/usage/user/u_42"},
		{reserve.Ref{Tenant: "default", Kind: reserve.RefUsage, Scope: limits.AllScope, Limit: "gpu"}, "t/default/usage/_/gpu"},
		{reserve.Ref{Tenant: "default", Kind: reserve.RefBlock, Scope: "user/u_42"}, "t/default/blocks/user/u_42"},
		{reserve.Ref{Tenant: "default", Kind: reserve.RefReplay, ID: sampleID}, "t/default/replays/" + id},
		{reserve.Ref{Tenant: "default", Kind: reserve.RefTicket, Limit: "exports", Scope: "user/u_42", N: 9223372036854775807}, "t/default/line/exports/user/u_42/09223372036854775807"},
		{reserve.Ref{Tenant: "default", Kind: reserve.RefTicket, Limit: "gpu", Scope: limits.AllScope, N: 12}, "t/default/line/gpu/_/00000000000000000012"},
		{reserve.Ref{Tenant: "default", Kind: reserve.RefTrail, N: 9223372036854775807}, "t/default/audit/09223372036854775807"},
		{reserve.Ref{Tenant: "default", Kind: reserve.RefRollup, Limit: "exports", N: 501_000}, "t/default/rollups/exports/00000000000000501000"},
		{reserve.Ref{Tenant: "default", Kind: reserve.RefTally, Limit: "exports"}, "t/default/tallies/exports/00000000000000000000"},
		{reserve.Ref{Tenant: "default", Kind: reserve.RefExceeded, Limit: "exports", Scope: "user/u_42"}, "t/default/marks/exports/user/u_42"},
		{reserve.Ref{Tenant: "default", Kind: reserve.RefExceeded, Limit: "gpu", Scope: limits.AllScope}, "t/default/marks/gpu/_"},
		{reserve.Ref{Tenant: "default", Kind: reserve.RefWebhook, Scope: "wh_1"}, "t/default/webhooks/wh_1"},
		{reserve.Ref{Tenant: "default", Kind: reserve.RefDelivery, Scope: "wh_1"}, "t/default/deliveries/wh_1"},
		{reserve.Ref{Tenant: "default", Kind: reserve.RefParcel, Scope: "wh_1", N: 12}, "t/default/outbox/wh_1/00000000000000000012"},
		{reserve.Ref{Kind: reserve.RefDuty, Scope: "webhooks"}, "duties/webhooks"},
		{reserve.Ref{Kind: reserve.RefReplica, Scope: "r1.example:8080"}, "replicas/r1.example%3A8080"},
		{reserve.Ref{Kind: reserve.RefSecret, Scope: "cursors"}, "secrets/cursors"},

		{reserve.Ref{Tenant: "a/b", Kind: reserve.RefUsage, Scope: "user/x/y"}, "t/a%2Fb/usage/user/x%2Fy"},
		{reserve.Ref{Tenant: ".", Kind: reserve.RefUsage, Scope: "user/.."}, "t/%2E/usage/user/%2E%2E"},
		{reserve.Ref{Tenant: "a", Kind: reserve.RefUsage, Scope: "user/..."}, "t/a/usage/user/..."},
		{reserve.Ref{Tenant: "a", Kind: reserve.RefUsage, Scope: "user/_"}, "t/a/usage/user/_"},
		{reserve.Ref{Tenant: "a", Kind: reserve.RefUsage, Scope: "_/gpu"}, "t/a/usage/%5F/gpu"},
		{reserve.Ref{Tenant: "a", Kind: reserve.RefUsage, Scope: "user/é %\x00\xff"}, "t/a/usage/user/%C3%A9%20%25%00%FF"},
	} {
		if got := string(testKeys.key(c.ref)); got != DefaultRoot+c.key {
			t.Errorf("key of %+v: got %q, want %q", c.ref, got, DefaultRoot+c.key)
		}
		if got, ok := testKeys.parse([]byte(DefaultRoot + c.key)); !ok || got != c.ref {
			t.Errorf("ref of %q: got %+v, %v; want %+v", c.key, got, ok, c.ref)
		}
	}
}

// TestKeys_ForeignAreLeftAlone lists keys that another version or another program wrote.
func TestKeys_ForeignAreLeftAlone(t *testing.T) {
	t.Parallel()
	id := strings.TrimPrefix(sampleID.String(), idPrefix)
	for _, key := range []string{
		"/holdfast/v2/t/a/catalog", "/holdfast/v1", "",
		DefaultRoot, DefaultRoot + "schema", DefaultRoot + "t/", DefaultRoot + "t/a", DefaultRoot + "t/a/", DefaultRoot + "t//catalog",
		DefaultRoot + "t/a/catalog/", DefaultRoot + "t/a/catalog/x", DefaultRoot + "t/a/limits", DefaultRoot + "t/a/limits/",
		DefaultRoot + "t/a/limits/x/y", DefaultRoot + "t/a/limits/a%2fb", DefaultRoot + "t/a/limits/%41", DefaultRoot + "t/a/limits/%4",
		DefaultRoot + "t/a/limits/%", DefaultRoot + "t/a/limits/a b", DefaultRoot + "t/a/limits/.", DefaultRoot + "t/a/limits/%2E%2E%2E",
		DefaultRoot + "t/a/limits/%GG", DefaultRoot + "t/a/limits/%5F",
		DefaultRoot + "t/a/overrides/x/", DefaultRoot + "t/a/overrides/x/user", DefaultRoot + "t/a/overrides/x/_", DefaultRoot + "t/a/overrides/x/user/u/v",
		DefaultRoot + "t/a/slots/x/user/u", DefaultRoot + "t/a/slots/x/user/u/", DefaultRoot + "t/a/slots/x/user/u/01", DefaultRoot + "t/a/slots/x/user/u/+1",
		DefaultRoot + "t/a/slots/x/user/u/-1", DefaultRoot + "t/a/slots/x/user/u/9223372036854775808", DefaultRoot + "t/a/slots/x/_/u/1",
		DefaultRoot + "t/a/slots/x/1", DefaultRoot + "t/a/slots//user/u/1", DefaultRoot + "t/a/slots/x/a%2Fb/u/1",
		DefaultRoot + "t/a/open/", DefaultRoot + "t/a/open/" + id[1:], DefaultRoot + "t/a/open/" + strings.ToLower(id), DefaultRoot + "t/a/open/" + id[:25] + "1",
		DefaultRoot + "t/a/usage/_", DefaultRoot + "t/a/usage/user", DefaultRoot + "t/a/blocks/_/x",
		DefaultRoot + "t/a/line/x/user/u/0000000000000000001", DefaultRoot + "t/a/line/x/user/u/10000000000000000000", DefaultRoot + "t/a/line/x/user/u/+0000000000000000001", DefaultRoot + "t/a/marks/x", DefaultRoot + "t/a/marks/x/_/u", DefaultRoot + "t/a/outbox/1",
		DefaultRoot + "t/a/audit/", DefaultRoot + "t/a/audit/1", DefaultRoot + "t/a/audit/-9223372036854775807", DefaultRoot + "t/a/audit/99999999999999999999",
		DefaultRoot + "t/a/rollups/x", DefaultRoot + "t/a/rollups//00000000000000000000", DefaultRoot + "t/a/tallies/x/0000000000000000000",
		DefaultRoot + "replicas/", DefaultRoot + "replicas/a/b", DefaultRoot + "secrets/", DefaultRoot + "elsewhere/a",
	} {
		if got, ok := testKeys.parse([]byte(key)); ok {
			t.Errorf("ref of %q: got %+v, want none", key, got)
		}
	}
}

// name draws a name of a key: any bytes but none, often awkward ones.
func name() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom([]string{".", "..", "_", "/", "%", "%2F", "a/b", "a", "ab", "a.", "\x00", "\xff", "é", "0", "catalog"}),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 1, 12), func(b []byte) string { return string(b) }),
	)
}

// anyRef draws a ref of any kind. Only a subject's kind is not free: it has no slash.
func anyRef() *rapid.Generator[reserve.Ref] {
	return rapid.Custom(func(t *rapid.T) reserve.Ref {
		r := reserve.Ref{Kind: reserve.RefKind(rapid.IntRange(int(reserve.RefCatalog), int(reserve.RefSecret)).Draw(t, "kind"))}
		if r.Kind == reserve.RefReplica || r.Kind == reserve.RefSecret || r.Kind == reserve.RefDuty {
			r.Scope = name().Draw(t, "name")
			return r
		}
		r.Tenant = name().Draw(t, "tenant")
		subject := func() string {
			kind := name().Filter(func(s string) bool { return !strings.Contains(s, "/") }).Draw(t, "subject kind")
			return limits.Subject{Kind: kind, ID: name().Draw(t, "subject id")}.Scope()
		}
		switch r.Kind {
		case reserve.RefLimit:
			r.Limit = name().Draw(t, "limit")
		case reserve.RefOverride:
			r.Limit = name().Draw(t, "limit")
			if rapid.Bool().Draw(t, "one") {
				r.Scope = subject()
			}
		case reserve.RefPlan, reserve.RefBlock:
			r.Scope = subject()
		case reserve.RefSlot, reserve.RefTicket, reserve.RefUsage:
			if r.Scope = limits.AllScope; rapid.Bool().Draw(t, "each") {
				r.Scope = subject()
			}
			if r.Kind != reserve.RefUsage {
				r.N = rapid.Int64Range(0, 1<<62).Draw(t, "n")
			}
			if r.Kind != reserve.RefUsage || r.Scope == limits.AllScope {
				r.Limit = name().Draw(t, "limit")
			}
		case reserve.RefWebhook, reserve.RefDelivery:
			r.Scope = name().Draw(t, "id")
		case reserve.RefParcel:
			r.Scope, r.N = name().Draw(t, "id"), rapid.Int64Range(0, 1<<62).Draw(t, "n")
		case reserve.RefExceeded:
			r.Limit, r.Scope = name().Draw(t, "limit"), limits.AllScope
			if rapid.Bool().Draw(t, "each") {
				r.Scope = subject()
			}
		case reserve.RefTrail, reserve.RefRollup, reserve.RefTally:
			r.N = rapid.Int64Range(0, 1<<62).Draw(t, "n")
			if r.Kind != reserve.RefTrail {
				r.Limit = name().Draw(t, "limit")
			}
		case reserve.RefHold, reserve.RefOpen, reserve.RefEnded, reserve.RefReplay:
			copy(r.ID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		}
		return r
	})
}

// FAULTS section 3, row 9: distinct refs, distinct keys, none a path above another.
func TestKeys_AreInjective(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyRef().Draw(t, "a"), anyRef().Draw(t, "b")
		x, y := string(testKeys.key(a)), string(testKeys.key(b))
		if (a == b) != (x == y) {
			t.Fatalf("%+v and %+v have the keys %q and %q", a, b, x, y)
		}
		forEveryone := a.Kind == reserve.RefOverride && a.Scope == ""
		if strings.HasPrefix(y, x+"/") && !forEveryone {
			t.Fatalf("the key of %+v, %q, is a path above that of %+v, %q", a, x, b, y)
		}
	})
}

// The same over every way to move a slash from one part to the next, which two refs drawn at
// random hardly ever are.
func TestKeys_AreInjectiveWhereSlashesMove(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "a/b", "b/a", "a/", "/a", "a/b/a", "%2F", "a%2Fb", "."}
	seen := map[string]reserve.Ref{}
	for _, tenant := range names {
		for _, limit := range names {
			for _, id := range names {
				r := reserve.Ref{Tenant: tenant, Kind: reserve.RefOverride, Limit: limit, Scope: limits.Subject{Kind: "k", ID: id}.Scope()}
				key := string(testKeys.key(r))
				if other, taken := seen[key]; taken {
					t.Fatalf("%+v and %+v have the key %q", other, r, key)
				}
				seen[key] = r
			}
		}
	}
}

func TestKeys_RoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := anyRef().Draw(t, "ref")
		key := testKeys.key(want)
		if got, ok := testKeys.parse(key); !ok || got != want {
			t.Fatalf("ref of %q: got %+v, %v; want %+v", key, got, ok, want)
		}
	})
}

// Keys of one family lie between its prefix and its end, and no other keys do.
func TestKeys_FamiliesAreRanges(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyRef().Draw(t, "a"), anyRef().Draw(t, "b")
		if families := a.Tenant != "" && a.Kind != reserve.RefCatalog; !families {
			return
		}
		prefix, key := testKeys.family(a.Tenant, a.Kind), string(testKeys.key(b))
		inside := key >= prefix && key < end(prefix)
		if same := a.Tenant == b.Tenant && a.Kind == b.Kind; inside != same {
			t.Fatalf("%q lies in [%q, %q): %v, want %v", key, prefix, end(prefix), inside, same)
		}
	})
}

func TestKeys_AscendingIDsAreAscendingKeys(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyID(t), anyID(t)
		x := string(testKeys.key(reserve.Ref{Tenant: "a", Kind: reserve.RefOpen, ID: a}))
		y := string(testKeys.key(reserve.Ref{Tenant: "a", Kind: reserve.RefOpen, ID: b}))
		if (string(a[:]) < string(b[:])) != (x < y) {
			t.Fatalf("%x, %x have the keys %q, %q", a, b, x, y)
		}
		if !strings.HasSuffix(x, strings.TrimPrefix(a.String(), idPrefix)) {
			t.Fatalf("key of %v: got %q, want its text in it", a, x)
		}
	})
}

func anyID(t *rapid.T) (id reserve.ID) {
	copy(id[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
	return id
}

func TestKeys_CostOneAllocation(t *testing.T) {
	r := reserve.Ref{Tenant: "default", Kind: reserve.RefSlot, Limit: "exports", Scope: "user/u_42", N: 3}
	key := testKeys.key(r)
	buf := make([]byte, 0, 200)
	for name, c := range map[string]struct {
		most float64
		f    func()
	}{
		"key":    {1, func() { _ = testKeys.key(r) }},
		"append": {0, func() { _ = testKeys.append(buf, r) }},
		"parse":  {1, func() { _, _ = testKeys.parse(key) }},
	} {
		if got := testing.AllocsPerRun(100, c.f); got > c.most {
			t.Errorf("%s of %+v: %v allocations, want at most %v", name, r, got, c.most)
		}
	}
}

// FuzzParse: whatever is parsed is spelt in exactly one way.
func FuzzParse(f *testing.F) {
	f.Add("t/default/slots/exports/user/u_42/0")
	f.Add("t/default/overrides/exports")
	f.Add("t/a/usage/_/gpu")
	f.Add("t/%2E/usage/%5F/%2E%2E")
	f.Add("t/a/open/" + strings.TrimPrefix(sampleID.String(), idPrefix))
	f.Add("replicas/r1")
	f.Fuzz(func(t *testing.T, rest string) {
		key := DefaultRoot + rest
		r, ok := testKeys.parse([]byte(key))
		if !ok {
			return
		}
		if got := string(testKeys.key(r)); got != key {
			t.Errorf("%q is read as %+v, which is spelt %q", key, r, got)
		}
	})
}

func BenchmarkKey(b *testing.B) {
	r := reserve.Ref{Tenant: "default", Kind: reserve.RefSlot, Limit: "exports", Scope: "user/u_42", N: 3}
	key := testKeys.key(r)
	b.Run("spell", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = testKeys.key(r)
		}
	})
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = testKeys.parse(key)
		}
	})
}
