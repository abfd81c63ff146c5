package api

import (
	"errors"
	"reflect"
	"testing"
	"time"
)

// The test cases of RFC 7396, appendix A.
func TestMergePatch_CasesOfTheRFC(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]string{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`["a","b"]`, `["c","d"]`, `["c","d"]`},
		{`{"a":"b"}`, `["c"]`, `["c"]`},
		{`{"a":"foo"}`, `null`, `null`},
		{`{"a":"foo"}`, `"bar"`, `"bar"`},
		{`{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`},
		{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
	} {
		got, err := MergePatch([]byte(c[0]), []byte(c[1]))
		if err != nil || string(got) != c[2] {
			t.Errorf("MergePatch(%s, %s) = %s, %v, want %s", c[0], c[1], got, err, c[2])
		}
	}
}

func patchable() Limit {
	return Limit{
		ID: "calls", Name: "Calls", SubjectKind: "user", Action: "call", Amount: 100, Window: "day", Rolling: true,
		Share: "each", OnExpiry: "charge", Overage: "reject", TTLSeconds: 60, MaxTTLSeconds: 600, Enabled: true,
		Paused: true, PauseReason: "rebuilding", PausedUntil: &Time{time.Date(2026, 9, 4, 0, 0, 0, 0, time.UTC)},
		Labels: map[string]string{"team": "core", "tier": "1"}, Revision: 7, UpdatedBy: "user:ops", Source: "api",
	}
}

func TestPatchLimit(t *testing.T) {
	t.Parallel()
	whole, err := PatchLimit(patchable(), []byte(`{}`))
	if err != nil {
		t.Fatalf("the empty patch: %v", err)
	}
	for name, c := range map[string]struct {
		patch  string
		change func(*LimitInput)
	}{
		"nothing":             {`{}`, func(*LimitInput) {}},
		"one field":           {`{"amount":5}`, func(l *LimitInput) { l.Amount = 5 }},
		"null is the default": {`{"ttlSeconds":null,"share":null}`, func(l *LimitInput) { l.TTLSeconds, l.Share = nil, "" }},
		"the end of a pause":  {`{"pausedUntil":null}`, func(l *LimitInput) { l.PausedUntil = nil }},
		"one label":           {`{"labels":{"tier":null,"zone":"b"}}`, func(l *LimitInput) { l.Labels = map[string]string{"team": "core", "zone": "b"} }},
		"all labels":          {`{"labels":null}`, func(l *LimitInput) { l.Labels = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := PatchLimit(patchable(), []byte(c.patch))
			if err != nil {
				t.Fatalf("PatchLimit(%s): %v", c.patch, err)
			}
			want := whole
			c.change(&want)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("PatchLimit(%s)\n got %+v\nwant %+v", c.patch, got, want)
			}
		})
	}
	if whole.Name != "Calls" || *whole.TTLSeconds != 60 || !*whole.Enabled || !whole.Rolling {
		t.Errorf("the empty patch changed the limit: %+v", whole)
	}
}

// CASES O20: the limit's own body, sent back unchanged.
func TestPatchLimit_ItsOwnBody(t *testing.T) {
	t.Parallel()
	body, err := AppendJSON(nil, patchable())
	if err != nil {
		t.Fatal(err)
	}
	got, err := PatchLimit(patchable(), body)
	if err != nil {
		t.Fatalf("PatchLimit(%s): %v", body, err)
	}
	if want, _ := PatchLimit(patchable(), []byte(`{}`)); !reflect.DeepEqual(got, want) {
		t.Errorf("PatchLimit(%s)\n got %+v\nwant %+v", body, got, want)
	}
}

func TestPatchLimit_Refuses(t *testing.T) {
	t.Parallel()
	for patch, want := range map[string]Fault{
		`{"amount":null}`:            {"/amount", string(InvalidValue)},
		`{"amount":1.5}`:             {"/amount", string(InvalidValue)},
		`{"ttlSeconds":1}`:           {"/ttlSeconds", string(InvalidValue)},
		`{"amount":"5"}`:             {"/amount", string(InvalidBody)},
		`{"rate":5}`:                 {"/rate", string(InvalidBody)},
		`{"rate":null}`:              {"/rate", string(InvalidBody)},
		`{"Amount":null}`:            {"/Amount", string(InvalidBody)},
		`{"labels":{"a":1}}`:         {"/labels/a", string(InvalidBody)},
		`{"amount":1,"amount":2}`:    {"/amount", string(InvalidBody)},
		`{"labels":{"a":"","a":""}}`: {"/labels/a", string(InvalidBody)},
		`{"amount":1} {}`:            {"", string(InvalidBody)},
		`{"name":"\ud800"}`:          {"/name", string(InvalidBody)},
		`null`:                       {"", string(InvalidBody)},
		`[]`:                         {"", string(InvalidBody)},
		``:                           {"", string(InvalidBody)},
	} {
		_, err := PatchLimit(patchable(), []byte(patch))
		var bad *DecodeError
		if !errors.As(err, &bad) {
			t.Errorf("PatchLimit(%s) = %v, want a *DecodeError", patch, err)
			continue
		}
		if got := (Fault{bad.Faults[0].Pointer, string(bad.Code)}); got != want {
			t.Errorf("PatchLimit(%s) = %v, want %v", patch, got, want)
		}
	}
}
