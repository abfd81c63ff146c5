package api

import (
	"maps"
	"slices"
)

// The order of names here is the order of fields in the types; a test that fills every field
// compares each encoder with encoding/json.

func (s *Subject) append(dst []byte) []byte {
	o := begin(dst)
	o.text("kind", s.Kind)
	o.text("id", s.ID)
	return o.end()
}

func (w *Owner) append(dst []byte) []byte {
	o := begin(dst)
	o.textUnlessEmpty("name", w.Name)
	o.textUnlessEmpty("host", w.Host)
	o.wholeUnlessZero("pid", w.PID)
	o.textUnlessEmpty("url", w.URL)
	return o.end()
}

func (s *Slot) append(dst []byte) []byte {
	o := begin(dst)
	o.text("limit", s.Limit)
	o.whole("slot", s.Slot)
	return o.end()
}

func (v *Verdict) append(dst []byte) []byte {
	o := begin(dst)
	o.text("id", v.ID)
	o.text("window", v.Window)
	o.truthIfSet("rolling", v.Rolling)
	o.wholeOrNull("amount", v.Amount, v.Unlimited)
	o.whole("used", v.Used)
	o.wholeOrNull("remaining", v.Remaining, v.Unlimited)
	o.truth("allowed", v.Allowed)
	o.truthIfSet("unlimited", v.Unlimited)
	o.truthIfSet("paused", v.Paused)
	o.truthIfSet("shadow", v.Shadow)
	o.truthIfSet("neverFits", v.NeverFits)
	o.wholeUnlessZero("excess", v.Excess)
	o.wholeUnlessZero("waiting", v.Waiting)
	o.timeUnlessNil("resetsAt", v.ResetsAt)
	o.wholeUnlessNil("resetsInSeconds", v.ResetsInSeconds)
	o.wholeUnlessNil("retryAfterSeconds", v.RetryAfterSeconds)
	o.wholeUnlessNil("retryAfterMs", v.RetryAfterMs)
	return o.end()
}

func (h *Holder) append(dst []byte) []byte {
	o := begin(dst)
	o.text("id", h.ID)
	o.textUnlessEmpty("limit", h.Limit)
	if h.Subject != nil {
		o.name("subject")
		o.dst = h.Subject.append(o.dst)
	}
	o.whole("slot", h.Slot)
	o.name("owner")
	o.dst = h.Owner.append(o.dst)
	o.whole("heldSeconds", h.HeldSeconds)
	o.whole("expiresInSeconds", h.ExpiresInSeconds)
	o.wholeUnlessNil("heartbeatAgoSeconds", h.HeartbeatAgoSeconds)
	return o.end()
}

func (a *CheckAnswer) append(dst []byte) []byte {
	o := begin(dst)
	o.truth("allowed", a.Allowed)
	o.text("mode", a.Mode)
	if a.Reservation != nil {
		o.name("reservation")
		o.dst = a.Reservation.append(o.dst)
	}
	o.name("limits")
	o.dst = appendList(o.dst, a.Limits, (*Verdict).append)
	o.textUnlessEmpty("code", string(a.Code))
	o.textUnlessEmpty("detail", a.Detail)
	o.textUnlessEmpty("decidedBy", a.DecidedBy)
	o.textUnlessEmpty("reason", a.Reason)
	o.truthIfSet("neverFits", a.NeverFits)
	o.wholeUnlessNil("retryAfterSeconds", a.RetryAfterSeconds)
	o.wholeUnlessNil("retryAfterMs", a.RetryAfterMs)
	o.timeUnlessNil("resetsAt", a.ResetsAt)
	o.wholeUnlessNil("resetsInSeconds", a.ResetsInSeconds)
	o.wholeUnlessZero("waiting", a.Waiting)
	if len(a.Holders) > 0 {
		o.name("holders")
		o.dst = appendList(o.dst, a.Holders, (*Holder).append)
	}
	return o.end()
}

func (r *Reservation) append(dst []byte) []byte {
	o := begin(dst)
	o.text("id", r.ID)
	o.text("state", r.State)
	o.name("subject")
	o.dst = r.Subject.append(o.dst)
	o.text("action", r.Action)
	o.whole("cost", r.Cost)
	o.name("slots")
	o.dst = appendList(o.dst, r.Slots, (*Slot).append)
	o.whole("fence", r.Fence)
	o.time("createdAt", r.CreatedAt)
	o.timeUnlessNil("expiresAt", r.ExpiresAt)
	o.wholeUnlessNil("ttlSeconds", r.TTLSeconds)
	o.wholeUnlessNil("heartbeatSeconds", r.HeartbeatSeconds)
	o.timeUnlessNil("lastHeartbeatAt", r.LastHeartbeatAt)
	o.timeUnlessNil("endedAt", r.EndedAt)
	o.textUnlessEmpty("endedBy", r.EndedBy)
	o.textUnlessEmpty("note", r.Note)
	o.wholeUnlessNil("charged", r.Charged)
	o.wholeUnlessNil("refunded", r.Refunded)
	o.name("owner")
	o.dst = r.Owner.append(o.dst)
	o.name("labels")
	o.dst = appendTexts(o.dst, r.Labels)
	o.name("limits")
	o.dst = appendList(o.dst, r.Limits, (*Verdict).append)
	return o.end()
}

// appendTexts appends a map by its keys; a nil map is null, as in encoding/json.
func appendTexts(dst []byte, m map[string]string) []byte {
	if m == nil {
		return append(dst, "null"...)
	}
	if len(m) == 0 {
		return append(dst, "{}"...)
	}
	next := byte('{')
	for _, key := range slices.Sorted(maps.Keys(m)) {
		dst = append(appendString(append(dst, next), key), ':')
		dst = appendString(dst, m[key])
		next = ','
	}
	return append(dst, '}')
}

func (f *Fault) append(dst []byte) []byte {
	o := begin(dst)
	o.text("pointer", f.Pointer)
	o.text("detail", f.Detail)
	return o.end()
}

func appendText(s *string, dst []byte) []byte { return appendString(dst, *s) }

func (p *Problem) append(dst []byte) []byte {
	o := begin(dst)
	o.text("type", p.Type)
	o.text("title", p.Title)
	o.whole("status", int64(p.Status))
	o.text("code", string(p.Code))
	o.text("detail", p.Detail)
	o.textUnlessEmpty("instance", p.Instance)
	o.textUnlessEmpty("requestId", p.RequestID)
	if len(p.Errors) > 0 {
		o.name("errors")
		o.dst = appendList(o.dst, p.Errors, (*Fault).append)
	}
	o.textUnlessEmpty("parameter", p.Parameter)
	o.textUnlessEmpty("header", p.Header)
	p.refusal(&o)
	p.rest(&o)
	return o.end()
}

// refusal writes what a refusal tells.
func (p *Problem) refusal(o *object) {
	o.textUnlessEmpty("decidedBy", p.DecidedBy)
	o.wholeUnlessNil("amount", p.Amount)
	o.wholeUnlessNil("used", p.Used)
	o.wholeUnlessNil("waiting", p.Waiting)
	o.truthIfSet("neverFits", p.NeverFits)
	o.wholeUnlessNil("retryAfterSeconds", p.RetryAfterSeconds)
	o.wholeUnlessNil("retryAfterMs", p.RetryAfterMs)
	o.timeUnlessNil("resetsAt", p.ResetsAt)
	o.wholeUnlessNil("resetsInSeconds", p.ResetsInSeconds)
	if len(p.Limits) > 0 {
		o.name("limits")
		o.dst = appendList(o.dst, p.Limits, (*Verdict).append)
	}
	if len(p.Holders) > 0 {
		o.name("holders")
		o.dst = appendList(o.dst, p.Holders, (*Holder).append)
	}
}

// rest writes what other codes tell.
func (p *Problem) rest(o *object) {
	o.textUnlessEmpty("reason", p.Reason)
	o.timeUnlessNil("at", p.At)
	o.textUnlessEmpty("by", p.By)
	o.textUnlessEmpty("note", p.Note)
	if p.Reservation != nil {
		o.name("reservation")
		o.dst = p.Reservation.append(o.dst)
	}
	if len(p.Actions) > 0 {
		o.name("actions")
		o.dst = appendList(o.dst, p.Actions, appendText)
	}
	o.wholeUnlessZero("matching", p.Matching)
	o.wholeUnlessNil("maxTtlSeconds", p.MaxTTLSeconds)
	o.wholeUnlessNil("remaining", p.Remaining)
	o.wholeUnlessNil("revision", p.Revision)
	o.textUnlessEmpty("scope", p.Scope)
}
