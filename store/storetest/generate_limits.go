package storetest

import (
	"pgregory.net/rapid"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/windows"
)

// Limits draws valid limits. Their Revision is 0: it is not part of what is stored.
func Limits() *rapid.Generator[*limits.Limit] {
	return rapid.Custom(func(t *rapid.T) *limits.Limit {
		l := &limits.Limit{
			ID: limitIDs().Draw(t, "id"), Name: "n" + text(limits.MaxName-1).Draw(t, "name"),
			Description: text(limits.MaxDescription).Draw(t, "description"),
			SubjectKind: rapid.SampledFrom([]string{"user", limits.Any}).Draw(t, "kind"),
			Action:      limits.Action("a" + text(limits.MaxAction-1).Draw(t, "action")),
			Amount:      rapid.Int64Range(0, limits.MaxAmount).Draw(t, "amount"),
			Window:      someWindow().Draw(t, "window"),
			Share:       rapid.SampledFrom([]limits.Share{limits.Each, limits.All}).Draw(t, "share"),
			OnExpiry:    rapid.SampledFrom([]limits.OnExpiry{limits.RefundOnExpiry, limits.ChargeOnExpiry}).Draw(t, "expiry"),
			Overage:     rapid.SampledFrom([]limits.Overage{limits.RecordOverage, limits.RejectOverage}).Draw(t, "overage"),
			TTL:         ttls().Draw(t, "ttl"), MaxTTL: limits.DefaultMaxTTL,
			Enabled: rapid.Bool().Draw(t, "enabled"), Paused: rapid.Bool().Draw(t, "paused"),
			Labels:     labels().Draw(t, "labels"),
			Generation: count().Draw(t, "generation"), CreatedAt: Instants().Draw(t, "created"),
			UpdatedAt: Instants().Draw(t, "updated"), UpdatedBy: text(300).Draw(t, "by"),
			Source: rapid.SampledFrom([]string{"api", "file", "page"}).Draw(t, "source"),
		}
		if rapid.Bool().Draw(t, "version 2") {
			l.Shadow = rapid.Bool().Draw(t, "shadow")
			for range rapid.IntRange(0, 2).Draw(t, "schedules") {
				l.Schedules = append(l.Schedules, limits.Schedule{
					Cron: rapid.SampledFrom([]string{"0 8 * * mon-fri", "*/5 * * * *"}).Draw(t, "cron"),
					Zone: rapid.SampledFrom([]string{"UTC", "Europe/Berlin"}).Draw(t, "zone"), Amount: rapid.Int64Range(0, 1000).Draw(t, "then"),
				})
				l.Turn = limits.Turn{Amount: 3, At: Instants().Draw(t, "turn"), Next: Instants().Draw(t, "next")}
			}
		}
		if l.Paused {
			l.PauseReason = text(limits.MaxReason).Draw(t, "reason")
			l.PausedUntil = instantOrNone().Draw(t, "until")
		}
		return l
	}).Filter(func(l *limits.Limit) bool { return l.Validate() == nil })
}

// someWindow draws windows of every kind. A bucket refills fast enough for any amount.
func someWindow() *rapid.Generator[windows.Window] {
	return rapid.Custom(func(t *rapid.T) windows.Window {
		w := windows.Window{Kind: windows.Kind(rapid.IntRange(int(windows.Second), int(windows.Bucket)).Draw(t, "kind"))}
		switch w.Kind {
		case windows.Minute, windows.Hour, windows.Day:
			w.Rolling = rapid.Bool().Draw(t, "rolling")
		case windows.Bucket:
			w.Refill = rapid.Int64Range(10*windows.NanoUnit, 1000*windows.NanoUnit).Draw(t, "refill")
		case windows.Second, windows.Week, windows.Month, windows.Total, windows.Concurrent:
		}
		return w
	})
}

// Overrides draws overrides, for one subject or for everyone.
func Overrides() *rapid.Generator[*limits.Override] {
	return rapid.Custom(func(t *rapid.T) *limits.Override {
		o := &limits.Override{
			Limit: limitIDs().Draw(t, "limit"), Unlimited: rapid.Bool().Draw(t, "unlimited"),
			Until: instantOrNone().Draw(t, "until"), Reason: text(limits.MaxReason).Draw(t, "reason"),
			By: text(300).Draw(t, "by"), CreatedAt: Instants().Draw(t, "created"),
		}
		if !o.Unlimited {
			o.Amount = rapid.Int64Range(0, limits.MaxAmount).Draw(t, "amount")
		}
		if rapid.Bool().Draw(t, "one") {
			o.Subject = Subjects().Draw(t, "subject")
		}
		return o
	})
}

// Blocks draws blocks.
func Blocks() *rapid.Generator[*limits.Block] {
	return rapid.Custom(func(t *rapid.T) *limits.Block {
		return &limits.Block{
			Subject: Subjects().Draw(t, "subject"), Until: instantOrNone().Draw(t, "until"),
			Reason: text(limits.MaxReason).Draw(t, "reason"), By: text(300).Draw(t, "by"),
		}
	})
}

// Files draws what is kept of limits files.
func Files() *rapid.Generator[*limits.File] {
	return rapid.Custom(func(t *rapid.T) *limits.File {
		f := &limits.File{Digest: rapid.StringMatching(`[0-9a-f]{64}`).Draw(t, "digest"), At: Instants().Draw(t, "at"), By: text(300).Draw(t, "by")}
		for range rapid.IntRange(0, 3).Draw(t, "plans") {
			if f.Plans == nil {
				f.Plans = map[string]limits.Plan{}
			}
			p := limits.Plan{}
			for range rapid.IntRange(0, 3).Draw(t, "amounts") {
				a := limits.PlanAmount{Unlimited: rapid.Bool().Draw(t, "unlimited")}
				if !a.Unlimited {
					a.Amount = rapid.Int64Range(0, limits.MaxAmount).Draw(t, "amount")
				}
				p[limitIDs().Draw(t, "limit")] = a
			}
			f.Plans[limitIDs().Draw(t, "name")] = p
		}
		return f
	})
}

// SubjectPlans draws plans that subjects have.
func SubjectPlans() *rapid.Generator[*limits.SubjectPlan] {
	return rapid.Custom(func(t *rapid.T) *limits.SubjectPlan {
		return &limits.SubjectPlan{
			Subject: Subjects().Draw(t, "subject"), Plan: limitIDs().Draw(t, "plan"),
			By: text(300).Draw(t, "by"), CreatedAt: Instants().Draw(t, "created"),
		}
	})
}
