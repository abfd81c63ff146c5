package api

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// fill draws a value for every field, so that one forgotten in an encoder shows.
func fill(t *rapid.T, v reflect.Value) {
	if v.Type() == timeType {
		ms := rapid.Int64Range(-62135596800000, 253402300799999).Draw(t, "ms") // years 1 to 9999
		zone := time.FixedZone("", int(rapid.Int64Range(-43200, 43200).Draw(t, "zone")))
		v.Set(reflect.ValueOf(Time{time.UnixMilli(ms).In(zone)}))
		if y := v.Interface().(Time).UTC().Year(); y < 0 || y > 9999 {
			t.Skip("outside the years of RFC 3339")
		}
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(rapid.OneOf(rapid.StringMatching(`[a-z0-9_ :.-]{0,12}`), rapid.String(), rapid.Just("a\xffb<&>\u2028\"\\\x00\x7f")).Draw(t, "text"))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, "whole"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "truth"))
	case reflect.Pointer:
		if rapid.Bool().Draw(t, "given") {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, v.Elem())
		}
	case reflect.Slice:
		if n := rapid.IntRange(-1, 2).Draw(t, "length"); n >= 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				fill(t, v.Index(i))
			}
		}
	case reflect.Map:
		if n := rapid.IntRange(-1, 3).Draw(t, "length"); n >= 0 {
			v.Set(reflect.ValueOf(rapid.MapOfN(rapid.String(), rapid.String(), n, n).Draw(t, "map")))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	default:
		t.Fatalf("cannot fill %s", v.Type())
	}
}

func TestAppendJSON_IsWhatEncodingJSONSays(t *testing.T) {
	t.Parallel()
	for _, like := range []any{CheckAnswer{}, Reservation{}, Problem{}, Verdict{}, HeartbeatResult{}} {
		t.Run(reflect.TypeOf(like).Name(), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				v := reflect.New(reflect.TypeOf(like))
				fill(t, v.Elem())
				want, err := json.Marshal(v.Interface())
				if err != nil {
					t.Fatalf("encoding/json: %v", err)
				}
				for _, form := range []any{v.Interface(), v.Elem().Interface()} {
					got, err := AppendJSON([]byte("before"), form)
					if err != nil || string(got) != "before"+string(want) {
						t.Fatalf("AppendJSON(%T)\n got %s, %v\nwant before%s", form, got, err, want)
					}
				}
			})
		})
	}
}

// at makes an instant of the golden documents.
func at(second int) Time { return At(time.Date(2026, 9, 4, 12, 0, second, 999_999, time.UTC)) }

func goldens() map[string]any {
	verdict := Verdict{ID: "exports", Window: "concurrent", Amount: 3, Used: 1, Remaining: 2, Allowed: true}
	refusing := Verdict{ID: "exports", Window: "concurrent", Amount: 3, Used: 3, RetryAfterSeconds: new(int64(22)), RetryAfterMs: new(int64(21_400))}
	rolling := Verdict{
		ID: "calls", Window: "day", Rolling: true, Amount: 100, Used: 8, Remaining: 92, Allowed: true,
		ResetsAt: AtPtr(at(0).Time), ResetsInSeconds: new(int64(87012)),
	}
	held := Reservation{
		ID: "rsv_06C8Q4M2T0V3W6X9Y1Z4A7B2CG", State: StateHeld, Subject: Subject{"user", "u_42"}, Action: "export",
		Cost: 1, Slots: []Slot{{"exports", 0}}, Fence: 1874, CreatedAt: at(0), ExpiresAt: AtPtr(at(300).Time),
		TTLSeconds: new(int64(300)), HeartbeatSeconds: new(int64(100)), Labels: map[string]string{}, Limits: []Verdict{},
	}
	committed := held
	committed.State, committed.ExpiresAt, committed.TTLSeconds, committed.HeartbeatSeconds = StateCommitted, nil, nil, nil
	committed.EndedAt, committed.EndedBy = AtPtr(at(10).Time), "user:u_42"
	committed.Charged, committed.Refunded = new(int64(1)), new(int64(0))
	full := NewProblem(NoFreeSlot, "exports allows 3 at once for user:u_42 and 3 are held; the earliest expires in 22 s, a release may come sooner.")
	full.DecidedBy, full.Amount, full.Used, full.Waiting = "exports", new(int64(3)), new(int64(3)), new(int64(4))
	full.RetryAfterSeconds, full.Limits = new(int64(22)), []Verdict{refusing}
	full.Holders = []Holder{{ID: held.ID, Slot: 2, Owner: Owner{Name: "sleep", Host: "w7"}, HeldSeconds: 8, ExpiresInSeconds: 22}}
	bad := NewProblem(InvalidValue, "Two fields are wrong.")
	bad.Errors = []Fault{{"/cost", "must be 0 to 1000000000"}, {"/ttlSeconds", "must be 2 to 3600"}}
	return map[string]any{
		"reservation-held": &held, "reservation-committed": &committed,
		"check-allowed":   &CheckAnswer{Allowed: true, Mode: ModeReserve, Reservation: &held, Limits: []Verdict{verdict, rolling}},
		"check-unmatched": &CheckAnswer{Allowed: true, Mode: ModeConsume, Limits: []Verdict{}},
		"check-refused": &CheckAnswer{
			Mode: ModeReserve, Limits: []Verdict{refusing, rolling}, Code: NoFreeSlot, DecidedBy: "exports",
			RetryAfterSeconds: new(int64(22)), Holders: full.Holders,
		},
		"problem-no-free-slot": &full, "problem-invalid-value": &bad,
		"override-unlimited": &Override{Limit: "exports", Base: 3, By: "user:ops", CreatedAt: at(0)},
		"limits-last-page":   &LimitPage{Data: []Limit{}},
	}
}

// The shapes of API.md's examples, to the byte.
func TestAppendJSON_Golden(t *testing.T) {
	t.Parallel()
	for name, v := range goldens() {
		got, err := AppendJSON(nil, v)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, append(got, '\n'), "", "  "); err != nil {
			t.Fatalf("%s: %s: %v", name, got, err)
		}
		file := filepath.Join("testdata", name+".json")
		if *update {
			if err := os.WriteFile(file, pretty.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(pretty.Bytes(), want) {
			t.Errorf("%s\n got %s\nwant %s", name, pretty.Bytes(), want)
		}
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	answer := goldens()["check-allowed"]
	b.Run("by hand", func(b *testing.B) {
		b.ReportAllocs()
		buf := make([]byte, 0, 2048)
		for b.Loop() {
			buf, _ = AppendJSON(buf[:0], answer)
		}
	})
	b.Run("encoding-json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = json.Marshal(answer)
		}
	})
}
