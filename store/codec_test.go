package store

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/store/storetest"
	"github.com/holdfast-dev/holdfast/windows"
)

// sample is a value under its key, and how it is written.
type sample struct {
	name  string
	ref   reserve.Ref
	value any
	bytes string // hex; for JSON the text after the version byte
}

var sampleTime = time.Date(2026, 11, 30, 12, 0, 0, 250_000_000, time.UTC)

var (
	sampleSlot = &reserve.Slot{
		Hold: sampleID, TTL: 30 * time.Second, Since: sampleTime, Beat: sampleTime.Add(10 * time.Second),
		Beats: 1, Name: "nightly-export", Host: "worker-17",
	}
	sampleOpen = &reserve.Record{
		ID: sampleID, State: reserve.Held, Subject: limits.Subject{Kind: "user", ID: "u_42"}, Action: "export.create",
		Cost: 1, TTL: 30 * time.Second, Principal: "https://issuer.example|u_42", CreatedAt: sampleTime,
		Places:  []reserve.Place{{Limit: "exports", Scope: "user/u_42", N: 2}},
		Charges: []reserve.Charge{{Limit: "export-calls", Scope: "user/u_42", Generation: 1, Slice: 29_933_280, Cost: 1}},
		Owner:   reserve.Owner{Name: "nightly-export", Host: "worker-17", PID: 4711},
	}
	sampleEnded = func() *reserve.Record {
		r := *sampleOpen
		r.State, r.Keyed, r.Body = reserve.Forced, true, [16]byte(sampleID)
		r.Places = append(r.Places[:1:1], reserve.Place{Limit: "gpu", Scope: limits.AllScope, N: 300}, reserve.Place{Limit: "team", Scope: "team/x"})
		r.Labels = map[string]string{"b": "2", "a": "1"}
		r.Fence, r.EndedAt, r.EndedBy, r.Note = 123_456_789, sampleTime.Add(time.Minute), "admin", "stuck"
		r.Charged, r.Refunded = 0, 1
		return &r
	}()
	sampleLimit = &limits.Limit{
		ID: "exports", Name: "Exports", SubjectKind: "user", Action: "export.create", Amount: 3,
		Window: windows.Window{Kind: windows.Hour, Rolling: true}, Share: limits.All, OnExpiry: limits.ChargeOnExpiry,
		Overage: limits.RejectOverage, TTL: 30 * time.Second, MaxTTL: time.Hour, Enabled: true, Paused: true,
		PauseReason: "audit", PausedUntil: sampleTime, Labels: map[string]string{"b": "2", "a": "1"}, Generation: 7,
		CreatedAt: sampleTime, UpdatedAt: sampleTime.Add(time.Second), UpdatedBy: "admin", Source: "file",
	}
)

var sampleLimit2 = &limits.Limit{
	ID: "exports", Amount: 3, Window: windows.Window{Kind: windows.Hour}, Shadow: true,
	Schedules: []limits.Schedule{{Cron: "0 8 * * *", Zone: "UTC", Amount: 5}},
	Turn:      limits.Turn{Amount: 5, At: sampleTime, Next: sampleTime.Add(time.Second)},
}

// ring is the use of a rolling window whose slices, from high backwards, hold the costs given;
// 0 is an empty slice.
func ring(high windows.Slice, costs ...int64) windows.Usage {
	u := windows.Usage{High: high}
	for i := len(costs) - 1; i >= 0; i-- {
		if costs[i] > 0 {
			u.Counts = append(u.Counts, windows.Count{Slice: high - windows.Slice(i), Cost: costs[i]})
		}
	}
	return u
}

func samples() []sample {
	kind := func(k reserve.RefKind) reserve.Ref { return reserve.Ref{Tenant: "default", Kind: k, ID: sampleID} }
	return []sample{
		{"seq", kind(reserve.RefCatalog), reserve.Seq(300), "01ac02"},
		{"secret", kind(reserve.RefSecret), reserve.Secret("abc"), "01616263"},
		{
			"slot", kind(reserve.RefSlot), sampleSlot,
			"0100443214c74254b635cf84653a56d7c61ef48b9cc5c568a09c01010e6e696768746c792d6578706f727409776f726b65722d3137",
		},
		{
			"slot of nobody", kind(reserve.RefHold), &reserve.Slot{TTL: 2 * time.Second},
			"010000000000000000000000000000000002ffdfe6a2e2a01c00000000",
		},
		{
			"open record", kind(reserve.RefOpen), sampleOpen,
			"01010209757365722f755f34320d6578706f72742e637265617465011ef48b9cc5c5681b68747470733a2f2f6973737565722e6578616d706c657c755f343201076578706f7274730002010c6578706f72742d63616c6c730001c0fbc51c010e6e696768746c792d6578706f727409776f726b65722d313700ce49",
		},
		{
			"ended record", kind(reserve.RefEnded), sampleEnded,
			"01050f09757365722f755f34320d6578706f72742e637265617465011ef48b9cc5c5681b68747470733a2f2f6973737565722e6578616d706c657c755f343203076578706f72747300020367707501ac02047465616d02067465616d2f7800010c6578706f72742d63616c6c730001c0fbc51c0100443214c74254b635cf84653a56d7c60e6e696768746c792d6578706f727409776f726b65722d313700ce49020161013101620132959aef3ac0a9070561646d696e05737475636b0001",
		},
		{
			"empty record", kind(reserve.RefOpen), &reserve.Record{ID: sampleID, State: reserve.Held},
			"010100012f000000ffdfe6a2e2a01c000000",
		},
		{
			"counts", kind(reserve.RefUsage),
			reserve.Counts{
				{Limit: "calls", Generation: 3, Use: ring(29_933_280, 5, 0, 0, 0, 64, 1)},
				{Limit: "cost", Generation: 1, Use: windows.Usage{High: 1_796_040_000_250_000_000, Level: 2_500_000_000}},
				{Limit: "total", Use: ring(0, 8192)},
			},
			"01030563616c6c7303c0fbc51c000300028001070a04636f73740180cad994a9b7e8ec3180f28ba8090005746f74616c0000000100808001",
		},
		{"no counts", kind(reserve.RefUsage), reserve.Counts{}, "0100"},
		{
			"replay", kind(reserve.RefReplay), &reserve.Replay{State: reserve.Committed, Principal: "u_42", Body: [16]byte(sampleID), At: sampleTime},
			"0102f48b9cc5c56800443214c74254b635cf84653a56d7c604755f3432",
		},
		{
			"ticket", kind(reserve.RefTicket), &reserve.Ticket{
				ID: sampleID, Replica: "r1", Subject: limits.Subject{Kind: "user", ID: "u_42"}, Action: "export", Cost: 2, Principal: "p",
				Owner: reserve.Owner{Name: "n", PID: 5}, Since: sampleTime, Until: sampleTime.Add(time.Second), Keyed: true, Body: [16]byte(sampleID),
			}, "010600443214c74254b635cf84653a56d7c602723109757365722f755f3432066578706f7274020170f48b9cc5c568d00f00443214c74254b635cf84653a56d7c6016e00000a",
		},
		{
			"rollup", kind(reserve.RefRollup),
			&reserve.Rollup{Started: 1, Refused: 2, Committed: 3, Released: 4, Expired: 5, Forced: 6, Charged: 300},
			"01010203040506ac02",
		},
		{
			"tally", kind(reserve.RefTally),
			&reserve.Tally{More: true, Subjects: []reserve.SubjectRollup{{Scope: "a/b", Rollup: reserve.Rollup{Started: 1}}}},
			"01010103612f6201000000000000",
		},
		{
			"mark", kind(reserve.RefExceeded), &reserve.Exceeded{At: sampleTime, Amount: 3, Used: 300, Action: "export"},
			"01f48b9cc5c56803ac02066578706f7274",
		},
		{
			"parcel", kind(reserve.RefParcel), &reserve.Parcel{Events: []reserve.Letter{{ID: "1.0", Type: "t", At: sampleTime, Limits: []string{"a"}, Body: []byte("{}")}}},
			"010103312e300174f48b9cc5c568010161027b7d",
		},
		{
			"webhook", kind(reserve.RefWebhook),
			&reserve.Webhook{URL: "https://a.example", Events: []string{"limit.exceeded"}, Secret: reserve.Secret("one"), At: sampleTime, By: "user:a"},
			`{"URL":"https://a.example","Events":["limit.exceeded"],"Secret":"b25l","Previous":null,"UntilMillis":null,"AtMillis":1796040000250,"By":"user:a"}`,
		},
		{
			"delivery", kind(reserve.RefDelivery), &reserve.Delivery{Rev: 1, Index: 2, First: 3, Next: 4, Queued: 5, FailedAt: sampleTime, Status: 500, Trouble: "status"},
			`{"Rev":1,"Index":2,"First":3,"Next":4,"Queued":5,"Accepted":0,"Failed":0,"Dropped":0,"Gaps":0,"AcceptedMillis":null,"FailedMillis":1796040000250,"Status":500,"Trouble":"status"}`,
		},
		{"duty", kind(reserve.RefDuty), &reserve.Duty{Replica: "r1", Since: sampleTime}, `{"Replica":"r1","SinceMillis":1796040000250}`},
		{
			"note", kind(reserve.RefTrail),
			&reserve.Note{At: sampleTime, Actor: "user:a", Changes: []reserve.Change{{Act: "limit.delete", Target: "x", Before: `{"amount":1}`}}},
			`{"AtMillis":1796040000250,"Actor":"user:a","Reason":"","Address":"","RequestID":"","Changes":[{"Act":"limit.delete","Target":"x","Before":"{\"amount\":1}","After":""}]}`,
		},
		{
			"limit", kind(reserve.RefLimit), sampleLimit,
			`{"ID":"exports","Name":"Exports","Description":"","SubjectKind":"user","Action":"export.create","Amount":3,"Window":"hour","Rolling":true,"RefillNanoUnits":0,"Share":"all","OnExpiry":"charge","Overage":"reject","TTLSeconds":30,"MaxTTLSeconds":3600,"Enabled":true,"Paused":true,"PauseReason":"audit","PausedUntilMillis":1796040000250,"Labels":{"a":"1","b":"2"},"Generation":7,"CreatedMillis":1796040000250,"UpdatedMillis":1796040001250,"UpdatedBy":"admin","Source":"file"}`,
		},
		{
			"limit of version 2", kind(reserve.RefLimit), sampleLimit2,
			`{"ID":"exports","Name":"","Description":"","SubjectKind":"","Action":"","Amount":3,"Window":"hour","Rolling":false,"RefillNanoUnits":0,"Share":"each","OnExpiry":"refund","Overage":"record","TTLSeconds":0,"MaxTTLSeconds":0,"Enabled":false,"Paused":false,"PauseReason":"","PausedUntilMillis":null,"Labels":null,"Generation":0,"CreatedMillis":null,"UpdatedMillis":null,"UpdatedBy":"","Source":"","Shadow":true,"Schedules":[{"Cron":"0 8 * * *","Zone":"UTC","Amount":5}],"TurnAmount":5,"TurnMillis":1796040000250,"NextTurnMillis":1796040001250}`,
		},
		{
			"override", kind(reserve.RefOverride), &limits.Override{
				Limit: "exports", Subject: limits.Subject{Kind: "user", ID: "u_42"}, Amount: 9, Until: sampleTime, Reason: "launch", By: "admin", CreatedAt: sampleTime,
			},
			`{"Limit":"exports","SubjectKind":"user","SubjectID":"u_42","Amount":9,"Unlimited":false,"UntilMillis":1796040000250,"Reason":"launch","By":"admin","CreatedMillis":1796040000250}`,
		},
		{
			"file", kind(reserve.RefFile), &limits.File{
				Digest: "ab", Plans: map[string]limits.Plan{"pro": {"exports": {Amount: 10}, "gpu": {Unlimited: true}}}, At: sampleTime, By: "admin",
			},
			`{"Digest":"ab","Plans":{"pro":{"exports":10,"gpu":null}},"AtMillis":1796040000250,"By":"admin"}`,
		},
		{
			"plan", kind(reserve.RefPlan), &limits.SubjectPlan{Subject: limits.Subject{Kind: "user", ID: "u_42"}, Plan: "pro", By: "admin", CreatedAt: sampleTime},
			`{"SubjectKind":"user","SubjectID":"u_42","Plan":"pro","By":"admin","CreatedMillis":1796040000250}`,
		},
		{
			"block", kind(reserve.RefBlock), &limits.Block{Subject: limits.Subject{Kind: "user", ID: "u_42"}, Reason: "abuse", By: "admin"},
			`{"SubjectKind":"user","SubjectID":"u_42","UntilMillis":null,"Reason":"abuse","By":"admin"}`,
		},
		{
			"replica", kind(reserve.RefReplica), &reserve.Replica{ID: "r1", Version: "v1.2.3", Address: "10.0.0.1:8080", Clock: sampleTime},
			`{"ID":"r1","Version":"v1.2.3","Address":"10.0.0.1:8080","ClockMillis":1796040000250}`,
		},
	}
}

func mustEncode(t testing.TB, kind reserve.RefKind, v any) []byte {
	t.Helper()
	b, err := encode(nil, kind, v)
	if err != nil {
		t.Fatalf("encode(%+v): %v", v, err)
	}
	return b
}

// TestCodec_Golden notices a change of format: what is on disk must stay readable.
func TestCodec_Golden(t *testing.T) {
	t.Parallel()
	for _, c := range samples() {
		got := mustEncode(t, c.ref.Kind, c.value)
		shown := hex.EncodeToString(got)
		if got[1] == '{' {
			shown = string(got[1:])
		}
		if shown != c.bytes {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, shown, c.bytes)
		}
		back, err := decode(c.ref, got)
		if err != nil || !reflect.DeepEqual(back, c.value) {
			t.Errorf("%s: read again as %+v, %v; want %+v", c.name, back, err, c.value)
		}
	}
}

// generators draw a value of each kind.
var generators = map[reserve.RefKind]*rapid.Generator[any]{
	reserve.RefCatalog:  rapid.Map(rapid.Int64Range(0, math.MaxInt64), func(n int64) any { return reserve.Seq(n) }),
	reserve.RefLimit:    storetest.Limits().AsAny(),
	reserve.RefOverride: storetest.Overrides().AsAny(),
	reserve.RefFile:     storetest.Files().AsAny(),
	reserve.RefPlan:     storetest.SubjectPlans().AsAny(),
	reserve.RefBlock:    storetest.Blocks().AsAny(),
	reserve.RefSlot:     storetest.Slots().AsAny(),
	reserve.RefHold:     storetest.Slots().AsAny(),
	reserve.RefOpen:     storetest.Records(false).AsAny(),
	reserve.RefEnded:    storetest.Records(true).AsAny(),
	reserve.RefUsage:    storetest.Counts().AsAny(),
	reserve.RefReplay:   storetest.Replays().AsAny(),
	reserve.RefTicket:   storetest.Tickets().AsAny(),
	reserve.RefTrail:    storetest.Notes().AsAny(),
	reserve.RefRollup:   storetest.Rollups().AsAny(),
	reserve.RefTally:    storetest.Tallies().AsAny(),
	reserve.RefExceeded: storetest.Marks().AsAny(),
	reserve.RefWebhook:  storetest.Webhooks().AsAny(),
	reserve.RefDelivery: storetest.Deliveries().AsAny(),
	reserve.RefParcel:   storetest.Parcels().AsAny(),
	reserve.RefDuty:     storetest.Duties().AsAny(),
	reserve.RefReplica:  storetest.Replicas().AsAny(),
	reserve.RefSecret:   rapid.Map(rapid.SliceOfN(rapid.Byte(), 1, 64), func(b []byte) any { return reserve.Secret(b) }),
}

// refOf is a key that v may stand under.
func refOf(kind reserve.RefKind, v any) reserve.Ref {
	r := reserve.Ref{Tenant: "default", Kind: kind, Limit: "exports", Scope: "user/u_42"}
	if record, ok := v.(*reserve.Record); ok {
		r.ID = record.ID
	}
	return r
}

func TestCodec_RoundTrip(t *testing.T) {
	t.Parallel()
	for kind := reserve.RefCatalog; kind <= reserve.RefSecret; kind++ {
		t.Run(kindName(kind), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				want := generators[kind].Draw(t, "value")
				before := []byte("what was there")
				b, err := encode(before, kind, want)
				if err != nil {
					t.Fatalf("encode(%+v): %v", want, err)
				}
				if !strings.HasPrefix(string(b), string(before)) {
					t.Fatalf("encode did not append: %x", b)
				}
				got, err := decode(refOf(kind, want), b[len(before):])
				if err != nil || !storetest.Same(got, want) {
					t.Fatalf("decode(%x): got %+v, %v; want %+v", b[len(before):], got, err, want)
				}
			})
		})
	}
}

// newest is the latest version of a kind's values.
func newest(kind reserve.RefKind) byte {
	if kind == reserve.RefLimit {
		return limitVersion
	}
	return version
}

// FAULTS rows 53 and 54: every byte is looked at.
func TestDecode_IsStrict(t *testing.T) {
	t.Parallel()
	for _, c := range samples() {
		good := mustEncode(t, c.ref.Kind, c.value)
		check := func(what string, b []byte, want error) {
			t.Helper()
			if got, err := decode(c.ref, b); !errors.Is(err, want) || got != nil {
				t.Errorf("%s, %s (%x): got %+v, %v; want %v", c.name, what, b, got, err, want)
			}
		}
		for n := range good {
			if c.ref.Kind == reserve.RefSecret && n > 1 {
				break // any bytes are a secret
			}
			check(fmt.Sprintf("cut to %d bytes", n), good[:n], reserve.ErrCorrupt)
		}
		if c.ref.Kind != reserve.RefSecret {
			check("with a byte more", append(good[:len(good):len(good)], 0), reserve.ErrCorrupt)
		}
		for _, v := range []byte{newest(c.ref.Kind) + 1, 99, 255} {
			check("of a newer version", append([]byte{v}, good[1:]...), reserve.ErrNewer)
		}
		check("of version 0", append([]byte{0}, good[1:]...), reserve.ErrCorrupt)
	}
}

// What could be spelt in two ways has one: another is corrupt.
func TestDecode_RefusesOtherSpellings(t *testing.T) {
	t.Parallel()
	slot := hex.EncodeToString(mustEncode(t, reserve.RefSlot, &reserve.Slot{TTL: 2 * time.Second}))
	record := hex.EncodeToString(mustEncode(t, reserve.RefOpen, &reserve.Record{
		ID: sampleID, State: reserve.Held, Subject: limits.Subject{Kind: "k", ID: "i"},
		Places: []reserve.Place{{Limit: "l", Scope: "k/i"}},
	}))
	limit := string(mustEncode(t, reserve.RefLimit, sampleLimit)[1:])
	asJSON := func(s string) string { return "01" + hex.EncodeToString([]byte(s)) }
	for _, c := range []struct {
		name  string
		kind  reserve.RefKind
		bytes string
	}{
		{"a long varint", reserve.RefCatalog, "018000"},
		{"a varint of more than 64 bits", reserve.RefCatalog, "01ffffffffffffffffff02"},
		{"a varint without end", reserve.RefCatalog, "01ffffffffffffffffffff01"},
		{"a number past 2^63", reserve.RefCatalog, "01ffffffffffffffffff01"},
		{"a ttl no duration holds", reserve.RefSlot, strings.Replace(slot, slot[34:36], "ffffffffffffffffff01", 1)},
		{"text longer than the value", reserve.RefSlot, slot[:len(slot)-2] + "7f"},
		{"an unknown state", reserve.RefOpen, record[:2] + "07" + record[4:]},
		{"no state", reserve.RefOpen, record[:2] + "00" + record[4:]},
		{"an unknown part", reserve.RefOpen, record[:4] + "10" + record[6:]},
		{"an owner who is nobody", reserve.RefOpen, record[:4] + "02" + record[6:] + "00000000"},
		{"no labels, spelt out", reserve.RefOpen, record[:4] + "04" + record[6:] + "00"},
		{"labels out of order", reserve.RefOpen, record[:4] + "04" + record[6:] + "0201620001610" + "0"},
		{"a label twice", reserve.RefOpen, record[:4] + "04" + record[6:] + "02016100016100"},
		{"an end that says nothing", reserve.RefOpen, record[:4] + "08" + record[6:] + "000000000000"},
		{"own scope, spelt out", reserve.RefOpen, strings.Replace(record, "01016c0000", "01016c02036b2f6900", 1)},
		{"everyone's scope, spelt out", reserve.RefOpen, strings.Replace(record, "01016c0000", "01016c02015f00", 1)},
		{"an unknown scope", reserve.RefOpen, strings.Replace(record, "01016c0000", "01016c0300", 1)},
		{"more places than bytes", reserve.RefOpen, strings.Replace(record, "01016c0000", "ff1f6c0000", 1)},
		{"more than the most", reserve.RefUsage, "018120" + strings.Repeat("00", 5*4097)},
		{"limits out of order", reserve.RefUsage, "0102" + "016200000000" + "016100000000"},
		{"a limit twice", reserve.RefUsage, "0102" + "016100000000" + "016100000000"},
		{"a cost of 0", reserve.RefUsage, "0101" + "016100000001" + "0000"},
		{"a ring that begins empty", reserve.RefUsage, "0101" + "016100000001" + "000302"},
		{"a run of no empty slices", reserve.RefUsage, "0101" + "016100000002" + "00020102"},
		{"two runs of empty slices", reserve.RefUsage, "0101" + "016100000002" + "0002030302"},
		{"a ring that ends empty", reserve.RefUsage, "0101" + "016100000002" + "000203"},
		{"a ring around the end of time", reserve.RefUsage, "0101" + "016100feffffffffffffffff0100" + "02" + "feffffffffffffffff01" + "02" + "ffffffffffffffff7f" + "02"},
		{"a ring of too many", reserve.RefUsage, "0101" + "01610000008101" + "00" + strings.Repeat("02", 129)},
		{"a subject without a kind", reserve.RefOpen, strings.Replace(record, "036b2f69", "036b6969", 1)},
		{"an empty secret", reserve.RefSecret, "01"},
		{"no JSON", reserve.RefLimit, asJSON("limit")},
		{"an unknown member", reserve.RefLimit, asJSON(strings.Replace(limit, `"Name"`, `"Nome"`, 1))},
		{"two values", reserve.RefLimit, asJSON(limit + "{}")},
		{"a fraction", reserve.RefLimit, asJSON(strings.Replace(limit, `"Amount":3`, `"Amount":3.5`, 1))},
		{"an unknown window", reserve.RefLimit, asJSON(strings.Replace(limit, `"hour"`, `"fortnight"`, 1))},
		{"an unknown share", reserve.RefLimit, asJSON(strings.Replace(limit, `"all"`, `"some"`, 1))},
		{"a negative ttl", reserve.RefLimit, asJSON(strings.Replace(limit, `"TTLSeconds":30`, `"TTLSeconds":-30`, 1))},
		{"a ttl no duration holds, in JSON", reserve.RefLimit, asJSON(strings.Replace(limit, `"TTLSeconds":30`, `"TTLSeconds":9223372037`, 1))},
		{"a list", reserve.RefOverride, asJSON("[]")},
		{"a number", reserve.RefBlock, asJSON("1")},
		{"a member of another type", reserve.RefReplica, asJSON(`{"ID":1}`)},
	} {
		b, err := hex.DecodeString(c.bytes)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got, err := decode(reserve.Ref{Kind: c.kind, ID: sampleID}, b); !errors.Is(err, reserve.ErrCorrupt) {
			t.Errorf("%s (%s): got %+v, %v; want ErrCorrupt", c.name, c.bytes, got, err)
		}
	}
}

func TestEncode_RefusesWhatNoRightProgramWrites(t *testing.T) {
	t.Parallel()
	counts := func(u windows.Usage) reserve.Counts { return reserve.Counts{{Limit: "a", Use: u}} }
	slices := func(c ...windows.Count) reserve.Counts { return counts(windows.Usage{Counts: c}) }
	for name, c := range map[string]struct {
		kind  reserve.RefKind
		value any
	}{
		"nothing":                {reserve.RefSlot, nil},
		"a slot by value":        {reserve.RefSlot, *sampleSlot},
		"a slot under a record":  {reserve.RefOpen, sampleSlot},
		"a record under a slot":  {reserve.RefSlot, sampleOpen},
		"a limit under a block":  {reserve.RefBlock, sampleLimit},
		"a string":               {reserve.RefSecret, "secret"},
		"an empty secret":        {reserve.RefSecret, reserve.Secret{}},
		"a negative seq":         {reserve.RefCatalog, reserve.Seq(-1)},
		"a broken ttl":           {reserve.RefSlot, &reserve.Slot{TTL: 2500 * time.Millisecond}},
		"a negative ttl":         {reserve.RefOpen, &reserve.Record{TTL: -time.Second}},
		"a negative cost":        {reserve.RefOpen, &reserve.Record{Cost: -1}},
		"a negative slot number": {reserve.RefOpen, &reserve.Record{Places: []reserve.Place{{N: -1}}}},
		"a body without a key":   {reserve.RefOpen, &reserve.Record{Body: [16]byte{1}}},
		"a kind with a slash":    {reserve.RefOpen, &reserve.Record{Subject: limits.Subject{Kind: "a/b", ID: "c"}}},
		"too many places":        {reserve.RefOpen, &reserve.Record{Places: make([]reserve.Place, maxItems+1)}},
		"counts out of order":    {reserve.RefUsage, reserve.Counts{{Limit: "b"}, {Limit: "a"}}},
		"a limit counted twice":  {reserve.RefUsage, reserve.Counts{{Limit: "a"}, {Limit: "a"}}},
		"a negative level":       {reserve.RefUsage, counts(windows.Usage{Level: -1})},
		"an empty slice":         {reserve.RefUsage, slices(windows.Count{Slice: 1})},
		"a negative slice":       {reserve.RefUsage, slices(windows.Count{Slice: 1, Cost: -1})},
		"slices out of order":    {reserve.RefUsage, slices(windows.Count{Slice: 2, Cost: 1}, windows.Count{Slice: 1, Cost: 1})},
		"a slice twice":          {reserve.RefUsage, slices(windows.Count{Slice: 2, Cost: 1}, windows.Count{Slice: 2, Cost: 1})},
		"slices worlds apart":    {reserve.RefUsage, slices(windows.Count{Slice: math.MinInt64, Cost: 1}, windows.Count{Slice: math.MaxInt64, Cost: 1})},
		"too many slices":        {reserve.RefUsage, counts(windows.Usage{Counts: make([]windows.Count, maxSlices+1)})},
	} {
		if b, err := encode(nil, c.kind, c.value); err == nil {
			t.Errorf("%s: got %x, want an error", name, b)
		}
	}
}

// DESIGN.md section 2: a further 100 bytes cost a few percent, 1 kB a third.
func TestCodec_Sizes(t *testing.T) {
	t.Parallel()
	full := func(cost int64) windows.Usage {
		costs := make([]int64, 61)
		for i := range costs {
			costs[i] = cost
		}
		return ring(29_933_280, costs...)
	}
	one := func(u windows.Usage) reserve.Counts { return reserve.Counts{{Limit: "calls", Generation: 1, Use: u}} }
	gaps := make([]int64, 61)
	for i := 0; i < len(gaps); i += 2 {
		gaps[i] = 1
	}
	sparse := make([]int64, 61)
	sparse[0], sparse[60] = 5, 5
	for _, c := range []struct {
		name  string
		kind  reserve.RefKind
		value any
		most  int
	}{
		{"slot", reserve.RefSlot, sampleSlot, 60},
		{"open record", reserve.RefOpen, sampleOpen, 150},
		{"ended record", reserve.RefEnded, sampleEnded, 210},
		{"replay", reserve.RefReplay, &reserve.Replay{State: reserve.Committed, Principal: "https://issuer.example|u_42", At: sampleTime}, 60},
		{"calendar count", reserve.RefUsage, one(ring(29_933_280, 12)), 20},
		{"full ring, costs of 50", reserve.RefUsage, one(full(50)), 61 + 20},
		{"full ring, costs of 5,000", reserve.RefUsage, one(full(5_000)), 2*61 + 20},
		{"full ring, costs of 1,000,000", reserve.RefUsage, one(full(1_000_000)), 3*61 + 20},
		{"every other slice", reserve.RefUsage, one(ring(29_933_280, gaps...)), 61 + 20},
		{"59 empty slices between two", reserve.RefUsage, one(ring(29_933_280, sparse...)), 3 + 18},
		{"bucket", reserve.RefUsage, one(windows.Usage{High: 1_796_040_000_250_000_000, Level: 2_500_000_000}), 30},
	} {
		got := len(mustEncode(t, c.kind, c.value))
		t.Logf("%-32s %4d bytes", c.name, got)
		if got > c.most {
			t.Errorf("%s: got %d bytes, want at most %d", c.name, got, c.most)
		}
	}
}

// A field added to a domain type must be written too, or be known not to be.
func TestCodec_WritesEveryField(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		value   any
		written int
		why     string
	}{
		{limits.Limit{}, 25, "all but Revision, which is the key's"},
		{limits.Override{}, 8, "all"},
		{limits.Block{}, 4, "all"},
		{windows.Window{}, 3, "all"},
		{windows.Usage{}, 3, "all"},
		{windows.Count{}, 2, "all"},
		{reserve.Replica{}, 4, "all"},
		{reserve.Slot{}, 7, "all"},
		{reserve.Record{}, 19, "all but ID, which is the key's"},
		{reserve.Place{}, 3, "all"},
		{reserve.Charge{}, 5, "all"},
		{reserve.Owner{}, 4, "all"},
		{reserve.Replay{}, 4, "all"},
		{reserve.LimitCount{}, 3, "all"},
	} {
		have := reflect.TypeOf(c.value).NumField()
		if strings.HasPrefix(c.why, "all but") {
			have--
		}
		if have != c.written {
			t.Errorf("%T has %d fields to write, the codec writes %d (%s)", c.value, have, c.written, c.why)
		}
	}
}

// FuzzDecode: no bytes make any decoder fail in another way than it says, and what decodes is
// what encoding gives. For JSON that holds of the value, not of its bytes.
func FuzzDecode(f *testing.F) {
	for _, c := range samples() {
		f.Add(uint8(c.ref.Kind), mustEncode(f, c.ref.Kind, c.value))
	}
	f.Fuzz(func(t *testing.T, kind uint8, b []byte) {
		r := reserve.Ref{Kind: reserve.RefKind(kind%uint8(reserve.RefSecret)) + 1, ID: sampleID}
		v, err := decode(r, b)
		if err != nil {
			if v != nil || !errors.Is(err, reserve.ErrCorrupt) && !errors.Is(err, reserve.ErrNewer) {
				t.Fatalf("decode(%d, %x): got %+v, %v", r.Kind, b, v, err)
			}
			return
		}
		again, err := encode(nil, r.Kind, v)
		if err != nil {
			t.Fatalf("decode(%d, %x) gives %+v, which cannot be encoded: %v", r.Kind, b, v, err)
		}
		if isJSON(r.Kind) {
			back, err := decode(r, again)
			if err != nil || !reflect.DeepEqual(back, v) {
				t.Fatalf("decode(%d, %x) gives %+v, which comes back as %+v, %v", r.Kind, b, v, back, err)
			}
			return
		}
		if string(again) != string(b) {
			t.Fatalf("decode(%d, %x) gives %+v, which is encoded %x", r.Kind, b, v, again)
		}
	})
}

func isJSON(kind reserve.RefKind) bool {
	switch kind {
	case reserve.RefLimit, reserve.RefOverride, reserve.RefFile, reserve.RefPlan, reserve.RefBlock, reserve.RefTrail, reserve.RefReplica,
		reserve.RefWebhook, reserve.RefDelivery, reserve.RefDuty:
		return true
	}
	return false
}

func BenchmarkCodec(b *testing.B) {
	costs := make([]int64, 61)
	for i := range costs {
		costs[i] = 5_000
	}
	for name, v := range map[string]any{
		"slot": sampleSlot, "record": sampleOpen,
		"ring": reserve.Counts{{Limit: "calls", Generation: 1, Use: ring(29_933_280, costs...)}},
	} {
		kind := map[string]reserve.RefKind{"slot": reserve.RefSlot, "record": reserve.RefOpen, "ring": reserve.RefUsage}[name]
		buf := make([]byte, 0, 512)
		b.Run(name+"/encode", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = encode(buf, kind, v)
			}
		})
		value := mustEncode(b, kind, v)
		b.Run(name+"/decode", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = decode(reserve.Ref{Kind: kind}, value)
			}
		})
	}
}
