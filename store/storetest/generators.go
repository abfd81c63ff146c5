package storetest

import (
	"slices"
	"time"
	"unicode"

	"pgregory.net/rapid"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

// Instants draws instants of the years 1970 to 2400 in UTC, to the millisecond.
func Instants() *rapid.Generator[time.Time] {
	const last = 13_569_465_600_000 // 2400-01-01 in Unix milliseconds
	return rapid.Map(rapid.Int64Range(1, last), func(ms int64) time.Time { return time.UnixMilli(ms).UTC() })
}

// instantOrNone also draws the zero time.
func instantOrNone() *rapid.Generator[time.Time] {
	return rapid.OneOf(rapid.Just(time.Time{}), Instants())
}

// text draws valid UTF-8 of at most so many bytes, awkward for whoever joins or escapes it.
func text(mostBytes int) *rapid.Generator[string] {
	awkward := rapid.SampledFrom([]string{
		"", " ", "/", "a/b", "a:b", "%2F", "%", "..", ".", "_", "*", "\u00e9", "e\u0301", "\u00a0", "a b", "\u2028", "😀", `"\`,
	})
	drawn := rapid.StringOfN(rapid.RuneFrom(nil, unicode.L, unicode.N, unicode.P, unicode.S), 0, -1, mostBytes)
	return rapid.OneOf(awkward, drawn).Filter(func(s string) bool { return len(s) <= mostBytes })
}

// Subjects draws valid subjects.
func Subjects() *rapid.Generator[limits.Subject] {
	return rapid.Custom(func(t *rapid.T) limits.Subject {
		return limits.Subject{
			Kind: rapid.StringMatching(`[a-z][a-z0-9_-]{0,31}`).Draw(t, "kind"),
			ID:   text(limits.MaxSubjectID).Draw(t, "id"),
		}
	}).Filter(func(s limits.Subject) bool { return s.Validate() == nil })
}

func limitIDs() *rapid.Generator[string] {
	return rapid.StringMatching(`[a-z0-9][a-z0-9._-]{0,62}`)
}

// scopes draws the scope of a subject, or that of all.
func scopes() *rapid.Generator[string] {
	return rapid.OneOf(rapid.Just(limits.AllScope), rapid.Map(Subjects(), limits.Subject.Scope))
}

// IDs draws ids of reservations.
func IDs() *rapid.Generator[reserve.ID] {
	return rapid.Custom(func(t *rapid.T) (id reserve.ID) {
		copy(id[:], rapid.SliceOfN(rapid.Byte(), len(id), len(id)).Draw(t, "id"))
		return id
	})
}

func ttls() *rapid.Generator[time.Duration] {
	return rapid.Map(rapid.Int64Range(2, 3600), func(s int64) time.Duration { return time.Duration(s) * time.Second })
}

// count draws numbers from 0 upwards, mostly small ones.
func count() *rapid.Generator[int64] {
	return rapid.OneOf(rapid.Int64Range(0, 100), rapid.Int64Range(0, 1<<62))
}

func labels() *rapid.Generator[map[string]string] {
	key := text(limits.MaxLabelKey).Filter(func(s string) bool { return s != "" })
	return rapid.MapOfN(key, text(limits.MaxLabelValue), 0, 4)
}

// Slots draws slots, as they stand under slot and hold keys.
func Slots() *rapid.Generator[*reserve.Slot] {
	return rapid.Custom(func(t *rapid.T) *reserve.Slot {
		return &reserve.Slot{
			Hold: IDs().Draw(t, "hold"), TTL: ttls().Draw(t, "ttl"),
			Since: Instants().Draw(t, "since"), Beat: Instants().Draw(t, "beat"), Beats: count().Draw(t, "beats"),
			Name: text(reserve.MaxOwnerName).Draw(t, "name"), Host: text(reserve.MaxOwnerName).Draw(t, "host"),
		}
	})
}

// Tickets draws callers that wait in line.
func Tickets() *rapid.Generator[*reserve.Ticket] {
	return rapid.Custom(func(t *rapid.T) *reserve.Ticket {
		ticket := &reserve.Ticket{
			ID: IDs().Draw(t, "id"), Replica: text(60).Draw(t, "replica"), Subject: Subjects().Draw(t, "subject"),
			Action: limits.Action(text(limits.MaxAction).Draw(t, "action")), Cost: rapid.Int64Range(0, reserve.MaxCost).Draw(t, "cost"),
			Principal: text(300).Draw(t, "principal"), Since: Instants().Draw(t, "since"), Until: Instants().Draw(t, "until"),
			Away: rapid.Bool().Draw(t, "away"), Keyed: rapid.Bool().Draw(t, "keyed"),
		}
		if rapid.Bool().Draw(t, "owned") {
			ticket.Owner = owners().Draw(t, "owner")
		}
		if ticket.Keyed {
			ticket.Body = IDs().Draw(t, "body")
		}
		return ticket
	})
}

// Replicas draws what replicas tell of themselves.
func Replicas() *rapid.Generator[*reserve.Replica] {
	return rapid.Custom(func(t *rapid.T) *reserve.Replica {
		return &reserve.Replica{
			ID: text(60).Draw(t, "id"), Version: text(30).Draw(t, "version"),
			Address: text(100).Draw(t, "address"), Clock: Instants().Draw(t, "clock"),
		}
	})
}

// Notes draws notes of the audit trail.
func Notes() *rapid.Generator[*reserve.Note] {
	change := rapid.Custom(func(t *rapid.T) reserve.Change {
		return reserve.Change{
			Act: text(30).Draw(t, "act"), Target: text(300).Draw(t, "target"),
			Before: reserve.Facts{"amount": count().Draw(t, "amount"), "reason": text(60).Draw(t, "reason")}.String(),
			After:  rapid.SampledFrom([]string{"", `{"paused":true}`}).Draw(t, "after"),
		}
	})
	return rapid.Custom(func(t *rapid.T) *reserve.Note {
		return &reserve.Note{
			At: Instants().Draw(t, "at"), Actor: text(300).Draw(t, "actor"), Reason: text(512).Draw(t, "reason"),
			Address: text(60).Draw(t, "address"), RequestID: text(128).Draw(t, "request"),
			Changes: rapid.SliceOfN(change, 0, 3).Draw(t, "changes"),
		}
	})
}

// Marks draws notes that a limit was exceeded.
func Marks() *rapid.Generator[*reserve.Exceeded] {
	return rapid.Custom(func(t *rapid.T) *reserve.Exceeded {
		return &reserve.Exceeded{
			At: Instants().Draw(t, "at"), Amount: count().Draw(t, "amount"), Used: count().Draw(t, "used"), Action: limits.Action(text(128).Draw(t, "action")),
		}
	})
}

// Rollups draws the counts of an hour.
func Rollups() *rapid.Generator[*reserve.Rollup] {
	return rapid.Custom(func(t *rapid.T) *reserve.Rollup {
		var r reserve.Rollup
		for _, n := range []*int64{&r.Started, &r.Refused, &r.Committed, &r.Released, &r.Expired, &r.Forced, &r.Charged} {
			*n = count().Draw(t, "n")
		}
		return &r
	})
}

// Tallies draws the counts of an hour by subject.
func Tallies() *rapid.Generator[*reserve.Tally] {
	return rapid.Custom(func(t *rapid.T) *reserve.Tally {
		tally := &reserve.Tally{More: rapid.Bool().Draw(t, "more")}
		of := rapid.SliceOfNDistinct(scopes(), 0, 5, rapid.ID).Draw(t, "scopes")
		slices.Sort(of)
		for _, scope := range of {
			tally.Subjects = append(tally.Subjects, reserve.SubjectRollup{Scope: scope, Rollup: *Rollups().Draw(t, "rollup")})
		}
		return tally
	})
}
