package httpapi

import (
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/events"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

// eventFrame is an event as it stands in the stream. JSON has no line feeds, so data is one line.
func eventFrame(e *events.Event) []byte {
	data, err := EncodeEvent(e)
	if err != nil { // an instant outside of all years: the event is told, without what it was about
		data = fmt.Appendf(nil, `{"id":%q,"type":%q,"limits":[]}`, e.Pos, e.Type)
	}
	b := make([]byte, 0, len(data)+64)
	if !e.Local() { // one without an id leaves Last-Event-ID as it was
		b = fmt.Appendf(b, "id: %s\n", e.Pos)
	}
	b = fmt.Appendf(b, "event: %s\ndata: ", e.Type)
	return append(append(b, data...), "\n\n"...)
}

// EncodeEvent is an event as JSON, for the stream and for webhooks alike.
// Errors: those of api.AppendJSON.
func EncodeEvent(e *events.Event) ([]byte, error) { return api.AppendJSON(nil, eventView(e)) }

func eventView(e *events.Event) *api.Event {
	v := &api.Event{Type: e.Type.String(), At: api.AtPtr(e.At), Limits: e.Limits()}
	if !e.Local() {
		v.ID = e.Pos.String()
	}
	if v.Limits == nil {
		v.Limits = []string{}
	}
	if subject, _ := e.Who(); subject != (limits.Subject{}) {
		v.Subject = ptr(subjectView(subject))
	}
	switch e.Type {
	case events.Gap:
		v.After = e.After.String()
	case events.LimitCreated, events.LimitChanged, events.LimitDeleted:
		limitEvent(v, e)
	case events.LimitExceeded:
		if x := e.Exceeded; x != nil {
			v.Action, v.Amount, v.Used = string(x.Action), ptr(x.Amount), ptr(x.Used)
		}
	case events.Refused:
		refusalEvent(v, e.Refusal)
	case events.WaiterJoined, events.WaiterLeft:
		waiterEvent(v, e)
	default:
		reservationEvent(v, e)
	}
	return v
}

func limitEvent(v *api.Event, e *events.Event) {
	switch o := e.Override; {
	case e.Limit != nil:
		v.Amount, v.Revision, v.Paused = ptr(e.Limit.Amount), e.Rev, e.Limit.Paused
		v.By, v.Note = shownPrincipal(e.Limit.UpdatedBy), e.Limit.PauseReason
	case o != nil:
		v.Override = &api.EventOverride{Until: api.AtPtr(o.Until), Reason: o.Reason}
		if !o.Unlimited {
			v.Override.Amount = ptr(o.Amount)
		}
		v.By = shownPrincipal(o.By)
	case e.Type == events.LimitChanged:
		v.Override = &api.EventOverride{Ended: true}
	}
}

// reservationEvent fills in what is known of a reservation. Of an extend that is the slot, and
// the record when it was found.
func reservationEvent(v *api.Event, e *events.Event) {
	v.Reservation, v.Fence = e.ID.String(), e.Fence
	places := e.Places
	if r := e.Record(); r != nil {
		places = r.Places
		v.Action, v.Cost, v.Labels, v.CreatedAt = string(r.Action), ptr(r.Cost), r.Labels, api.AtPtr(r.CreatedAt)
		if r.Owner != (reserve.Owner{}) {
			v.Owner = &api.Owner{Name: r.Owner.Name, Host: r.Owner.Host, PID: r.Owner.PID, URL: r.Owner.URL}
		}
		switch e.Type {
		case events.Created:
			v.TTLSeconds, v.By = ptr(int64(r.TTL/time.Second)), shownPrincipal(r.Principal)
		case events.Extended:
		default:
			v.Charged, v.Refunded, v.Note = ptr(r.Charged), ptr(r.Refunded), r.Note
			v.By = shownPrincipal(r.EndedBy)
		}
	}
	if e.Slot != nil {
		v.TTLSeconds, v.CreatedAt = ptr(int64(e.Slot.TTL/time.Second)), api.AtPtr(e.Slot.Since)
	}
	for _, p := range places {
		v.Slots = append(v.Slots, api.Slot{Limit: p.Limit, Slot: p.N})
	}
}

func refusalEvent(v *api.Event, r *reserve.Refusal) {
	v.Action, v.Cost, v.Code, v.By, v.Refused = string(r.Action), ptr(r.Cost), refusalCode(r), shownPrincipal(r.Principal), ptr(r.Count)
	if r.Wait > 0 {
		v.RetryAfterSeconds = ptr(secondsUp(r.Wait))
	}
}

// waiterEvent fills in what is known of a caller in line. Of one that left, what it was granted.
func waiterEvent(v *api.Event, e *events.Event) {
	t := e.Ticket
	if t == nil {
		return
	}
	v.Waiter, v.Action, v.Cost, v.By = reserve.WaiterID(t.ID), string(t.Action), ptr(t.Cost), shownPrincipal(t.Principal)
	if t.Owner != (reserve.Owner{}) {
		v.Owner = &api.Owner{Name: t.Owner.Name, Host: t.Owner.Host, PID: t.Owner.PID, URL: t.Owner.URL}
	}
	if e.Type == events.WaiterLeft {
		v.CreatedAt = api.AtPtr(t.Since)
	}
	if e.Granted {
		v.Reservation = e.ID.String()
	}
}
