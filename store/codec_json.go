package store

import (
	"bytes"
	"encoding/json"
	"io"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/windows"
)

// What is written seldom and read by people in an emergency is JSON after the version byte.
// These types are the format: their field names are the members' names, and a new field means
// a new version. The domain's own types are not used, so that renaming one of their fields
// does not change what is on disk.

type limitValue struct {
	ID, Name, Description string
	SubjectKind, Action   string
	Amount                int64
	Window                string
	Rolling               bool
	RefillNanoUnits       int64 // a second
	Share                 string
	OnExpiry, Overage     string
	TTLSeconds            int64
	MaxTTLSeconds         int64
	Enabled, Paused       bool
	PauseReason           string
	PausedUntilMillis     *int64
	Labels                map[string]string
	Generation            int64
	CreatedMillis         *int64
	UpdatedMillis         *int64
	UpdatedBy, Source     string

	limitExtra // since version 2
}

// limitExtra is what version 2 added; a limit without any of it is written as version 1, which
// older programs read.
type limitExtra struct {
	Shadow         bool            `json:",omitempty"`
	Schedules      []scheduleValue `json:",omitempty"`
	TurnAmount     int64           `json:",omitempty"`
	TurnMillis     *int64          `json:",omitempty"`
	NextTurnMillis *int64          `json:",omitempty"`
}

type scheduleValue struct {
	Cron, Zone string
	Amount     int64
}

// limitVersion is the newest form of a limit.
const limitVersion = 2

type overrideValue struct {
	Limit, SubjectKind, SubjectID string
	Amount                        int64
	Unlimited                     bool
	UntilMillis                   *int64
	Reason, By                    string
	CreatedMillis                 *int64
}

type blockValue struct {
	SubjectKind, SubjectID string
	UntilMillis            *int64
	Reason, By             string
}

type noteValue struct {
	AtMillis                          *int64
	Actor, Reason, Address, RequestID string
	Changes                           []changeValue
}

type changeValue struct{ Act, Target, Before, After string }

type replicaValue struct {
	ID, Version, Address string
	ClockMillis          *int64
}

// appendJSON never fails: the five types have nothing that JSON cannot say. Text that is no
// valid UTF-8 is changed by it; package limits lets none through.
func appendJSON(b []byte, v any) []byte { return appendJSONAs(b, version, v) }

func appendJSONAs(b []byte, version byte, v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic("store: " + err.Error())
	}
	return append(append(b, version), text...)
}

// readJSON is strict: no unknown member, nothing after the value.
func readJSON(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if d.Decode(v) != nil {
		return reserve.ErrCorrupt
	}
	if _, err := d.Token(); err != io.EOF {
		return reserve.ErrCorrupt
	}
	return nil
}

// millis is t to the millisecond; nil for the zero time.
func millis(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	ms := t.UnixMilli()
	return &ms
}

func fromMillis(ms *int64) time.Time {
	if ms == nil {
		return time.Time{}
	}
	return time.UnixMilli(*ms).UTC()
}

func appendLimit(b []byte, l *limits.Limit) []byte {
	v := limitValue{
		ID: l.ID, Name: l.Name, Description: l.Description,
		SubjectKind: l.SubjectKind, Action: string(l.Action), Amount: l.Amount,
		Window: l.Window.Kind.String(), Rolling: l.Window.Rolling, RefillNanoUnits: l.Window.Refill,
		Share: l.Share.String(), OnExpiry: l.OnExpiry.String(), Overage: l.Overage.String(),
		TTLSeconds: int64(l.TTL / time.Second), MaxTTLSeconds: int64(l.MaxTTL / time.Second),
		Enabled: l.Enabled, Paused: l.Paused, PauseReason: l.PauseReason,
		PausedUntilMillis: millis(l.PausedUntil), Labels: l.Labels, Generation: l.Generation,
		CreatedMillis: millis(l.CreatedAt), UpdatedMillis: millis(l.UpdatedAt),
		UpdatedBy: l.UpdatedBy, Source: l.Source,
	}
	if !l.Shadow && len(l.Schedules) == 0 && l.Turn == (limits.Turn{}) {
		return appendJSON(b, &v)
	}
	v.limitExtra = limitExtra{
		Shadow: l.Shadow, TurnAmount: l.Turn.Amount, TurnMillis: millis(l.Turn.At), NextTurnMillis: millis(l.Turn.Next),
	}
	for _, s := range l.Schedules {
		v.Schedules = append(v.Schedules, scheduleValue{s.Cron, s.Zone, s.Amount})
	}
	return appendJSONAs(b, limitVersion, &v)
}

// decodeLimit leaves Revision to whoever knows the key's.
func decodeLimit(text []byte) (any, error) {
	var v limitValue
	if err := readJSON(text, &v); err != nil {
		return nil, err
	}
	w, err := windows.Parse(v.Window, v.Rolling)
	share, err1 := limits.ParseShare(v.Share)
	expiry, err2 := limits.ParseOnExpiry(v.OnExpiry)
	overage, err3 := limits.ParseOverage(v.Overage)
	ttl, maxTTL := fromSeconds(v.TTLSeconds), fromSeconds(v.MaxTTLSeconds)
	if err != nil || err1 != nil || err2 != nil || err3 != nil || ttl < 0 || maxTTL < 0 {
		return nil, reserve.ErrCorrupt
	}
	w.Refill = v.RefillNanoUnits
	if len(v.Labels) == 0 {
		v.Labels = nil
	}
	l := &limits.Limit{
		ID: v.ID, Name: v.Name, Description: v.Description,
		SubjectKind: v.SubjectKind, Action: limits.Action(v.Action), Amount: v.Amount,
		Window: w, Share: share, OnExpiry: expiry, Overage: overage, TTL: ttl, MaxTTL: maxTTL,
		Enabled: v.Enabled, Paused: v.Paused, PauseReason: v.PauseReason,
		PausedUntil: fromMillis(v.PausedUntilMillis), Labels: v.Labels, Generation: v.Generation,
		CreatedAt: fromMillis(v.CreatedMillis), UpdatedAt: fromMillis(v.UpdatedMillis),
		UpdatedBy: v.UpdatedBy, Source: v.Source,
		Shadow: v.Shadow, Turn: limits.Turn{Amount: v.TurnAmount, At: fromMillis(v.TurnMillis), Next: fromMillis(v.NextTurnMillis)},
	}
	for _, s := range v.Schedules {
		l.Schedules = append(l.Schedules, limits.Schedule(s))
	}
	return l, nil
}

// fromSeconds is -1 for what no Duration can hold.
func fromSeconds(n int64) time.Duration {
	if n < 0 || n > int64(1<<63-1)/int64(time.Second) {
		return -1
	}
	return time.Duration(n) * time.Second
}

func appendOverride(b []byte, o *limits.Override) []byte {
	return appendJSON(b, &overrideValue{
		Limit: o.Limit, SubjectKind: o.Subject.Kind, SubjectID: o.Subject.ID,
		Amount: o.Amount, Unlimited: o.Unlimited, UntilMillis: millis(o.Until),
		Reason: o.Reason, By: o.By, CreatedMillis: millis(o.CreatedAt),
	})
}

func decodeOverride(text []byte) (any, error) {
	var v overrideValue
	if err := readJSON(text, &v); err != nil {
		return nil, err
	}
	return &limits.Override{
		Limit: v.Limit, Subject: limits.Subject{Kind: v.SubjectKind, ID: v.SubjectID},
		Amount: v.Amount, Unlimited: v.Unlimited, Until: fromMillis(v.UntilMillis),
		Reason: v.Reason, By: v.By, CreatedAt: fromMillis(v.CreatedMillis),
	}, nil
}

func appendBlock(b []byte, k *limits.Block) []byte {
	return appendJSON(b, &blockValue{
		SubjectKind: k.Subject.Kind, SubjectID: k.Subject.ID,
		UntilMillis: millis(k.Until), Reason: k.Reason, By: k.By,
	})
}

func decodeBlock(text []byte) (any, error) {
	var v blockValue
	if err := readJSON(text, &v); err != nil {
		return nil, err
	}
	return &limits.Block{
		Subject: limits.Subject{Kind: v.SubjectKind, ID: v.SubjectID},
		Until:   fromMillis(v.UntilMillis), Reason: v.Reason, By: v.By,
	}, nil
}

func appendReplica(b []byte, r *reserve.Replica) []byte {
	return appendJSON(b, &replicaValue{
		ID: r.ID, Version: r.Version, Address: r.Address, ClockMillis: millis(r.Clock),
	})
}

func decodeReplica(text []byte) (any, error) {
	var v replicaValue
	if err := readJSON(text, &v); err != nil {
		return nil, err
	}
	return &reserve.Replica{ID: v.ID, Version: v.Version, Address: v.Address, Clock: fromMillis(v.ClockMillis)}, nil
}

func appendNote(b []byte, n *reserve.Note) []byte {
	v := noteValue{AtMillis: millis(n.At), Actor: n.Actor, Reason: n.Reason, Address: n.Address, RequestID: n.RequestID}
	for _, c := range n.Changes {
		v.Changes = append(v.Changes, changeValue(c))
	}
	return appendJSON(b, &v)
}

func decodeNote(text []byte) (any, error) {
	var v noteValue
	if err := readJSON(text, &v); err != nil {
		return nil, err
	}
	n := &reserve.Note{At: fromMillis(v.AtMillis), Actor: v.Actor, Reason: v.Reason, Address: v.Address, RequestID: v.RequestID}
	for _, c := range v.Changes {
		n.Changes = append(n.Changes, reserve.Change(c))
	}
	return n, nil
}
