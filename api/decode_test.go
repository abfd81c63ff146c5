package api

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

const fullCheck = `{"subject":{"kind":"user","id":"u_42"},"action":"export","mode":"reserve","cost":1,"ttlSeconds":300,"waitSeconds":0,
 "owner":{"name":"report-991","host":"w7","pid":4711,"url":"https://ci.example/991"},"labels":{"job":"991"}}`

func TestDecode_CheckOfTheContract(t *testing.T) {
	t.Parallel()
	var got CheckRequest
	if err := Decode([]byte(fullCheck), &got); err != nil {
		t.Fatalf("Decode(%s): %v", fullCheck, err)
	}
	want := CheckRequest{
		Subject: &Subject{"user", "u_42"}, Action: "export", Mode: ModeReserve, Cost: new(int64(1)),
		TTLSeconds: new(int64(300)), WaitSeconds: new(int64(0)),
		Owner:  &Owner{Name: "report-991", Host: "w7", PID: 4711, URL: "https://ci.example/991"},
		Labels: map[string]string{"job": "991"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Decode(%s)\n got %+v\nwant %+v", fullCheck, got, want)
	}
}

// What may look odd and is right all the same.
func TestDecode_Accepts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		into any
		body string
		want any
	}{
		"only what is required":      {&CheckRequest{}, `{"action":"a"}`, &CheckRequest{Action: "a"}},
		"white space all around":     {&CheckRequest{}, " \r\n\t{ \"action\" : \"a\" } \n", &CheckRequest{Action: "a"}},
		"escapes":                    {&CheckRequest{}, `{"action":"\u0061\/\"\\\n\ud83d\ude00"}`, &CheckRequest{Action: "a/\"\\\n😀"}},
		"an escaped name":            {&CheckRequest{}, `{"\u0061ction":"a"}`, &CheckRequest{Action: "a"}},
		"text beyond ASCII":          {&CheckRequest{}, `{"action":"é😀"}`, &CheckRequest{Action: "é😀"}},
		"a minus before nought":      {&CheckRequest{}, `{"action":"a","cost":-0}`, &CheckRequest{Action: "a", Cost: new(int64(0))}},
		"a bound":                    {&CommitRequest{}, `{"cost":1000000000}`, &CommitRequest{Cost: new(int64(1000000000))}},
		"nothing where all may lack": {&ExtendRequest{}, `{}`, &ExtendRequest{}},
		"an empty list":              {&HeartbeatRequest{}, `{"ids":[]}`, &HeartbeatRequest{IDs: []string{}}},
		"an empty map":               {&CheckRequest{}, `{"action":"a","labels":{}}`, &CheckRequest{Action: "a", Labels: map[string]string{}}},
		"null for unlimited":         {&OverrideInput{}, `{"amount":null}`, &OverrideInput{Amount: Null[int64]()}},
		"a number for an override":   {&OverrideInput{}, `{"amount":10}`, &OverrideInput{Amount: Val(int64(10))}},
		"the greatest fence":         {&FenceRequest{}, `{"limit":"l","subject":{"kind":"u","id":"i"},"slot":0,"fence":9223372036854775807}`, &FenceRequest{Limit: "l", Subject: Subject{"u", "i"}, Fence: 9223372036854775807}},
		"an instant in a zone": {
			&OverrideInput{}, `{"amount":1,"until":"2026-09-04T20:00:00.5+02:00"}`,
			&OverrideInput{Amount: Val(int64(1)), Until: &Time{time.Date(2026, 9, 4, 18, 0, 0, 5e8, time.UTC)}},
		},
		"plans": {
			&LimitsFile{}, `{"limits":[],"plans":{"pro":{"exports":{"amount":10}}}}`,
			&LimitsFile{Limits: []LimitInput{}, Plans: map[string]map[string]PlanAmount{"pro": {"exports": {Val(int64(10))}}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := Decode([]byte(c.body), c.into); err != nil {
				t.Fatalf("Decode(%s): %v", c.body, err)
			}
			if !reflect.DeepEqual(c.into, c.want) {
				t.Errorf("Decode(%s)\n got %+v\nwant %+v", c.body, c.into, c.want)
			}
		})
	}
}

func TestDecode_ReadOnlyFieldsAreTakenWhateverTheyAre(t *testing.T) {
	t.Parallel()
	const body = `{"name":"n","subjectKind":"*","action":"*","amount":0,"window":"bucket","refillPerSecond":0.5,
		"revision":12,"createdAt":null,"updatedAt":[1.5,{"a":true}],"updatedBy":{},"source":"api"}`
	var got LimitInput
	if err := Decode([]byte(body), &got); err != nil {
		t.Fatalf("Decode(%s): %v", body, err)
	}
	if string(got.UpdatedAt) != `[1.5,{"a":true}]` || *got.RefillPerSecond != 0.5 {
		t.Errorf("Decode(%s) = %+v", body, got)
	}
}

// What is above the bound of a list is not kept, and said to be too many once.
func TestDecode_ListsAreBounded(t *testing.T) {
	t.Parallel()
	ids := strings.TrimSuffix(strings.Repeat(`"a",`, MaxHeartbeats+7), ",")
	var got HeartbeatRequest
	err := Decode([]byte(`{"ids":[`+ids+`]}`), &got)
	var bad *DecodeError
	if !errors.As(err, &bad) || len(bad.Faults) != 1 || bad.Faults[0].Pointer != "/ids" {
		t.Errorf("Decode of %d ids: %v, want one fault at /ids", MaxHeartbeats+7, err)
	}
	if len(got.IDs) != MaxHeartbeats {
		t.Errorf("Decode kept %d ids, want %d", len(got.IDs), MaxHeartbeats)
	}
}

func TestDecode_TellsAllAtOnce(t *testing.T) {
	t.Parallel()
	const body = `{"subject":{"kind":"user"},"mode":"take","cost":-1,"ttlSeconds":1.5,"owner":{"pid":1e3}}`
	var got CheckRequest
	err := Decode([]byte(body), &got)
	var bad *DecodeError
	if !errors.As(err, &bad) || bad.Code != InvalidValue {
		t.Fatalf("Decode(%s): %v, want %s", body, err, InvalidValue)
	}
	want := []string{"/subject/id", "/mode", "/cost", "/ttlSeconds", "/owner/pid", "/action"}
	if pointers := pointersOf(bad); !slices.Equal(pointers, want) {
		t.Errorf("Decode(%s) names %v, want %v", body, pointers, want)
	}
	if got.Subject == nil || got.Subject.Kind != "user" {
		t.Errorf("Decode(%s) left out what was right: %+v", body, got.Subject)
	}
}

func TestDecode_BodyFaultsComeFirst(t *testing.T) {
	t.Parallel()
	const body = `{"cost":-1,"tll":3,"action":7}`
	err := Decode([]byte(body), &CheckRequest{})
	var bad *DecodeError
	if !errors.As(err, &bad) || bad.Code != InvalidBody {
		t.Fatalf("Decode(%s): %v, want %s", body, err, InvalidBody)
	}
	if got, want := pointersOf(bad), []string{"/tll", "/action", "/cost"}; !slices.Equal(got, want) {
		t.Errorf("Decode(%s) names %v, want %v", body, got, want)
	}
}

func TestDecodeError_And(t *testing.T) {
	t.Parallel()
	var none *DecodeError
	if got := none.And(); got != nil {
		t.Errorf("nothing and nothing: got %v, want nil", got)
	}
	first := none.And(Fault{"/a", "one"})
	got := first.And(Fault{"/a", "two"}, Fault{"/b", "three"})
	if want := (&DecodeError{InvalidValue, []Fault{{"/a", "one"}, {"/b", "three"}}}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A body of the greatest size with a fault in each place is answered briefly.
func TestDecode_FaultsAreBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1000)
	var b strings.Builder
	b.WriteString(`{"action":"a"`)
	for b.Len() < MaxBody-2000 {
		b.WriteString(`,"` + long + `":1`)
	}
	b.WriteString("}")
	err := Decode([]byte(b.String()), &CheckRequest{})
	var bad *DecodeError
	if !errors.As(err, &bad) || len(bad.Faults) != maxFault || len(bad.Error()) > maxFault*(maxName+60) {
		t.Errorf("Decode of unknown names: %d bytes of faults", len(err.Error()))
	}
}

func pointersOf(e *DecodeError) (all []string) {
	for _, f := range e.Faults {
		all = append(all, f.Pointer)
	}
	return all
}

func BenchmarkDecode(b *testing.B) {
	for name, body := range map[string]string{
		"small": `{"subject":{"kind":"user","id":"u_42"},"action":"export"}`,
		"full":  fullCheck,
	} {
		data := []byte(body)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var r CheckRequest
				if err := Decode(data, &r); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/encoding-json", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var r CheckRequest
				if err := json.Unmarshal(data, &r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
