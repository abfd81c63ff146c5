package storetest

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/windows"
)

// Records draws records, open ones when ended is false.
func Records(ended bool) *rapid.Generator[*reserve.Record] {
	return rapid.Custom(func(t *rapid.T) *reserve.Record {
		r := &reserve.Record{
			ID: IDs().Draw(t, "id"), State: rapid.SampledFrom([]reserve.State{reserve.Held, reserve.Aborted}).Draw(t, "state"),
			Subject: Subjects().Draw(t, "subject"), Action: limits.Action(text(limits.MaxAction).Draw(t, "action")),
			Cost: rapid.Int64Range(0, reserve.MaxCost).Draw(t, "cost"), TTL: ttls().Draw(t, "ttl"),
			Principal: text(300).Draw(t, "principal"), Keyed: rapid.Bool().Draw(t, "keyed"),
			CreatedAt: Instants().Draw(t, "created"),
			Places:    rapid.SliceOfN(places(), 0, 3).Draw(t, "places"),
			Charges:   rapid.SliceOfN(charges(), 0, 3).Draw(t, "charges"),
			Owner:     owners().Draw(t, "owner"), Labels: labels().Draw(t, "labels"),
		}
		if r.Keyed {
			r.Body = IDs().Draw(t, "body")
		}
		if ended {
			r.State = rapid.SampledFrom([]reserve.State{
				reserve.Committed, reserve.Released, reserve.Expired, reserve.Forced,
			}).Draw(t, "end")
			r.Fence, r.EndedAt = count().Draw(t, "fence"), Instants().Draw(t, "ended")
			r.EndedBy, r.Note = text(300).Draw(t, "by"), text(reserve.MaxReason).Draw(t, "note")
			r.Charged, r.Refunded = count().Draw(t, "charged"), count().Draw(t, "refunded")
		}
		return r
	})
}

func places() *rapid.Generator[reserve.Place] {
	return rapid.Custom(func(t *rapid.T) reserve.Place {
		return reserve.Place{
			Limit: limitIDs().Draw(t, "limit"), Scope: scopes().Draw(t, "scope"), N: count().Draw(t, "n"),
		}
	})
}

func charges() *rapid.Generator[reserve.Charge] {
	return rapid.Custom(func(t *rapid.T) reserve.Charge {
		return reserve.Charge{
			Limit: limitIDs().Draw(t, "limit"), Scope: scopes().Draw(t, "scope"), Generation: count().Draw(t, "generation"),
			Slice: windows.Slice(count().Draw(t, "slice")), Cost: rapid.Int64Range(0, reserve.MaxCost).Draw(t, "cost"),
		}
	})
}

func owners() *rapid.Generator[reserve.Owner] {
	return rapid.Custom(func(t *rapid.T) reserve.Owner {
		return reserve.Owner{
			Name: text(reserve.MaxOwnerName).Draw(t, "name"), Host: text(reserve.MaxOwnerName).Draw(t, "host"),
			URL: text(reserve.MaxOwnerURL).Draw(t, "url"), PID: count().Draw(t, "pid"),
		}
	})
}

// Counts draws the counting state of a subject: up to five limits by id.
func Counts() *rapid.Generator[reserve.Counts] {
	return rapid.Custom(func(t *rapid.T) reserve.Counts {
		ids := rapid.SliceOfNDistinct(limitIDs(), 0, 5, rapid.ID[string]).Draw(t, "limits")
		slices.Sort(ids)
		var all reserve.Counts
		for _, id := range ids {
			all = append(all, reserve.LimitCount{
				Limit: id, Generation: count().Draw(t, "generation"), Use: Usages().Draw(t, "use"),
			})
		}
		return all
	})
}

// Usages draws what one limit has counted: slices or periods with gaps, or a bucket's level.
func Usages() *rapid.Generator[windows.Usage] {
	return rapid.Custom(func(t *rapid.T) (u windows.Usage) {
		at := rapid.Int64Range(0, 13_569_465_600).Draw(t, "first") // seconds are the finest slices
		if rapid.Bool().Draw(t, "bucket") {
			const nanoseconds = int64(time.Second)
			return windows.Usage{High: windows.Slice(at / 4 * nanoseconds), Level: count().Draw(t, "level")}
		}
		for range rapid.IntRange(0, 61).Draw(t, "slices") {
			cost := max(1, count().Draw(t, "cost"))
			u.Counts = append(u.Counts, windows.Count{Slice: windows.Slice(at), Cost: cost})
			at += rapid.Int64Range(1, 70).Draw(t, "gap")
		}
		u.High = windows.Slice(at)
		return u
	})
}

// Replays draws remembered answers to a consume.
func Replays() *rapid.Generator[*reserve.Replay] {
	return rapid.Custom(func(t *rapid.T) *reserve.Replay {
		return &reserve.Replay{
			State:     rapid.SampledFrom([]reserve.State{reserve.Committed, reserve.Aborted}).Draw(t, "state"),
			Principal: text(300).Draw(t, "principal"), Body: IDs().Draw(t, "body"), At: Instants().Draw(t, "at"),
		}
	})
}
