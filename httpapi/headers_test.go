package httpapi

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/windows"
)

func newExchange() (*httptest.ResponseRecorder, *exchange) {
	rec := httptest.NewRecorder()
	return rec, &exchange{ResponseWriter: rec, id: "req-1"}
}

func contains(s, part string) bool { return strings.Contains(s, part) }

func TestSeconds_ErrOnTheSafeSide(t *testing.T) { // CASES O18
	t.Parallel()
	for _, one := range []struct {
		d                time.Duration
		up, down, millis int64
	}{
		{-time.Second, 1, 0, 1},
		{0, 1, 0, 1},
		{1, 1, 0, 1},
		{600 * time.Millisecond, 1, 0, 600},
		{time.Second, 1, 1, 1000},
		{time.Second + 1, 2, 1, 1001},
		{1999 * time.Millisecond, 2, 1, 1999},
		{time.Hour, 3600, 3600, 3_600_000},
	} {
		if up, down, ms := secondsUp(one.d), secondsDown(one.d), millisUp(one.d); up != one.up || down != one.down || ms != one.millis {
			t.Errorf("%s: got up %d, down %d, ms %d, want %d, %d, %d", one.d, up, down, ms, one.up, one.down, one.millis)
		}
	}
}

var noon = time.Date(2026, 2, 3, 12, 0, 0, 0, time.UTC)

func verdict(id string, amount int64, w windows.Window, why reserve.Why, remaining int64) reserve.Verdict {
	l := limits.Limit{ID: id, Amount: amount, Window: w, Action: "export", SubjectKind: "user"}
	return reserve.Verdict{Rule: limits.Rule{Limit: &l, Amount: amount}, Scope: "user/u_42", Why: why, Used: amount - remaining, Remaining: remaining}
}

func TestSetRateLimit(t *testing.T) { // API.md section 7
	t.Parallel()
	day, month := windows.Window{Kind: windows.Day, Rolling: true}, windows.Window{Kind: windows.Month}
	slots, total, bucket := windows.Window{Kind: windows.Concurrent}, windows.Window{Kind: windows.Total}, windows.Window{Kind: windows.Bucket}
	full := verdict("exports", 3, slots, reserve.NoSlot, 0)
	full.RetryAt = noon.Add(21*time.Second + 1)
	used := verdict("calls", 100, day, reserve.Fits, 92)
	used.ResetsAt = noon.Add(87012 * time.Second)
	paused := verdict("crawl", 10, month, reserve.Paused, 4)
	free := verdict("free", 5, total, reserve.Fits, 5)
	free.Rule.Amount, free.Rule.Unlimited, free.Remaining = limits.NoCeiling, true, limits.NoCeiling
	for _, one := range []struct {
		name          string
		d             reserve.Decision
		policy, state string
	}{
		{
			"refused",
			reserve.Decision{At: noon, Binding: 0, Verdicts: []reserve.Verdict{full}},
			`"exports";q=3;qu="concurrent-requests"`, `"exports";r=0;t=22`,
		},
		{
			"allowed",
			reserve.Decision{At: noon, Allowed: true, Binding: -1, Verdicts: []reserve.Verdict{used, verdict("b", 20, bucket, reserve.Fits, 20)}},
			`"calls";q=100;w=86400, "b";q=20`, `"calls";r=92;t=87012, "b";r=20`,
		},
		{
			"no t is later than Retry-After",
			reserve.Decision{At: noon, Binding: 1, Verdicts: []reserve.Verdict{used, full}},
			`"calls";q=100;w=86400, "exports";q=3;qu="concurrent-requests"`, `"calls";r=92, "exports";r=0;t=22`,
		},
		{
			"paused",
			reserve.Decision{At: noon, Binding: 0, Verdicts: []reserve.Verdict{paused}},
			`"crawl";q=10;w=2419200`, `"crawl";r=0`,
		},
		{
			"unlimited stays within a structured integer",
			reserve.Decision{At: noon, Allowed: true, Binding: -1, Verdicts: []reserve.Verdict{free}},
			`"free";q=999999999999999`, `"free";r=999999999999999`,
		},
		{
			"blocked",
			reserve.Decision{At: noon, Binding: -1, Block: &limits.Block{}, Verdicts: []reserve.Verdict{used}},
			`"calls";q=100;w=86400`, `"calls";r=92`,
		},
		{"no limit", reserve.Decision{At: noon, Allowed: true, Binding: -1}, "", ""},
	} {
		h := http.Header{}
		setRateLimit(h, &one.d)
		if policy, state := h.Get("RateLimit-Policy"), h.Get("RateLimit"); policy != one.policy || state != one.state {
			t.Errorf("%s: got %s and %s, want %s and %s", one.name, policy, state, one.policy, one.state)
		}
	}
}

func FuzzSFString(f *testing.F) {
	f.Add(`a"b\c`)
	f.Add("é\x00\x7f")
	f.Fuzz(func(t *testing.T, s string) {
		out := string(appendSFString(nil, s))
		back, ok := unquoteSF(out)
		if !ok || !strings.HasPrefix(out, `"`) {
			t.Fatalf("%q is written as %s, which is no structured string", s, out)
		}
		for i := range len(back) {
			if s[i] != back[i] && (back[i] != '?' || s[i] >= 0x20 && s[i] <= 0x7e) {
				t.Fatalf("%q comes back as %q", s, back)
			}
		}
	})
}

func TestIfMatch(t *testing.T) { // FAULTS 1.4, API.md section 3
	t.Parallel()
	for _, one := range []struct {
		given     []string
		revisions []int64
		any       bool
		err       error
	}{
		{nil, nil, false, errNoIfMatch},
		{[]string{`"918004"`}, []int64{918004}, false, nil},
		{[]string{`"1", "2"`}, []int64{1, 2}, false, nil},
		{[]string{`"1"`, `"2"`}, []int64{1, 2}, false, nil},
		{[]string{`*`}, nil, true, nil},
		{[]string{`W/"1"`}, nil, false, nil}, // never equal
		{[]string{`"abc"`}, nil, false, nil}, // a tag, but none of ours
		{[]string{`"-1"`}, nil, false, nil},
		{[]string{`1`}, nil, false, errBadIfMatch},
		{[]string{``}, nil, false, errBadIfMatch},
		{[]string{`"1`}, nil, false, errBadIfMatch},
		{[]string{`"1", *`}, nil, false, errBadIfMatch},
		{[]string{`"1""2"`}, nil, false, errBadIfMatch},
	} {
		h := http.Header{}
		for _, v := range one.given {
			h.Add("If-Match", v)
		}
		m, err := ifMatch(h)
		if !slices.Equal(m.revisions, one.revisions) || m.any != one.any || err != one.err { //nolint:errorlint // the very value
			t.Errorf("If-Match %q: got %v, %v, %v, want %v, %v, %v", one.given, m.revisions, m.any, err, one.revisions, one.any, one.err)
		}
	}
}
