package store

import (
	"github.com/holdfast-dev/holdfast/reserve"
)

type webhookValue struct {
	URL              string
	Events           []string
	Secret, Previous []byte
	UntilMillis      *int64
	AtMillis         *int64
	By               string
}

type deliveryValue struct {
	Rev, Index, First, Next, Queued int64
	Accepted, Failed, Dropped, Gaps int64
	AcceptedMillis, FailedMillis    *int64
	Status                          int64
	Trouble                         string
}

type dutyValue struct {
	Replica     string
	SinceMillis *int64
}

func appendWebhook(b []byte, w *reserve.Webhook) []byte {
	return appendJSON(b, &webhookValue{w.URL, w.Events, w.Secret, w.Previous, millis(w.Until), millis(w.At), w.By})
}

func decodeWebhook(text []byte) (any, error) {
	var v webhookValue
	if err := readJSON(text, &v); err != nil {
		return nil, err
	}
	if len(v.Events) == 0 {
		v.Events = nil
	}
	return &reserve.Webhook{
		URL: v.URL, Events: v.Events, Secret: secretOf(v.Secret), Previous: secretOf(v.Previous),
		Until: fromMillis(v.UntilMillis), At: fromMillis(v.AtMillis), By: v.By,
	}, nil
}

// secretOf has one form of no secret.
func secretOf(b []byte) reserve.Secret {
	if len(b) == 0 {
		return nil
	}
	return b
}

func appendDelivery(b []byte, d *reserve.Delivery) []byte {
	return appendJSON(b, &deliveryValue{
		d.Rev, d.Index, d.First, d.Next, d.Queued, d.Accepted, d.Failed, d.Dropped, d.Gaps,
		millis(d.AcceptedAt), millis(d.FailedAt), d.Status, d.Trouble,
	})
}

func decodeDelivery(text []byte) (any, error) {
	var v deliveryValue
	if err := readJSON(text, &v); err != nil {
		return nil, err
	}
	if v.First < 0 || v.Next < v.First {
		return nil, reserve.ErrCorrupt
	}
	return &reserve.Delivery{
		Rev: v.Rev, Index: v.Index, First: v.First, Next: v.Next, Queued: v.Queued,
		Accepted: v.Accepted, Failed: v.Failed, Dropped: v.Dropped, Gaps: v.Gaps,
		AcceptedAt: fromMillis(v.AcceptedMillis), FailedAt: fromMillis(v.FailedMillis), Status: v.Status, Trouble: v.Trouble,
	}, nil
}

func appendDuty(b []byte, d *reserve.Duty) []byte {
	return appendJSON(b, &dutyValue{d.Replica, millis(d.Since)})
}

func decodeDuty(text []byte) (any, error) {
	var v dutyValue
	if err := readJSON(text, &v); err != nil {
		return nil, err
	}
	return &reserve.Duty{Replica: v.Replica, Since: fromMillis(v.SinceMillis)}, nil
}

func (e *encoder) parcel(p *reserve.Parcel) {
	e.b = append(e.b, version)
	e.length(len(p.Events), reserve.MaxLetters)
	for i := range p.Events {
		l := &p.Events[i]
		e.text(l.ID)
		e.text(l.Type)
		e.time(l.At)
		e.length(len(l.Limits), reserve.MaxLetterLimits)
		for _, limit := range l.Limits {
			e.text(limit)
		}
		e.text(string(l.Body))
	}
}

func (d *decoder) parcel() *reserve.Parcel {
	const least = 5 // bytes of a letter: each field's one
	p := &reserve.Parcel{}
	for range d.length(reserve.MaxLetters, least) {
		l := reserve.Letter{ID: d.text(), Type: d.text(), At: d.time()}
		for range d.length(reserve.MaxLetterLimits, 1) {
			l.Limits = append(l.Limits, d.text())
		}
		l.Body = []byte(d.text())
		p.Events = append(p.Events, l)
	}
	return p
}
