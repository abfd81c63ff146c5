package catalogue

import (
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/windows"
)

// As is the editor for one caller: each edit it makes leaves a note in the audit trail, in the
// edit's own transaction, with what n says of who and why. An edit that changes nothing, and
// the ends of pauses and overrides that come by themselves, leave none.
func (e *Editor) As(n reserve.Note) *Editor { return &Editor{cfg: e.cfg, note: &n} }

// noted adds to writes the note of what they change, if there is anybody to note it for.
func (e *Editor) noted(tenant string, at standing, writes []reserve.Write) []reserve.Write {
	if e.note == nil {
		return writes
	}
	var changes []reserve.Change
	n := *e.note
	for _, w := range writes {
		entry, known := entryOf(at, w.Ref)
		if !known && w.Ref.Kind == reserve.RefLimit { // pruned: it was found in the picture, not read
			entry, known = e.pictured(w.Ref), true
		}
		if !known {
			continue // the overrides of a limit that is deleted go with it
		}
		c, reason := changeOf(entry, w.Value)
		if c.Act == "" {
			continue
		}
		if n.Reason == "" {
			n.Reason = reason
		}
		changes = append(changes, c)
	}
	if len(changes) == 0 {
		return writes
	}
	_, w := n.With(changes...).Write(tenant)
	return append(writes, w)
}

// pictured is a limit as this replica knows it, which is at the revision of the edit.
func (e *Editor) pictured(r reserve.Ref) reserve.Entry {
	entry := reserve.Entry{Ref: r}
	if c := e.cfg.Catalog(r.Tenant); c != nil {
		if l, ok := c.Limit(r.Limit); ok {
			entry.Value = l
		}
	}
	return entry
}

// changeOf tells what became of one key, and the reason that is kept with its new value. There
// is no Act for keys that nobody edits by hand.
func changeOf(was reserve.Entry, value any) (c reserve.Change, reason string) {
	c.Target = target(was.Ref)
	switch was.Ref.Kind {
	case reserve.RefLimit:
		old, _ := was.Value.(*limits.Limit)
		next, _ := value.(*limits.Limit)
		if next != nil {
			reason = next.PauseReason
		}
		return limitChange(c, old, next), reason
	case reserve.RefOverride:
		if old, ok := was.Value.(*limits.Override); ok {
			c.Before = overrideFacts(old).String()
		}
		if c.Act = "override.delete"; value != nil {
			next := value.(*limits.Override)
			c.Act, c.After, reason = "override.set", overrideFacts(next).String(), next.Reason
		}
	case reserve.RefFile:
		if old, ok := was.Value.(*limits.File); ok {
			c.Before = fileFacts(old).String()
		}
		next, _ := value.(*limits.File)
		c.Act, c.After = "file.apply", fileFacts(next).String()
	case reserve.RefPlan:
		if old, ok := was.Value.(*limits.SubjectPlan); ok {
			c.Before = reserve.Facts{"plan": old.Plan, "by": old.By}.String()
		}
		if c.Act = "plan.delete"; value != nil {
			next := value.(*limits.SubjectPlan)
			c.Act, c.After = "plan.set", reserve.Facts{"plan": next.Plan, "by": next.By}.String()
		}
	case reserve.RefBlock:
		if old, ok := was.Value.(*limits.Block); ok {
			c.Before = blockFacts(old).String()
		}
		if c.Act = "subject.unblock"; value != nil {
			next := value.(*limits.Block)
			c.Act, c.After, reason = "subject.block", blockFacts(next).String(), next.Reason
		}
	}
	return c, reason
}

// target names what is changed: a limit by its id, an override by its limit and for whom it
// is, a subject as kind:id, the limits file as itself.
func target(r reserve.Ref) string {
	subject := reserve.ScopeSubject(r.Scope)
	switch {
	case r.Kind == reserve.RefFile:
		return "limits-file"
	case r.Kind == reserve.RefBlock, r.Kind == reserve.RefPlan:
		return subject.String()
	case r.Scope != "":
		return r.Limit + "/" + subject.String()
	}
	return r.Limit
}

// limitChange tells of a limit all that it was or is when it goes or comes, else what differs.
func limitChange(c reserve.Change, old, next *limits.Limit) reserve.Change {
	switch {
	case next == nil:
		c.Act = "limit.delete"
		if old != nil {
			c.Before = limitFacts(old).String()
		}
		return c
	case old == nil:
		c.Act, c.After = "limit.create", limitFacts(next).String()
		return c
	}
	before, after := differing(limitFacts(old), limitFacts(next))
	c.Before, c.After = before.String(), after.String()
	switch {
	case len(before) == 0 && next.Generation != old.Generation:
		c.Act = "limit.reset"
	case next.Paused && !old.Paused:
		c.Act = "limit.pause"
	case old.Paused && !next.Paused:
		c.Act = "limit.resume"
	default:
		c.Act = "limit.change"
	}
	return c
}

// differing leaves of both what is not the same. Facts that cannot be compared, such as labels,
// are compared as they are written.
func differing(a, b reserve.Facts) (before, after reserve.Facts) {
	before, after = reserve.Facts{}, reserve.Facts{}
	for name := range a {
		if (reserve.Facts{name: a[name]}).String() != (reserve.Facts{name: b[name]}).String() {
			before[name], after[name] = a[name], b[name]
		}
	}
	return before, after
}

// limitFacts has a fact for each field that the API lets people set, by the API's names.
func limitFacts(l *limits.Limit) reserve.Facts {
	f := reserve.Facts{
		"name": l.Name, "description": l.Description, "subjectKind": l.SubjectKind, "action": string(l.Action),
		"amount": l.Amount, "window": l.Window.Kind.String(), "rolling": l.Window.Rolling, "refillPerSecond": nil,
		"share": l.Share.String(), "onExpiry": l.OnExpiry.String(), "overage": l.Overage.String(),
		"ttlSeconds": int64(l.TTL / time.Second), "maxTtlSeconds": int64(l.MaxTTL / time.Second),
		"enabled": l.Enabled, "paused": l.Paused, "pauseReason": l.PauseReason, "pausedUntil": instant(l.PausedUntil),
		"labels": l.Labels, "source": l.Source, "enforce": !l.Shadow, "schedules": scheduleFacts(l.Schedules),
	}
	if l.Window.Kind == windows.Bucket {
		f["refillPerSecond"] = limits.RefillFloat(l.Window.Refill)
	}
	return f
}

func scheduleFacts(all []limits.Schedule) any {
	if len(all) == 0 {
		return nil
	}
	facts := make([]reserve.Facts, len(all))
	for i, s := range all {
		facts[i] = reserve.Facts{"cron": s.Cron, "tz": s.Zone, "amount": s.Amount}
	}
	return facts
}

func overrideFacts(o *limits.Override) reserve.Facts {
	f := reserve.Facts{"amount": o.Amount, "until": instant(o.Until), "reason": o.Reason, "by": o.By}
	if o.Unlimited {
		f["amount"] = nil
	}
	return f
}

func fileFacts(f *limits.File) reserve.Facts {
	if f == nil {
		return nil
	}
	return reserve.Facts{"digest": f.Digest, "plans": f.PlanNames(), "at": instant(f.At), "by": f.By}
}

func blockFacts(b *limits.Block) reserve.Facts {
	return reserve.Facts{"until": instant(b.Until), "reason": b.Reason, "by": b.By}
}

// instant is t as the API writes it, nil for none.
func instant(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}
