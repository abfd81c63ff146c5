package storetest

import (
	"pgregory.net/rapid"

	"github.com/holdfast-dev/holdfast/reserve"
)

// Webhooks draws webhooks.
func Webhooks() *rapid.Generator[*reserve.Webhook] {
	return rapid.Custom(func(t *rapid.T) *reserve.Webhook {
		w := &reserve.Webhook{
			URL: text(300).Draw(t, "url"), Secret: rapid.SliceOfN(rapid.Byte(), 1, 64).Draw(t, "secret"),
			At: Instants().Draw(t, "at"), By: text(300).Draw(t, "by"),
		}
		if n := rapid.IntRange(0, 3).Draw(t, "events"); n > 0 {
			w.Events = rapid.SliceOfN(text(30), n, n).Draw(t, "types")
		}
		if rapid.Bool().Draw(t, "rotated") {
			w.Previous, w.Until = rapid.SliceOfN(rapid.Byte(), 1, 64).Draw(t, "previous"), Instants().Draw(t, "until")
		}
		return w
	})
}

// Deliveries draws how far webhooks are.
func Deliveries() *rapid.Generator[*reserve.Delivery] {
	return rapid.Custom(func(t *rapid.T) *reserve.Delivery {
		d := &reserve.Delivery{AcceptedAt: instantOrNone().Draw(t, "accepted at"), FailedAt: instantOrNone().Draw(t, "failed at"), Trouble: text(60).Draw(t, "trouble")}
		for _, n := range []*int64{&d.Rev, &d.Index, &d.First, &d.Queued, &d.Accepted, &d.Failed, &d.Dropped, &d.Gaps, &d.Status} {
			*n = count().Draw(t, "n")
		}
		d.Next = d.First + rapid.Int64Range(0, 100).Draw(t, "parcels")
		return d
	})
}

// Parcels draws parcels of the outbox.
func Parcels() *rapid.Generator[*reserve.Parcel] {
	letter := rapid.Custom(func(t *rapid.T) reserve.Letter {
		l := reserve.Letter{ID: text(30).Draw(t, "id"), Type: text(30).Draw(t, "type"), At: Instants().Draw(t, "at"), Body: rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "body")}
		if n := rapid.IntRange(0, 3).Draw(t, "limits"); n > 0 {
			l.Limits = rapid.SliceOfN(text(30), n, n).Draw(t, "ids")
		}
		return l
	})
	return rapid.Custom(func(t *rapid.T) *reserve.Parcel {
		return &reserve.Parcel{Events: rapid.SliceOfN(letter, 1, 5).Draw(t, "events")}
	})
}

// Duties draws duties.
func Duties() *rapid.Generator[*reserve.Duty] {
	return rapid.Custom(func(t *rapid.T) *reserve.Duty {
		return &reserve.Duty{Replica: text(30).Draw(t, "replica"), Since: Instants().Draw(t, "since")}
	})
}
