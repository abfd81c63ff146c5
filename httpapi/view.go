package httpapi

import (
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

// beatsPerTTL is how often within its TTL a hold should be extended.
const beatsPerTTL = 3

func ptr[T any](v T) *T { return &v }

func subjectView(s limits.Subject) api.Subject { return api.Subject{Kind: s.Kind, ID: s.ID} }

// scopeSubject is whose count a scope is; nil for one shared by all.
func scopeSubject(scope string) *api.Subject {
	kind, id, found := strings.Cut(scope, "/")
	if !found {
		return nil
	}
	return &api.Subject{Kind: kind, ID: id}
}

var stateNames = [...]string{
	reserve.Held: api.StateHeld, reserve.Committed: api.StateCommitted, reserve.Released: api.StateReleased,
	reserve.Expired: api.StateExpired, reserve.Forced: api.StateForced, reserve.Aborted: "aborted",
}

func stateName(s reserve.State) string {
	if int(s) >= len(stateNames) {
		return ""
	}
	return stateNames[s]
}

// noSlots and others stand for the empty list that is not null.
var (
	noSlots    = []api.Slot{}
	noVerdicts = []api.Verdict{}
	noLabels   = map[string]string{}
)

// reservationView is a reservation as it stands. verdicts are those of the decision that made
// it, nil otherwise.
func reservationView(r *reserve.Reservation, verdicts []api.Verdict) api.Reservation {
	v := api.Reservation{
		ID: r.ID.String(), State: stateName(r.State), Subject: subjectView(r.Subject), Action: string(r.Action),
		Cost: r.Cost, Slots: noSlots, Fence: r.Fence, CreatedAt: api.At(r.CreatedAt),
		Owner:  api.Owner{Name: r.Owner.Name, Host: r.Owner.Host, PID: r.Owner.PID, URL: r.Owner.URL},
		Labels: r.Labels, Limits: verdicts,
	}
	if len(r.Places) > 0 {
		v.Slots = make([]api.Slot, len(r.Places))
		for i, p := range r.Places {
			v.Slots[i] = api.Slot{Limit: p.Limit, Slot: p.N}
		}
	}
	if v.Labels == nil {
		v.Labels = noLabels
	}
	if v.Limits == nil {
		v.Limits = noVerdicts
	}
	if r.State == reserve.Held {
		left, beat := secondsDown(r.Left), max(1, int64(r.HoldTTL/time.Second)/beatsPerTTL)
		v.ExpiresAt, v.TTLSeconds, v.HeartbeatSeconds = api.AtPtr(r.Expires), &left, &beat
		if r.Beats > 0 {
			v.LastHeartbeatAt = api.AtPtr(r.LastBeat)
		}
		return v
	}
	v.EndedAt, v.EndedBy, v.Note = api.AtPtr(r.EndedAt), shownPrincipal(r.EndedBy), r.Note
	v.Charged, v.Refunded = ptr(r.Charged), ptr(r.Refunded)
	return v
}

// shownPrincipal is an identity of auth.Principal.ID as people read it, kind:sub. Whatever has
// another form is shown as it is.
func shownPrincipal(id string) string {
	kind, rest, ok := strings.Cut(id, ":")
	length, rest, found := strings.Cut(rest, ":")
	n, err := strconv.Atoi(length)
	if !ok || !found || err != nil || n < 0 || n >= len(rest) || rest[n] != ':' {
		return id
	}
	return kind + rest[n:]
}

// callerOf is who asks about holds, and what they may.
func callerOf(who auth.Principal) reserve.Caller {
	id := who.ID()
	acts := func(s limits.Subject, principal string) bool {
		return s == who.Subject || principal == id && who.MayActFor(s)
	}
	sees := acts
	if who.Has(auth.HoldsRead) {
		sees = nil // everything
	}
	return reserve.Caller{Tenant: who.Tenant, Principal: id, Sees: sees, Acts: acts}
}

// holderViews are the holders a caller may hear of: its own, or all with holds:read.
func holderViews(all []reserve.Holder, by reserve.Caller, own limits.Subject, now time.Time) []api.Holder {
	var views []api.Holder
	for i := range all {
		h := &all[i]
		if by.Sees != nil && h.Scope != own.Scope() && !by.Sees(h.Subject, h.Principal) {
			continue
		}
		v := api.Holder{
			ID: h.ID.String(), Limit: h.Limit, Slot: h.Slot,
			Owner:       api.Owner{Name: h.Name, Host: h.Host, PID: h.Owner.PID, URL: h.Owner.URL},
			HeldSeconds: secondsDown(now.Sub(h.Since)), ExpiresInSeconds: secondsDown(h.Expires.Sub(now)),
		}
		if h.Subject != (limits.Subject{}) {
			v.Subject = ptr(subjectView(h.Subject))
		}
		if h.Beats > 0 {
			v.HeartbeatAgoSeconds = ptr(secondsDown(now.Sub(h.Beat)))
		}
		views = append(views, v)
	}
	return views
}
