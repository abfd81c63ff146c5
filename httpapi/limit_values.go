package httpapi

import (
	"cmp"
	"errors"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/windows"
)

// LimitOf is the limit that a body, or an entry of a limits file, describes, its defaults
// filled in. Errors: *limits.InvalidError, everything at once.
func LimitOf(in *api.LimitInput) (limits.Limit, error) {
	var faults []limits.Fault
	note := func(err error) {
		if e, ok := errors.AsType[*limits.InvalidError](err); ok {
			faults = append(faults, e.Faults...)
		}
	}
	l := limits.Limit{
		ID: in.ID, Name: in.Name, Description: in.Description, SubjectKind: in.SubjectKind,
		Action: limits.Action(in.Action), Amount: in.Amount, Enabled: in.Enabled == nil || *in.Enabled,
		Shadow: in.Enforce != nil && !*in.Enforce,
		Paused: in.Paused, PauseReason: in.PauseReason, Labels: in.Labels,
	}
	for _, s := range in.Schedules {
		l.Schedules = append(l.Schedules, limits.Schedule{Cron: s.Cron, Zone: cmp.Or(s.TZ, "UTC"), Amount: s.Amount})
	}
	if in.PausedUntil != nil {
		l.PausedUntil = in.PausedUntil.Time
	}
	l.TTL, l.MaxTTL = seconds(in.TTLSeconds), seconds(in.MaxTTLSeconds)
	l.Window.Kind, l.Window.Rolling = windowKind(in.Window), in.Rolling
	if in.RefillPerSecond != nil {
		refill, err := limits.RefillFromFloat(*in.RefillPerSecond)
		l.Window.Refill = refill
		note(err)
	}
	note(read(&l.Share, in.Share, limits.ParseShare))
	note(read(&l.OnExpiry, in.OnExpiry, limits.ParseOnExpiry))
	note(read(&l.Overage, in.Overage, limits.ParseOverage))
	l = l.WithDefaults()
	note(l.Validate())
	if len(faults) > 0 {
		faults = leftOut(in, faults)
	}
	if len(faults) > 0 {
		return l, &limits.InvalidError{Faults: faults}
	}
	return l, nil
}

// leftOut tells of what the body does not hold instead of what stands in for it: an id that
// could not be made from the name, the refill of a bucket.
func leftOut(in *api.LimitInput, faults []limits.Fault) []limits.Fault {
	told := faults[:0:0]
	for _, f := range faults {
		switch {
		case f.Field == "/id" && in.ID == "" && in.Name == "":
			continue // the missing name is the fault
		case f.Field == "/id" && in.ID == "":
			f.Reason = "cannot be made from the name, which has no letter a-z and no digit; give an id"
		case f.Field == "/refillPerSecond" && in.RefillPerSecond == nil:
			f.Reason = "is required for a bucket"
		}
		told = append(told, f)
	}
	return told
}

// read parses a word into to; one left out leaves the zero value, which is its default.
func read[T any](to *T, word string, parse func(string) (T, error)) (err error) {
	if word != "" {
		*to, err = parse(word)
	}
	return err
}

// windowKind is the kind of that name; 0 for none, which Validate refuses.
func windowKind(name string) windows.Kind {
	w, err := windows.Parse(name, false)
	if err != nil {
		return 0
	}
	return w.Kind
}

// limitView is a limit as it stands.
func limitView(l *limits.Limit) api.Limit {
	v := api.Limit{
		ID: l.ID, Name: l.Name, Description: l.Description, SubjectKind: l.SubjectKind, Action: string(l.Action),
		Amount: l.Amount, Window: l.Window.Kind.String(), Rolling: l.Window.Rolling,
		Share: l.Share.String(), OnExpiry: l.OnExpiry.String(), Overage: l.Overage.String(),
		TTLSeconds: int64(l.TTL / time.Second), MaxTTLSeconds: int64(l.MaxTTL / time.Second),
		Enabled: l.Enabled, Enforce: !l.Shadow, Paused: l.Paused, PauseReason: l.PauseReason, PausedUntil: api.AtPtr(l.PausedUntil),
		Labels: l.Labels, Revision: l.Revision, CreatedAt: api.At(l.CreatedAt), UpdatedAt: api.At(l.UpdatedAt),
		UpdatedBy: l.UpdatedBy, Source: l.Source,
	}
	if l.Window.Kind == windows.Bucket {
		v.RefillPerSecond = ptr(limits.RefillFloat(l.Window.Refill))
	}
	if v.Labels == nil {
		v.Labels = noLabels
	}
	for _, s := range l.Schedules {
		v.Schedules = append(v.Schedules, api.Schedule{Cron: s.Cron, TZ: s.Zone, Amount: s.Amount})
	}
	if !l.Turn.At.IsZero() {
		v.Scheduled = &api.Scheduled{Amount: l.Turn.Amount, Since: api.At(l.Turn.At)}
	}
	return v
}

// changesShown is how many coming changes of schedules a limit shows.
const changesShown = 5

// withChanges adds to v what the schedules of l will do after now.
func withChanges(v api.Limit, l *limits.Limit, now time.Time) api.Limit {
	if len(l.Schedules) == 0 {
		return v
	}
	for _, c := range l.NextChanges(now, changesShown) {
		v.NextChanges = append(v.NextChanges, api.ScheduledChange{Amount: c.Amount, At: api.At(c.At), InSeconds: secondsDown(c.At.Sub(now))})
	}
	return v
}

// overrideView is an override beside the amount it stands in for. current is the amount in
// force for whom it is.
func overrideView(o limits.Override, current limits.Rule, now time.Time) api.Override {
	v := api.Override{
		Limit: o.Limit, Base: current.Base(), Until: api.AtPtr(o.Until), Reason: o.Reason, By: o.By,
		CreatedAt: api.At(o.CreatedAt),
	}
	if !o.Subject.IsZero() {
		v.Subject = ptr(subjectView(o.Subject))
	}
	if !o.Unlimited {
		v.Override = ptr(o.Amount)
	}
	if !current.Unlimited {
		v.Current = ptr(current.Amount)
	}
	if !o.Until.IsZero() {
		v.EndsInSeconds = ptr(secondsDown(o.Until.Sub(now)))
	}
	return v
}
