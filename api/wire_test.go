package api

import (
	"encoding/json"
	"testing"
	"time"
)

func TestTime_CutsToMilliseconds(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("", 2*3600)
	for want, in := range map[string]time.Time{
		`"2026-09-04T10:00:00.999Z"`: time.Date(2026, 9, 4, 12, 0, 0, 999_999_999, zone),
		`"2026-09-04T12:00:00.000Z"`: time.Date(2026, 9, 4, 12, 0, 0, 0, time.UTC),
		`"0000-01-01T00:00:00.000Z"`: time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC),
		`"9999-12-31T23:59:59.999Z"`: time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC),
	} {
		got, err := json.Marshal(At(in))
		if err != nil || string(got) != want {
			t.Errorf("%s is written %s, %v, want %s", in, got, err, want)
		}
		var back Time
		if err := json.Unmarshal(got, &back); err != nil || !back.Equal(in.Truncate(time.Millisecond)) {
			t.Errorf("%s is read back as %s, %v", got, back, err)
		}
	}
}

func TestTime_RefusesToWriteOtherYears(t *testing.T) {
	t.Parallel()
	for _, in := range []time.Time{time.Date(-1, 12, 31, 0, 0, 0, 0, time.UTC), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)} {
		if got, err := json.Marshal(At(in)); err == nil {
			t.Errorf("year %d is written %s, want an error", in.Year(), got)
		}
	}
}

func TestTime_RefusesWhatIsNotRFC3339(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		``, `null`, `1757000000`, `""`, `"now"`, `"2026-09-04"`, `"2026-09-04T12:00Z"`, `"2026-09-04 12:00:00Z"`,
		`"2026-09-04T1:00:00Z"`, `"2026-09-04T12:00:00,5Z"`, `"2026-09-04T12:00:00+24:00"`, `"2026-09-04T12:00:00+02:60"`,
		`"2026-09-04T12:00:00"`, `"2026-09-04T24:00:00Z"`, `"2026-09-04T12:00:00Zx"`,
	} {
		var got Time
		if err := json.Unmarshal([]byte(text), &got); err == nil {
			t.Errorf("%s is read as %s, want an error", text, got)
		}
	}
}

func TestNullable_TellsThreeThingsApart(t *testing.T) {
	t.Parallel()
	type box struct {
		N Nullable[int64] `json:"n,omitzero"`
	}
	for text, want := range map[string]box{
		`{}`:         {},
		`{"n":null}`: {Null[int64]()},
		`{"n":7}`:    {Val(int64(7))},
	} {
		var got box
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s is read as %+v, %v, want %+v", text, got, err, want)
		}
		if back, err := json.Marshal(want); err != nil || string(back) != text {
			t.Errorf("%+v is written %s, %v, want %s", want, back, err, text)
		}
	}
}

// Rule: API.md section 7: one status a code, 4xx for the caller's part and 5xx for ours.
func TestCodes_StatusTitleAndType(t *testing.T) {
	t.Parallel()
	byStatus := map[int]int{}
	titles := map[string]Code{}
	for _, c := range Codes() {
		byStatus[c.Status()]++
		if other, twice := titles[c.Title()]; twice || c.Title() == "" {
			t.Errorf("%s has the title %q of %s", c, c.Title(), other)
		}
		titles[c.Title()] = c
		p := NewProblem(c, "detail")
		if p.Code != c || p.Status != c.Status() || p.Type != "https://holdfast.dev/problems/"+string(c) || p.Title != c.Title() {
			t.Errorf("NewProblem(%s) = %+v", c, p)
		}
	}
	want := map[int]int{400: 4, 401: 1, 403: 1, 404: 1, 405: 1, 413: 1, 415: 1, 409: 5, 410: 2, 412: 1, 428: 1, 422: 6, 429: 7, 500: 1, 503: 8}
	for status, n := range want {
		if byStatus[status] != n {
			t.Errorf("%d codes of status %d, want %d", byStatus[status], status, n)
		}
	}
	if len(byStatus) != len(want) {
		t.Errorf("statuses %v, want those of %v", byStatus, want)
	}
}

func TestCodes_UnknownOneIsOurFault(t *testing.T) {
	t.Parallel()
	if c := Code("no-such"); c.Known() || c.Status() != 500 || NewProblem(c, "").Code != Internal {
		t.Errorf("an unknown code: known %v, status %d, problem %+v", c.Known(), c.Status(), NewProblem(c, ""))
	}
}

func TestCodes_RetryAfterOnlyOn429And503(t *testing.T) {
	t.Parallel()
	for _, c := range Codes() {
		if want := c.Status() == 429 || c.Status() == 503; c.RetryAfter() != want {
			t.Errorf("%s (%d): RetryAfter %v, want %v", c, c.Status(), c.RetryAfter(), want)
		}
	}
}
